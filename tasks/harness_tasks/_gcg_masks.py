"""GCG's masks: COCO AP at IoU 0.50, greedy mIoU, and the pairs that Recall looks at.

Masks stay RLE throughout. Letters: P predicted masks, G true masks, N samples (one picture each),
D detections of all pictures in a row, K resamples, R recall points.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pycocotools import mask as coco

from harness.metrics import Floats, Weighted
from harness.types import Mask, Score, areas

THRESHOLD = 0.5
MOST_DETECTIONS = 100
_RECALL_R = np.linspace(0.0, 1.0, 101)
_TINY = np.spacing(1)


@dataclass(frozen=True, slots=True)
class Target:
    """A true mask. ``number`` is its annotation id, ``crowd`` marks a region to ignore in AP."""

    number: int
    mask: Mask
    crowd: bool = False
    counted: bool = True
    """Whether AP knows it: its category is 1."""


def ious(predicted: Sequence[Mask], true: Sequence[Mask]) -> Floats:
    """IoU of every pair (P, G). NaN where both masks are empty (0 / 0, as the scorers have it)."""
    if not predicted or not true:
        return np.zeros((len(predicted), len(true)))
    iou_PG = _coco_iou(predicted, true, crowd=False)
    empty_P, empty_G = (np.array(areas(masks)) == 0 for masks in (predicted, true))
    iou_PG[np.ix_(empty_P, empty_G)] = np.nan
    return iou_PG


def _coco_iou(predicted: Sequence[Mask], true: Sequence[Mask], *, crowd: bool) -> Floats:
    p, g = (
        [{"size": list(m.size), "counts": m.counts} for m in masks] for masks in (predicted, true)
    )
    return np.array(coco.iou(p, g, [int(crowd)] * len(g)), np.float64)


def descending(matrix: Floats) -> Iterator[tuple[int, int]]:
    """The places of a matrix by value, the largest first, each row and column once.

    NaN counts as the largest; of equal values the first in row-major order comes first. It is the
    order in which the argmax is found when its row and column are cleared, again and again.
    """
    order = np.argsort(-np.where(np.isnan(matrix), np.inf, matrix), axis=None, kind="stable")
    rows, columns = set(range(matrix.shape[0])), set(range(matrix.shape[1]))
    for place in order.tolist():
        row, column = divmod(place, matrix.shape[1])
        if row in rows and column in columns:
            rows.remove(row)
            columns.remove(column)
            yield row, column
        if not rows or not columns:
            return


def greedy_miou(iou_PG: Floats) -> float:
    """Mean IoU of the pairs taken greedily while it is above 0; 0 if there is none or a NaN.

    True masks that are missed and predictions that are too many cost nothing: so it is published.
    """
    if np.isnan(iou_PG).any():
        return 0.0
    taken = [float(iou_PG[place]) for place in descending(iou_PG) if iou_PG[place] > 0]
    return float(np.mean(taken)) if taken else 0.0


def overlapping(iou_PG: Floats) -> list[tuple[int, int]]:
    """(true mask, predicted mask) of IoU 0.5 and more, or NaN, the largest first.

    All of them, also those of a row or column that comes before: a text may rule that one out.
    """
    iou_GP = iou_PG.T
    size = np.where(np.isnan(iou_GP), np.inf, iou_GP)
    order = np.argsort(-size, axis=None, kind="stable")
    places = (divmod(place, iou_GP.shape[1]) for place in order.tolist())
    return [place for place in places if size[place] >= THRESHOLD]


def outcomes(iou_PG: Floats, predicted: Sequence[Mask], targets: Sequence[Target]) -> str:
    """What COCO's evaluation makes of each detection at IoU 0.50, all of score 1, in order.

    One letter each: ``t`` true positive, ``f`` false positive, ``i`` ignored (on a crowd). A
    detection takes the free target it overlaps most, the last of equals, a crowd only if there is
    no other. Detections after the hundredth do not count. As in pycocotools, a target of
    annotation id 0 is taken without a reward: the detection stays a false positive.
    """
    overlap_PG = _with_crowds(iou_PG, predicted, targets)[:MOST_DETECTIONS]
    open_G = [g for g, target in enumerate(targets) if target.counted and not target.crowd]
    crowds_G = [g for g, target in enumerate(targets) if target.counted and target.crowd]
    letters = []
    for row in overlap_PG.tolist():
        found = _best(row, open_G)
        if found is not None:
            open_G.remove(found)
            letters.append("t" if targets[found].number else "f")
        else:
            letters.append("f" if _best(row, crowds_G) is None else "i")
    return "".join(letters)


def _best(row: Sequence[float], among: Sequence[int]) -> int | None:
    """The place of the largest value of 0.5 and more, the last of equals."""
    best, found = THRESHOLD, None
    for g in among:
        if row[g] >= best:  # never for NaN
            best, found = row[g], g
    return found


def _with_crowds(iou_PG: Floats, predicted: Sequence[Mask], targets: Sequence[Target]) -> Floats:
    """The matrix with the columns of crowds as COCO has them: divided by the prediction's area."""
    crowds_G = [g for g, target in enumerate(targets) if target.crowd]
    if crowds_G and predicted:
        iou_PG = iou_PG.copy()
        masks = [targets[g].mask for g in crowds_G]
        iou_PG[:, crowds_G] = _coco_iou(predicted, masks, crowd=True)
    return iou_PG


