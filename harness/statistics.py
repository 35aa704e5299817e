"""Intervals and paired tests, resampled by cluster (by picture: its samples are not independent).

Letters: N samples, C clusters, D sums, K resamples, M metrics.

Cost: additive metrics take one matrix product of (K, C) by (C, D), weighted ones are handed the
weights (K, N), others are called K times.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.metrics import Additive, Floats, Metric, Weighted
from harness.types import Score

ROUNDS = 1000
SEED = 0
_CELLS_PER_CHUNK = 200_000  # weights held at a time: few enough for a core's cache (8x faster)


def replicates(
    metrics: Mapping[str, Metric],
    scores: Sequence[Score],
    *,
    rounds: int = ROUNDS,
    seed: int = SEED,
) -> dict[str, Floats]:
    """Each metric on ``rounds`` bootstrap resamples of the clusters: name -> values (K,)."""
    cluster_N, clusters = _clusters(scores)
    additive = {name: m for name, m in metrics.items() if isinstance(m, Additive)}
    tables = {
        name: _per_cluster(m.table(scores), cluster_N, clusters) for name, m in additive.items()
    }
    weigh = {name: m.weigh(scores) for name, m in metrics.items() if isinstance(m, Weighted)}
    out: dict[str, list[Floats]] = {name: [] for name in metrics}
    members = _members(cluster_N, clusters) if len(tables) + len(weigh) < len(metrics) else []
    for weights_KC in _bootstrap_weights(clusters, rounds, seed):
        for name, metric in metrics.items():
            if isinstance(metric, Additive):
                out[name].append(metric.value(weights_KC @ tables[name]))
            elif name in weigh:
                out[name].append(weigh[name](weights_KC[:, cluster_N]))
            else:
                out[name].append(_resample(metric, scores, members, weights_KC))
    return {name: np.concatenate(chunks) for name, chunks in out.items()}


def interval(replicates_K: Floats, level: float = 0.95) -> tuple[float, float]:
    """The percentile interval of bootstrap values; (NaN, NaN) if none is defined."""
    defined = replicates_K[~np.isnan(replicates_K)]
    if not defined.size:
        return float("nan"), float("nan")
    low, high = np.quantile(defined, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


@dataclass(frozen=True)
class Paired:
    """A metric of two runs over the same samples: its values, and what resampling makes of A - B.

    ``drawn_K`` are bootstrap values of the difference; ``null_K`` are its values when A and B are
    swapped at random, cluster by cluster.
    """

    a: float
    b: float
    drawn_K: Floats
    null_K: Floats

    @property
    def difference(self) -> float:
        return self.a - self.b

    @property
    def p(self) -> float:
        """Two-sided: (1 + swaps that differ at least as much) / (1 + swaps); NaN if undefined."""
        if math.isnan(self.difference):
            return math.nan
        # A hair of slack, so that the observed labelling itself counts however it was summed.
        extreme = int(np.sum(np.abs(self.null_K) >= abs(self.difference) - 1e-12))
        return (1 + extreme) / (1 + self.null_K.size)

    @classmethod
    def mean_of(cls, parts: Sequence["Paired"]) -> "Paired":
        """The plain mean over those groups in which the metric is defined."""
        parts = [part for part in parts if not math.isnan(part.difference)] or parts[:1]
        return cls(
            math.fsum(part.a for part in parts) / len(parts),
            math.fsum(part.b for part in parts) / len(parts),
            np.mean([part.drawn_K for part in parts], axis=0),
            np.mean([part.null_K for part in parts], axis=0),
        )


def paired_difference(
    metric: Metric,
    scores_a: Sequence[Score],
    scores_b: Sequence[Score],
    *,
    rounds: int = ROUNDS,
    seed: int = SEED,
) -> Paired:
    """A metric of two runs over the same samples. Both are resampled together, by cluster.

    Scores must be in the same order with the same ids (else ValueError).
    """
    if [s.sample_id for s in scores_a] != [s.sample_id for s in scores_b]:
        raise ValueError("paired scores need the same samples in the same order")
    cluster_N, clusters = _clusters(scores_a)
    members = _members(cluster_N, clusters)
    table_a: Floats | None = None
    if isinstance(metric, Additive):
        table_a = _per_cluster(metric.table(scores_a), cluster_N, clusters)
        table_b = _per_cluster(metric.table(scores_b), cluster_N, clusters)
    elif isinstance(metric, Weighted):
        weigh_a, weigh_b = metric.weigh(scores_a), metric.weigh(scores_b)
        weigh_both = metric.weigh([*scores_a, *scores_b])
    differences, swapped = [], []
    for weights_KC in _bootstrap_weights(clusters, rounds, seed):
        if isinstance(metric, Additive) and table_a is not None:
            a_K, b_K = metric.value(weights_KC @ table_a), metric.value(weights_KC @ table_b)
        elif isinstance(metric, Weighted):
            weights_KN = weights_KC[:, cluster_N]
            a_K, b_K = weigh_a(weights_KN), weigh_b(weights_KN)
        else:
            a_K = _resample(metric, scores_a, members, weights_KC)
            b_K = _resample(metric, scores_b, members, weights_KC)
        differences.append(a_K - b_K)
    for keep_KC in _coin_flips(clusters, rounds, seed):
        if isinstance(metric, Additive) and table_a is not None:
            kept_KD = keep_KC @ (table_a - table_b)
            a_K = metric.value(table_b.sum(axis=0) + kept_KD)
            b_K = metric.value(table_a.sum(axis=0) - kept_KD)
            swapped.append(a_K - b_K)
        elif isinstance(metric, Weighted):
            keep_KN = keep_KC[:, cluster_N]
            a_K = weigh_both(np.hstack([keep_KN, 1 - keep_KN]))
            swapped.append(a_K - weigh_both(np.hstack([1 - keep_KN, keep_KN])))
        else:
            swapped.append(_swap(metric, scores_a, scores_b, cluster_N, keep_KC))
    return Paired(
        metric(scores_a), metric(scores_b), np.concatenate(differences), np.concatenate(swapped)
    )


def _clusters(scores: Sequence[Score]) -> tuple[NDArray[np.int64], int]:
    """The cluster number of each score (in order of first appearance) and how many there are."""
    numbers: dict[str, int] = {}
    cluster_N = [numbers.setdefault(s.cluster or s.sample_id, len(numbers)) for s in scores]
    return np.array(cluster_N, np.int64), len(numbers)


def _per_cluster(table_ND: Floats, cluster_N: NDArray[np.int64], clusters: int) -> Floats:
    sums_CD = np.zeros((clusters, table_ND.shape[1]))
    np.add.at(sums_CD, cluster_N, table_ND)
    return sums_CD


def _members(cluster_N: NDArray[np.int64], clusters: int) -> list[NDArray[np.int64]]:
    order = np.argsort(cluster_N, kind="stable")
    bounds = np.searchsorted(cluster_N[order], np.arange(1, clusters))
    return np.split(order, bounds)


def _chunks(clusters: int, rounds: int) -> Iterator[int]:
    size = max(1, _CELLS_PER_CHUNK // max(1, clusters))
    while rounds > 0:
        yield min(size, rounds)
        rounds -= size


def _bootstrap_weights(clusters: int, rounds: int, seed: int) -> Iterator[Floats]:
    """How often each cluster is drawn in each resample, in chunks of (K, C)."""
    rng = np.random.default_rng(seed)
    for size in _chunks(clusters, rounds):
        drawn = rng.integers(0, clusters, (size, clusters), dtype=np.int32)
        drawn += (np.arange(size, dtype=np.int32) * clusters)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=size * clusters)
        yield counts.reshape(size, clusters).astype(np.float64)


def _coin_flips(clusters: int, rounds: int, seed: int) -> Iterator[Floats]:
    rng = np.random.default_rng([seed, 1])
    for size in _chunks(clusters, rounds):
        yield rng.integers(0, 2, (size, clusters), dtype=np.int8).astype(np.float64)


def _resample(
    metric: Callable[[Sequence[Score]], float],
    scores: Sequence[Score],
    members: list[NDArray[np.int64]],
    weights_KC: Floats,
) -> Floats:
    values = []
    for weights_C in weights_KC.astype(np.int64):
        drawn = [
            scores[i] for c in np.flatnonzero(weights_C) for i in np.tile(members[c], weights_C[c])
        ]
        values.append(metric(drawn))
    return np.array(values, np.float64)


def _swap(
    metric: Callable[[Sequence[Score]], float],
    scores_a: Sequence[Score],
    scores_b: Sequence[Score],
    cluster_N: NDArray[np.int64],
    keep_KC: Floats,
) -> Floats:
    values = []
    for keep_C in keep_KC.astype(np.bool_):
        keep_N = keep_C[cluster_N]
        first = [a if keep else b for a, b, keep in zip(scores_a, scores_b, keep_N, strict=True)]
        second = [b if keep else a for a, b, keep in zip(scores_a, scores_b, keep_N, strict=True)]
        values.append(metric(first) - metric(second))
    return np.array(values, np.float64)
