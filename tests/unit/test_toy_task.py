"""The task ``toy``: what captions of known scenes earn, and what broken files say."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.errors import DataError
from harness.plan import plan_task
from harness.types import Mask, Prediction
from harness_toyworld import _scene_file
from harness_toyworld.tasks.toy import Toy, plain

MASK = "<|mt_start|><|mt_0003|><|mt_0070|><|mt_end|>"


def entity(number: int, x0: int, color: str, shape: str, **more: Any) -> dict[str, Any]:
    mask = Mask.from_box((x0, 4, x0 + 8, 12), 40, 60)
    place = {"x": x0 + 4.0, "y": 8.0, "r": 4.0, "side": "left" if x0 < 26 else "right"}
    own = {"color": color, "shape": shape, "size": "small", "texture": "plain"}
    return {"id": number, "kind": "object", "mask": mask.to_coco(), **own, **place, **more}


def row() -> dict[str, Any]:
    """Two red circles, one of them striped, and a blue ring."""
    entities = [
        entity(0, 2, "red", "circle"),
        entity(1, 20, "red", "circle", texture="striped"),
        entity(2, 40, "blue", "ring"),
    ]
    return {
        "image": "images/1.jpg", "regions": [0, 2], "profile": "std", "split": "demo", "index": 7,
        "entities": entities,
    }  # fmt: skip


@pytest.fixture
def task(tmp_path: Path) -> Toy:
    (tmp_path / "toy.jsonl").write_text(json.dumps(row()) + "\n")
    return Toy(root=tmp_path)


def earned(task: Toy, text: str, index: int = 0) -> Mapping[str, float]:
    sample = list(task.samples())[index]
    return task.score(sample, Prediction(sample_id=sample.id, text=text)).values


def test_samples_and_requests(task: Toy) -> None:
    samples = list(task.samples())
    assert [sample.id for sample in samples] == ["7/0", "7/2"]
    assert samples[0].size == (40, 60)
    request = task.request(samples[1])
    assert request.wants == "text"
    assert request.regions[0].mask == Mask.from_box((40, 4, 48, 12), 40, 60)
    assert request.prompt.startswith(
        "Could you please give me a detailed description of the following regions? {region_0}. "
        "Please respond with interleaved segmentation masks"
    )
    plain_prompt = Toy(root=task.root, prompt="plain").request(samples[1]).prompt
    assert plain_prompt.endswith("of the following region? {region_0}.")


@pytest.mark.parametrize(
    ("caption", "distinct", "true", "iou", "parsed", "attributes"),
    [
        ("a plain red circle", 1, 1, 1, 1, 3),
        ("a red circle", 0, 1, 1 / 2, 1, 2),
        ("a thing", 0, 1, 1 / 3, 1, 0),
        ("a ring", 0, 0, 0, 1, 1),
        ("a striped circle", 0, 0, 0, 1, 2),
        ("a green circle", 0, 0, 0, 1, 2),
        ("it is red I think", 0, 0, 0, 0, 0),
        ("", 0, 0, 0, 0, 0),
        (f"A plain red circle {MASK}.", 1, 1, 1, 1, 3),
        (f"<|object_ref_start|>a ring<|object_ref_end|>{MASK}", 0, 0, 0, 1, 1),
    ],
)
def test_what_a_caption_earns(
    task: Toy,
    caption: str,
    distinct: float,
    true: float,
    iou: float,
    parsed: float,
    attributes: float,
) -> None:
    assert earned(task, caption) == {
        "distinct": distinct,
        "true": true,
        "oracle_iou": pytest.approx(iou),
        "parse_ok": parsed,
        "attributes": attributes,
    }


def test_a_failed_request_earns_nothing(task: Toy) -> None:
    sample = next(iter(task.samples()))
    failed = Prediction(sample_id=sample.id, text="a plain red circle", error="cut off")
    assert set(task.score(sample, failed).values.values()) == {0.0}


def test_captions_that_fit_nothing_are_flagged(task: Toy) -> None:
    sample = next(iter(task.samples()))

    def flags(text: str) -> tuple[str, ...]:
        return task.score(sample, Prediction(sample_id=sample.id, text=text)).flags

    assert flags("a green circle") == ("fits_nothing",)
    assert flags("a ring") == flags("nonsense") == ()


def test_metrics_are_means_over_all_samples(task: Toy) -> None:
    samples = list(task.samples())
    texts = ["a red circle", "a ring"]
    scores = [
        task.score(sample, Prediction(sample_id=sample.id, text=text))
        for sample, text in zip(samples, texts, strict=True)
    ]
    values = {name: metric(scores) for name, metric in task.metrics.items()}
    assert values == {
        "distinct": 0.5, "true": 1.0, "oracle_iou": 0.75, "parse_ok": 1.0, "attributes": 1.5
    }  # fmt: skip


def test_the_full_description_is_gold_where_it_is_distinct(tmp_path: Path) -> None:
    twins = row()
    twins["entities"][1]["texture"] = "plain"  # both circles are left, red, small and plain now
    (tmp_path / "toy.jsonl").write_text(json.dumps(twins) + "\n")
    task = Toy(root=tmp_path)
    twin, ring = task.samples()
    assert task.gold(twin) is None
    gold = task.gold(ring)
    assert gold is not None
    assert earned(task, gold.text, 1)["distinct"] == 1


def test_marks_go_and_leave_no_gap() -> None:
    assert plain(f"  A  red {MASK} circle {MASK}. ") == "A red circle."
    assert plain("<|im_start|>x<|im_end|>") == "x"
    assert plain("a < b | c > d") == "a < b | c > d"


def broken(path: str, value: object) -> dict[str, Any]:
    """The record with one value replaced, or taken out (None)."""
    content: Any = row()
    node = content
    *keys, last = path.split(".")
    for key in keys:
        node = node[int(key)] if key.isdecimal() else node[key]
    if value is None:
        del node[last]
    else:
        node[last] = value
    return dict(content)


@pytest.mark.parametrize(
    ("path", "value", "what"),
    [
        ("entities", [], "entities must be a list"),
        ("entities", None, "entities must be a list"),
        ("split", "nowhere", "split or index"),
        ("split", ["val"], "split or index"),
        ("index", "7", "split or index"),
        ("regions", None, "regions must be a list of ids"),
        ("regions", ["0"], "regions must be a list of ids"),
        ("regions", [9], "region 9 is no object"),
        ("image", "../secret.jpg", "leads outside"),
        ("image", 5, "a file name must be text"),
        ("entities.1.id", 5, "entity 1 must be an object with its id"),
        ("entities.1.kind", "ghost", "entity 1 must be an object with its id and a kind"),
        ("entities.1.kind", ["object"], "entity 1 must be an object with its id and a kind"),
        ("entities.0.color", 3, "entity 0: its attributes must be text"),
        ("entities.0.x", "left", "entity 0: x, y, r must be numbers"),
        ("entities.0.owner", 12, "entity 0: its owner must be the id"),
        ("entities.0.mask", {"size": [40, 60], "counts": "0"}, "entity 0: its mask is broken"),
        ("entities.0.mask", {"size": [4, 6], "counts": [24]}, "must have one size"),
    ],
)
def test_broken_files_say_what_and_where(
    tmp_path: Path, path: str, value: object, what: str
) -> None:
    (tmp_path / "toy.jsonl").write_text("\n" + json.dumps(broken(path, value)) + "\n")
    with pytest.raises(DataError, match=r"toy\.jsonl line 2: .") as caught:
        list(Toy(root=tmp_path).samples())
    assert what in str(caught.value)


def test_a_missing_file_says_how_to_make_it(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="harness build toyworld"):
        plan_task("toy", {"root": tmp_path})


def test_scenes_come_back_from_their_record() -> None:
    scene = _scene_file.from_row(row(), "here")
    again = _scene_file.from_row(json.loads(json.dumps(_scene_file.to_row(scene))), "here")
    assert again == scene
    assert scene.pixels.shape == (40, 60, 3)