@dataclass(frozen=True)
class AP50(Weighted):
    """COCO average precision at IoU 0.50 (``COCOeval`` segm, stats[1]), 0 to 1.

    Reads ``detail["detections"]`` (see ``outcomes``) and ``values["targets"]``. All scores are
    equal, so detections rank by picture id, then as they were emitted. 0 without a detection, NaN
    without a target. A picture drawn twice in a resample counts as two pictures side by side.
    """

    def weigh(self, scores: Sequence[Score]) -> Callable[[Floats], Floats]:
        order_N = sorted(range(len(scores)), key=lambda n: scores[n].sample_id)
        ranked = [scores[n] for n in order_N]
        targets_N = np.array([_targets(score) for score in ranked])
        curve = _Curve([str(score.detail.get("detections", "")) for score in ranked])

        def value(weights_KN: Floats) -> Floats:
            weights_KN = weights_KN[:, order_N].astype(np.int64)
            total_K = weights_KN @ targets_N
            pairs = zip(weights_KN, total_K, strict=True)
            return np.array([curve.area(weights_N, total) for weights_N, total in pairs])

        return value

    def count(self, scores: Sequence[Score]) -> int:
        return sum("targets" in score.values for score in scores)


def _targets(score: Score) -> float:
    return score.values.get("targets", 0.0) + score.values.get("targets_elsewhere", 0.0)


class _Curve:
    """The precision-recall curve of pictures in rank order, each counted so many times.

    Precision peaks at true positives, so only they are laid out: for each the number of false ones
    before it in its picture.
    """

    def __init__(self, outcomes_N: Sequence[str]) -> None:
        before = [_false_before(letters) for letters in outcomes_N]
        self.true_N = np.array([len(b) for b in before], np.int64)
        self.false_N = np.array([letters.count("f") for letters in outcomes_N], np.int64)
        self.before_D = np.array([count for b in before for count in b], np.int64)
        self.first_N = np.cumsum(self.true_N) - self.true_N

    def area(self, weights_N: NDArray[np.int64], targets: float) -> float:
        """Mean precision over 101 recall points, with ``targets`` to be found."""
        if not targets:
            return float("nan")
        drawn = np.repeat(np.arange(weights_N.size), weights_N)
        true, false = self.true_N[drawn], self.false_N[drawn]
        rank_D = np.arange(true.sum())
        if not rank_D.size:
            return 0.0
        start = np.cumsum(true) - true
        place_D = rank_D + np.repeat(self.first_N[drawn] - start, true)
        false_D = self.before_D[place_D] + np.repeat(np.cumsum(false) - false, true)
        found_D = rank_D + 1.0
        precision_D = found_D / (false_D + found_D + _TINY)
        best_D = np.maximum.accumulate(precision_D[::-1])[::-1]
        at_R = np.searchsorted(found_D / targets, _RECALL_R, side="left")
        reached_R = at_R < best_D.size
        return float(np.mean(np.where(reached_R, best_D[np.minimum(at_R, best_D.size - 1)], 0.0)))


def _false_before(letters: str) -> list[int]:
    """For each ``t``, how many ``f`` come before it."""
    counts, false = [], 0
    for letter in letters:
        if letter == "t":
            counts.append(false)
        false += letter == "f"
    return counts
