"""GroundingSuite: its files, and the worked examples of its protocol."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.errors import DataError
from harness.types import Mask, Prediction, Region
from harness_tasks.groundingsuite import GroundingSuite, box_iou

TOP = Mask.from_box((0, 0, 10, 5), 10, 10)


def row(idx: Any, class_id: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "idx": idx, "image_path": f"unlabeled2017/{idx}.jpg", "class_id": class_id, "label": "x",
        "caption": "The {x} 100%s.", "box": [0, 0, 10, 5], "segmentation": TOP.to_coco(), **more,
    }  # fmt: skip


def write(root: Path, *rows: Any, **options: Any) -> GroundingSuite:
    root.mkdir(exist_ok=True)
    lines = [r if isinstance(r, str) else json.dumps(r) for r in rows]
    (root / "GroundingSuite-Eval.jsonl").write_text("\n".join(lines) + "\n")
    return GroundingSuite(root=root, **options)


def values(task: GroundingSuite, *regions: Region, text: str = "", **more: Any) -> dict[str, float]:
    (sample,) = task.samples()
    prediction = Prediction(sample_id=sample.id, regions=regions, text=text, **more)
    return dict(task.score(sample, prediction).values)


def test_worked_masks(tmp_path: Path) -> None:
    task = write(tmp_path, row(0))
    assert values(task, Region(TOP))["iou"] == 1
    assert values(task, Region(Mask.full(10, 10)))["iou"] == 0.5
    assert values(task)["iou"] == 0
    assert values(task, error="no reply")["iou"] == 0
    assert values(task, Region(Mask.from_box((0, 0, 5, 5), 10, 10)))["iou"] == 0.5


def test_worked_boxes() -> None:
    assert box_iou((0, 0, 5, 5), (0, 0, 10, 5)) == 0.5
    assert box_iou((2, 0, 12, 8), (0, 0, 10, 10)) == pytest.approx(64 / 116)
    assert box_iou((8, 8, 2, 2), (0, 0, 10, 10)) == 0
    assert box_iou((0, 0, 0, 0), (0, 0, 0, 0)) == 0


def test_box_mode_counts_half_as_right(tmp_path: Path) -> None:
    task = write(tmp_path, row(0), mode="box")
    assert values(task, text="[0, 0, 500, 500]") == {"iou": 0.5, "right": 1}
    assert values(task, text="[0, 0, 490, 500]")["right"] == 0
    assert values(task, text="null") == {"iou": 0, "right": 0}
    assert values(task, text="[0, 0, 500, 500]", error="timeout")["right"] == 0
    assert list(task.metrics) == ["Acc@0.5"]


def test_qwen25vl_speaks_in_pixels_of_the_resized_picture(tmp_path: Path) -> None:
    target = Mask.from_box((0, 0, 640, 240), 480, 640)
    data = row(0, segmentation=target.to_coco(), box=[0, 0, 640, 240])
    task = write(tmp_path, data, mode="box", prompt="qwen25vl")
    # 480x640 is resized to 476x644: the lower edge 238 stands for 240.
    assert values(task, text='[{"bbox_2d": [0, 0, 644, 238]}]')["iou"] == 1
    (sample,) = task.samples()
    assert task.request(sample).prompt.startswith("Outline the position of The {x} 100%s. and")


def test_prompts_are_those_of_the_protocol(tmp_path: Path) -> None:
    (sample,) = write(tmp_path, row(0)).samples()
    ask = "Please carefully check the image and detect the object this sentence describes: "
    request = GroundingSuite(root=tmp_path).request(sample)
    assert (request.prompt, request.max_new_tokens) == (ask + "The {x} 100%s.", 512)
    request = GroundingSuite(root=tmp_path, mode="box").request(sample)
    assert request.max_new_tokens == 256
    assert request.prompt == (
        ask + "The {x} 100%s.\nProvide the bounding box in the format [x1, y1, x2, y2] where "
        "coordinates are normalized to [0, 1000]. If no matching object is found, output null."
    )
    thinking = GroundingSuite(root=tmp_path, mode="box", prompt="qwen35").request(sample)
    assert thinking.prompt == "<think>\n\n</think>\n\n" + request.prompt


def test_blank_lines_and_any_order_are_fine(tmp_path: Path) -> None:
    task = write(tmp_path, row(7), "", "   ", row("3", 4))
    assert [(s.id, s.group) for s in task.samples()] == [("7", "Stuff"), ("3", "Single")]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (row(0, 5), "line 1: class_id must be 1 to 4"),
        (row(None), "line 1: idx must be a number"),
        (row(0, caption=None), "line 1: caption must be text"),
        (row(0, box=[1, 2, 3]), "line 1: box must be four numbers"),
        (row(0, segmentation={"size": [10, 10], "counts": "1"}), "line 1: its runs cover 1 pixels"),
        (row(0, image_path="../x.jpg"), "line 1: the file name '../x.jpg' leads outside"),
        ("{", "line 1: it is not valid JSON"),
        ("[]", "line 1: it must be a JSON object"),
    ],
)
def test_broken_lines_are_named(tmp_path: Path, line: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        list(write(tmp_path, line).samples())
