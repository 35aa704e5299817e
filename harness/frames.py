"""A run as data frames, for notebooks: ``harness.load(RUN)``. Needs pandas, imported on use."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import ConfigError
from harness.store import RunStore

if TYPE_CHECKING:
    from pandas import DataFrame

SAMPLES = ("task", "sample_id", "text", "error", "masks", "boxes", "phrases", "flags", "info")
SCORES = ("task", "sample_id", "group", "cluster", "failed", "unreadable", "flags", "detail")
VERDICTS = ("task", "sample_id", "question_index", "prompt", "reply", "error", "judge", "info")


@dataclass(frozen=True)
class LoadedRun:
    """A run folder in memory."""

    samples: "DataFrame"
    """One line a sample: the answer. ``text`` is None where the request failed (see ``error``)."""
    scores: "DataFrame"
    """One line a sample: group, cluster, flags, and a column for each value of its task."""
    verdicts: "DataFrame"
    """One line a question to a judge: prompt, raw reply, who judged."""
    result: dict[str, Any] | None
    """The result object; None until the run is finished."""


def load(run: str | Path) -> LoadedRun:
    """The answers, scores and verdicts of a run folder, all its tasks, in their stored order.

    An unfinished run has the lines that are written so far. Raises ConfigError if the folder is no
    run or pandas is missing, StorageError if a file is damaged.
    """
    pandas()
    store = RunStore.existing(Path(run))
    tasks = list(store.record()["tasks"])
    done = (store.root / "result.json").exists()
    return LoadedRun(
        samples=_frame(SAMPLES, _samples(store, tasks)),
        scores=_frame(SCORES, _scores(store, tasks)),
        verdicts=_frame(VERDICTS, _verdicts(store, tasks)),
        result=store.read_json("result.json") if done else None,
    )


def pandas() -> Any:
    """The module pandas; raises ConfigError that says how to install it."""
    try:
        import pandas as module
    except ImportError:
        raise ConfigError(
            "tables and data frames need pandas: pip install 'region-harness[tables]'"
        ) from None
    return module


def _frame(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> "DataFrame":
    """The rows as a frame that has these columns first, also without any row."""
    rows = list(rows)
    names = dict.fromkeys([*columns, *(name for row in rows for name in row)])
    data = {name: [row.get(name) for row in rows] for name in names}
    return pandas().DataFrame(data, columns=list(names))


def _samples(store: RunStore, tasks: Sequence[str]) -> Iterable[Mapping[str, Any]]:
    for task in tasks:
        for name in store.prediction_files(task):
            for row, _ in store.lines(name):
                yield {"task": task, **{key: row.get(key) for key in SAMPLES[1:]}}


def _scores(store: RunStore, tasks: Sequence[str]) -> Iterable[Mapping[str, Any]]:
    for task in tasks:
        for row, _ in store.lines(f"{task}/scores.jsonl"):
            fixed = {key: row.get(key) for key in SCORES[1:]}
            fixed |= {"failed": row.get("failed", False), "unreadable": row.get("unreadable", 0)}
            values = row.get("values", {})
            named = {key if key not in SCORES else f"value_{key}": values[key] for key in values}
            yield {"task": task, **fixed, **named}


def _verdicts(store: RunStore, tasks: Sequence[str]) -> Iterable[Mapping[str, Any]]:
    for task in tasks:
        for row, _ in store.lines(f"{task}/verdicts.jsonl"):
            judge = row.get("judge")
            name = judge.get("name") if isinstance(judge, dict) else None
            yield {
                "task": task,
                **{key: row.get(key) for key in VERDICTS[1:]},
                "judge": name,
            }
