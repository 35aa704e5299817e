"""The judge that goes by rule: what it says to captions of the toy world, and through the tasks."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import registry
from harness.files import read_json
from harness.judge import Question
from harness.plan import PlannedTask, plan_task
from harness.types import Mask, Prediction, Sample
from harness_toyworld import _files_dlc
from harness_toyworld.builders.toyworld import Toyworld
from harness_toyworld.judges.rules import Rules
from harness_toyworld.scene import COLORS, WORLD_VERSION, Entity, Scene

JUDGE = Rules()
CAPTIONS = {
    "full": "a large striped shiny red circle with a blue core.",
    "vague": "a red thing.",
    "bare": "a circle.",
    "all colors": f"a {' '.join(COLORS)} circle.",
    "silent": "",
}


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """The files of a small world."""
    out = tmp_path_factory.mktemp("world") / "files"
    return Toyworld(splits=("demo",), samples=12).build(out)


def plan(roots: Mapping[str, Path], name: str, **options: Any) -> PlannedTask:
    return plan_task(name, {"root": roots[name], **options})


def judged(planned: PlannedTask, sample: Sample, text: str) -> Mapping[str, float]:
    """What a caption earns when the rules judge it."""
    prediction = Prediction(sample_id=sample.id, text=text)
    verdicts = list(JUDGE.ask(list(planned.task.questions(sample, prediction))))
    assert all(verdict.error is None for verdict in verdicts)
    score = planned.task.score(sample, prediction, verdicts)
    assert score.unreadable == 0
    return score.values


@pytest.fixture
def scene() -> Scene:
    """A large red circle with a blue core, and a small green square beside it."""
    circle = Entity(
        id=0, kind="object", mask=Mask.from_box((2, 2, 18, 18), 40, 40), shape="circle",
        color="red", texture="striped", size="large", material="shiny", x=10, y=10, r=8,
        side="left", vside="top",
    )  # fmt: skip
    square = Entity(
        id=1, kind="object", mask=Mask.from_box((26, 26, 34, 34), 40, 40), shape="square",
        color="green", texture="plain", size="small", material="matte", x=30, y=30, r=5,
        side="right", vside="bottom",
    )  # fmt: skip
    core = Entity(
        id=2, kind="part", mask=Mask.from_box((8, 8, 12, 12), 40, 40), color="blue", name="core",
        owner=0,
    )  # fmt: skip
    pixels = np.zeros((40, 40, 3), np.uint8)
    return Scene("std", "demo", 0, pixels, (circle, square, core))


def points(question: Mapping[str, Any], caption: str) -> float:
    """What the rules' choice in a question of ``qa.json`` is worth."""
    texts, worth = zip(*question["choices"], strict=True)
    data = {"x_key": question["x_key"], "caption": caption, "points": list(map(float, worth))}
    asked = Question(sample_id="1", index=1, prompt="", choices=texts, data=data)
    (verdict,) = JUDGE.ask([asked])
    assert verdict.error is None
    index = "ABCDE".index(verdict.raw[0])
    assert verdict.raw == f"{'ABCDE'[index]}. {texts[index]}"
    return float(worth[index])


@pytest.mark.parametrize(
    ("caption", "expected"),
    [  # color, core's color, texture, size, material
        ("full", [1, 1, 1, 1, 1]),
        ("vague", [1, 0, 0, 0, 0]),
        ("bare", [0, 0, 0, 0, 0]),
        ("all colors", [-1, 0, 0, 0, 0]),
        ("silent", [0, 0, 0, 0, 0]),
    ],
)
def test_positive_questions(scene: Scene, caption: str, expected: Sequence[float]) -> None:
    asked = _files_dlc.positives(scene.entities[0], scene)
    assert [points(question, CAPTIONS[caption]) for question in asked] == expected


