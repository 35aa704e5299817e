"""Two runs over the same samples: the paired difference of each metric, with interval and p."""

import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness import registry
from harness.errors import ConfigError, StorageError
from harness.metrics import Metric
from harness.plan import RunSpec
from harness.records import parse_score
from harness.results import by_group
from harness.statistics import interval, paired_difference
from harness.store import RunStore, first_difference
from harness.types import Score

MUST_AGREE = ("version", "data", "samples", "protocol", "judge")


def compare(
    a: Path, b: Path, *, rounds: int = 10_000, allow: Collection[str] = ()
) -> dict[str, Any]:
    """``{task: {group: {metric: {a, b, difference, low, high, p}}}}`` for the tasks of both runs.

    Group "" is over all samples. Raises ConfigError if versions, data, samples or protocol differ;
    ``allow`` names protocol choices that may.
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
        ours, theirs = a[key], b[key]
        if key == "protocol":
            ours = {k: v for k, v in ours.items() if k not in allow}
            theirs = {k: v for k, v in theirs.items() if k not in allow}
        difference = first_difference(ours, theirs, key)
        if difference:
            path, one, other = difference
            hint = ""
            if key == "protocol":
                hint = f" (to compare all the same: --allow {path.removeprefix('protocol.')})"
            raise ConfigError(
                f"{name} cannot be compared: {path} is {one!r:.120} in {folders[0]} and "
                f"{other!r:.120} in {folders[1]}{hint}"
            )


def _metrics(spec: RunSpec, name: str) -> Mapping[str, Metric]:
    from harness import config

    task = config.build(registry.tasks.find(name), spec.tasks[name], where=f"tasks.{name}")
    return task.metrics


def _scores(store: RunStore, name: str) -> list[Score]:
    result = store.read_json("result.json")
    if result["tasks"].get(name, {}).get("above_max_errors"):
        raise ConfigError(
            f"{store.root}: too many requests of {name} failed for a number; run it again with "
            "--retry-failed"
        )
    scores = [parse_score(row) for row, _ in store.lines(f"{name}/scores.jsonl")]
    if len(scores) != store.record()["tasks"][name]["n"]:
        raise StorageError(
            f"{store.root / name / 'scores.jsonl'} is incomplete; run `harness rescore "
            f"{store.root}`"
        )
    return scores


def _groups(
    metrics: Mapping[str, Metric], a: Sequence[Score], b: Sequence[Score], rounds: int, overall: str
) -> dict[str, dict[str, Any]]:
    parts = {name: (members, by_group(b)[name]) for name, members in by_group(a).items()}
    rows = {"": {}} if overall == "groups" else {"": _compare_all(metrics, a, b, rounds)}
    return rows | {name: _compare_all(metrics, *pair, rounds) for name, pair in parts.items()}


def _compare_all(
    metrics: Mapping[str, Metric], a: Sequence[Score], b: Sequence[Score], rounds: int
) -> dict[str, Any]:
    out = {}
    for name, metric in metrics.items():
        difference, drawn, p = paired_difference(metric, a, b, rounds=rounds)
        low, high = interval(drawn)
        numbers = {
            "a": metric(a),
            "b": metric(b),
            "difference": difference,
            "low": low,
            "high": high,
            "p": p if math.isfinite(difference) else math.nan,
        }
        out[name] = {key: value if math.isfinite(value) else None for key, value in numbers.items()}
        out[name]["n"] = metric.count(a)
    return out
