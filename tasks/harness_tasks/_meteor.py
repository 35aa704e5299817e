"""METEOR 1.5 as a metric over sums: the jar counts, this file adds up and weighs.

Source: Denkowski and Lavie, "Meteor Universal", 2014; ``meteor-1.5.jar -l en -norm`` as shipped by
pycocoevalcap 1.2. The jar's statistics of a segment add up, and its corpus value is a formula over
the sums, so intervals and paired tests need no Java. The corpus value is **not** the mean of the
segments' values. Letters: N samples, K resamples, D statistics, M modules (exact, stem, synonym,
paraphrase).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from harness.metrics import Additive, Floats
from harness.types import Score

_MODULES = ("exact", "stem", "synonym", "paraphrase")
STATISTICS = (
    "test_length",
    "reference_length",
    "test_function_words",
    "reference_function_words",
    *(
        f"{side}_{kind}_{module}"
        for module in _MODULES
        for kind in ("content", "function")
        for side in ("test", "reference")
    ),
    "chunks",
    "test_matches",
    "reference_matches",
)
"""What the jar returns for a segment, in its order: counts of words, of matched words per module,
of runs of matched words."""

_KEYS = tuple(f"meteor.{name}" for name in STATISTICS)
_SCORED = _KEYS[:2]  # written even when 0: they tell that the segment was scored

# Tuned values of METEOR 1.5 for English ("rank").
_ALPHA, _BETA, _GAMMA, _DELTA = 0.85, 0.2, 0.6, 0.75
_WEIGHTS_M = np.array([1.0, 0.6, 0.8, 0.6])
_CHUNKS, _SCORES = len(STATISTICS) - 3, len(STATISTICS)


def as_values(statistics: Sequence[float]) -> dict[str, float]:
    """The statistics of a segment as ``Score.values``; zeros are left out."""
    pairs = zip(_KEYS, statistics, strict=True)
    return {key: value for key, value in pairs if value or key in _SCORED}


def meteor_of(statistics: Sequence[Sequence[float]]) -> list[float]:
    """METEOR of each segment by itself, 0 to 1."""
    rows = [_as_summed(list(numbers)) for numbers in statistics]
    return list(map(float, meteor(np.array(rows).reshape(-1, _SCORES))))


@dataclass(frozen=True)
class Meteor(Additive):
    """Corpus METEOR, 0 to 1, over the samples that have statistics; NaN if none has."""

    def table(self, scores: Sequence[Score]) -> Floats:
        rows = [_row(score.values) for score in scores]
        return np.array(rows, np.float64).reshape(len(rows), _SCORES + 1)

    def value(self, sums_KD: Floats) -> Floats:
        return np.where(sums_KD[:, _SCORES] > 0, meteor(sums_KD[:, :_SCORES]), np.nan)

    def count(self, scores: Sequence[Score]) -> int:
        return sum(_SCORED[0] in score.values for score in scores)


def _row(values: Mapping[str, float]) -> list[float]:
    """The statistics of one sample as they count in a sum, and whether it has any."""
    if _SCORED[0] not in values:
        return [0.0] * (_SCORES + 1)
    return [*_as_summed([values.get(key, 0.0) for key in _KEYS]), 1.0]


def _as_summed(row: list[float]) -> list[float]:
    """The statistics of a segment as the jar adds them up: an exact copy is not fragmented."""
    if row[_CHUNKS] == 1:
        matched = [sum(row[4:_CHUNKS:2]), sum(row[5:_CHUNKS:2])]
        row[_CHUNKS] = float(matched != row[:2])
    return row


def meteor(sums_KD: Floats) -> Floats:
    """METEOR of each row of summed statistics (K,), 0 where nothing matches.

    Source: the formula of METEOR 1.5 (weighted precision and recall, their mean with alpha, less a
    penalty for fragmentation).
    """
    length_K2, function_K2 = sums_KD[:, 0:2], sums_KD[:, 2:4]
    matched_KM22 = sums_KD[:, 4:_CHUNKS].reshape(-1, len(_MODULES), 2, 2)
    content_K2 = np.einsum("kms,m->ks", matched_KM22[:, :, 0], _WEIGHTS_M)
    functional_K2 = np.einsum("kms,m->ks", matched_KM22[:, :, 1], _WEIGHTS_M)
    over_K2 = _DELTA * content_K2 + (1 - _DELTA) * functional_K2
    under_K2 = _DELTA * (length_K2 - function_K2) + (1 - _DELTA) * function_K2
    chunks_K, matches_K = sums_KD[:, _CHUNKS], sums_KD[:, _CHUNKS + 1 :].sum(axis=1) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        precision_K, recall_K = (over_K2 / under_K2).T
        mean_K = 1 / ((1 - _ALPHA) / precision_K + _ALPHA / recall_K)
        penalty_K = _GAMMA * (chunks_K / matches_K) ** _BETA
        score_K: Floats = np.nan_to_num(mean_K * (1 - penalty_K), nan=0.0)
    return np.maximum(score_K, 0.0)
