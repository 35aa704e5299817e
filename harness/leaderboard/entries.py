"""Results of our own runs, as a leaderboard takes them: from run folders, files, or its own shelf.

An entry is the result object of a run (docs/run-folder.md) with, for each task, the hashes of data,
samples and prompts out of run.json. So the tables can be made again without the run folders.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from harness.errors import ConfigError, DataError
from harness.files import pretty_json, read_json
from harness.leaderboard.text import one_line
from harness.store import RunStore, first_difference

HASHES = ("data", "samples", "prompts")
KEPT = (
    "version", "protocol", "judge", *HASHES, "n", "errors", "above_max_errors", "questions",
    "judge_errors", "judge_unreadable", "skipped", "primary", "overall", "metrics", "groups",
)  # fmt: skip


@dataclass(frozen=True)
class Estimate:
    """A metric of a run: fractions, None where there is no number."""

    value: float | None
    low: float | None
    high: float | None
    n: int


@dataclass(frozen=True)
class TaskEntry:
    """One task of a run, checked. ``data`` is None where nothing tells the hashes."""

    version: int
    protocol: dict[str, Any]
    judge: dict[str, Any] | None
    n: int
    errors: int
    groups: dict[str, dict[str, Estimate]]
    metrics: dict[str, Estimate] = field(default_factory=dict)
    """Absent where a number over all groups makes no sense."""
    above_max_errors: bool = False
    questions: int = 0
    judge_errors: int = 0
    judge_unreadable: int = 0
    data: dict[str, str] | None = None
    samples: str | None = None


@dataclass(frozen=True)
class Entry:
    """One run: its name (the folder's), its model, its tasks."""

    name: str
    model: str
    tasks: Mapping[str, TaskEntry]
    raw: Mapping[str, Any]
    paired: bool = False
    """Whether its scores lie in its folder, so that it can be compared sample by sample."""

    @property
    def file_name(self) -> str:
        """Where a leaderboard's shelf keeps it."""
        return (re.sub(r"[^A-Za-z0-9._-]+", "-", self.name).strip("-.") or "run") + ".json"

    def as_json(self) -> bytes:
        """The content of its file on the shelf: no path, no date."""
        tasks = {
            name: {key: task[key] for key in KEPT if key in task}
            for name, task in self.raw["tasks"].items()
        }
        model = {key: self.raw["model"].get(key) for key in ("name", "fingerprint")}
        return pretty_json({"schema": 1, "run": self.name, "model": model, "tasks": tasks})


def read_entry(path: Path) -> Entry:
    """The entry of a run folder, of its result.json, or of a file on the shelf.

    Raises ConfigError for a path that is none of these, DataError for a damaged file.
    """
    if path.is_file():
        if path.name == "result.json" and (path.parent / "run.json").is_file():
            return _of_folder(path.parent)
        return _checked(read_json(path), path)
    return _of_folder(path)


def shelf(folder: Path) -> list[Entry]:
    """The entries that a leaderboard keeps, by file name; none without the folder."""
    return [read_entry(path) for path in sorted(folder.glob("*.json"))]


def joined(kept: list[Entry], given: list[Entry]) -> list[Entry]:
    """All entries; a given one replaces the kept one of the same run.

    Raises ConfigError if two runs have one name: it tells rows, and files on the shelf, apart.
    """
    by_name: dict[str, tuple[Entry, bool]] = {}
    for entry, is_given in [*((e, False) for e in kept), *((e, True) for e in given)]:
        old = by_name.get(entry.file_name)
        if old and (old[1] == is_given or not _same_run(old[0], entry)):
            raise ConfigError(
                f"two different runs are called {entry.name!r} (or one is given twice); rows are "
                "named after run folders: rename one of them"
            )
        by_name[entry.file_name] = entry, is_given
    return [by_name[name][0] for name in sorted(by_name)]


def _same_run(a: Entry, b: Entry) -> bool:
    """Whether two entries answer the same requests with the same model."""
    if a.name != b.name or a.raw["model"] != b.raw["model"] or set(a.tasks) != set(b.tasks):
        return False
    return all(_identity(a, task) == _identity(b, task) for task in a.tasks)


def _identity(entry: Entry, task: str) -> dict[str, Any]:
    raw = entry.raw["tasks"][task]
    return {key: raw.get(key) for key in ("version", "protocol", "judge", *HASHES)}


def _of_folder(folder: Path) -> Entry:
    store = RunStore.existing(folder)
    record = store.record()
    if not (folder / "result.json").exists():
        raise ConfigError(
            f"{folder} has no result yet; finish it with `harness eval`, `merge` or `rescore` first"
        )
    result = store.read_json("result.json")
    tasks: dict[str, Any] = {}
    given = result.get("tasks")
    for name, task in given.items() if isinstance(given, dict) else ():
        recorded = record["tasks"].get(name)
        if not isinstance(task, dict) or not isinstance(recorded, dict):
            raise DataError(f"{folder / 'result.json'}: the task {name!r} is not that of run.json")
        for key in ("version", "protocol", "judge"):
            difference = first_difference(recorded.get(key), task.get(key), key)
            if difference:
                raise DataError(
                    f"{folder}: {difference[0]} is {difference[1]!r:.80} in run.json and "
                    f"{difference[2]!r:.80} in result.json; run `harness rescore {folder}`"
                )
        tasks[name] = {**task, **{key: recorded.get(key) for key in HASHES}}
    scored = all((folder / name / "scores.jsonl").is_file() for name in tasks)
    raw = {**result, "run": folder.resolve().name, "tasks": tasks}
    return _checked(raw, folder / "result.json", paired=scored)


def _checked(raw: Any, path: Path, *, paired: bool = False) -> Entry:
    """The entry of an untrusted result object; raises DataError that names the field."""
    from pydantic import TypeAdapter, ValidationError

    broken = DataError(f"{path} is no result of a run: it needs run, model.name and tasks")
    if not isinstance(raw, dict) or not isinstance(raw.get("model"), dict):
        raise broken
    run, model, tasks = raw.get("run"), raw["model"].get("name"), raw.get("tasks")
    if not isinstance(run, str) or not isinstance(model, str) or not isinstance(tasks, dict):
        raise broken
    try:
        checked = TypeAdapter(dict[str, TaskEntry]).validate_python(tasks)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise DataError(
            f"{path} is no result of a finished run: tasks.{where}: {first['msg'].lower()}"
        ) from None
    name = one_line(PurePosixPath(run).name) or "run"
    return Entry(name, one_line(model), checked, raw, paired)
