"""Rows of a leaderboard's table, of our runs and published ones, and which may be compared."""

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from math import ceil, floor
from pathlib import Path
from typing import Any, Literal

from harness.compare import MUST_AGREE
from harness.errors import ConfigError, DataError, did_you_mean
from harness.files import inside
from harness.leaderboard.entries import Entry, Estimate, TaskEntry
from harness.leaderboard.spec import Column, Table
from harness.leaderboard.text import one_line
from harness.store import first_difference

LONGEST_NOTE = 600
_NUMBER = re.compile(r"-?\d{1,9}(\.\d{1,9})?")


@dataclass(frozen=True)
class Cell:
    """One number: a fraction, its interval, and how it is printed (times 100)."""

    value: float
    printed: str
    low: float | None = None
    high: float | None = None
    n: int | None = None
    decimals: int = 1

    @property
    def text(self) -> str:
        """``57.2 [43.5, 69.1]``, or the number alone."""
        if self.low is None or self.high is None:
            return self.printed
        bounds = f"{percent(self.low, self.decimals)}, {percent(self.high, self.decimals)}"
        return f"{self.printed} [{bounds}]"


@dataclass(frozen=True)
class Row:
    """One line of a table. ``comparable_by`` says with which others it may share a block."""

    kind: Literal["run", "published"]
    model: str
    comparable_by: Mapping[str, Any]
    cells: Mapping[str, Cell]
    run: str = ""
    judge: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    """For runs: n, errors, and with a judge questions, judge_errors, judge_unreadable."""
    details: Mapping[str, str] = field(default_factory=dict)
    source: str = ""
    note: str = ""
    paired: bool = False
    warnings: tuple[str, ...] = ()


def check_comparable(a: Row, b: Row) -> None:
    """Returns if two rows may stand in one block; else a ConfigError that names the field."""
    if a.kind != b.kind:
        raise ConfigError(
            f"{_who(a)} and {_who(b)} cannot stand in one block: the data and the evaluator of "
            "published rows are unknown"
        )
    for row in (a, b):
        if row.kind == "run" and row.comparable_by["data"] is None and a is not b:
            raise ConfigError(
                f"{_who(a)} and {_who(b)} cannot stand in one block: data is unknown for "
                f"{_who(row)}; give the run folder instead of its result.json"
            )
    difference = first_difference(dict(a.comparable_by), dict(b.comparable_by))
    if difference:
        path, one, other = difference
        raise ConfigError(
            f"{_who(a)} and {_who(b)} cannot stand in one block: {path} is {one!r:.120} and "
            f"{other!r:.120}"
        )


def _who(row: Row) -> str:
    return f"{row.model} ({row.run or 'published'})"


def percent(value: float, decimals: int) -> str:
    """A fraction times 100, with so many decimals, never "-0.0"."""
    return f"{round(100 * value, decimals) + 0.0:.{decimals}f}"


# Our runs


def run_rows(table: Table, entries: Sequence[Entry]) -> list[Row]:
    """The rows of those runs that have the table's task and its protocol choices."""
    found = []
    for entry in entries:
        task = entry.tasks.get(table.task)
        if task and all(task.protocol.get(k) == v for k, v in table.protocol.items()):
            found.append(_run_row(table, entry, task))
    return found


def _run_row(table: Table, entry: Entry, task: TaskEntry) -> Row:
    cells = {column.name: _estimate(task, column) for column in table.columns if column.metric}
    counts = {"n": task.n, "errors": task.errors}
    if task.judge is not None:
        counts |= {
            "questions": task.questions,
            "judge_errors": task.judge_errors,
            "judge_unreadable": task.judge_unreadable,
        }
    return Row(
        kind="run",
        model=entry.model,
        run=entry.name,
        judge="none" if task.judge is None else one_line(str(task.judge.get("name", ""))),
        comparable_by=_class_of(table, entry, task),
        cells={name: cell for name, cell in cells.items() if cell is not None},
        counts=counts,
        details={
            key: one_line(str(task.protocol[key]))
            for key in table.may_differ
            if key in task.protocol
        },
        note="too many requests or verdicts failed: no number" if task.above_max_errors else "",
        paired=entry.paired,
    )


