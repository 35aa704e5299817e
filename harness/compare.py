"""Two runs over the same samples: the paired difference of each metric, with interval and p."""

import math
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness import registry
from harness.errors import ConfigError, DataError, StorageError
from harness.metrics import Metric
from harness.plan import RunSpec
from harness.provenance import digest
from harness.records import parse_score
from harness.results import by_group
from harness.statistics import Paired, interval, paired_difference
from harness.store import RunStore, first_difference
from harness.types import Score

MUST_AGREE = ("version", "data", "samples", "protocol", "judge")


def compare(
    a: Path, b: Path, *, rounds: int = 10_000, allow: Collection[str] = ()
) -> dict[str, Any]:
    """``{task: {group: {metric: {a, b, difference, low, high, p}}}}`` for the tasks of both runs.

    Group "" is the headline: over all samples, or the mean of the groups. Raises ConfigError if
    versions, data, samples, judges or protocol differ; ``allow`` names protocol choices that may.
    """
    stores = RunStore.existing(a), RunStore.existing(b)
    records = stores[0].record(), stores[1].record()
    shared = [name for name in records[0]["tasks"] if name in records[1]["tasks"]]
    if not shared:
        raise ConfigError(f"{a} and {b} have no task in common: nothing to compare")
    tasks = {}
    for name in shared:
        _check(name, records[0]["tasks"][name], records[1]["tasks"][name], (a, b), allow)
        cls = registry.tasks.find(name)
        metrics = _metrics(RunSpec.from_record(records[0]), name)
        scores = _scores(stores[0], name), _scores(stores[1], name)
        tasks[name] = _groups(metrics, *scores, rounds, cls.overall)
    return {
        "schema": 1,
        "a": _side(stores[0], records[0]),
        "b": _side(stores[1], records[1]),
        "rounds": rounds,
        "allowed": sorted(allow),
        "tasks": tasks,
    }


def _side(store: RunStore, record: Mapping[str, Any]) -> dict[str, Any]:
    return {"run": str(store.root), "model": record["model"]}


def _check(
    name: str,
    a: Mapping[str, Any],
    b: Mapping[str, Any],
    folders: tuple[Path, Path],
    allow: Collection[str],
) -> None:
    for key in MUST_AGREE:
        difference = None if key == "protocol" else first_difference(a[key], b[key], key)
        if difference:
            path, one, other = difference
            raise ConfigError(
                f"{name} cannot be compared: {path} is {_short(one)} in {folders[0]} and "
                f"{_short(other)} in {folders[1]}"
            )
    ours, theirs = a["protocol"], b["protocol"]
    unequal = [k for k in {**ours, **theirs} if k not in allow and ours.get(k) != theirs.get(k)]
    if unequal:
        choices = "; ".join(
            f"protocol.{k} is {ours.get(k)!r:.60} and {theirs.get(k)!r:.60}" for k in unequal
        )
        raise ConfigError(
            f"{name} cannot be compared: {choices} (in {folders[0]} and {folders[1]}); to compare "
            f"all the same: --allow {','.join([*sorted(allow), *unequal])}"
        )


def _short(value: Any) -> str:
    """A value for a message; long hashes by their first digits."""
    text = repr(value)
    return f"{text[:9]}...'" if re.fullmatch(r"'[0-9a-f]{64}'", text) else text[:120]


def _metrics(spec: RunSpec, name: str) -> Mapping[str, Metric]:
    from harness import config

    task = config.build(registry.tasks.find(name), spec.tasks[name], where=f"tasks.{name}")
    return task.metrics


def _scores(store: RunStore, name: str) -> list[Score]:
    result = store.read_json("result.json").get("tasks")
    if not isinstance(result, dict) or not isinstance(result.get(name), dict):
        raise StorageError(f"{store.root / 'result.json'} is damaged: it has no result of {name}")
    if result[name].get("above_max_errors"):
        raise ConfigError(
            f"{store.root}: too many requests of {name} failed for a number; run it again with "
            "--retry-failed"
        )
    file = f"{name}/scores.jsonl"
    try:
        scores = [parse_score(row) for row, _ in store.lines(file)]
    except DataError as error:
        raise StorageError(f"{store.root / file} is damaged: {error}; {_again(store)}") from None
    if digest(s.sample_id for s in scores) != store.record()["tasks"][name]["samples"]:
        raise StorageError(
            f"{store.root / file} is not that of this run's samples; {_again(store)}"
        )
    return scores


def _again(store: RunStore) -> str:
    return f"run `harness rescore {store.root}`"


def _groups(
    metrics: Mapping[str, Metric], a: Sequence[Score], b: Sequence[Score], rounds: int, overall: str
) -> dict[str, dict[str, Any]]:
    other = by_group(b)
    groups = {
        group: {
            n: paired_difference(m, members, other[group], rounds=rounds)
            for n, m in metrics.items()
        }
        for group, members in by_group(a).items()
    }
    whole: dict[str, Paired] = {}
    if overall == "groups":
        whole = {n: Paired.mean_of([group[n] for group in groups.values()]) for n in metrics}
    elif overall == "samples" or len(groups) == 1:
        whole = {n: paired_difference(m, a, b, rounds=rounds) for n, m in metrics.items()}
    counts = {**by_group(a), "": a}
    return {
        group: {n: _row(paired, metrics[n].count(counts[group])) for n, paired in row.items()}
        for group, row in {"": whole, **groups}.items()
    }


def _row(paired: Paired, count: int) -> dict[str, Any]:
    low, high = interval(paired.drawn_K)
    numbers = {
        "a": paired.a,
        "b": paired.b,
        "difference": paired.difference,
        "low": low,
        "high": high,
        "p": paired.p,
    }
    return {key: v if math.isfinite(v) else None for key, v in numbers.items()} | {"n": count}
