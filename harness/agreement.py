"""Do two judges agree? Question by question, over the same answers of the same model."""

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness import config, registry
from harness.errors import ConfigError
from harness.plan import RunSpec
from harness.store import RunStore
from harness.task import Task

Key = tuple[str, int]


def krippendorff_alpha(units: Sequence[Sequence[Hashable | None]]) -> float:
    """Krippendorff's alpha for unordered categories; None is a missing value.

    ``units`` holds, for each question, the value that each judge gave. 1 is perfect agreement, 0 is
    what chance gives; NaN if nothing can be paired or all values are one. Source: Krippendorff,
    "Computing Krippendorff's Alpha-Reliability", 2011, section C.
    """
    pairable = [[v for v in unit if v is not None] for unit in units]
    pairable = [unit for unit in pairable if len(unit) > 1]
    total = Counter(value for unit in pairable for value in unit)
    n = total.total()
    expected = n * n - sum(count * count for count in total.values())
    if not expected:
        return math.nan
    observed = 0.0
    for unit in pairable:
        counts = Counter(unit)
        size = counts.total()
        observed += (size * size - sum(c * c for c in counts.values())) / (size - 1)
    return 1 - (n - 1) * observed / expected


def compare_judges(a: Path, b: Path) -> dict[str, Any]:
    """How the judges of two runs agree: ``{task: {questions, agree, alpha, disagreements, ...}}``.

    Replies are compared as the task's official reader reads them. Only questions with one prompt in
    both runs count; raises ConfigError if there is none.
    """
    stores = RunStore.existing(a), RunStore.existing(b)
    records = stores[0].record(), stores[1].record()
    tasks = {}
    for name in records[0]["tasks"]:
        task = _task(RunSpec.from_record(records[0]), name)
        if name in records[1]["tasks"] and task.needs_judge:
            tasks[name] = _compare(task, *(_replies(store, name) for store in stores))
            sides = zip(("a", "b"), records, strict=True)
            tasks[name] |= {side: record["tasks"][name]["judge"] for side, record in sides}
    if not any(result["questions"] for result in tasks.values()):
        raise ConfigError(
            f"{a} and {b} have no judged question in common: rescore the same answers with both "
            "judges"
        )
    return {"schema": 1, "a": str(a), "b": str(b), "tasks": tasks}


def panel_agreement(folder: Path) -> dict[str, Any]:
    """How the members of a run's panel agree: ``{task: {questions, alpha, disagreements}}``.

    Raises ConfigError if no task of the run was judged by a panel.
    """
    store = RunStore.existing(folder)
    record = store.record()
    tasks = {}
    for name in record["tasks"]:
        rows = [row for row in _replies(store, name).values() if "votes" in row.get("info", {})]
        if rows:
            task = _task(RunSpec.from_record(record), name)
            tasks[name] = _panel(task, rows) | {"judge": record["tasks"][name]["judge"]}
    if not tasks:
        raise ConfigError(f"{folder} was not judged by a panel; name two runs to compare judges")
    return {"schema": 1, "run": str(folder), "tasks": tasks}


def _panel(task: Task[Any], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    units, differ = [], []
    for row in rows:
        votes = [_read(task, {**row, "reply": vote["reply"]}) for vote in row["info"]["votes"]]
        units.append(votes)
        if len(set(votes)) > 1:
            differ.append({"sample_id": row["sample_id"], "question_index": row["question_index"],
                           "votes": votes})  # fmt: skip
    alpha = krippendorff_alpha(units)
    return {"questions": len(rows), "alpha": None if math.isnan(alpha) else alpha,
            "disagreements": differ}  # fmt: skip


def _task(spec: RunSpec, name: str) -> Task[Any]:
    return config.build(registry.tasks.find(name), spec.tasks[name], where=f"tasks.{name}")


def _replies(store: RunStore, name: str) -> dict[Key, dict[str, Any]]:
    return {
        (row["sample_id"], row["question_index"]): row
        for row, _ in store.lines(f"{name}/verdicts.jsonl")
    }


def _compare(
    task: Task[Any], a: Mapping[Key, dict[str, Any]], b: Mapping[Key, dict[str, Any]]
) -> dict[str, Any]:
    shared = [key for key in a if key in b and a[key]["prompt"] == b[key]["prompt"]]
    units = [(_read(task, a[key]), _read(task, b[key])) for key in shared]
    both = [unit for unit in units if None not in unit]
    differ = list(_disagreements(shared, units, a, b))
    alpha = krippendorff_alpha(units)
    return {
        "questions": len(shared),
        "both_readable": len(both),
        "agree": sum(one == other for one, other in both),
        "alpha": None if math.isnan(alpha) else alpha,
        "disagreements": differ,
    }


def _disagreements(
    keys: Sequence[Key],
    units: Sequence[tuple[str | None, str | None]],
    a: Mapping[Key, dict[str, Any]],
    b: Mapping[Key, dict[str, Any]],
) -> Iterator[dict[str, Any]]:
    for key, (one, other) in zip(keys, units, strict=True):
        if one != other:
            yield {
                "sample_id": key[0], "question_index": key[1], "a": one, "b": other,
                "reply_a": a[key]["reply"], "reply_b": b[key]["reply"],
            }  # fmt: skip


def _read(task: Task[Any], row: Mapping[str, Any]) -> str | None:
    """What the official reader makes of a reply; None if it cannot read it or there is none."""
    if row["reply"] is None:
        return None
    return task.reading(row["reply"], tuple(row.get("choices", ())))
