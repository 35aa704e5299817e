"""GAR-Bench: its files, its readings, what the judge is shown; regions painted on pictures."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from harness import views
from harness.errors import DataError
from harness.judge import Verdict
from harness.judges.recorded import Recorded
from harness.judging import question_key
from harness.types import Mask, Prediction, Region
from harness_tasks import _crops
from harness_tasks.gar_caption import GarCaption, judge_prompt
from harness_tasks.gar_vqa import GarVqa, clean, exact, without_think

PATCH = Mask.from_box((20, 10, 40, 20), 100, 200)
EMPTY = Mask.empty(100, 200)


def vqa(**more: Any) -> dict[str, Any]:
    return {
        "image": "images/a.png", "mask_rles": [PATCH.to_coco()], "type": "color", "answer": "C",
        "question": "What is {x} of <Prompt0>, <Prompt1>?",
        "choices": ["A. Red", "B. <Prompt0>", "C. Blue"], **more,
    }  # fmt: skip


def caption(**more: Any) -> dict[str, Any]:
    return {
        "image": "images/a.png", "mask_rles": [PATCH.to_coco(), EMPTY.to_coco()],
        "subject_name": "cup", "object_name": "table", "predicate_name": "on", **more,
    }  # fmt: skip


def write_vqa(root: Path, *rows: Any, **options: Any) -> GarVqa:
    (root / "GAR-Bench-VQA.json").write_text(json.dumps(rows))
    return GarVqa(root=root, **options)


def write_caption(root: Path, *rows: Any, **options: Any) -> GarCaption:
    kind = options.get("kind", "detailed").capitalize()
    (root / "annotations").mkdir(exist_ok=True)
    (root / "annotations" / f"GAR-Bench-Caption-{kind}.json").write_text(json.dumps(rows))
    return GarCaption(root=root, **options)


def score(task: GarVqa, *answers: str) -> dict[str, float]:
    scores = [
        task.score(sample, Prediction(sample_id=sample.id, text=text))
        for sample, text in zip(task.samples(), answers, strict=True)
    ]
    return {name: metric(scores) for name, metric in task.metrics.items()}


def test_worked_example(tmp_path: Path) -> None:
    rows = [vqa(answer="C"), vqa(answer="A"), vqa(answer="D", type="relation")]
    task = write_vqa(tmp_path, *rows)
    assert score(task, "C", "B.", "d.") == {"accuracy": 2 / 3, "accuracy_exact": 1 / 3}
    assert [s.group for s in task.samples()] == ["Color", "Color", "Relation"]


@pytest.mark.parametrize(
    ("said", "read"),
    [
        ("B", "b"), (" b.\n", "b"), ("\xa0B\xa0", "b"), ("B .", "b"), ("B..", "b."),
        ("(B)", "(b)"), ("B. Blue", "b. blue"), ("\uff22", "\uff42"), ("", ""), (".", ""),
        ("<think>\n\n</think>\n\nB.", "b"), ("<THINK>\n\n</THINK>\n\nB", "b"),
        ("<think>x</think>B", "<think>x</think>b"), ("B<|im_end|>", "b"),
    ],
)  # fmt: skip
def test_clean_reading(said: str, read: str) -> None:
    assert clean(said) == read


def test_exact_reading() -> None:
    assert exact(" B\n") == "b"
    assert exact("B.") == "b."
    assert exact("B<|eot_id|>") == "b"
    assert exact("B<|im_end|>") == "b<|im_end|>"


def test_thoughts_can_be_removed(tmp_path: Path) -> None:
    assert without_think("<think>A</think>\nB") == "\nB"
    assert without_think("no thought: B") == "no thought: B"
    thought = "<think>It is blue.</think>\n\nC."
    assert score(write_vqa(tmp_path, vqa()), thought)["accuracy"] == 0
    assert score(write_vqa(tmp_path, vqa(), think="remove"), thought) == {
        "accuracy": 1, "accuracy_exact": 0,
    }  # fmt: skip


@pytest.mark.parametrize("said", ["", "E", "Answer: C", "I think C", "None of the above", "\ud800"])
def test_what_is_no_letter_is_wrong_and_flagged(tmp_path: Path, said: str) -> None:
    task = write_vqa(tmp_path, vqa())
    (sample,) = task.samples()
    found = task.score(sample, Prediction(sample_id=sample.id, text=said))
    assert found.values == {"right": 0, "right_exact": 0}
    assert found.flags == ("not_a_bare_letter",)
    failed = task.score(sample, Prediction(sample_id=sample.id, error="no reply"))
    assert failed.values == {"right": 0, "right_exact": 0}


def test_regions_in_prompts(tmp_path: Path) -> None:
    def prompt(**options: Any) -> str:
        task = write_vqa(tmp_path, vqa(), **options)
        (sample,) = task.samples()
        request = task.request(sample)
        assert request.paint == (options.get("regions") == "overlay")
        return request.prompt

    assert prompt() == (
        "Question: What is {x} of {region_0}, <Prompt1>?\nOptions:\nA. Red\nB. {region_0}\n"
        "C. Blue\nAnswer with the correct option's letter directly."
    )
    assert "of the region at bounding box {region_0}, <Prompt1>?" in prompt(regions="boxes")
    assert "of the region painted red, <Prompt1>?" in prompt(regions="overlay")


def test_an_empty_mask_is_the_zero_box(tmp_path: Path) -> None:
    task = write_vqa(tmp_path, vqa(mask_rles=[EMPTY.to_coco()]), regions="boxes")
    (sample,) = task.samples()
    assert task.request(sample).regions == (Region(box=(0, 0, 0, 0)),)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (vqa(type="size"), "no question type 'size'"),
        (vqa(choices=[]), "choices must be a list of texts"),
        (vqa(question=None), "question must be text"),
        (vqa(mask_rles=[]), "at least one mask"),
        (vqa(mask_rles=[{"size": [2, 2], "counts": "!"}]), "mask 0 is broken"),
        (vqa(mask_rles=[PATCH.to_coco(), Mask.empty(9, 9).to_coco()]), "must have one size"),
        (vqa(image="../a.png"), "leads outside"),
        (3, "must be a JSON object"),
    ],
)
def test_broken_data_is_named(tmp_path: Path, row: Any, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        list(write_vqa(tmp_path, row).samples())
    assert "GAR-Bench-VQA.json entry 0" in str(caught.value)


def test_a_relation_needs_two_masks(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="entry 0: it needs two masks"):
        list(write_caption(tmp_path, caption(mask_rles=[PATCH.to_coco()])).samples())


def test_the_caption_goes_into_the_judges_prompt_in_one_pass() -> None:
    facts = {"subject": "{object}", "object": "table", "predicate": "on"}
    prompt = judge_prompt(facts, "{subject} {x} \u2028 \x00")
    assert "- subject_name: {object}\n- object_name: table" in prompt
    assert "- model_output: {subject} {x} \u2028 \x00\n\nTask:\n1. Check" in prompt
    assert prompt.startswith("\nYou are")
    assert prompt.endswith('"False".\n\n')
    assert "describes the {object}. \n2." in prompt


@pytest.mark.parametrize(
    ("reply", "right", "unreadable"),
    [("True", 1, 0), ("False", 0, 0), ("True.", 0, 1), ("true", 0, 1), (" True", 0, 1), ("", 0, 1)],
)
def test_true_is_true_and_nothing_else(
    tmp_path: Path, reply: str, right: float, unreadable: int
) -> None:
    task = write_caption(tmp_path, caption())
    (sample,) = task.samples()
    said = Prediction(sample_id=sample.id, text="A cup.")
    found = task.score(sample, said, [Verdict(sample_id=sample.id, index=0, raw=reply)])
    assert found.values == {"right": right}
    assert (found.unreadable, found.flags) == (unreadable, ("empty_mask",))


def test_a_judges_error_is_no_score(tmp_path: Path) -> None:
    task = write_caption(tmp_path, caption())
    (sample,) = task.samples()
    said = Prediction(sample_id=sample.id, text="A cup.")
    for verdicts in ([], [Verdict(sample_id=sample.id, index=0, error="gone")]):
        found = task.score(sample, said, verdicts)
        assert (found.values, found.flags) == ({}, ("empty_mask", "judge_error"))
    failed = Prediction(sample_id=sample.id, error="no reply")
    assert task.questions(sample, failed) == ()
    assert task.score(sample, failed).values == {"right": 0}


def test_wordings_and_kinds(tmp_path: Path) -> None:
    def prompt(**options: Any) -> str:
        more = {"question": "What is <Prompt0> on?", "answer": "a table"}
        task = write_caption(tmp_path, caption(**more), **options)
        (sample,) = task.samples()
        assert sample.id == f"caption_{options.get('kind', 'detailed')}/0"
        return task.request(sample).prompt

    assert prompt() == (
        "1. Describe {region_0} in detail 2. Describe the relationship between {region_0} and "
        "{region_1}."
    )
    assert prompt(wording="official") == (
        "Describe {region_0} in detail, including the relationship with {region_1}."
    )
    assert prompt(kind="simple") == "What is {region_0} on?"


def test_focal_span_by_hand() -> None:
    # Box 20..40 x 10..20: w 20 -> 56, h 10 -> 56, centre (30, 15): corner (2, -13);
    # columns 2-56 .. 2+112 -> 0..114, rows -13-56 .. -13+112 -> 0..99.
    assert _crops.focal_span(PATCH) == (0, 0, 114, 99)
    # Box 300..401 x 200..260 (101 x 60), centre (350.5, 230): corner (300, 200);
    # columns 300-101 .. 300+202, rows 200-60 .. 200+120.
    assert _crops.focal_span(Mask.from_box((300, 200, 401, 260), 480, 640)) == (199, 140, 502, 320)
    # A single pixel: 56 x 56 about (1.5, 1.5): int(-26.5) = -26; -26+112 = 86.
    assert _crops.focal_span(Mask.from_box((1, 1, 2, 2), 480, 640)) == (0, 0, 86, 86)
    assert _crops.focal_span(EMPTY) == (0, 0, 200, 100)


def picture(folder: Path, height: int = 100, width: int = 200) -> Image.Image:
    (folder / "images").mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)
    image = Image.fromarray(pixels)
    image.save(folder / "images" / "a.png")
    return image


def pixels(data: bytes | None) -> Any:
    assert data is not None
    return np.asarray(Image.open(io.BytesIO(data)))


def test_the_judge_is_shown_these_pixels(tmp_path: Path) -> None:
    task = write_caption(tmp_path, caption())
    image = np.asarray(picture(tmp_path / "annotations"))
    (sample,) = task.samples()
    (question,) = task.questions(sample, Prediction(sample_id=sample.id, text="A cup."))
    parts = question.parts
    assert np.array_equal(pixels(parts[1].picture), image)
    assert np.array_equal(pixels(parts[3].picture), image[0:99, 0:114])
    assert np.array_equal(pixels(parts[5].picture), PATCH.to_array()[0:99, 0:114] * np.uint8(255))
    assert np.array_equal(pixels(parts[7].picture), image)
    assert not pixels(parts[9].picture).any()
    assert [part.text for part in parts[-2:]] == ["", question.prompt]


def test_a_recorded_judge_opens_no_picture(tmp_path: Path) -> None:
    task = write_caption(tmp_path, caption())
    (sample,) = task.samples()
    (question,) = task.questions(sample, Prediction(sample_id=sample.id, text="A cup."))
    (tmp_path / "replies.jsonl").write_text('{"sample_id": "caption_detailed/0", "reply": "True"}')
    judge = Recorded(path=(tmp_path / "replies.jsonl",))
    question_key(judge, question)
    (verdict,) = judge.ask([question])
    assert verdict.raw == "True"
    with pytest.raises(DataError, match="there is no picture"):
        list(question.parts)


def test_a_picture_of_another_size_is_refused(tmp_path: Path) -> None:
    task = write_caption(tmp_path, caption())
    picture(tmp_path / "annotations", 50, 60)
    (sample,) = task.samples()
    (question,) = task.questions(sample, Prediction(sample_id=sample.id, text="A cup."))
    with pytest.raises(DataError, match="is 60x50"):
        list(question.parts)


def test_painted_regions() -> None:
    grey = Image.new("RGB", (200, 100), (90, 90, 90))
    found = np.asarray(views.painted(grey, [Region(PATCH), Region(box=(100, 50, 110, 60))]))
    red, green = views.COLOURS["red"], views.COLOURS["green"]
    assert tuple(found[10, 20]) == tuple(found[11, 21]) == red
    assert tuple(found[15, 30]) == tuple((180 + c) // 3 for c in red)
    assert tuple(found[50, 100]) == green
    assert tuple(found[9, 20]) == tuple(found[20, 30]) == (90, 90, 90)
    assert views.colour(0) == views.colour(len(views.COLOURS)) == "red"
