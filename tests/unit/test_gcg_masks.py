"""GCG's mask metrics against pycocotools and against dense arrays."""

import contextlib
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from harness.metrics import Floats
from harness.statistics import paired_difference, replicates
from harness.types import Mask, Score
from harness_tasks._gcg_masks import AP50, Target, greedy_miou, ious, outcomes, overlapping

HEIGHT, WIDTH = 7, 9
Rng = np.random.Generator


@dataclass(frozen=True)
class Picture:
    name: str
    predicted: list[Mask]
    targets: list[Target]

    def score(self) -> Score:
        iou_PG = ious(self.predicted, [t.mask for t in self.targets])
        return Score(
            sample_id=self.name,
            cluster=self.name,
            values={"targets": float(sum(t.counted and not t.crowd for t in self.targets))},
            detail={"detections": outcomes(iou_PG, self.predicted, self.targets)},
        )


def blob(rng: Rng) -> Mask:
    """A small rectangle, now and then empty: overlaps and equal IoUs are frequent."""
    mask_HW = np.zeros((HEIGHT, WIDTH), np.bool_)
    if rng.random() > 0.08:
        top, left = rng.integers(0, 4, 2)
        mask_HW[top : top + rng.integers(1, 4), left : left + rng.integers(1, 5)] = True
    return Mask.from_array(mask_HW)


def pictures(rng: Rng, count: int, first_id: int = 1, most: int = 5) -> list[Picture]:
    made, number = [], first_id
    for i in rng.permutation(count).tolist():
        targets = []
        for _ in range(rng.integers(0, 5)):
            crowd, counted = bool(rng.random() < 0.2), bool(rng.random() > 0.1)
            targets.append(Target(number, blob(rng), crowd, counted))
            number += 1
        predicted = [blob(rng) for _ in range(rng.integers(0, most + 1))]
        made.append(Picture(f"val/sa_{i}", predicted, targets))
    return made


def official(drawn: Sequence[Picture]) -> float:
    """stats[1] of COCOeval, the way the public GCG script sets it up."""
    truth = {
        "images": [{"id": p.name, "height": HEIGHT, "width": WIDTH} for p in drawn],
        "categories": [{"id": 1}, {"id": 2}],
        "annotations": [
            {
                "id": t.number,
                "image_id": p.name,
                "category_id": 1 if t.counted else 2,
                "segmentation": t.mask.to_coco(),
                "area": t.mask.area,
                "iscrowd": int(t.crowd),
                "bbox": [0, 0, 1, 1],
            }
            for p in drawn
            for t in p.targets
        ],
    }
    said = [
        {"image_id": p.name, "category_id": 1, "segmentation": m.to_coco(), "score": 1.0}
        for p in drawn
        for m in p.predicted
    ]
    with contextlib.redirect_stdout(io.StringIO()):
        coco = COCO()
        coco.dataset = truth
        coco.createIndex()
        evaluation = COCOeval(coco, coco.loadRes(said), "segm")
        evaluation.params.catIds = [1]
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return float(evaluation.stats[1])


@pytest.mark.parametrize("seed", range(60))
def test_ap50_is_that_of_pycocotools(seed: int) -> None:
    rng = np.random.default_rng(seed)
    drawn = pictures(rng, int(rng.integers(1, 14)), first_id=seed % 3)
    drawn.append(Picture("val/z", [blob(rng)], [Target(999, blob(rng))]))
    assert AP50()([p.score() for p in drawn]) == official(drawn)


def test_only_the_first_hundred_detections_of_a_picture_count() -> None:
    rng = np.random.default_rng(0)
    drawn = pictures(rng, 3, most=130)
    many = [blob(rng) for _ in range(120)]
    drawn.append(Picture("val/many", many, [Target(900 + i, m) for i, m in enumerate(many[95:])]))
    assert AP50()([p.score() for p in drawn]) == official(drawn)
    assert len(drawn[-1].score().detail["detections"]) == 100


def test_ap50_without_detections_or_targets() -> None:
    rng = np.random.default_rng(1)
    nothing = [Picture("a", [], [Target(1, blob(rng))])]
    assert AP50()([p.score() for p in nothing]) == 0.0
    assert math.isnan(AP50()([Picture("a", [blob(rng)], []).score()]))