def _class_of(table: Table, entry: Entry, task: TaskEntry) -> dict[str, Any]:
    """What must agree within a block. A run whose data is unknown agrees with itself only."""
    values = {
        "version": task.version,
        "data": task.data,
        "samples": task.samples,
        "protocol": {k: v for k, v in task.protocol.items() if k not in table.may_differ},
        "judge": task.judge,
    }
    own = {"run": entry.name} if task.data is None or task.samples is None else {}
    return {key: values[key] for key in MUST_AGREE} | own


def _estimate(task: TaskEntry, column: Column) -> Cell | None:
    """The number of a column in a run; None where the run has none of that meaning."""
    for group in column.needs:
        if _of(task.groups.get(group, {}).get(column.metric)) is None:
            return None
    metrics = task.groups.get(column.group, {}) if column.group else task.metrics
    estimate = _of(metrics.get(column.metric))
    if estimate is None or estimate.value is None:
        return None
    return Cell(
        value=estimate.value,
        printed=percent(estimate.value, column.decimals),
        low=estimate.low,
        high=estimate.high,
        n=estimate.n,
        decimals=column.decimals,
    )


def _of(estimate: Estimate | None) -> Estimate | None:
    return None if estimate is None or estimate.value is None or estimate.n == 0 else estimate


# Published rows


def published_rows(table: Table, folder: Path) -> list[Row]:
    """The rows of the table's published file, in its order; raises DataError with the line."""
    if not table.published:
        return []
    path = inside(folder, table.published)
    rows = []
    for where, line in _lines(table, path):
        if all(line[key] == value for key, value in table.where.items()):
            rows.append(_published_row(table, line, where))
    return rows


def _lines(table: Table, path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """(place, cells by column) of each line; every column that the table names is there."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            columns = list(reader.fieldnames or ())
            _check_columns(table, columns, path)
            for line in reader:
                where = f"{path} line {reader.line_num}"
                if None in line or None in line.values() or not line["model"].strip():
                    raise DataError(f"{where}: it needs {len(columns)} cells and a model's name")
                yield where, line
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}); check the path") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} is no CSV file in UTF-8: {error}") from None


def _check_columns(table: Table, columns: Sequence[str], path: Path) -> None:
    numbers = [column.published for column in table.columns if column.published]
    named = [*numbers, *table.where, *table.details, *(c for c in table.separate if c != "judge")]
    for name in ("model", "source", *named):
        if name not in columns:
            raise ConfigError(f"{path} has no column {name!r}.{did_you_mean(name, columns)}")


def _published_row(table: Table, line: Mapping[str, str], where: str) -> Row:
    cells, warnings = {}, []
    model = one_line(line["model"])
    for column in table.columns:
        text = line[column.published].strip() if column.published else ""
        if not text:
            continue
        if not _NUMBER.fullmatch(text):
            raise DataError(f"{where}: {column.published} must be a number, not {text!r:.80}")
        cells[column.name] = Cell(float(Decimal(text) / 100), text)
        if column.n and not attainable(text, column.n):
            warnings.append(
                f"{table.name}: {column.name} = {text} of {model} is not possible: "
                f"no k of {column.n} gives it"
            )
    # Unequal judges are never put in one block, whatever `separate` says.
    keys = dict.fromkeys([*(("judge",) if "judge" in line else ()), *table.separate])
    return Row(
        kind="published",
        model=model,
        comparable_by={"published": table.name}
        | {key: one_line(line[key]) for key in keys if key in line},
        cells=cells,
        judge=one_line(line.get("judge", "")),
        details={key: one_line(line[key]) for key in table.details if line[key]},
        source=one_line(line["source"], LONGEST_NOTE),
        note=one_line(line.get("note", ""), LONGEST_NOTE),
        warnings=tuple(warnings),
    )


def attainable(printed: str, n: int) -> bool:
    """Whether some k of n gives a printed percentage, rounded up or down at a tie."""
    decimals = len(printed.partition(".")[2])
    middle, slack = Fraction(printed) * n / 100, Fraction(n, 200 * 10**decimals)
    return max(0, ceil(middle - slack)) <= min(n, floor(middle + slack))
