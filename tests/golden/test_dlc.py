"""DLC-Bench against the official scorer's numbers (see README.md in the golden set)."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.types import Prediction
from harness_tasks._dlc_judge import read_choice
from harness_tasks.dlc import Dlc

Golden = Callable[..., Path]
TOLERANCE = 1e-9


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


@pytest.fixture
def expected(golden: Golden) -> Any:
    return json.loads(golden("dlc", "expected.json").read_text())


@pytest.fixture
def score(harness: Any, tmp_path: Path) -> Callable[..., Any]:
    """Scores recorded captions with recorded replies: (result of the task, scores by sample)."""

    def run(root: Path, predictions: Path, replies: Path) -> tuple[Any, dict[str, Any]]:
        folder = tmp_path / predictions.stem
        result = harness(
            "eval", "--model", "recorded", "--set", f"model.path={predictions}", "--tasks", "dlc",
            "--set", f"tasks.dlc.root={root}", "--judge", "recorded",
            "--set", f"judge.path={replies}", "--run", folder, "--json", "--max-errors=1",
        )  # fmt: skip
        rows = lines(folder / "dlc" / "scores.jsonl")
        return result["tasks"]["dlc"], {row["sample_id"]: row for row in rows}

    return run


@pytest.fixture
def scored(golden: Golden, score: Any) -> Any:
    transcript = golden("dlc", "judge_transcript.jsonl")
    return score(golden("dlc"), golden("dlc", "predictions.jsonl"), transcript)


def test_every_number(expected: Any, scored: Any) -> None:
    result, rows = scored
    for metric, value in expected["metrics"].items():
        assert result["metrics"][metric]["value"] == pytest.approx(value, abs=TOLERANCE), metric
    assert result["n"] == expected["n"]
    assert result["questions"] == expected["judge_calls"]
    assert result["judge_errors"] == 0
    assert list(rows) == list(expected["per_sample"])
    for sample_id, numbers in expected["per_sample"].items():
        values, flags = rows[sample_id]["values"], rows[sample_id].get("flags", [])
        assert values["pos"] == pytest.approx(numbers["score_pos"], abs=TOLERANCE)
        negative = numbers["score_neg"]
        wanted = None if negative is None else pytest.approx(negative, abs=TOLERANCE)
        assert values.get("neg") == wanted, sample_id
        assert ("not_recognised" not in flags) == numbers["recognition"]


def test_every_prompt_and_every_reading(golden: Golden, expected: Any, scored: Any) -> None:
    captions = {row["sample_id"]: row["text"] for row in lines(golden("dlc", "predictions.jsonl"))}
    task, (result, rows) = Dlc(root=golden("dlc")), scored
    asked = {}
    for sample in task.samples():
        prediction = Prediction(sample_id=sample.id, text=captions[sample.id] or "")
        for question in task.questions(sample, prediction):
            asked[sample.id, question.index] = question
            assert question.max_tokens == expected["request_fields"]["max_tokens"]
    transcript = lines(golden("dlc", "judge_transcript.jsonl"))
    assert list(asked) == [(row["sample_id"], row["question_index"]) for row in transcript]
    for row in transcript:
        question = asked[row["sample_id"], row["question_index"]]
        assert question.prompt == row["prompt"]
        assert question.data["kind"] == row["type"]
        choices = rows[row["sample_id"]]["detail"]["choices"]
        assert choices[row["question_index"]] == row["expected_choice_index"], row
    unread = sum(row["expected_choice_index"] is None for row in transcript)
    assert result["judge_unreadable"] == unread


def test_replies_are_read_as_the_official_reader_does(golden: Golden) -> None:
    for case in lines(golden("dlc", "parse_cases.jsonl")):
        index = None if "official_error" in case else case["official_index"]
        assert read_choice(case["reply"], case["choices"]) == index, case


def test_published_runs(golden: Golden, request: pytest.FixtureRequest, score: Any) -> None:
    real = golden("dlc") / "real"
    if not real.is_dir():
        real = request.getfixturevalue("shared") / "golden" / "dlc" / "real"
    runs = json.loads((real / "expected.json").read_text())["runs"]
    found = {
        path.name.removesuffix(".predictions.jsonl"): path
        for path in real.glob("*.predictions.jsonl")
    }
    assert found
    for name, predictions in found.items():
        result, rows = score(real, predictions, real / f"{name}.replies.jsonl")
        for metric in ("Pos", "Neg", "Avg"):
            wanted = pytest.approx(runs[name][metric], abs=TOLERANCE)
            assert result["metrics"][metric]["value"] == wanted, (name, metric)
        missed = [i for i, row in rows.items() if "not_recognised" in row.get("flags", [])]
        assert missed == [i for i in rows if i in runs[name]["recognition_false"]]
        assert (result["judge_errors"], result["judge_unreadable"]) == (0, 0)
