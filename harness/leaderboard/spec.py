"""What a leaderboard shows: its TOML file, read and checked."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from harness import config, registry
from harness.errors import ConfigError, did_you_mean

NEVER = ("version", "data", "samples", "judge", "protocol")
"""What decides comparability as a whole and can never be declared unimportant."""


@dataclass(frozen=True)
class Column:
    """One column of numbers: where it stands in results of runs and in the published file."""

    name: str
    metric: str = ""
    """The metric of our runs; none: the column is for published rows only."""
    group: str = ""
    """The group of samples; none: the metric over all."""
    needs: tuple[str, ...] = ()
    """Groups that a run must have for the number to mean what the column says."""
    published: str = ""
    """The column of the published file."""
    n: Annotated[int, Field(gt=0)] | None = None
    """The published number is k right of n samples, so that only some numbers are possible."""
    decimals: Annotated[int, Field(ge=0, le=6)] = 1


@dataclass(frozen=True)
class Table:
    """One table: rows of one task, in blocks of rows that may be compared."""

    name: str
    columns: tuple[Column, ...]
    title: str = ""
    note: str = ""
    headline: tuple[str, ...] = ()
    """Columns to sort by: in each block the first that any row has. By default all, in order."""
    task: str = ""
    """The task whose runs stand here; none: published rows only."""
    protocol: dict[str, Any] = field(default_factory=dict)
    """Only runs with these protocol choices."""
    may_differ: tuple[str, ...] = ()
    """Protocol choices that may differ within a block; they are shown in each row."""
    published: str = ""
    """The file of published rows, from the folder of the TOML file."""
    where: dict[str, str] = field(default_factory=dict)
    """Only published rows with these cells."""
    separate: tuple[str, ...] = ("judge", "source")
    """Columns of the published file whose cells put rows into different blocks."""
    details: tuple[str, ...] = ()
    """Further columns of the published file to show."""


@dataclass(frozen=True)
class Spec:
    """A leaderboard: its tables, and the folder with the results of our runs."""

    path: Path
    title: str
    tables: tuple[Table, ...]
    results: str

    @property
    def folder(self) -> Path:
        return self.path.parent


def read_spec(path: Path) -> Spec:
    """The leaderboard of a TOML file; raises ConfigError that says where it does not fit."""
    if not path.is_file():
        raise ConfigError(f"there is no leaderboard {path}; check the path of the TOML file")
    tree = config.read_file(path)
    known = ("title", "results", "tables")
    for key in tree:
        if key not in known:
            raise ConfigError(f"{path}: there is no {key!r}.{did_you_mean(key, known)}")
    title, results = tree.get("title", path.stem), tree.get("results", "results")
    tables = tree.get("tables")
    if not isinstance(title, str) or not isinstance(results, str):
        raise ConfigError(f"{path}: title and results must be text")
    if not isinstance(tables, list) or not tables:
        raise ConfigError(f"{path} must have at least one [[tables]]")
    built = tuple(_table(table, f"{path}: tables[{i}]") for i, table in enumerate(tables))
    _distinct([table.name for table in built], f"{path}: tables")
    return Spec(path, title, built, results)


def _table(tree: Any, where: str) -> Table:
    columns = tree.get("columns") if isinstance(tree, Mapping) else None
    if not isinstance(columns, list) or not columns or not tree.get("name"):
        raise ConfigError(f"{where} must have a name and a list of columns")
    built = tuple(_column(column, f"{where}.columns[{i}]") for i, column in enumerate(columns))
    table = config.build(Table, {**tree, "columns": built}, where)
    names = [column.name for column in built]
    _distinct(names, f"{where}.columns")
    for name in table.headline:
        if name not in names:
            raise ConfigError(f"{where}.headline: no column {name!r}.{did_you_mean(name, names)}")
    for name in table.may_differ:
        if name in NEVER:
            raise ConfigError(
                f"{where}.may_differ: runs with unequal {name} are never put in one block; "
                "only single protocol choices may differ, e.g. 'codec'"
            )
    if not table.task and not table.published:
        raise ConfigError(f"{where} needs a task (for runs), a published file, or both")
    return _checked_task(table, where)


def _checked_task(table: Table, where: str) -> Table:
    """The table, its task's name in the usual form; a run can show only columns with a metric."""
    if table.task and not any(column.metric for column in table.columns):
        raise ConfigError(f"{where} has a task but no column with a metric")
    values = {f: getattr(table, f) for f in Table.__dataclass_fields__}
    return Table(**{**values, "task": registry.canonical(table.task) if table.task else ""})


def _column(tree: Any, where: str) -> Column:
    if not isinstance(tree, Mapping) or not tree.get("name"):
        raise ConfigError(f"{where} must be a table with a name")
    column = config.build(Column, tree, where)
    if not column.metric and not column.published:
        raise ConfigError(f"{where} needs a metric (of runs), a published column, or both")
    return column


def _distinct(names: list[str], where: str) -> None:
    for i, name in enumerate(names):
        if name in names[:i]:
            raise ConfigError(f"{where}: the name {name!r} occurs twice")
