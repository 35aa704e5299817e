"""The world's benchmark files: the ordinary tasks read them, and they say what the scenes hold."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from harness.files import read_json, read_jsonl
from harness.pictures import read_pixels
from harness.plan import PlannedTask, plan_task
from harness.types import Mask, union
from harness_toyworld import _files, _files_dlc, _scene_file, language, oracle
from harness_toyworld.builders import toyworld
from harness_toyworld.builders.toyworld import Toyworld
from harness_toyworld.captions import DIRECTIONS
from harness_toyworld.make import make_scene
from harness_toyworld.scene import PARTS, Entity, Scene

SPLIT: Literal["demo"] = "demo"
SAMPLES = 42
Roots = Mapping[str, Path]
Harness = Callable[..., Any]


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> Roots:
    out = tmp_path_factory.mktemp("world") / "files"
    return Toyworld(splits=(SPLIT,), samples=SAMPLES).build(out)


def plan(roots: Roots, name: str, **options: Any) -> PlannedTask:
    return plan_task(name, {"root": roots[name], **options})


def samples(roots: Roots, name: str, **options: Any) -> list[Any]:
    """The samples of a task, each of the task's own type."""
    return list(plan(roots, name, **options).samples)


def scene_of(index: object) -> Scene:
    """The scene of a picture, made again: its number is the scene's."""
    return make_scene("std", SPLIT, int(str(index)))


def number(path: Path) -> int:
    return int(path.stem.rpartition("_")[2])


def by_mask(scene: Scene, mask: Mask | None) -> Entity:
    """The object, part, band or reflection that a mask is of."""
    (entity,) = [entity for entity in scene.entities if entity.mask == mask]
    return entity


# The tasks read them.


def test_each_task_reads_its_files(roots: Roots) -> None:
    sizes = {name: len(plan(roots, name).samples) for name in roots}
    assert sizes == dict.fromkeys(toyworld.TASKS, SAMPLES)
    assert len(plan(roots, "gar-caption", kind="simple").samples) == SAMPLES


@pytest.mark.parametrize("name", toyworld.TASKS)
def test_harness_check_finds_nothing_amiss(roots: Roots, name: str, harness: Harness) -> None:
    said = harness("check", name, "--set", f"tasks.{name}.root={roots[name]}")
    assert "the truth earns full marks" in said
    assert "of the right size" in said
    assert all(line.startswith("ok") for line in said.splitlines()), said


