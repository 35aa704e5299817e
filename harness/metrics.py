"""Metrics: functions from scores to one number, so that groups and intervals come for free.

An ``Additive`` metric depends on its samples only through sums (a mean, a ratio of sums such as
cIoU). Its bootstrap and paired tests are matrix products over those sums (harness.statistics).
A ``Weighted`` one takes the weights themselves (an average precision).

Letters: N samples, D sums that a metric needs, K resamples.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from harness.types import Mask, Score, areas, intersection

Floats = NDArray[np.float64]


class Metric(Protocol):
    """One number for a sequence of scores; NaN where it is undefined (0 of 0)."""

    def __call__(self, scores: Sequence[Score], /) -> float: ...

    def count(self, scores: Sequence[Score], /) -> int:
        """How many of the scores take part in the number."""
        ...


class Additive(ABC):
    """A metric that needs only the sums of some columns over its samples."""

    @abstractmethod
    def table(self, scores: Sequence[Score]) -> Floats:
        """The columns to be summed, (N, D)."""

    @abstractmethod
    def value(self, sums_KD: Floats) -> Floats:
        """The metric for each row of sums, (K,); NaN where it is undefined."""

    @abstractmethod
    def count(self, scores: Sequence[Score]) -> int:
        """How many of the scores take part in the number."""

    def __call__(self, scores: Sequence[Score]) -> float:
        """The metric over all scores. Sums are exactly rounded, so order cannot change it."""
        sums = [math.fsum(column) for column in self.table(scores).T]
        return float(self.value(np.array([sums]))[0])


class Weighted(ABC):
    """A metric that is no sum, but can tell its value when samples count several times or never.

    Prepared once, then asked for many resamples: much faster than lists of drawn scores.
    """

    @abstractmethod
    def weigh(self, scores: Sequence[Score]) -> Callable[[Floats], Floats]:
        """A function from weights (K, N), whole and not negative, to values (K,)."""

    @abstractmethod
    def count(self, scores: Sequence[Score]) -> int:
        """How many of the scores take part in the number."""

    def __call__(self, scores: Sequence[Score]) -> float:
        return float(self.weigh(scores)(np.ones((1, len(scores))))[0])


@dataclass(frozen=True)
class Ratio(Additive):
    """Sum of ``values[over]`` divided by the sum of ``values[under]``; missing keys count 0."""

    over: str
    under: str

    def table(self, scores: Sequence[Score]) -> Floats:
        rows = [(s.values.get(self.over, 0.0), s.values.get(self.under, 0.0)) for s in scores]
        return np.array(rows, np.float64).reshape(len(rows), 2)

    def value(self, sums_KD: Floats) -> Floats:
        return divide(sums_KD[:, 0], sums_KD[:, 1])

    def count(self, scores: Sequence[Score]) -> int:
        return sum(self.under in s.values for s in scores)


@dataclass(frozen=True)
class Mean(Additive):
    """Mean of ``values[key]`` over the samples that have the key."""

    key: str

    def table(self, scores: Sequence[Score]) -> Floats:
        rows = [(s.values[self.key], 1.0) if self.key in s.values else (0.0, 0.0) for s in scores]
        return np.array(rows, np.float64).reshape(len(rows), 2)

    def value(self, sums_KD: Floats) -> Floats:
        return divide(sums_KD[:, 0], sums_KD[:, 1])

    def count(self, scores: Sequence[Score]) -> int:
        return sum(self.key in s.values for s in scores)


def mean(key: str) -> Mean:
    """Mean of ``values[key]`` over the samples that have it, e.g. gIoU = ``mean("iou")``."""
    return Mean(key)


def ratio(over: str, under: str) -> Ratio:
    """Ratio of two sums over all samples, e.g. cIoU = ``ratio("intersection", "union")``."""
    return Ratio(over, under)


def divide(over_K: Floats, under_K: Floats) -> Floats:
    """Elementwise quotient; NaN where the divisor is 0."""
    result = np.full(over_K.shape, np.nan)
    np.divide(over_K, under_K, out=result, where=under_K != 0)
    return result


def overlap(a: Mask, b: Mask) -> tuple[int, int]:
    """(intersection, union) of two masks of one size, in pixels."""
    of_a, of_b, both = areas([a, b, intersection([a, b])])
    return both, of_a + of_b - both


def iou(both: float, either: float) -> float:
    """Intersection over union, 0 when the union is empty."""
    return both / either if either > 0 else 0.0
