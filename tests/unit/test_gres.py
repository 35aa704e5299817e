"""GRES: the quirks of its files and the table of its scores, small enough to check by eye."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.errors import ConfigError, DataError
from harness.types import Mask, Prediction, Region
from harness_tasks.gres import Gres

TOP = [0, 0, 10, 0, 10, 5, 0, 5]  # the top five rows of ten: 50 pixels
CROWD = {"size": [10, 10], "counts": [0, 100]}


def ref(ref_id: int, ann_id: Any, *texts: str, **more: Any) -> dict[str, Any]:
    sentences = [
        {"raw": t, "sent": t, "sent_id": i, "tokens": t.split()} for i, t in enumerate(texts)
    ]
    return {
        "ref_id": ref_id, "ann_id": ann_id, "image_id": 1, "split": "val", "sentences": sentences,
        "file_name": "COCO_train2014_000000000001_16.jpg", **more,
    }  # fmt: skip


def write(root: Path, refs: list[Any], annotations: list[Any] | None = None) -> Gres:
    folder = root / "grefcoco"
    folder.mkdir(parents=True, exist_ok=True)
    annotations = annotations or [{"id": 5, "image_id": 1, "iscrowd": 0, "segmentation": [TOP]}]
    image = {"id": 1, "file_name": "COCO_train2014_000000000001.jpg", "height": 10, "width": 10}
    (folder / "grefs(unc).json").write_text(json.dumps(refs))
    (folder / "instances.json").write_text(
        json.dumps({"images": [image], "annotations": annotations, "categories": []})
    )
    return Gres(root=root)


def score(task: Gres, index: int, *regions: Region, error: str | None = None) -> dict[str, float]:
    sample = list(task.samples())[index]
    prediction = Prediction(sample_id=sample.id, regions=regions, error=error)
    return dict(task.score(sample, prediction).values)


@pytest.fixture
def task(tmp_path: Path) -> Gres:
    return write(tmp_path, [ref(1, [5], "The Top "), ref(2, [-1], "nothing")])


G = Region(Mask.from_polygons([TOP], 10, 10))


def test_scores_by_the_table_of_the_protocol(task: Gres) -> None:
    def of(values: dict[str, float]) -> tuple[float, ...]:
        right = values.get("target_right", values.get("no_target_right"))
        assert right is not None
        return values["iou"], values["intersection"], values["union"], right

    assert of(score(task, 0, G)) == (1, 50, 50, 1)
    assert of(score(task, 0)) == (0, 0, 50, 0)
    assert of(score(task, 0, Region(Mask.full(10, 10)))) == (0.5, 50, 100, 1)
    assert of(score(task, 1)) == (1, 0, 0, 1)
    assert of(score(task, 1, G)) == (0, 0, 50, 0)
    assert of(score(task, 1, Region(Mask.empty(10, 10)))) == (1, 0, 0, 1)


def test_a_failed_request_earns_nothing(task: Gres) -> None:
    assert score(task, 1, error="no reply")["no_target_right"] == 0
    assert score(task, 1, error="no reply")["iou"] == 0
    assert score(task, 1, error="no reply")["union"] == 0
    assert score(task, 0, error="no reply")["union"] == 50


@pytest.mark.parametrize(("rows", "threshold"), [(14, 0.7), (16, 0.8), (18, 0.9)])
def test_a_threshold_that_is_met_exactly_counts(
    tmp_path: Path, rows: int, threshold: float
) -> None:
    square = [0, 0, 10, 0, 10, 10, 0, 10]
    annotation = {"id": 5, "image_id": 1, "iscrowd": 0, "segmentation": [square]}
    image = {"id": 1, "file_name": "x.jpg", "height": 20, "width": 20}
    task = write(tmp_path, [ref(1, [5], "it")], [annotation])
    instances = {"images": [image], "annotations": [annotation | {
        "segmentation": {"size": [20, 20], "counts": [0, 400]}}]}  # fmt: skip
    (tmp_path / "grefcoco" / "instances.json").write_text(json.dumps(instances))
    values = score(task, 0, Region(Mask.from_box((0, 0, 20, rows), 20, 20)))
    assert values["iou"] == threshold
    assert values[f"iou>={threshold}"] == 1


def test_the_union_of_all_masks_counts(task: Gres) -> None:
    left, right = (Region(Mask.from_box(b, 10, 10)) for b in ((0, 0, 5, 5), (5, 0, 10, 5)))
    assert score(task, 0, left, right)["iou"] == 1


def test_the_picture_is_that_of_the_image_record(task: Gres) -> None:
    (sample, _) = task.samples()
    assert sample.image.name == "COCO_train2014_000000000001.jpg"
    assert sample.id == "1_0"
    assert task.request(sample).prompt == "Please segment the top in this image."


def test_raw_text_is_unchanged(tmp_path: Path) -> None:
    write(tmp_path, [ref(1, [5], "The Top {x} %s")])
    task = Gres(root=tmp_path, text="raw")
    (sample,) = task.samples()
    assert task.request(sample).prompt == "Please segment The Top {x} %s in this image."


def test_refs_without_sentences_and_training_refs_give_no_sample(tmp_path: Path) -> None:
    task = write(tmp_path, [ref(1, [5]), ref(2, [5], "a", split="train"), ref(3, [5], "b")])
    assert [s.id for s in task.samples()] == ["3_0"]


def test_a_ref_without_a_usable_annotation_is_skipped_and_named(tmp_path: Path) -> None:
    annotations = [
        {"id": 5, "image_id": 1, "iscrowd": 0, "segmentation": [[5, 5, 8, 8]]},
        {"id": 6, "image_id": 1, "iscrowd": 1, "segmentation": CROWD},
        {"id": 7, "image_id": 1, "iscrowd": 0, "segmentation": [TOP, [1, 2, 3]]},
    ]
    refs = [ref(1, [5], "a", "b"), ref(2, [6], "c"), ref(3, [5, 6, 7], "d"), ref(4, 7, "e")]
    task = write(tmp_path, refs, annotations)
    assert [s.id for s in task.samples()] == ["3_0", "4_0"]
    assert list(task.skipped()) == ["1_0", "1_1", "2_0"]
    assert all(s.target == G.mask for s in task.samples())


def test_a_target_without_a_pixel_stays_a_target(tmp_path: Path) -> None:
    empty = {"size": [10, 10], "counts": [100]}
    annotation = {"id": 5, "image_id": 1, "iscrowd": 0, "segmentation": empty}
    task = write(tmp_path, [ref(1, [5], "a")], [annotation])
    assert score(task, 0)["target_right"] == 0
    assert score(task, 0)["iou"] == 0


def test_unknown_split_is_an_error_that_names_the_splits(tmp_path: Path) -> None:
    write(tmp_path, [ref(1, [5], "a"), ref(2, [5], "b", split="testA")])
    with pytest.raises(ConfigError, match=r"no split 'test'; it has val, testA"):
        list(Gres(root=tmp_path, split=("test",)).samples())
    assert [s.id for s in Gres(root=tmp_path, split=("testA",)).samples()] == ["2_0"]


@pytest.mark.parametrize(
    ("refs", "annotations", "message"),
    [
        ({}, None, "must hold a list of refs"),
        ([5], None, "a ref has no ref_id"),
        ([ref(1, [99], "a")], None, "no annotation 99, which ref 1 names"),
        ([ref(1, [5], "a", image_id=7)], None, "no image 7, which ref 1 names"),
        ([ref(1, [5], "a", sentences=5)], None, "sentences of ref 1 must be a list"),
        (
            [ref(1, [5], "a", sentences=[{"raw": "x"}])],
            None,
            "a sentence of ref 1 has no text 'sent'",
        ),
        (
            [ref(1, [5], "a")],
            [{"id": 5, "segmentation": {"size": [10, 10], "counts": [5]}}],
            "the RLE of annotation 5 is broken: its runs cover 5 pixels",
        ),
        (
            [ref(1, [5], "a")],
            [{"id": 5, "segmentation": {"size": [5, 20], "counts": [100]}}],
            "the RLE of annotation 5 is 20x5, but its image is 10x10",
        ),
    ],
)
def test_broken_files_are_named(tmp_path: Path, refs: Any, annotations: Any, message: str) -> None:
    task = write(tmp_path, refs, annotations)
    with pytest.raises(DataError, match=message):
        list(task.samples())


def test_a_name_that_leads_outside_is_refused(tmp_path: Path) -> None:
    task = write(tmp_path, [ref(1, [5], "a")])
    file = tmp_path / "grefcoco" / "instances.json"
    file.write_text(file.read_text().replace("COCO_train2014_", "../../../"))
    with pytest.raises(DataError, match="leads outside"):
        list(task.samples())
