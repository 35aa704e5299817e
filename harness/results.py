"""From scores to the result object: metrics with intervals, by group and overall.

The object's form is a fixed interface (docs/run-folder.md): fractions, and null where a number is
undefined or may not be shown.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from harness.judging import Verdicts
from harness.metrics import Floats, Metric
from harness.plan import Plan, PlannedTask, judge_stamp
from harness.statistics import ROUNDS, interval, replicates
from harness.store import RunStore
from harness.types import Score

SCHEMA = 1
OVERALL = {"samples": "all samples", "groups": "mean of groups", "one group": "one group"}


def task_result(
    plan: Plan,
    planned: PlannedTask,
    scores: Sequence[Score],
    verdicts: Verdicts,
    max_errors: float,
) -> dict[str, Any]:
    """The result of one task.

    Above ``max_errors`` failed requests (of all), or judge errors (of all questions), every number
    is null.
    """
    task = planned.task
    errors = sum(score.failed for score in scores)
    asked = [verdict for of_sample in verdicts.values() for verdict in of_sample]
    judge_errors = sum(verdict.error is not None for verdict in asked)
    show = errors <= max_errors * len(scores) and judge_errors <= max_errors * len(asked)
    grouped = by_group(scores, task.groups)
    values = {name: Estimates.of(task.metrics, members) for name, members in grouped.items()}
    if task.overall == "groups":
        overall = Estimates.mean_of(list(values.values()))
    elif task.overall == "one group" and len(values) == 1:
        overall = next(iter(values.values()))
    elif task.overall == "one group" and values:
        overall = Estimates.none_of(task.metrics, scores)
    else:
        overall = Estimates.of(task.metrics, scores)
    return {
        "version": task.version,
        "protocol": plan.protocol(planned),
        "judge": judge_stamp(planned.judge),
        "n": len(scores),
        "errors": errors,
        "max_errors": max_errors,
        "above_max_errors": not show,
        "questions": len(asked),
        "judge_errors": judge_errors,
        "judge_unreadable": sum(score.unreadable for score in scores),
        "skipped": list(task.skipped()),
        "primary": task.primary,
        "overall": OVERALL[task.overall],
        "flags": dict(sorted(Counter(flag for s in scores for flag in set(s.flags)).items())),
        "unavailable": dict(task.unavailable()),
        "metrics": overall.as_json(show),
        "groups": {name: estimates.as_json(show) for name, estimates in values.items()},
    }


def by_group(scores: Sequence[Score], fixed: Sequence[str] = ()) -> dict[str, list[Score]]:
    """Scores by group: the fixed ones first (also when empty), others as they appear."""
    groups: dict[str, list[Score]] = {name: [] for name in fixed}
    for score in scores:
        if score.group:
            groups.setdefault(score.group, []).append(score)
    return groups


class Estimates:
    """Each metric of some scores: its value, its bootstrap values, how many samples took part."""

    def __init__(self, values: Mapping[str, tuple[float, Floats, int]], clusters: int) -> None:
        self.values, self.clusters = values, clusters

    @classmethod
    def of(cls, metrics: Mapping[str, Metric], scores: Sequence[Score]) -> "Estimates":
        """The metrics over some scores; undefined (NaN) for none."""
        drawn = replicates(metrics, scores) if scores else dict.fromkeys(metrics, _NONE)
        values = {
            name: (metric(scores) if scores else math.nan, drawn[name], metric.count(scores))
            for name, metric in metrics.items()
        }
        return cls(values, len({s.cluster for s in scores}))

    @classmethod
    def none_of(cls, metrics: Mapping[str, Metric], scores: Sequence[Score]) -> "Estimates":
        """No number at all, where one would mean nothing."""
        counts = {name: metric.count(scores) for name, metric in metrics.items()}
        return cls({name: (math.nan, _NONE, count) for name, count in counts.items()}, 0)

    @classmethod
    def mean_of(cls, parts: Sequence["Estimates"]) -> "Estimates":
        """The plain mean over those groups in which a metric is defined, resampled within each."""
        values = {}
        for name in parts[0].values:
            items = [part.values[name] for part in parts]
            items = [item for item in items if not math.isnan(item[0])] or items[:1]
            mean = math.fsum(value for value, _, _ in items) / len(items)
            drawn: Floats = np.mean([drawn for _, drawn, _ in items], axis=0)
            values[name] = mean, drawn, sum(count for _, _, count in items)
        return cls(values, min(part.clusters for part in parts))

    def as_json(self, show: bool) -> dict[str, dict[str, Any]]:
        """``{metric: {value, low, high, n}}``; no interval from fewer than two clusters."""
        out = {}
        for name, (value, drawn, count) in self.values.items():
            low, high = interval(drawn) if self.clusters > 1 else (math.nan, math.nan)
            numbers = {"value": value, "low": low, "high": high}
            out[name] = {k: v if show and math.isfinite(v) else None for k, v in numbers.items()}
            out[name]["n"] = count
        return out


_NONE: Floats = np.full(ROUNDS, math.nan)


UNREADABLE = 0.1
"""Above this share of replies that cannot be read there is a remark: is it the right judge?"""


def unreadable_notes(tasks: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Remarks about judges whose replies mostly cannot be read (they score as officially)."""
    notes = []
    for name, task in tasks.items():
        share = task["judge_unreadable"] / max(1, task["questions"])
        if share > UNREADABLE:
            notes.append(
                f"{100 * share:.0f} % of the replies of {name}'s judge could not be read; they "
                "score as the official reader scores them, but check the judge (verdicts.jsonl)"
            )
    return notes


def run_result(
    store: RunStore, tasks: Mapping[str, Mapping[str, Any]], notes: Sequence[str]
) -> dict[str, Any]:
    """The result object of a run, as ``--json`` prints it and ``result.json`` keeps it."""
    return {
        "schema": SCHEMA,
        "run": str(store.root),
        "model": store.record()["model"],
        "tasks": dict(tasks),
        "notes": list(notes),
    }
