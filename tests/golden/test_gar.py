"""GAR-Bench against the official and the reference scorers (see README.md in the golden set)."""

import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from harness.codec import Canvas
from harness.codecs.boxes import Boxes
from harness.types import Prediction, Region
from harness_tasks.gar_caption import GarCaption
from harness_tasks.gar_vqa import Choice, GarVqa

Golden = Callable[..., Path]
TOLERANCE = 1e-9


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


@pytest.fixture
def expected(golden: Golden) -> Any:
    return json.loads(golden("gar", "expected.json").read_text())


@pytest.fixture
def score(harness: Any, tmp_path: Path) -> Callable[..., Any]:
    """Scores recorded answers of both tasks: (results by task, scores by sample)."""

    def run(root: Path, predictions: Path, replies: Path) -> tuple[Any, dict[str, Any]]:
        folder = tmp_path / predictions.stem
        result = harness(
            "eval", "--model", "recorded", "--set", f"model.path={predictions}", "--tasks", "gar",
            "--set", f"tasks.gar-vqa.root={root}", "--set", f"tasks.gar-caption.root={root}",
            "--judge", "recorded", "--set", f"judge.path={replies}", "--run", folder, "--json",
            "--max-errors=1",
        )  # fmt: skip
        rows = [row for name in result["tasks"] for row in lines(folder / name / "scores.jsonl")]
        return result["tasks"], {row["sample_id"]: row for row in rows}

    return run


@pytest.fixture
def scored(golden: Golden, score: Any) -> Any:
    transcript = golden("gar", "judge_transcript.jsonl")
    return score(golden("gar"), golden("gar", "predictions.jsonl"), transcript)


def check(result: Any, metric: str, columns: Any) -> None:
    """One metric against a table by column, ``Overall`` among them."""
    columns = dict(columns)
    overall = {"Overall": columns.pop("Overall")}
    groups = {name: group[metric] for name, group in result["groups"].items()}
    assert set(groups) >= set(columns)
    for name, numbers in (columns | overall).items():
        found = groups.get(name) or result["metrics"][metric]
        assert found["value"] == pytest.approx(numbers["accuracy"], abs=TOLERANCE), name
        assert found["n"] == numbers["total"], name
        assert round(found["value"] * found["n"]) == numbers["correct"], name


def test_vqa_both_readings(expected: Any, scored: Any) -> None:
    results, rows = scored
    check(results["gar-vqa"], "accuracy", expected["vqa"]["reference_clean"])
    check(results["gar-vqa"], "accuracy_exact", expected["vqa"]["official_exact"])
    for sample_id, right in expected["per_sample_vqa"].items():
        values = rows[sample_id]["values"]
        assert values["right"] == right["reference_correct"], sample_id
        assert values["right_exact"] == right["official_correct"], sample_id


def test_vqa_columns_stand_in_the_papers_order(scored: Any) -> None:
    assert list(scored[0]["gar-vqa"]["groups"]) == [
        "Color", "Shape", "Texture", "Material", "Position", "Non-Entity", "Relation",
    ]  # fmt: skip


def test_captions(golden: Golden, expected: Any, scored: Any) -> None:
    results, rows = scored
    result, numbers = results["gar-caption"], expected["caption_detailed"]
    wanted = pytest.approx(numbers["accuracy_official"], abs=TOLERANCE)
    assert result["metrics"]["accuracy"]["value"] == wanted
    assert (result["n"], result["judge_errors"]) == (numbers["n"], 0)
    transcript = lines(golden("gar", "judge_transcript.jsonl"))
    for row in transcript:
        assert rows[row["sample_id"]]["values"]["right"] == row["official_correct"], row["reply"]
    unread = sum(row["reply"] not in ("True", "False") for row in transcript)
    assert result["judge_unreadable"] == unread


def test_the_judge_is_sent_what_the_official_script_sends(golden: Golden) -> None:
    captions = {row["sample_id"]: row["text"] for row in lines(golden("gar", "predictions.jsonl"))}
    task = GarCaption(root=golden("gar"))
    samples = {sample.id: sample for sample in task.samples()}
    for row in lines(golden("gar", "judge_transcript.jsonl")):
        sample, request = samples.pop(row["sample_id"]), row["request"]
        (question,) = task.questions(
            sample, Prediction(sample_id=sample.id, text=captions[sample.id] or "")
        )
        assert question.prompt == request["parts"][-1]["text"]
        assert question.max_tokens == request["max_tokens"]
        for part, wanted in zip(question.parts, request["parts"], strict=True):
            if "text" in wanted:
                assert (part.text, part.picture) == (wanted["text"], None)
            else:
                assert part.picture is not None
                with Image.open(io.BytesIO(part.picture)) as picture:
                    shown = (picture.format, picture.mode, list(picture.size))
                told = wanted["image"]
                assert shown == (told["real_format"], told["mode"], told["size_wh"])
    assert not samples


@pytest.fixture
def prompts(golden: Golden) -> Any:
    return {row["sample_id"]: row for row in lines(golden("gar", "expected_prompts.jsonl"))}


def box_text(region: Region, sample: Choice) -> str:
    assert sample.size is not None
    return str(Boxes().write(region, Canvas(sample.size, sample.image)))


def test_prompts(golden: Golden, prompts: Any) -> None:
    for form, key in (("mask_tokens", "mask_token_prompt"), ("boxes", "bbox_prompt")):
        task = GarVqa(root=golden("gar"), regions=form)  # type: ignore[arg-type]
        samples = list(task.samples())
        assert [sample.id for sample in samples] == list(prompts)
        for sample in samples:
            wanted, request = prompts[sample.id], task.request(sample)
            said = re.sub(r"\{region_(\d+)\}", r"{REGION\1}", request.prompt)
            if form == "boxes":
                boxes = [box_text(region, sample) for region in request.regions]
                assert boxes == wanted["bboxes"]
                for index, box in enumerate(boxes):
                    said = said.replace(f"{{REGION{index}}}", box)
            assert said == wanted[key]
            assert request.max_new_tokens == 1024


def test_published_runs(golden: Golden, request: pytest.FixtureRequest, score: Any) -> None:
    real = golden("gar") / "real"
    if not real.is_dir():
        real = request.getfixturevalue("shared") / "golden" / "gar" / "real"
    expected = json.loads((real / "expected.json").read_text())
    found = sorted(real.glob("*.predictions.jsonl"))
    assert found
    for predictions in found:
        name = predictions.name.removesuffix(".predictions.jsonl")
        results, _ = score(real, predictions, real / f"{name}.judge_replies.jsonl")
        numbers = expected.get("runs", {}).get(name, expected)
        check(results["gar-vqa"], "accuracy_exact", numbers["vqa"])
        captions = results["gar-caption"]["metrics"]["accuracy"]["value"]
        wanted = pytest.approx(numbers["caption_detailed_accuracy"], abs=TOLERANCE)
        assert captions == wanted
