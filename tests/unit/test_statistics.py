"""Metrics, intervals and paired tests, against hand-worked numbers and plain loops."""

import math
import random
from collections.abc import Sequence

import numpy as np
import pytest

from harness.metrics import Metric, mean, ratio
from harness.statistics import Paired, interval, paired_difference, replicates
from harness.types import Score


def score(name: str, cluster: str = "", **values: float) -> Score:
    return Score(sample_id=name, values=values, cluster=cluster)


class Plain:
    """A metric that is known only as a function, as a stranger would write it."""

    def __init__(self, metric: Metric) -> None:
        self.metric = metric

    def __call__(self, scores: Sequence[Score]) -> float:
        return self.metric(scores)

    def count(self, scores: Sequence[Score]) -> int:
        return self.metric.count(scores)


def test_worked_example_of_gres() -> None:
    # The table of the GRES protocol: I/U of four samples on a 10x10 picture.
    rows = [(50, 50, 1.0), (0, 0, 1.0), (0, 50, 0.0), (0, 50, 0.0)]
    scores = [score(str(i), iou=v, both=b, either=e) for i, (b, e, v) in enumerate(rows)]
    assert mean("iou")(scores) == 0.5
    assert ratio("both", "either")(scores) == pytest.approx(50 / 150)


def test_mean_and_cumulative_iou_are_not_the_same() -> None:
    scores = [score("a", iou=1.0, both=10, either=10), score("b", iou=0.0, both=0, either=90)]
    assert mean("iou")(scores) == 0.5
    assert ratio("both", "either")(scores) == 0.1


def test_undefined_is_nan() -> None:
    assert math.isnan(mean("iou")([]))
    assert math.isnan(mean("iou")([score("a", other=1.0)]))
    assert math.isnan(ratio("both", "either")([score("a", both=0, either=0)]))


def test_a_mean_is_over_the_samples_that_have_the_key() -> None:
    scores = [score("a", x=1.0), score("b"), score("c", x=0.0)]
    assert mean("x")(scores) == 0.5
    assert mean("x").count(scores) == 2


def test_order_cannot_change_a_number() -> None:
    rng = random.Random(0)
    scores = [score(str(i), iou=rng.random() ** 9) for i in range(2000)]
    first = mean("iou")(scores)
    for _ in range(5):
        rng.shuffle(scores)
        assert mean("iou")(scores) == first


def many(clusters: int, each: int, seed: int = 0, shift: float = 0.0) -> list[Score]:
    """Scores whose samples of one cluster are nearly equal."""
    rng = np.random.default_rng(seed)
    out = []
    for c in range(clusters):
        level = rng.uniform(0, 1)
        for k in range(each):
            value = float(np.clip(level + rng.normal(0, 0.01) + shift, 0, 1))
            out.append(score(f"{c}_{k}", str(c), iou=value, both=value * 10, either=10.0))
    return out


def test_samples_of_one_picture_are_resampled_together() -> None:
    scores = many(40, 10)
    low, high = interval(replicates({"m": mean("iou")}, scores)["m"])
    alone = [Score(sample_id=s.sample_id, values=s.values, cluster=s.sample_id) for s in scores]
    narrow_low, narrow_high = interval(replicates({"m": mean("iou")}, alone)["m"])
    # Ten near-copies of each draw: the honest interval is about sqrt(10) times as wide.
    assert 2.2 < (high - low) / (narrow_high - narrow_low) < 4.5
    assert low < mean("iou")(scores) < high


def test_matrix_product_equals_the_plain_loop() -> None:
    scores = many(15, 3)
    for metric in (mean("iou"), ratio("both", "either")):
        fast = replicates({"m": metric}, scores, rounds=50)["m"]
        slow = replicates({"m": Plain(metric)}, scores, rounds=50)["m"]
        np.testing.assert_allclose(fast, slow, rtol=1e-12)


def test_coverage_of_the_interval() -> None:
    hits = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        scores = [score(str(i), str(i), x=float(v)) for i, v in enumerate(rng.uniform(0, 1, 60))]
        low, high = interval(replicates({"m": mean("x")}, scores, rounds=300)["m"])
        hits += low <= 0.5 <= high
    assert hits >= 88  # 95 of 100 expected; 88 is more than three standard deviations below


def test_intervals_do_not_hang_on_the_size_of_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = many(30, 2)
    whole = replicates({"m": mean("iou")}, scores, rounds=100)["m"]
    assert whole.shape == (100,)
    assert (replicates({"m": mean("iou")}, scores, rounds=100)["m"] == whole).all()


def test_a_run_against_itself_has_no_difference() -> None:
    scores = many(30, 2)
    paired = paired_difference(mean("iou"), scores, scores, rounds=500)
    assert paired.difference == 0
    assert interval(paired.drawn_K) == (0, 0)
    assert paired.p == 1


def test_a_constant_shift_is_found_although_samples_vary_much_more() -> None:
    a, b = many(60, 2, shift=0.0), many(60, 2, shift=-0.02)
    paired = paired_difference(mean("iou"), a, b, rounds=999)
    low, high = interval(paired.drawn_K)
    assert paired.difference == pytest.approx(0.02, abs=0.004)
    assert 0 < low < paired.difference < high
    assert paired.p == 1 / 1000  # no swap of 999 reaches it


def test_p_is_uniform_when_nothing_differs() -> None:
    values = []
    for seed in range(60):
        a, b = many(20, 1, seed=seed), many(20, 1, seed=seed + 1000)
        values.append(paired_difference(mean("iou"), a, b, rounds=199).p)
    assert 0.3 < float(np.mean(values)) < 0.7
    assert sum(v <= 0.05 for v in values) <= 9  # three expected


def test_paired_matrix_product_equals_the_plain_loop() -> None:
    a, b = many(12, 2, seed=1), many(12, 2, seed=2)
    metric = ratio("both", "either")
    fast = paired_difference(metric, a, b, rounds=60)
    slow = paired_difference(Plain(metric), a, b, rounds=60)
    assert fast.difference == pytest.approx(slow.difference)
    np.testing.assert_allclose(fast.drawn_K, slow.drawn_K, atol=1e-12)
    np.testing.assert_allclose(fast.null_K, slow.null_K, atol=1e-12)
    assert fast.p == slow.p


def test_the_mean_over_groups_is_resampled_within_each() -> None:
    parts = [
        paired_difference(
            mean("iou"), many(30, 1, seed=s), many(30, 1, seed=s, shift=-0.1), rounds=99
        )
        for s in (1, 2)
    ]
    undefined = paired_difference(mean("none"), many(5, 1), many(5, 1), rounds=99)
    whole = Paired.mean_of([*parts, undefined])
    assert whole.difference == pytest.approx(sum(p.difference for p in parts) / 2)
    assert whole.p == 0.01
    assert math.isnan(Paired.mean_of([undefined]).p)


def test_paired_runs_need_the_same_samples() -> None:
    with pytest.raises(ValueError, match="same samples"):
        paired_difference(mean("iou"), many(3, 1), many(4, 1))