@pytest.mark.parametrize(
    ("caption", "worth"),
    [
        ("a circle with a core", 0.5),
        ("a circle with a green core", -1),
        ("a circle with a core that is blue", 1),
        ("a blue circle", 0),
        ("a circle with a rim", 0),
    ],
)
def test_a_part_that_is_mentioned_without_its_color_earns_half(
    scene: Scene, caption: str, worth: float
) -> None:
    asked = _files_dlc.positives(scene.entities[0], scene)
    (core,) = [question for question in asked if question["x_key"]["part"] == "core"]
    assert points(core, caption) == worth


@pytest.mark.parametrize(
    ("attribute", "value", "caption", "worth"),
    [
        ("color", "green", "full", 1),
        ("color", "green", "all colors", -1),
        ("color", "green", "silent", 0),
        ("color", "green", "bare", 1),
        ("part", "core", "full", -1),
        ("part", "hat", "full", 1),
        ("part", "hat", "silent", 0),
    ],
)
def test_negative_questions(
    scene: Scene, attribute: str, value: str, caption: str, worth: float
) -> None:
    question = _files_dlc._negative(scene.entities[0], attribute, value, f"The {value}")
    assert points(question, CAPTIONS[caption]) == worth


@pytest.mark.parametrize(
    ("caption", "seen"),
    [
        ("a small circle", "Yes"),
        ("a red thing", "Yes"),
        ("a thing", "No"),
        ("a blue thing", "No"),
        ("a square", "No"),
        ("a red square", "No"),
        ("a circle, a square and a ring", "No"),
        ("red", "No"),
        ("", "No"),
    ],
)
def test_recognition(caption: str, seen: str) -> None:
    key = {"kind": "recognition", "shape": "circle", "color": "red"}
    data = {"x_key": key, "caption": caption, "points": [1.0, 0.0]}
    asked = Question(sample_id="1", index=0, prompt="", choices=("Yes", "No"), data=data)
    (verdict,) = JUDGE.ask([asked])
    assert verdict.raw.endswith(f". {seen}")


def test_listing_all_colors_loses(roots: Mapping[str, Path]) -> None:
    planned = plan(roots, "dlc")
    names = read_json(roots["dlc"] / "class_names.json")
    for sample in planned.samples:
        bare = judged(planned, sample, f"a {names[sample.id]}")
        listed = judged(planned, sample, f"a {' '.join(COLORS)} {names[sample.id]}")
        assert listed["pos"] < bare["pos"]
        assert listed["neg"] <= bare["neg"]


def test_the_truth_earns_full_marks_and_silence_nothing(roots: Mapping[str, Path]) -> None:
    planned = plan(roots, "dlc")
    for sample in planned.samples:
        gold = planned.task.gold(sample)
        assert gold is not None
        assert judged(planned, sample, gold.text) == {"pos": 1, "neg": 1}
        assert judged(planned, sample, "") == {"pos": 0, "neg": 0}


RELATION = {
    "kind": "relation",
    "subject": {"color": "red", "shape": "circle"},
    "relation": "left of",
    "object": {"color": "blue", "shape": "ring"},
}


@pytest.mark.parametrize(
    ("caption", "right"),
    [
        ("The red circle is left of the blue ring.", True),
        ("A small red striped circle. It is left of a large blue ring.", True),
        ("A blue ring is right of the red circle.", True),
        ("The blue ring is left of the red circle.", False),
        ("The red circle is above the blue ring.", False),
        ("The red circle is near the blue ring.", False),
        ("The circle is left of the ring.", False),
        ("The red circle.", False),
        (f"The {' '.join(COLORS)} circle is left of the {' '.join(COLORS)} ring.", False),
        ("The red circle is left of, right of, above and below the green ring.", False),
        ("", False),
    ],
)
def test_relations(caption: str, right: bool) -> None:
    data = {"x_key": RELATION, "caption": caption}
    (verdict,) = JUDGE.ask([Question(sample_id="1", index=0, prompt="", data=data)])
    assert verdict.raw == str(right)


