"""The comparison: scores a GroundingSuite file the way the public scorers do, with dense arrays.

Both masks of a sample are decoded to arrays and combined with numpy. No harness in sight, no
bootstrap, no checks, no resume; a sample without an answer counts with IoU 0, so that the numbers
can be compared. Run as a process:

    python dense_scorer.py TRUTH.jsonl PREDICTIONS.jsonl OUT.json
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pycocotools import mask as coco

CLASSES = {1: "Stuff", 2: "Part", 3: "Multi", 4: "Single"}


def decode(rle: Mapping[str, Any]) -> NDArray[np.uint8]:
    """The dense array (H, W) of an RLE as it stands in the file."""
    mask_HW: NDArray[np.uint8] = coco.decode(dict(rle))
    return mask_HW


def dense_iou(truth_HW: NDArray[np.uint8], said_HW: NDArray[np.uint8]) -> float:
    """Intersection over union of two dense masks, 0 when the union is empty."""
    both = np.logical_and(truth_HW, said_HW).sum()
    either = np.logical_or(truth_HW, said_HW).sum()
    return float(both / either) if either > 0 else 0.0


def score(truth: Mapping[str, Any], masks: list[Mapping[str, Any]]) -> float:
    """The IoU of one sample; ``masks`` holds one RLE or none."""
    return dense_iou(decode(truth), decode(masks[0])) if masks else 0.0


def main(truth_path: str, predictions_path: str, out_path: str) -> None:
    with open(predictions_path) as file:
        said = {row["sample_id"]: row["masks"] for row in map(json.loads, file)}
    samples: list[dict[str, Any]] = []
    by_class: dict[str, list[float]] = {name: [] for name in CLASSES.values()}
    with open(truth_path) as file:
        for row in map(json.loads, file):
            iou = score(row["segmentation"], said.get(str(row["idx"]), []))
            samples.append({"idx": row["idx"], "class": CLASSES[row["class_id"]], "iou": iou})
            by_class[CLASSES[row["class_id"]]].append(iou)
    result = {
        "gIoU": float(np.mean([sample["iou"] for sample in samples])),
        "classes": {name: float(np.mean(v)) if v else None for name, v in by_class.items()},
        "samples": samples,
    }
    Path(out_path).write_text(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