def test_ap50_by_hand() -> None:
    # One picture, two targets, a hit and a miss: precision 1 up to recall 0.5, then nothing.
    score = Score(sample_id="a", values={"targets": 2.0}, detail={"detections": "tf"})
    assert AP50()([score]) == pytest.approx(51 / 101, abs=1e-12)
    elsewhere = Score(
        sample_id="a",
        values={"targets": 2.0, "targets_elsewhere": 2.0},
        detail={"detections": "tf"},
    )
    assert AP50()([elsewhere]) == pytest.approx(26 / 101, abs=1e-12)  # recall 0.25


def test_weights_are_copies() -> None:
    rng = np.random.default_rng(2)
    scores = [p.score() for p in pictures(rng, 12)]
    weigh = AP50().weigh(scores)
    weights_KN = rng.integers(0, 4, (50, 12))
    for weights_N, value in zip(weights_KN, weigh(weights_KN.astype(float)), strict=True):
        drawn = [s for s, times in zip(scores, weights_N, strict=True) for _ in range(times)]
        assert value == pytest.approx(AP50()(drawn), abs=0, nan_ok=True)


class Called:
    """The same metric without its fast way, as any metric may be."""

    def __call__(self, scores: Sequence[Score]) -> float:
        return AP50()(scores)

    def count(self, scores: Sequence[Score]) -> int:
        return len(scores)


def test_intervals_and_paired_tests_agree_with_the_slow_way() -> None:
    rng = np.random.default_rng(3)
    a = [p.score() for p in pictures(rng, 9)]
    b = [
        Score(sample_id=s.sample_id, cluster=s.cluster, values=s.values, detail=t.detail)
        for s, t in zip(a, (p.score() for p in pictures(rng, 9)), strict=True)
    ]
    drawn = replicates({"fast": AP50(), "slow": Called()}, a, rounds=40)
    np.testing.assert_array_equal(drawn["fast"], drawn["slow"])
    fast, slow = (paired_difference(m, a, b, rounds=40) for m in (AP50(), Called()))
    assert (fast.a, fast.b) == (slow.a, slow.b)
    np.testing.assert_array_equal(fast.drawn_K, slow.drawn_K)
    np.testing.assert_array_equal(fast.null_K, slow.null_K)


def dense_ious(predicted: Sequence[Mask], true: Sequence[Mask]) -> Floats:
    matrix = np.zeros((len(predicted), len(true)))
    for i, p in enumerate(predicted):
        for j, g in enumerate(true):
            both = (p.to_array() & g.to_array()).sum()
            either = (p.to_array() | g.to_array()).sum()
            matrix[i, j] = both / either if either else math.nan
    return matrix


def slow_miou(matrix: NDArray[Any]) -> float:
    """The rule of the protocol, word by word."""
    taken = []
    while matrix.size and matrix.max() > 0:
        row, column = np.unravel_index(matrix.argmax(), matrix.shape)
        taken.append(matrix[row, column])
        matrix = np.delete(np.delete(matrix, row, 0), column, 1)
    return float(np.mean(taken)) if taken else 0.0


def slow_order(iou_GP: NDArray[Any]) -> list[tuple[int, int]]:
    """The pairs that Recall would take if every text fitted."""
    iou_GP, found = iou_GP.copy(), []
    while iou_GP.size:
        row, column = map(int, np.unravel_index(iou_GP.argmax(), iou_GP.shape))
        if iou_GP[row, column] < 0.5:
            break
        found.append((row, column))
        iou_GP[row, :] = 0
        iou_GP[:, column] = 0
    return found


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 5), st.integers(0, 5))
def test_miou_and_pairs_follow_the_rules(seed: int, p: int, g: int) -> None:
    rng = np.random.default_rng(seed)
    predicted, true = [blob(rng) for _ in range(p)], [blob(rng) for _ in range(g)]
    expected, matrix = dense_ious(predicted, true), ious(predicted, true)
    np.testing.assert_array_equal(matrix, expected)
    with np.errstate(invalid="ignore"):
        assert greedy_miou(matrix) == slow_miou(expected)
    rows: set[int] = set()
    columns: set[int] = set()
    taken = []
    for row, column in overlapping(matrix):
        if row not in rows and column not in columns:
            rows.add(row)
            columns.add(column)
            taken.append((row, column))
    assert taken == slow_order(expected.T)


def test_miou_by_hand() -> None:
    assert greedy_miou(np.array([[0.8, 0.1], [0.7, 0.6]])) == pytest.approx(0.7)
    assert greedy_miou(np.array([[0.8, math.nan]])) == 0.0
    assert greedy_miou(np.zeros((0, 3))) == 0.0
