"""GroundingSuite against the official scorer's numbers (see README.md in the golden set)."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Golden = Callable[..., Path]
TOLERANCE = 1e-8


@pytest.fixture
def expected(golden: Golden) -> Any:
    return json.loads(golden("groundingsuite", "expected.json").read_text())


@pytest.fixture
def score(golden: Golden, harness: Any, tmp_path: Path) -> Callable[..., Any]:
    """Scores a recorded file of the set: (result of the task, lines of its scores)."""

    def run(predictions: str, mode: str, *more: str) -> tuple[Any, list[Any]]:
        folder = tmp_path / f"{predictions}-{mode}"
        result = harness(
            "eval", "--model", "recorded", "--tasks", "groundingsuite", "--json",
            "--set", f"model.path={golden('groundingsuite', predictions)}",
            "--set", f"tasks.groundingsuite.root={golden('groundingsuite')}",
            "--set", f"tasks.groundingsuite.mode={mode}", "--run", folder, *more, "--max-errors=1",
        )  # fmt: skip
        lines = (folder / "groundingsuite" / "scores.jsonl").read_text().splitlines()
        return result["tasks"]["groundingsuite"], [json.loads(line) for line in lines]

    return run


def _check(result: Any, expected: Any, metric: str) -> None:
    numbers = dict(expected)
    overall = numbers.pop("All")
    assert result["metrics"][metric]["value"] == pytest.approx(overall / 100, abs=TOLERANCE)
    for group, value in numbers.items():
        wanted = None if value is None else pytest.approx(value / 100, abs=TOLERANCE)
        assert result["groups"][group][metric]["value"] == wanted, group


def test_mask_mode(score: Any, expected: Any) -> None:
    result, lines = score("predictions.jsonl", "mask")
    assert result["n"] == expected["n_samples"]
    _check(result, expected["mask"]["harness_expected_gIoU"], "gIoU")
    counts = {group: metrics["gIoU"]["n"] for group, metrics in result["groups"].items()}
    assert {g: n for g, n in counts.items() if n} == expected["class_counts"]
    for row, line in zip(expected["per_sample"], lines, strict=True):
        assert line["sample_id"] == row["sample_id"]
        assert line["values"]["iou"] == pytest.approx(row["iou"], abs=TOLERANCE)
        values = line["values"]
        assert (values["intersection"], values["union"]) == (row["inter"], row["union"])


@pytest.mark.parametrize("codec", ["mask_tokens", "boxes"])
def test_box_mode_from_text(score: Any, expected: Any, codec: str) -> None:
    more = ("--set", f"model.codec={codec}")
    result, lines = score("predictions_bbox.jsonl", "box", *more)
    _check(result, expected["box_from_text_Acc@0.5"]["harness_expected"], "Acc@0.5")
    for row, line in zip(expected["per_sample"], lines, strict=True):
        assert line["detail"]["box"] == row["box_px"], row["sample_id"]
        assert line["values"]["iou"] == pytest.approx(row["box_iou_text"], abs=TOLERANCE)
    unparsed = sum(row["parsed_box_norm"] is None for row in expected["per_sample"])
    assert result["flags"].get("unparsed", 0) == unparsed


def test_box_mode_from_masks(score: Any, expected: Any) -> None:
    result, lines = score("predictions.jsonl", "box")
    _check(result, expected["box_from_masks_Acc@0.5"]["harness_expected"], "Acc@0.5")
    for row, line in zip(expected["per_sample"], lines, strict=True):
        assert line["detail"]["box"] == row["box_from_masks"], row["sample_id"]
        assert line["values"]["iou"] == pytest.approx(row["box_iou_from_masks"], abs=TOLERANCE)