def test_the_oracle_gets_full_marks_in_all_of_them(
    roots: Roots, harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # no Java, which only METEOR and CIDEr need
    sets = [word for name in roots for word in ("--set", f"tasks.{name}.root={roots[name]}")]
    result = harness(
        "eval", "--model", "oracle", "--tasks", ",".join(roots), "--judge", "rules",
        "--run", tmp_path / "run", "--json", "--quiet", *sets,
    )  # fmt: skip
    found = {
        (name, metric): value["value"]
        for name, task in result["tasks"].items()
        for metric, value in task["metrics"].items()
        if metric not in ("METEOR", "CIDEr", "attributes")
    }
    assert found == dict.fromkeys(found, pytest.approx(1))
    assert {"gIoU", "mIoU", "accuracy", "Pos", "Neg", "distinct"} <= {key[1] for key in found}
    assert all(task["judge_errors"] == 0 for task in result["tasks"].values())


# What they say is true.


def test_expressions_mean_their_targets(roots: Roots) -> None:
    kinds: Counter[str] = Counter()
    for sample in samples(roots, "gres"):
        query = language.parse(sample.phrase)
        scene = scene_of(number(sample.image))
        assert query is not None, sample.phrase
        found = sorted(oracle.match(query, scene))
        assert sample.no_target == (not found)
        if found:
            assert sample.target == union([scene.entities[entity].mask for entity in found])
        kinds["multi" if len(found) > 1 else str(len(found))] += 1
    assert kinds == {"1": 19, "multi": 13, "0": 10}  # 45, 30 and 25 % of 42


def test_grefcoco_holds_polygons_runs_and_one_crowd(roots: Roots) -> None:
    folder = roots["gres"] / "grefcoco"
    content = read_json(folder / "instances.json")
    crowds = [row["id"] for row in content["annotations"] if row["iscrowd"]]
    forms = Counter(
        "polygons" if isinstance(s, list) else type(s["counts"]).__name__
        for s in (row["segmentation"] for row in content["annotations"])
    )
    assert len(crowds) == forms["list"] == 1
    assert min(forms["polygons"], forms["str"]) > 0
    refs = [r for r in read_json(folder / "grefs(unc).json") if crowds[0] in r["ann_id"]]
    assert len(refs) == 1
    assert len(refs[0]["ann_id"]) > 2
    names = {row["id"]: row["name"] for row in content["categories"]}
    for row in content["annotations"]:
        if row["id"] not in crowds:
            masks = {e.mask: e.shape for e in scene_of(row["image_id"]).objects}
            assert names[row["category_id"]] in masks.values()
            assert row["area"] in [mask.area for mask in masks]


def test_groundingsuite_captions_mean_their_targets(roots: Roots) -> None:
    groups: Counter[str] = Counter()
    for sample in samples(roots, "groundingsuite"):
        query = language.parse(sample.caption)
        scene = scene_of(number(sample.image))
        assert query is not None, sample.caption
        found = [scene.entities[entity] for entity in sorted(oracle.match(query, scene))]
        assert sample.target == union([entity.mask for entity in found])
        kind = {"Stuff": "band", "Part": "part"}.get(sample.group, "object")
        assert {entity.kind for entity in found} == {kind}
        assert (len(found) > 1) == (sample.group == "Multi")
        groups[sample.group] += 1
    assert max(groups.values()) - min(groups.values()) <= 1
    assert set(groups) == {"Stuff", "Part", "Multi", "Single"}


def test_groundingsuite_boxes_are_nearly_tight(roots: Roots) -> None:
    off: Counter[float] = Counter()
    for sample in samples(roots, "groundingsuite", mode="box"):
        x, y, width, height = _files.bbox(sample.target)
        tight = (x, y, x + width, y + height)
        x0, y0, x1, y1 = sample.box
        assert 0 <= x0 < x1 <= sample.target.width
        assert 0 <= y0 < y1 <= sample.target.height
        moved = [abs(a - b) for a, b in zip(sample.box, tight, strict=True)]
        assert max(moved[0], moved[2]) <= min(3, width // 8)
        assert max(moved[1], moved[3]) <= min(3, height // 8)
        off.update(moved)
    assert set(off) == {0, 1, 2, 3}


def test_phrases_stand_in_their_caption_and_mean_their_masks(roots: Roots) -> None:
    for sample in samples(roots, "gcg"):
        scene = scene_of(number(sample.image))
        assert 2 <= len(sample.labels) == len(sample.targets) <= 4
        assert len(set(sample.labels)) == len(sample.labels)
        (caption,) = sample.captions
        at = -1
        for label, target in zip(sample.labels, sample.targets, strict=True):
            at = caption.index(label, at + 1)
            query = language.parse(label)
            assert query is not None
            assert by_mask(scene, target.mask).id in oracle.match(query, scene)


def test_relations_of_captions_hold(roots: Roots) -> None:
    for sample in samples(roots, "gcg"):
        scene = scene_of(number(sample.image))
        a, b = (by_mask(scene, target.mask) for target in sample.targets[:2])
        said = [relation for relation in DIRECTIONS if f" is {relation} " in sample.captions[0]]
        assert len(said) == 1
        assert oracle.related(said[0], a, b, scene)


def pictured(
    roots: Roots, rows: Sequence[Mapping[str, Any]], benchmark: int
) -> Iterator[tuple[Scene, list[Entity]]]:
    """The scene that each picture of GAR-Bench shows, to the pixel, and its marked entities."""
    index = itertools.count(benchmark * 100_000 + 1)
    made: dict[bytes, Scene] = {}
    for row in rows:
        shown = read_pixels(roots["gar-vqa"] / "annotations" / row["image"]).tobytes()
        while shown not in made and len(made) < 1000:
            scene = make_scene("std", SPLIT, next(index))
            made[scene.pixels.tobytes()] = scene
        scene = made[shown]
        yield scene, [by_mask(scene, Mask.from_coco(rle)) for rle in row["mask_rles"]]


def vqa(roots: Roots) -> list[tuple[Scene, list[Entity], list[str], str, str]]:
    """(scene, marked entities, choices without letters, right choice, type) of each question."""
    rows = read_json(roots["gar-vqa"] / "annotations" / "GAR-Bench-VQA.json")
    found = []
    for row, (scene, entities) in zip(rows, pictured(roots, rows, 4), strict=True):
        assert [choice[:3] for choice in row["choices"]] == ["A. ", "B. ", "C. ", "D. "][
            : len(row["choices"])
        ]
        choices = [choice[3:] for choice in row["choices"]]
        assert len(set(choices)) == len(choices) >= 2
        right = choices["ABCD".index(row["answer"])]
        found.append((scene, entities, choices, right, row["type"]))
    return found


def test_answers_are_right_and_the_others_wrong(roots: Roots) -> None:
    types: Counter[str] = Counter()
    for scene, entities, choices, right, kind in vqa(roots):
        types[kind] += 1
        if kind == "mirror":
            kinds = [entity.kind for entity in entities]
            assert choices == [f"<Prompt{n}>" for n in range(len(entities))]
            assert kinds.count("reflection") == 1
            assert kinds[int(right[7])] == "reflection"
        elif kind == "relation":
            holds = [r for r in choices if oracle.related(r, entities[0], entities[1], scene)]
            assert holds == [right]
            assert sorted(choices) == sorted(DIRECTIONS)
        elif kind != "ordering":
            assert right == getattr(entities[0], kind.removesuffix("/pattern"))
            near = {getattr(e, kind.removesuffix("/pattern")) for e in scene.objects}
            assert near & set(choices) == near or len(near) > 4
    assert set(types.values()) == {SAMPLES // 7}


def test_places_from_the_left_are_counted_right(roots: Roots) -> None:
    ordinals = ["first", "second", "third", "fourth", "fifth", "sixth"]
    rows = read_json(roots["gar-vqa"] / "annotations" / "GAR-Bench-VQA.json")
    for row, (scene, entities, _, right, kind) in zip(rows, vqa(roots), strict=True):
        if kind == "ordering":
            noun = row["question"].split(" among the ")[1].split(",")[0]
            query = language.parse(f"all the {noun}")
            assert query is not None
            rivals = [scene.entities[entity] for entity in oracle.match(query, scene)]
            left = sum(rival.x < entities[0].x for rival in rivals)
            assert len(rivals) >= 2
            assert right == ordinals[left]


def test_letters_are_balanced_within_each_type(roots: Roots) -> None:
    rows = read_json(roots["gar-vqa"] / "annotations" / "GAR-Bench-VQA.json")
    for kind in ("color", "shape", "relation"):
        letters = Counter(row["answer"] for row in rows if row["type"] == kind)
        assert max(letters.values()) <= -(-(SAMPLES // 7) // 4)
    first = Counter(row["answer"] for row in rows[:14])
    assert max(first.values()) < 7


def test_gar_captions_ask_for_what_is_there(roots: Roots) -> None:
    folder = roots["gar-caption"] / "annotations"
    detailed = read_json(folder / "GAR-Bench-Caption-Detailed.json")
    for row, (scene, (a, b)) in zip(detailed, pictured(roots, detailed, 5), strict=True):
        assert oracle.related(row["predicate_name"], a, b, scene)
        assert row["subject_name"] == f"{a.color} {a.shape}" != row["object_name"]
        assert row["x_key"]["object"] == {"color": b.color, "shape": b.shape}
    simple = read_json(folder / "GAR-Bench-Caption-Simple.json")
    assert {row["question"] for row in simple} >= {"What is <Prompt0>?", "What size is <Prompt0>?"}
    assert all(set(row["x_key"]["facts"].values()) <= set(row["answer"].split()) for row in simple)


def test_dlc_asks_for_details_that_hold_and_for_some_that_do_not(roots: Roots) -> None:
    root = roots["dlc"]
    content, qa = read_json(root / "annotations.json"), read_json(root / "qa.json")
    names = read_json(root / "class_names.json")
    orders = set()
    for row in content["annotations"]:
        scene = scene_of(row["image_id"])
        entity = by_mask(scene, Mask.from_coco(row["segmentation"]))
        parts = {part.name: part.color for part in scene.parts_of(entity)}
        asked = qa[str(row["id"])]
        assert names[str(row["id"])] == entity.shape == row["x_key"]["shape"]
        positive = [q["x_key"] for q in asked if q["type"] == "positive"]
        negative = [q["x_key"] for q in asked if q["type"] == "negative"]
        assert 3 <= len(positive) <= 5 == len(negative)
        for key in positive:
            own = parts.get(key["part"]) if key["part"] else getattr(entity, key["attribute"])
            assert own == key["value"]
        for key in negative:
            if key["attribute"] == "part":
                assert key["value"] in set(PARTS) - set(parts)
            else:
                assert key["value"] not in (getattr(entity, key["attribute"]), *parts.values())
        assert len({(key["attribute"], key["value"]) for key in negative}) == 5
        orders |= {tuple(score for _, score in q["choices"]) for q in asked}
    assert len(orders) > 10  # choices are in many orders


def test_negative_values_are_of_neighbours_first() -> None:
    scene = scene_of(7 * 100_000 + 1)
    rng = np.random.default_rng(0)
    for entity in scene.objects:
        keys = [q["x_key"] for q in _files_dlc.negatives(entity, scene, rng)]
        values = {k["value"] for k in keys if k["attribute"] != "part"}
        near = {getattr(other, a) for other in scene.objects for a in _files_dlc.VALUES}
        assert len(values & near) >= min(3, len(near - {entity.shape}))


def test_toy_scenes_are_those_of_the_world(roots: Roots) -> None:
    for _, row in read_jsonl(roots["toy"] / "toy.jsonl"):
        scene = make_scene(row["profile"], row["split"], row["index"])
        assert _scene_file.from_row(row, "here").entities == scene.entities
        picture = read_pixels(roots["toy"] / row["image"])
        assert picture.shape == scene.pixels.shape
        off = np.abs(picture.astype(int) - scene.pixels.astype(int))
        assert off.mean() < 6  # JPEG of quality 95
