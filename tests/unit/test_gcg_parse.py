"""Grounded replies: what the public scripts make of them, and that nothing breaks the reading."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.types import Mask, Prediction, Region
from harness_tasks._gcg_parse import Reply, inspect_tokens, phrases, read, without_tags, write
from tests.growth import growth

A, Z = "<|object_ref_start|>", "<|object_ref_end|>"
GOOD = "<|mt_start|><|mt_0017|><|mt_0408|><|mt_end|>"
SHORT = "<|mt_start|><|mt_0017|><|mt_end|>"

pieces = st.sampled_from(
    [A, Z, "<p>", "</p>", "[SEG]", GOOD, SHORT, "<", ">", "'", "  ", "\n", "\u2028", "a dog", "<s>",
     "ASSISTANT: ", "<think>\n\n</think>\n\n", "\ud83d", "😀", "{", "}"]
)  # fmt: skip
replies = st.one_of(st.text(), st.lists(pieces, max_size=14).map("".join))


@given(replies)
def test_reading_never_raises_and_leaves_one_clean_line(text: str) -> None:
    reply = read(text)
    assert reply.caption == " ".join(reply.caption.split())
    assert len(reply.caption.splitlines()) <= 1
    inspect_tokens(text)


@given(replies)
def test_reading_agrees_with_the_patterns_of_the_protocol(text: str) -> None:
    flat = text.replace("\n", "")
    assert without_tags(flat) == re.sub(r"(?s)<.*?>", "", flat)
    if A in text:
        flat = text.replace("<think>\n\n</think>\n\n", "").replace("<s>", "").replace("\n", "")
        flat = flat.replace("  ", " ").split("ASSISTANT: ")[-1]
        found = re.findall(r"(?s)<\|object_ref_start\|>(.*?)<\|object_ref_end\|>", flat)
        assert list(read(text).phrases) == [phrase.strip() for phrase in found]


@pytest.mark.parametrize("piece", ["<", "<p>", A, "<|mt_", "<|mt_start|>", "'", "\u2028{}", GOOD])
def test_long_replies_take_linear_time(piece: str) -> None:
    def work(size: int) -> None:
        text = piece * (size // len(piece))
        read(text)
        inspect_tokens(text)

    assert growth(work, 40_000) < 24


def test_mask_tokens_are_judged_group_by_group() -> None:
    sound = inspect_tokens(f"{A}x{Z}{GOOD}")
    assert (sound.malformed, sound.flags) == (0, ())
    # Two short groups make one pair: the public parser sees one mask, of the codes of both.
    broken = inspect_tokens(f"{A}x{Z}{SHORT} {A}y{Z}{SHORT}")
    assert broken.malformed == 2
    assert broken.flags == ("mask_groups_malformed", "parsers_differ")
    assert "mask_codes_odd" in inspect_tokens(SHORT).flags


@given(st.lists(st.sampled_from(["a dog", "the grass", "dog", "sky"]), max_size=5))
def test_a_marked_caption_reads_back(labels: list[str]) -> None:
    caption = "Seen: " + ", ".join(labels) + "."
    assert read(write(caption, labels)) == Reply(caption, tuple(labels))


def test_labels_that_are_not_in_the_caption_leave_it_unmarked() -> None:
    assert write("A dog.", ["cat"]) == "A dog."


def test_recorded_phrases_win() -> None:
    region = Region(Mask.full(2, 2))
    named = Region(Mask.full(2, 2), phrase="cat")
    reply = Reply("a dog", ("dog",))

    def of(*regions: Region, **info: object) -> list[str]:
        return list(phrases(reply, Prediction(sample_id="a", regions=regions, info=info)))

    assert of() == of(region) == of(region, region) == ["dog"]
    assert of(named) == ["cat"]
    # A list that is not as long as the masks comes whole in ``info``.
    assert of(named, region, phrases=["cat"]) == ["cat"]
    assert of(phrases=[]) == []
    assert of(named, phrases="broken") == ["cat"]
