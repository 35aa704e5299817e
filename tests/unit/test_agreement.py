"""Agreement of judges: alpha against worked examples, and two runs question by question."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from harness.agreement import krippendorff_alpha

FIXTURES = Path(__file__).parents[1] / "fixtures"


def test_alpha_of_the_worked_examples() -> None:
    # Krippendorff 2011, section A: two observers, binary data, ten units: 0.095.
    one = [0, 1, 0, 0, 0, 0, 0, 0, 1, 0]
    other = [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]
    assert krippendorff_alpha(list(zip(one, other, strict=True))) == pytest.approx(0.095, abs=5e-4)
    # Section B: two observers, nominal data, twelve units: 0.692.
    first, second = "aabbdcccedda", "babbbccceddd"
    units = list(zip(first, second, strict=True))
    assert krippendorff_alpha(units) == pytest.approx(0.692, abs=5e-4)


def test_alpha_with_missing_values() -> None:
    # Section C: four observers, nominal data with gaps: 0.743.
    rows = [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3],
        [None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None],
    ]
    assert krippendorff_alpha(list(zip(*rows, strict=True))) == pytest.approx(0.743, abs=5e-4)


def test_alpha_at_its_bounds() -> None:
    assert krippendorff_alpha([("a", "a"), ("b", "b")]) == 1
    assert math.isnan(krippendorff_alpha([("a", "a"), ("a", "a")]))
    assert math.isnan(krippendorff_alpha([("a", None)]))
    assert krippendorff_alpha([("a", "b"), ("b", "a")]) < 0


def test_two_runs_question_by_question(harness: Any, tmp_path: Path) -> None:
    root = FIXTURES / "dlc"
    lines = [
        json.loads(line) for line in (root / "judge_transcript.jsonl").read_text().splitlines()
    ]
    changed = tmp_path / "other.jsonl"
    with changed.open("w") as file:
        for i, line in enumerate(lines):
            reply = "gibberish!" if i < 3 else line["reply"]
            file.write(json.dumps({**line, "reply": reply}) + "\n")
    command = ("eval", "--model", "recorded", "--tasks", "dlc", "--judge", "recorded",
               "--set", f"model.path={root / 'predictions.jsonl'}",
               "--set", f"tasks.dlc.root={root}")  # fmt: skip
    harness(
        *command, "--set", f"judge.path={root / 'judge_transcript.jsonl'}", "--run", tmp_path / "a"
    )
    harness("rescore", tmp_path / "a", "--judge", "recorded", "--set", f"judge.path={changed}",
            "--run", tmp_path / "b")  # fmt: skip
    result = harness("judge", "agreement", tmp_path / "a", tmp_path / "b", "--json")["tasks"]["dlc"]
    assert result["questions"] == len(lines)
    assert result["agree"] == result["both_readable"]
    assert {row["reply_b"] for row in result["disagreements"]} == {"gibberish!"}
    same = harness("judge", "agreement", tmp_path / "a", tmp_path / "a", "--json")["tasks"]["dlc"]
    assert (same["alpha"], same["disagreements"]) == (1, [])
    assert "alpha" in harness("judge", "agreement", tmp_path / "a", tmp_path / "b")
