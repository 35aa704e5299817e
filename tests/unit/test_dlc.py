"""DLC-Bench: its files, questions, readings and scores; zooms; the recorded judge."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from harness import views
from harness.errors import ConfigError, DataError
from harness.judge import Question, Verdict
from harness.judges.recorded import Recorded
from harness.types import Mask, Prediction, Request, Score, Zoom
from harness_tasks._dlc_judge import is_plural, prompt, read_choice, recognition, with_article
from harness_tasks.dlc import Dlc

GOOD, BAD, NONE = "right", "wrong", "silent"
POINTS = {GOOD: 1, BAD: -1, NONE: 0}

REAL_CLASSES = """air conditioner,antelope,apple,avocado,barrel/bucket,basket,belt,bench,boat,
bottle,bow tie,bowl,can/container,car,carpet,cart/trolley,cat,chopsticks,clock,computer box,crane,
cutting/chopping board,dog,drum,duck/goose,earphone,eraser,faucet,fork,garlic,gavel/mallet,glasses,
globe,green bean,guitar,handbag,headphone,herb,hot air balloon,ice cream,key,lettuce,marker,
megaphone/speaker,microwave,monitor/tv,motorcycle,mouse,notebook,orange/tangerine,pear,person,
picture/frame,pot,potato,rabbit,rice cooker,rickshaw,sandals,scale,scissors,screwdriver,seal,
showerhead,sign/banner,ski,slippers,sneakers,soap,spoon,stapler,stool,storage box,stove,
street lights,stuffed toy,sushi,suv,table tennis paddle,taco,tape,tape measure/ruler,tent,toaster,
toilet,tong,towel,traffic light,tripod,truck,van,watch,wild bird,wine glass,wood block"""


def ask(kind: str, *choices: Any) -> dict[str, Any]:
    return {"question": "Which?", "type": kind, "choices": choices or list(POINTS.items())}


POSITIVE, NEGATIVE = ask("positive"), ask("negative")


def write(root: Path, qa: Any, names: Any = None, **options: Any) -> Dlc:
    (root / "qa.json").write_text(json.dumps(qa))
    names = {key: "taco" for key in qa} if names is None else names
    (root / "class_names.json").write_text(json.dumps(names))
    return Dlc(root=root, **options)


def annotate(root: Path, mask: Mask) -> None:
    image = {"id": 5, "file_name": "a.jpg", "height": mask.height, "width": mask.width}
    row = {"id": 1, "image_id": 5, "segmentation": mask.to_coco()}
    (root / "annotations.json").write_text(json.dumps({"images": [image], "annotations": [row]}))


def score(task: Dlc, *replies: list[str | None]) -> list[Score]:
    """The score of each sample for these replies, None being a verdict that could not be had."""
    return [
        task.score(sample, Prediction(sample_id=sample.id, text="x"), [
            Verdict(sample_id=sample.id, index=i, raw=raw or "", error=None if raw else "gone")
            for i, raw in enumerate(of_sample)
        ])
        for sample, of_sample in zip(task.samples(), replies, strict=True)
    ]  # fmt: skip


def test_worked_example(tmp_path: Path) -> None:
    half = ask("positive", ["mentioned", 0.5], [GOOD, 1])
    task = write(
        tmp_path,
        {"1": [POSITIVE, half, POSITIVE, NEGATIVE, NEGATIVE], "2": [POSITIVE, NEGATIVE, POSITIVE]},
    )
    # 1: pos (1 + .5 - 1) / 3, neg 0. 2, not recognised: pos (0 - 1) / 2, neg 0.
    scores = score(
        task,
        ["Yes", GOOD, "mentioned", BAD, GOOD, BAD],
        ["No", GOOD, GOOD, BAD],
    )
    assert scores[0].values == {"pos": pytest.approx(1 / 6), "neg": 0}
    assert scores[1].values == {"pos": -0.5, "neg": 0}
    found = {name: metric(scores) for name, metric in task.metrics.items()}
    wanted = {"Pos": -1 / 6, "Neg": 0, "Avg": -1 / 12}
    assert found == {name: pytest.approx(value) for name, value in wanted.items()}
    assert scores[1].flags == ("not_recognised",)


def test_objects_without_negatives_are_left_out_of_neg(tmp_path: Path) -> None:
    task = write(tmp_path, {"1": [POSITIVE], "2": [POSITIVE, NEGATIVE]})
    scores = score(task, ["Yes", GOOD], ["Yes", BAD, GOOD])
    assert [metric(scores) for metric in task.metrics.values()] == [0, 1, 0.5]
    assert [metric.count(scores) for metric in task.metrics.values()] == [2, 1, 2]
    assert np.isnan(task.metrics["Avg"](scores[:1]))


def test_judge_errors_are_left_out(tmp_path: Path) -> None:
    task = write(tmp_path, {"1": [POSITIVE, POSITIVE, NEGATIVE]})
    cases: dict[tuple[str | None, ...], dict[str, float]] = {
        ("Yes", GOOD, None, BAD): {"pos": 1, "neg": -1},
        ("Yes", GOOD, GOOD, None): {"pos": 1},
        (None, GOOD, GOOD, GOOD): {},
        (): {},
    }
    for replies, values in cases.items():
        (found,) = score(task, list(replies))
        assert (found.values, found.flags) == (values, ("judge_error",))


def test_unreadable_replies_score_as_the_official_script_does(tmp_path: Path) -> None:
    task = write(tmp_path, {"1": [POSITIVE, NEGATIVE]})
    (found,) = score(task, ["Yes", "cannot say", "E."])
    assert (found.values, found.unreadable) == ({"pos": 0, "neg": 0}, 2)
    (found,) = score(task, ["maybe", GOOD, GOOD])
    assert (found.values, found.unreadable) == ({"pos": 0, "neg": 0}, 1)
    assert found.flags == ("not_recognised",)


def test_a_failed_request_earns_what_silence_earns(tmp_path: Path) -> None:
    task = write(tmp_path, {"1": [POSITIVE, NEGATIVE], "2": [POSITIVE]})
    for sample, silence in zip(task.samples(), score(task, ["No", NONE, GOOD], ["No", NONE]),
                               strict=True):  # fmt: skip
        failed = Prediction(sample_id=sample.id, error="no reply")
        assert task.questions(sample, failed) == ()
        assert task.score(sample, failed).values == silence.values


@pytest.mark.parametrize(
    ("reply", "index"),
    [
        ("C. red", 0), ("c.", 2), ("a", 0), ("B. Blue", 1), ("d", None), ("E. ?", None), ("", None),
        ("red or blue", 1), ("blue, red", 0), ("ee", 2), ("c\nsince", 2), ("d\nsince", None),
        ("(A)", None), ("  \n ", None), ("\ud800", None),
    ],
)  # fmt: skip
def test_reading_in_order(reply: str, index: int | None) -> None:
    assert read_choice(reply, ["Red", "Blue ", "Green"]) == index


def test_choices_within_choices() -> None:
    choices = ["the wing", "the wing is grey", "a tail"]
    assert read_choice("it says the wing is grey", choices) == 1  # same place: the longest
    assert read_choice("the", choices) == 1  # part of two choices: the longest
    assert read_choice("x" * 100_000, choices) is None


def test_recognition_grammar() -> None:
    names = [name.strip() for name in REAL_CLASSES.split(",")]
    assert {name for name in names if is_plural(name)} == {
        "chopsticks", "glasses", "sandals", "scissors", "slippers", "sneakers", "street lights",
        "wine glass",
    }  # fmt: skip
    assert {name for name in names if with_article(name).startswith("an ")} == {
        "air conditioner", "antelope", "apple", "avocado", "earphone", "eraser", "ice cream",
        "orange/tangerine",
    }  # fmt: skip
    assert not is_plural("bus")
    assert with_article("unicycle") == "a unicycle"


def test_the_judges_prompts(tmp_path: Path) -> None:
    assert recognition("scissors", "text") == (
        "Is it likely that the objects in the description are scissors or objects of a similar "
        "type? Again, It does not have to be an exact match."
    )
    assert recognition("taco", "picture") == (
        "The object in the image is taco. Based on the image, is it likely that the object in the "
        "description is given class: taco or object of a similar type?"
    )
    text = prompt("{pred} %s \u2028", "Which {x}? ", ["one", "two "], "text")
    assert text.endswith(
        "\n\nThe description is:\n{pred} %s \u2028\n\nFrom the description above, please answer "
        "the following question with one of the choices:\nWhich {x}? \nA. one\nB. two\n"
    )
    assert text.startswith("Answer the multiple-choice question based on the text description of "
                           "an object in an image. You")  # fmt: skip
    assert " of an object in this image. You" in prompt("", "", [], "picture")


def test_the_judge_that_sees_is_shown_the_crop(tmp_path: Path) -> None:
    task = write(tmp_path, {"1": [POSITIVE]}, judge_sees="picture")
    said = Prediction(sample_id="1", text="x")
    (sample,) = task.samples()
    with pytest.raises(DataError, match=r"no file .*annotations\.json"):
        list(task.questions(sample, said)[0].parts)
    annotate(tmp_path, Mask.from_box((20, 10, 40, 20), 100, 200))
    (tmp_path / "images").mkdir()
    Image.new("RGB", (200, 100)).save(tmp_path / "images" / "a.jpg")
    task = Dlc(root=tmp_path, judge_sees="picture")
    (sample,) = task.samples()
    for question in task.questions(sample, said):
        texts = [part.text for part in question.parts]
        assert texts == [
            "The image:\n", "", "\nThe mask of the image:\n", "", f"\n{question.prompt}\n",
        ]  # fmt: skip
        assert [part.picture is not None for part in question.parts] == [False, True] * 2 + [False]


BOX = Mask.from_box((100, 100, 301, 201), 1000, 1000)  # first to last pixel: 100..300 x 100..200


def test_requests(tmp_path: Path) -> None:
    annotate(tmp_path, BOX)
    mask_tokens = "Given a detailed description of this region {region_0}."
    boxes = "Given a detailed description of the region at bounding box {region_0}."
    further = " Zoom in with the perspective as"
    cases = {
        ("mask_tokens", False): mask_tokens,
        ("mask_tokens", True): mask_tokens + further + " {zoom_0}, {zoom_region_0}.",
        ("boxes", False): boxes,
        ("boxes", True): f"{boxes}{further}{{zoom_0}}, give a detailed description of this cropped "
        "region.",
    }
    for (regions, zoom), text in cases.items():
        task = write(tmp_path, {"1": [POSITIVE]}, regions=regions, zoom=zoom)
        (sample,) = task.samples()
        request = task.request(sample)
        assert request.prompt == text
        assert len(request.zooms) == zoom
        assert (request.size, request.max_new_tokens) == ((1000, 1000), 1024)


def test_without_annotations_only_recorded_answers_are_scored(tmp_path: Path) -> None:
    task = write(tmp_path, {"1": [POSITIVE]})
    (sample,) = task.samples()
    assert task.request(sample).regions == ()
    assert task.request(sample).image.name == "annotations.json"
    assert [path.name for path in task.files()] == ["qa.json", "class_names.json"]


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (ask("recognition"), "type must be positive or negative"),
        (ask("positive", ["x"]), r"each choice must be \[text, score\]"),
        (ask("positive", *[["x", 1]] * 6), "one to 5 choices"),
        ({"type": "positive"}, "a text question"),
        (NEGATIVE, "at least one positive"),
    ],
)
def test_broken_data_is_named(tmp_path: Path, question: Any, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        list(write(tmp_path, {"1": [question]}).samples())
    assert "qa.json object '1'" in str(caught.value)


def test_missing_names_and_annotations_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"class_names\.json has no name for object '1'"):
        list(write(tmp_path, {"1": [POSITIVE]}, names={}).samples())
    annotate(tmp_path, BOX)
    with pytest.raises(DataError, match="has no annotation '2'"):
        list(write(tmp_path, {"2": [POSITIVE]}).samples())


def test_zoom_by_hand() -> None:
    # w 200 stays, h 100 grows by 20 on each side; the longer side 200 < 280, so 140 -> 280.
    found = views.zoom(BOX)
    assert found is not None
    assert (found.box, found.size) == ((100, 80, 300, 220), (280, 400))
    # Rows 20..120 of the cut become 40..242 of 280 (one row more than 40..240: the mask has 101).
    assert found.region is not None
    assert found.region.mask is not None
    assert found.region.mask.box == (0, 40, 399, 241)


@pytest.mark.parametrize(
    ("box", "cut", "size"),
    [
        ((0, 0, 548, 548), (0, 0, 547, 547), (547, 547)),  # 547 * 547 / 10^6 = .2992 < .3
        ((0, 0, 11, 401), (0, 0, 75, 400), (400, 75)),  # w 10: 65 on each side, clipped at 0
        ((990, 500, 1000, 510), (925, 435, 1000, 574), (518, 280)),  # w 9: 65 and 65; h 9: 139
        ((500, 500, 776, 776), (500, 500, 775, 775), (280, 280)),  # 275 x 275
    ],
)
def test_zoom_geometry(box: Any, cut: Any, size: Any) -> None:
    found = views.zoom(Mask.from_box(box, 1000, 1000))
    assert found is not None
    assert (found.box, found.size) == (cut, size)


def test_large_and_empty_regions_are_not_zoomed() -> None:
    assert views.zoom(Mask.from_box((0, 0, 549, 549), 1000, 1000)) is None  # 548 * 548 / 10^6 > .3
    assert views.zoom(Mask.empty(10, 10)) is None


def test_zoomed_pixels() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (1000, 1000, 3), np.uint8)
    found = views.zoom(BOX)
    assert found is not None
    shown = views.zoomed(Image.fromarray(pixels), found)
    wanted = Image.fromarray(pixels[80:220, 100:300]).resize((400, 280), Image.Resampling.LANCZOS)
    assert np.array_equal(np.asarray(shown), np.asarray(wanted))
    uncut = views.zoomed(Image.fromarray(pixels), Zoom((10, 20, 300, 400), (380, 290)))
    assert np.array_equal(np.asarray(uncut), pixels[20:400, 10:300])
    assert views.as_jpeg(shown).startswith(b"\xff\xd8")


def test_resized_masks() -> None:
    mask = np.array([[True, False]])
    # Doubled: centres at -.25, .25, .75, 1.25 of the old pixels: 1, .75, .25, 0.
    assert views.resized(mask, (1, 4)).tolist() == [[True, True, False, False]]
    assert views.resized(mask, (1, 2)) is mask


def test_prompts_are_cut_at_their_zooms() -> None:
    zoom = Zoom((0, 0, 1, 1), (1, 1))
    request = Request(
        sample_id="1", image=Path("x"), prompt="a {zoom_0}b{zoom_1}{zoom_0}", zooms=(zoom,)
    )
    assert views.pieces(request) == ["a ", zoom, "b{zoom_1}", zoom]


def recorded(folder: Path, *rows: Any) -> Recorded:
    path = folder / "replies.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return Recorded(path=(path,))


def verdict(judge: Recorded, sample_id: str, index: int, prompt: str = "p") -> Verdict:
    (found,) = judge.ask([Question(sample_id=sample_id, index=index, prompt=prompt)])
    assert (found.sample_id, found.index) == (sample_id, index)
    return found


def test_recorded_replies_go_by_sample_and_index(tmp_path: Path) -> None:
    judge = recorded(
        tmp_path,
        {"sample_id": "a", "reply": "zero"},
        {"sample_id": "a", "question_index": 1, "reply": ""},
        {"sample_id": 7, "replies": ["x", None, "z"]},
    )
    assert verdict(judge, "a", 0).raw == "zero"
    assert verdict(judge, "a", 1) == Verdict(sample_id="a", index=1)
    assert verdict(judge, "7", 2).raw == "z"
    assert "no reply" in str(verdict(judge, "7", 1).error)
    assert "no reply to this question" in str(verdict(judge, "7", 3).error)
    assert "no reply to this question" in str(verdict(judge, "b", 0).error)
    assert judge.name == "recorded:replies.jsonl"
    assert not judge.cacheable
    assert len(judge.fingerprint()["sha256/0"]) == 64


def test_a_reply_to_another_prompt_is_a_judge_error(tmp_path: Path) -> None:
    judge = recorded(tmp_path, {"sample_id": "a", "reply": "Yes", "prompt": "Is it?"})
    assert verdict(judge, "a", 0, "Is it?").raw == "Yes"
    other = verdict(judge, "a", 0, "Is he?")
    assert other.raw == ""
    assert "to another prompt" in str(other.error)
    assert "from character 3 on" in str(other.error)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"reply": "x"}, "sample_id must be text"),
        ({"sample_id": "a"}, "either reply or replies"),
        ({"sample_id": "a", "reply": 3}, "a reply must be text or null"),
        ({"sample_id": "a", "replies": "x"}, "replies a list"),
        ({"sample_id": "a", "reply": "x", "question_index": -1}, "question_index must be"),
        ({"sample_id": "a", "reply": "x", "prompt": 1}, "prompt must be text"),
        ({"sample_id": "b", "reply": "x"}, "answered a second time"),
    ],
)
def test_broken_recordings_are_named(tmp_path: Path, row: Any, message: str) -> None:
    judge = recorded(tmp_path, {"sample_id": "b", "reply": "x"}, row)
    with pytest.raises(DataError, match=message) as caught:
        verdict(judge, "b", 0)
    assert "replies.jsonl line 2" in str(caught.value)
    with pytest.raises(ConfigError, match=r"judge\.path"):
        Recorded(path=()).fingerprint()