@pytest.mark.parametrize(
    ("caption", "right"),
    [
        ("red", True),
        ("It is red.", True),
        ("a red circle", True),
        ("blue", False),
        ("red or blue", False),
        ("a circle", False),
        ("", False),
    ],
)
def test_free_answers(caption: str, right: bool) -> None:
    data = {"x_key": {"kind": "answer", "facts": {"color": "red"}}, "caption": caption}
    (verdict,) = JUDGE.ask([Question(sample_id="1", index=0, prompt="", data=data)])
    assert verdict.raw == str(right)


@pytest.mark.parametrize("kind", ["detailed", "simple"])
def test_gar_captions_are_judged_through_the_task(roots: Mapping[str, Path], kind: str) -> None:
    planned = plan(roots, "gar-caption", kind=kind)
    for sample in planned.samples:
        gold = planned.task.gold(sample)
        assert gold is not None
        assert judged(planned, sample, gold.text) == {"right": 1}
        assert judged(planned, sample, "a thing") == {"right": 0}


@pytest.mark.parametrize(
    ("data", "what"),
    [
        ({"caption": "a circle"}, "the question has no key"),
        ({"caption": "a circle", "x_key": "color"}, "the question has no key"),
        ({"caption": "a circle", "x_key": {"kind": "taste"}}, "kind 'taste'"),
        ({"x_key": {"kind": "positive"}}, "about no caption"),
        ({"caption": "a circle", "x_key": {"kind": "positive"}}, "part of the key"),
        ({"caption": "", "x_key": {"kind": "answer", "facts": ["red"]}}, "facts of the key"),
        ({"caption": "", "x_key": RELATION | {"subject": {"color": 3}}}, "color of the key"),
        (
            {"caption": "a", "x_key": {"kind": "recognition", "shape": "ring", "color": "red"}},
            "no choice of the question is worth 0 points",
        ),
    ],
)
def test_what_no_rule_answers_is_an_error_and_not_a_guess(
    data: Mapping[str, Any], what: str
) -> None:
    (verdict,) = JUDGE.ask([Question(sample_id="1", index=2, prompt="", data=data)])
    assert (verdict.sample_id, verdict.index, verdict.raw) == ("1", 2, "")
    assert verdict.error is not None
    assert verdict.error.startswith("unsupported: ")
    assert what in verdict.error


def test_official_files_have_no_keys_so_all_their_questions_are_errors() -> None:
    root = Path(__file__).parents[1] / "fixtures" / "dlc"
    planned = plan_task("dlc", {"root": root})
    sample = planned.samples[0]
    prediction = Prediction(sample_id=sample.id, text="a red circle")
    asked = list(planned.task.questions(sample, prediction))
    assert all("x_key" not in question.data for question in asked)
    assert all(verdict.error for verdict in JUDGE.ask(asked))


WORDS = st.sampled_from(
    [*COLORS, "circle", "circles", "thing", "core", "with", "a", "is", "left of", "not", ".", "it"]
)


@given(words=st.lists(WORDS, max_size=12), other=st.text(max_size=20))
def test_any_caption_gets_a_verdict_that_the_task_can_read(words: list[str], other: str) -> None:
    caption = " ".join([*words, other])
    choices = ("is red", "is not red", "no color", "no circle")
    positive = {"kind": "positive", "attribute": "color", "value": "red", "part": ""}
    data = {"x_key": positive, "caption": caption, "points": [1.0, -1.0, 0.0, 0.0]}
    asked = Question(sample_id="1", index=1, prompt="", choices=choices, data=data)
    first, second = list(JUDGE.ask([asked, asked]))
    assert first == second
    assert first.raw in [f"{letter}. {c}" for letter, c in zip("ABCD", choices, strict=True)]


def test_name_and_fingerprint_say_which_rules() -> None:
    judge = registry.judges.build("rules", {})
    assert judge.name == f"rules:shapeworld/{WORLD_VERSION}"
    assert judge.fingerprint()["judge"] == judge.name
    assert judge.cacheable
