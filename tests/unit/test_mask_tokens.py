"""Mask tokens: every way to parse a text, and the codec around it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.codec import Canvas
from harness.codecs.mask_tokens import (
    Code,
    MaskTokens,
    Parsed,
    format_code,
    parse,
    readings_differ,
    vocabulary,
)
from harness.errors import ConfigError, DataError
from harness.types import Mask, Region
from tests.growth import growth

MODES = (
    "span", "strict_span", "exact", "cyclegrpo",
    "reference:gres", "reference:groundingsuite", "reference:gcg",
)  # fmt: skip
CANVAS = Canvas((6, 8), Path("none.png"))
S, E = "<|mt_start|>", "<|mt_end|>"


def tokens(*numbers: int) -> str:
    return "".join(f"<|mt_{n:04d}|>" for n in numbers)


GOOD = S + tokens(17, 408) + E  # 408 - 256 = 152

pieces = st.sampled_from(
    [
        S,
        E,
        tokens(5),
        tokens(300),
        tokens(9999),
        "<|mt_017|>",
        "<|mt_12345|>",
        "<|mt_",
        " ",
        "a",
        "\n",
    ]
)
replies = st.one_of(st.text(), st.lists(pieces, max_size=14).map("".join))


def statuses(parsed: Parsed) -> list[str]:
    return [found.status for found in parsed.found]


def test_vocabulary_is_start_codes_in_order_end() -> None:
    words = vocabulary()
    assert len(words) == len(set(words)) == 514
    assert words[:2] == (S, "<|mt_0000|>")
    assert words[-2:] == ("<|mt_0511|>", E)
    assert len(vocabulary(levels=2, size=64)) == 130


@pytest.mark.parametrize(("size", "depth"), [(0, 2), (256, 0), (5001, 2), (10_001, 1)])
def test_a_codebook_that_four_digits_cannot_name_is_refused(size: int, depth: int) -> None:
    with pytest.raises(ConfigError, match="10000"):
        MaskTokens(codebook_size=size, depth=depth)


def test_format_adds_the_offset_of_each_level() -> None:
    assert format_code((17, 152)) == GOOD
    assert format_code((63, 0), size=64) == S + tokens(63, 64) + E
    assert format_code((17, None)) == format_code((17,)) == S + tokens(17) + E


@pytest.mark.parametrize("code", [(), (None, 3), (256, 0), (0, -1), (1, 2, 3)])
def test_format_refuses_what_is_no_code(code: Code) -> None:
    with pytest.raises(DataError, match="no mask code"):
        format_code(code)


@given(data=st.data(), mode=st.sampled_from(MODES))
def test_parse_gives_formatted_codes_back(data: st.DataObject, mode: str) -> None:
    levels, size = data.draw(st.sampled_from([(1, 10), (2, 256), (2, 64), (3, 100)]))
    code = st.tuples(*[st.integers(0, size - 1)] * levels)
    codes = data.draw(st.lists(code, max_size=5))
    text = " and ".join(format_code(c, levels, size) for c in codes)
    parsed = parse(text, mode, levels=levels, size=size)
    assert parsed.codes == tuple(codes)
    assert statuses(parsed) == ["ok"] * len(codes)
    assert all(
        tokens(c[0]) in text[slice(*f.span)] for c, f in zip(codes, parsed.found, strict=True)
    )
    assert not readings_differ(text, levels, size)


@given(text=replies, mode=st.sampled_from(MODES))
def test_no_text_raises_and_codes_are_in_range(text: str, mode: str) -> None:
    parsed = parse(text, mode)
    assert all(0 <= start <= end <= len(text) for start, end in (f.span for f in parsed.found))
    assert all(v is None or 0 <= v < 256 for code in parsed.codes for v in code)
    if mode == "exact":
        assert all(None not in code for code in parsed.codes)


@given(text=replies)
def test_the_alias_is_the_same_reading(text: str) -> None:
    assert parse(text, "cyclegrpo") == parse(text, "reference:gres")
    assert parse(text, "") == parse(text, "span")


def test_an_unknown_mode_is_named_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'strict_span'"):
        parse("", "strict_spam")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "unit", [S, E, tokens(1), S + tokens(1), GOOD, "<|mt_", "0", S + " " * 99, "<|mt_12345|>"]
)
def test_time_is_linear_in_the_text(unit: str, mode: str) -> None:
    assert growth(lambda n: parse((S + unit * (n // len(unit)))[:n], mode), 40_000) < 24


SPAN_CASES = [
    ("No target.", [], []),
    (f"It is {GOOD}.", [(17, 152)], ["ok"]),
    (S + tokens(198) + E, [(198, None)], ["missing_level_1"]),
    ("Sure, " + S + tokens(198), [(198, None)], ["missing_level_1+unterminated"]),
    (S + tokens(10, 300, 20, 310) + E, [(10, 44)], ["extra_tokens"]),
    (S + tokens(11) + E + S + tokens(12) + E, [(11, None), (12, None)], ["missing_level_1"] * 2),
    (S + tokens(5, 9999) + E, [(5, None)], ["bad_level_1"]),
    (S + tokens(300, 100) + E, [], ["bad_level_0"]),
    (S + E, [], ["empty"]),
    (S + GOOD, [(17, 152)], ["empty", "ok"]),
    (f"{S} {tokens(3)} , {tokens(259)} {E}", [(3, 3)], ["ok"]),
    ("<|mt_12345|>".join((S, tokens(300))) + E, [], ["bad_level_0"]),
    (tokens(7, 263, 8), [(7, 7)], ["ok"]),  # no start anywhere: pairs, the leftover is dropped
    (E + tokens(7, 263) + GOOD, [(17, 152)], ["ok"]),  # codes outside a span
]


@pytest.mark.parametrize(("text", "codes", "status"), SPAN_CASES)
def test_span(text: str, codes: list[Code], status: list[str]) -> None:
    parsed = parse(text)
    assert list(parsed.codes) == codes
    assert statuses(parsed) == status


STRICT_CASES = [
    (f"{S}\n{tokens(17)} {tokens(408)} {E}", [(17, 152)], ["ok"], 0, 0),
    (GOOD, [(17, 152)], ["ok"], 0, 1),
    (f"{S}{tokens(3)} , {tokens(259)}{E}", [(3, None)], ["missing_level_1+unterminated"], 1, 0),
    (f"{S}<|mt_017|><|mt_408|>{E}", [], ["empty"], 2, 0),
    (tokens(17, 408), [], [], 2, 0),
    (S + tokens(44, 44, 300) + "x", [(44, None)], ["bad_level_1+extra_tokens+unterminated"], 0, 0),
    (S + tokens(300, 44) + E, [], ["bad_level_0"], 0, 1),
]


@pytest.mark.parametrize(("text", "codes", "status", "loose", "well_formed"), STRICT_CASES)
def test_strict_span(
    text: str, codes: list[Code], status: list[str], loose: int, well_formed: int
) -> None:
    parsed = parse(text, "strict_span")
    assert list(parsed.codes) == codes
    assert statuses(parsed) == status
    assert (parsed.loose_tokens, parsed.well_formed) == (loose, well_formed)


EXACT_CASES = [
    (GOOD + S + tokens(17) + E, [(17, 152)], "ok", 1),
    (S + tokens(17, 44) + E, [], "invalid", 1),
    (S + tokens(17, 300, 1) + E, [], "invalid", 1),
    (f"{S}{tokens(17)} {tokens(300)}{E}", [], "malformed", 0),
    (S + E, [], "malformed", 0),
    (tokens(17), [], "malformed", 0),
    ("<|mt_xxxx|> <|mt_017|> null", [], "none", 0),
]


@pytest.mark.parametrize(("text", "codes", "outcome", "invalid"), EXACT_CASES)
def test_exact(text: str, codes: list[Code], outcome: str, invalid: int) -> None:
    parsed = parse(text, "exact")
    assert list(parsed.codes) == codes
    assert parsed.outcome == outcome
    assert statuses(parsed).count("invalid") == invalid


REFERENCE_CASES = [
    # text; then the outcome and the codes for gres, groundingsuite, gcg
    ("null", ("zero_mask", []), ("zero_mask", []), ("no_masks", [])),
    (GOOD, *[("decode", [(17, 152)])] * 3),
    # Odd: repaired for two tasks, nothing for the third.
    (S + tokens(198) + E, ("decode", [(198, None)]), ("zero_mask", []), ("decode", [(198, None)])),
    (S + tokens(7) + " a", ("decode", [(7, None)]), ("zero_mask", []), ("decode", [(7, None)])),
    (S + tokens(1, 257, 2) + E, ("decode", [(1, 1)]), ("zero_mask", []), ("decode", [(1, 1)])),
    # A started code before another mark is not repaired, and GRES keeps whole groups only.
    (S + tokens(1) + "<|mt_e", ("crash_empty_batch", []), ("zero_mask", []),
     ("assertion_error", [])),
    # Even: never repaired, so two spans of one code are one pair.
    (S + tokens(11) + E + S + tokens(12) + E, ("decode", [(11, None)]), ("decode", [(11, None)]),
     ("index_error_all_zero_masks", [])),
    (tokens(300, 44), ("crash_empty_batch", []), ("zero_mask", []),
     ("index_error_all_zero_masks", [])),
    (tokens(9999, 300), ("crash_empty_batch", []), ("zero_mask", []), ("decode", [(None, 44)])),
]  # fmt: skip

Outcome = tuple[str, list[Code]]


@pytest.mark.parametrize(("text", "gres", "groundingsuite", "gcg"), REFERENCE_CASES)
def test_reference_modes(text: str, gres: Outcome, groundingsuite: Outcome, gcg: Outcome) -> None:
    read = {task: parse(text, f"reference:{task}") for task in ("gres", "groundingsuite", "gcg")}
    got = {task: (parsed.outcome, list(parsed.codes)) for task, parsed in read.items()}
    assert got == {"gres": gres, "groundingsuite": groundingsuite, "gcg": gcg}


def test_gcg_keeps_the_index_that_its_decoder_dies_of() -> None:
    parsed = parse(GOOD + tokens(44, 44), "reference:gcg")
    assert [found.code for found in parsed.found] == [(17, 152), (44, -212)]  # 44 - 256
    assert parsed.codes == ()


def test_repair_of_deeper_codes_fills_every_missing_level() -> None:
    parsed = parse(S + tokens(1) + E, "reference:gres", levels=3, size=10)
    assert parsed.codes == ((1, None, None),)


def test_readings_differ_on_broken_replies_only() -> None:
    assert not readings_differ(GOOD)
    assert not readings_differ("")
    assert readings_differ(S + tokens(11) + E + S + tokens(12) + E)


@dataclass(frozen=True)
class Rows(MaskTokens):
    """A picture half for the tests: code (r, c) is the pixel in row r and column c."""

    def encode(self, masks: Sequence[Mask], canvas: Canvas) -> Sequence[Code]:
        boxes = [mask.box or (0, 0, 0, 0) for mask in masks]
        return [(int(box[1]), int(box[0])) for box in boxes]

    def decode(self, codes: Sequence[Code], canvas: Canvas) -> Sequence[Mask]:
        points = [(code[0] or 0, code[1] or 0) for code in codes]
        return [Mask.from_box((x, y, x + 1, y + 1), *canvas.size) for y, x in points]


@given(x=st.integers(0, 7), y=st.integers(0, 5))
def test_a_picture_half_makes_write_and_read_a_round_trip(x: int, y: int) -> None:
    region = Region(mask=Mask.from_box((x, y, x + 1, y + 1), 6, 8))
    text = Rows().write(region, CANVAS)
    assert text is not None
    reading = Rows().read(f"It is {text}.", CANVAS)
    assert [r.mask for r in reading.regions] == [region.mask]
    assert reading.regions[0].span == (6, 6 + len(text))
    assert reading.flags == ()


def test_gcg_writes_one_empty_mask_for_each_code_after_an_index_error() -> None:
    reading = Rows().read(GOOD + tokens(44, 44), CANVAS, "reference:gcg")
    assert [r.mask for r in reading.regions] == [Mask.empty(6, 8)] * 2
    assert "tokens_index_error_all_zero_masks" in reading.flags


@given(text=replies, mode=st.sampled_from(MODES))
def test_read_raises_for_no_text(text: str, mode: str) -> None:
    reading = Rows().read(text, CANVAS, mode)
    assert all(r.mask is not None and r.mask.size == (6, 8) for r in reading.regions)


def test_read_flags_what_is_wrong_once_each() -> None:
    codec = MaskTokens()
    assert codec.read("No target.", CANVAS).flags == ("tokens_none",)
    assert codec.read(S + E + S + E, CANVAS).flags == ("tokens_empty", "tokens_invalid")
    assert Rows().read(GOOD + S + tokens(3), CANVAS).flags == (
        "tokens_missing_level_1", "tokens_unterminated",
    )  # fmt: skip


def test_without_a_picture_half_codes_cannot_be_drawn_or_made() -> None:
    codec = MaskTokens()
    with pytest.raises(DataError, match="predictions file"):
        codec.read(GOOD, CANVAS)
    with pytest.raises(DataError, match="cannot write"):
        codec.write(Region(box=(0, 0, 2, 2)), CANVAS)
    assert codec.write(Region(mask=Mask.empty(6, 8)), CANVAS) is None


def test_codec_states_its_codebook() -> None:
    codec = MaskTokens(codebook_size=64)
    assert codec.protocol() == {"codebook": "64x2"}
    assert len(codec.vocabulary()) == 130
    assert codec.instruction == ""
