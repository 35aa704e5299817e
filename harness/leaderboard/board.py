"""A whole leaderboard: tables, their blocks of comparable rows, and which rows are tied."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.errors import ConfigError
from harness.leaderboard.entries import Entry
from harness.leaderboard.rows import Row, check_comparable, published_rows, run_rows
from harness.leaderboard.spec import Spec, Table
from harness.provenance import short_hash


@dataclass(frozen=True)
class Ranked:
    """A row in its block. ``rank`` is None without a headline number."""

    rank: int | None
    row: Row
    tied: bool
    """Its interval overlaps that of the best row, and their samples are not here to be paired."""


@dataclass(frozen=True)
class Block:
    """Rows that may be compared, the best first. ``headline`` is the column they are sorted by."""

    comparable_by: Mapping[str, Any]
    headline: str
    rows: Sequence[Ranked]
    heading: str = ""

    @property
    def kind(self) -> str:
        return self.rows[0].row.kind

    @property
    def id(self) -> str:
        """Eight hex digits that stand for the comparability class."""
        return short_hash(self.comparable_by)


@dataclass(frozen=True)
class Filled:
    """A table with its blocks: those of our runs, then the published ones."""

    table: Table
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Board:
    """A leaderboard, ready to be written."""

    spec: Spec
    tables: Sequence[Filled]
    unused: Sequence[str]
    """What runs bring that no table shows."""

    @property
    def warnings(self) -> list[str]:
        """Published numbers that cannot be right."""
        return [w for _, _, ranked in self.rows() for w in ranked.row.warnings]

    def rows(self) -> Iterator[tuple[Filled, Block, Ranked]]:
        """Every row with its block and table, in order."""
        for filled in self.tables:
            for block in filled.blocks:
                for ranked in block.rows:
                    yield filled, block, ranked


def build(spec: Spec, entries: Sequence[Entry]) -> Board:
    """The leaderboard of some runs and of the published rows that its file names."""
    tables = [Filled(table, _blocks(table, spec, entries)) for table in spec.tables]
    shown = {(f.table.task, r.row.run) for f in tables for b in f.blocks for r in b.rows}
    unused = [
        f"{entry.name}: no table shows its results of {name}"
        for entry in entries
        for name in entry.tasks
        if (name, entry.name) not in shown
    ]
    return Board(spec, tables, unused)


def one_block(rows: Sequence[Row], headline: Sequence[str]) -> Block:
    """The rows as one block, the best first.

    Raises ConfigError if two of them may not be compared, and names the field.
    """
    if not rows:
        raise ConfigError("a block needs at least one row")
    for row in rows[1:]:
        check_comparable(rows[0], row)
    name = next((name for name in headline if any(name in row.cells for row in rows)), "")
    values = {id(row): row.cells[name].value for row in rows if name in row.cells}

    def place(row: Row) -> tuple[bool, float, str, str]:
        value = values.get(id(row))
        return value is None, -(value or 0.0), row.model.casefold(), row.run

    ordered = sorted(rows, key=place)
    ranked = []
    for row in ordered:
        value = values.get(id(row))
        rank = None if value is None else 1 + sum(other > value for other in values.values())
        ranked.append(Ranked(rank, row, _tied(ordered[0], row, name)))
    return Block(rows[0].comparable_by, name, ranked)


def _tied(best: Row, row: Row, headline: str) -> bool:
    """Whether only the overlap of intervals is left to judge by, and they overlap."""
    if row is best or (row.paired and best.paired) or headline not in row.cells:
        return False
    high, low = row.cells[headline].high, best.cells[headline].low
    return high is not None and low is not None and high >= low


def _blocks(table: Table, spec: Spec, entries: Sequence[Entry]) -> list[Block]:
    headline = table.headline or tuple(column.name for column in table.columns)
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in [*run_rows(table, entries), *published_rows(table, spec.folder)]:
        groups.setdefault((row.kind, short_hash(row.comparable_by)), []).append(row)
    blocks = [one_block(rows, headline) for rows in groups.values()]
    runs = [block for block in blocks if block.kind == "run"]
    return [
        *(_named(block, _run_heading(block, runs)) for block in runs),
        *(_named(b, _published_heading(b)) for b in blocks if b.kind == "published"),
    ]


def _named(block: Block, heading: str) -> Block:
    return Block(block.comparable_by, block.headline, block.rows, heading)


def _run_heading(block: Block, runs: Sequence[Block]) -> str:
    """What distinguishes a block of runs from the table's others, and its class."""
    facts = [dict(flat(other.comparable_by)) for other in runs]
    own = dict(flat(block.comparable_by))
    paths = dict.fromkeys(path for other in facts for path in other)
    unequal = [
        f"{path} {short(own[path]) if path in own else 'not set'}"
        for path in paths
        if any(other.get(path) != own.get(path) or (path in other) != (path in own)
               for other in facts)
    ]  # fmt: skip
    return f"Runs of class {block.id}" + (f": {'; '.join(unequal)}" if unequal else "")


def _published_heading(block: Block) -> str:
    """What distinguishes a block of published rows: their source, judge, setting."""
    parts = []
    for key, value in block.comparable_by.items():
        if key != "published":
            parts.append(value if key == "source" else f"{key} {value or 'not stated'}")
    return "Published: " + ("; ".join(parts[::-1]) or "as quoted")


def flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted path, value) for each leaf of a JSON value."""
    if isinstance(value, Mapping) and value:
        for key, child in value.items():
            yield from flat(child, f"{path}.{key}" if path else str(key))
    else:
        yield path, value


def short(value: Any) -> str:
    """A value for a heading: hashes by their first digits, nothing too long."""
    if value is None:
        return "none"
    text = str(value)
    is_hash = len(text) == 64 and not set(text) - set("0123456789abcdef")
    return text[:12] if is_hash else text if len(text) <= 60 else f"{text[:57]}..."
