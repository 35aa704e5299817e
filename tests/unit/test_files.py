"""JSON that is not trusted, names that must stay inside, and readable lines."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import DataError
from harness.files import dump_json, inside, parse_json, read_jsonl
from harness.records import parse_prediction, prediction_row
from harness.types import Mask, Prediction, Region


@given(
    st.binary(max_size=60) | st.text(max_size=60).map(lambda t: t.encode("utf-8", "surrogatepass"))
)
def test_no_bytes_can_raise_anything_else(data: bytes) -> None:
    try:
        parse_json(data)
    except DataError:
        return


@pytest.mark.parametrize(
    "text",
    ["NaN", "[1, Infinity]", "1e999", "[" * 100_000, "1" * 5000, '{"a": 1', "", "\ufeff\ufeff1"],
)
def test_what_json_is_not(text: str) -> None:
    with pytest.raises(DataError):
        parse_json(text)


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(st.dictionaries(st.text(max_size=6), plain, max_size=4))
def test_a_line_is_one_line_and_comes_back(row: dict[str, object]) -> None:
    line = dump_json(row)
    assert line.count(b"\n") == 1
    assert parse_json(line) == row


def test_text_stays_readable_and_surrogates_survive() -> None:
    assert "größe 犬".encode() in dump_json({"text": "größe 犬"})
    assert parse_json(dump_json({"text": "\ud800"})) == {"text": "\ud800"}


@given(st.fixed_dictionaries({"sample_id": st.just("1")}, optional={
    key: plain | st.lists(plain, max_size=3)
    for key in ("text", "masks", "boxes", "phrases", "spans", "flags", "info", "error")
}))  # fmt: skip
def test_no_recorded_line_can_raise_anything_else(row: dict[str, object]) -> None:
    try:
        parse_prediction(row)
    except DataError:
        return


def test_a_prediction_comes_back() -> None:
    regions = (
        Region(Mask.full(3, 4), (0.0, 0.0, 3.0, 2.0), "all of it", (3, 9)),
        Region(box=(1.0, 1.0, 2.0, 2.0)),
    )
    prediction = Prediction(
        sample_id="7_0", text="é\n", regions=regions, flags=("unparsed",), info={"tokens": 3}
    )
    assert parse_prediction(json.loads(dump_json(prediction_row(prediction)))) == prediction
    failed = Prediction(sample_id="7_1", error="timeout", info={"reply": "half"})
    assert parse_prediction(json.loads(dump_json(prediction_row(failed)))) == failed


@pytest.mark.parametrize(
    "name", ["../x", "/etc/passwd", "a/../../x", "", 5, None, "a\0b", "a\\..\\b"]
)
def test_no_name_leads_outside(name: object) -> None:
    with pytest.raises(DataError):
        inside(Path("root"), name)


def test_names_below_the_root_are_fine() -> None:
    assert inside(Path("root"), "a/b.jpg") == Path("root/a/b.jpg")


def test_a_broken_line_is_named(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    file.write_bytes(b'{"a": 1}\n\n[2]\n')
    rows = read_jsonl(file)
    assert next(rows) == (1, {"a": 1})
    with pytest.raises(DataError, match=r"x\.jsonl line 3: it must be a JSON object"):
        next(rows)
    file.write_bytes(b'{"a": 1}\n{"b": \n')
    with pytest.raises(DataError, match=r"x\.jsonl line 2: it is not valid JSON"):
        list(read_jsonl(file))


def test_phrases_that_are_not_one_a_mask_are_kept_as_a_list() -> None:
    mask = Mask.full(2, 2).to_coco()
    row = {"sample_id": "1", "text": "", "masks": [mask]}
    assert "phrases" not in parse_prediction(row).info
    assert parse_prediction({**row, "phrases": ["a"]}).regions[0].phrase == "a"
    assert parse_prediction({**row, "phrases": ["a", "b"]}).info["phrases"] == ["a", "b"]
    assert parse_prediction({**row, "phrases": []}).info["phrases"] == []
