"""A leaderboard as data frames, and those as Markdown, CSV and JSON: the same bytes every time."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from harness.files import pretty_json
from harness.frames import pandas
from harness.leaderboard.board import Block, Board, Filled, Ranked, flat, short
from harness.leaderboard.rows import percent
from harness.leaderboard.spec import Table
from harness.leaderboard.text import markdown, spreadsheet

if TYPE_CHECKING:
    from pandas import DataFrame

TIED = "≈"
INTRO = (
    "Values x100, larger is better. Intervals are 95 % bootstrap intervals, resampled by picture. "
    "Only rows of one block may be compared: they have the same task version, data, samples, "
    "protocol and judge. Published rows are quoted digit for digit; what is missing there is "
    "blank, and since their data and evaluator are unknown, each source and judge is a block of "
    "its own. How this is made: `docs/leaderboard.md`."
)
OVERLAP = (
    f"{TIED} The interval overlaps that of the first row. Overlap is a coarse test and not a "
    "verdict: `harness compare RUN_A RUN_B` pairs the samples and may tell the two apart."
)
PAIRED = (
    "The samples of runs in this block are at hand: `harness compare RUN_A RUN_B` says whether "
    "two rows differ."
)
LONG_COLUMNS = (
    "table", "task", "class", "kind", "block", "rank", "tied", "model", "run", "column", "metric",
    "group", "headline", "value", "low", "high", "column_n", "n", "errors", "questions",
    "judge_errors", "judge_unreadable", "judge", "details", "source", "note",
)  # fmt: skip


def block_frame(table: Table, block: Block) -> "DataFrame":
    """A block as people read it: text cells, columns that nobody fills left out."""
    columns: dict[str, list[str]] = {
        "#": [f"{r.rank or ''}{' ' + TIED if r.tied else ''}" for r in block.rows],
        "model": [r.row.model for r in block.rows],
        "run": [r.row.run for r in block.rows],
    }
    for name in dict.fromkeys(name for r in block.rows for name in r.row.details):
        columns[name.replace("_", " ")] = [r.row.details.get(name, "") for r in block.rows]
    if "source" not in table.separate:
        columns["source"] = [r.row.source for r in block.rows]
    for column in table.columns:
        cells = [r.row.cells.get(column.name) for r in block.rows]
        columns[column.name] = [cell.text if cell else "" for cell in cells]
    columns |= _counts(block)
    kept = {k: v for k, v in columns.items() if k in ("#", "model") or any(v)}
    return pandas().DataFrame(kept, dtype="object")


def _counts(block: Block) -> dict[str, list[str]]:
    """The columns with the numbers of samples, failed requests, and failed or odd verdicts."""
    counts = [r.row.counts for r in block.rows]
    return {
        "n": [str(c.get("n", "")) for c in counts],
        "errors": [str(c.get("errors", "")) for c in counts],
        "judge errors": [
            f"{c['judge_errors']} of {c['questions']}" if "questions" in c else "" for c in counts
        ],
        "unreadable": [str(c.get("judge_unreadable", "")) for c in counts],
    }


def frame(board: Board) -> "DataFrame":
    """The whole leaderboard in long form: one line for each row and column of numbers.

    ``value``, ``low`` and ``high`` are printed text, times 100; blank where there is none.
    """
    lines = [
        _line(filled, block, ranked, index)
        for filled, block, ranked in board.rows()
        for index in range(len(filled.table.columns))
    ]
    return pandas().DataFrame(lines, columns=list(LONG_COLUMNS), dtype="object")


def _line(filled: Filled, block: Block, ranked: Ranked, index: int) -> tuple[str, ...]:
    table, row, column = filled.table, ranked.row, filled.table.columns[index]
    cell = row.cells.get(column.name)
    bounds = (None, None) if cell is None else (cell.low, cell.high)
    counts = ("n", "errors", "questions", "judge_errors", "judge_unreadable")
    details = "; ".join(f"{key}={value}" for key, value in row.details.items())
    return (
        table.name, table.task, block.id, row.kind, block.heading,
        str(ranked.rank or ""), "yes" if ranked.tied else "", row.model, row.run,
        column.name, column.metric, column.group,
        "yes" if column.name == block.headline else "", cell.printed if cell else "",
        *("" if bound is None else percent(bound, column.decimals) for bound in bounds),
        "" if cell is None or cell.n is None else str(cell.n),
        *(str(row.counts.get(key, "")) for key in counts),
        row.judge, details, row.source, row.note,
    )  # fmt: skip


def as_csv(board: Board) -> bytes:
    """The long form as CSV in UTF-8; a text that looks like a formula gets a quote in front."""
    whole = frame(board)
    for name in set(LONG_COLUMNS) - {"value", "low", "high"}:
        whole[name] = whole[name].map(spreadsheet)
    text: str = whole.to_csv(index=False, lineterminator="\n")
    return text.encode()


def as_json(board: Board) -> bytes:
    """The object that ``--json`` prints: fractions, raw names."""
    return pretty_json(jsonable(board))


def jsonable(board: Board) -> dict[str, Any]:
    """The leaderboard as plain values (docs/leaderboard.md)."""
    return {
        "schema": 1,
        "title": board.spec.title,
        "tables": [
            {
                "name": filled.table.name,
                "title": filled.table.title,
                "task": filled.table.task or None,
                "columns": [
                    {"name": c.name, "metric": c.metric or None, "group": c.group or None}
                    for c in filled.table.columns
                ],
                "blocks": [_json_block(block) for block in filled.blocks],
            }
            for filled in board.tables
        ],
        "warnings": board.warnings,
    }


def _json_block(block: Block) -> dict[str, Any]:
    return {
        "class": block.id,
        "kind": block.kind,
        "heading": block.heading,
        "comparable_by": dict(block.comparable_by),
        "headline": block.headline or None,
        "rows": [_json_row(ranked) for ranked in block.rows],
    }


def _json_row(ranked: Ranked) -> dict[str, Any]:
    row = ranked.row
    cells = {
        name: {"value": c.value, "low": c.low, "high": c.high, "n": c.n, "printed": c.printed}
        for name, c in row.cells.items()
    }
    return {
        "rank": ranked.rank,
        "tied": ranked.tied,
        "model": row.model,
        "run": row.run or None,
        "judge": row.judge or None,
        "cells": cells,
        "counts": dict(row.counts),
        "details": dict(row.details),
        "source": row.source or None,
        "note": row.note or None,
    }


def as_markdown(board: Board) -> bytes:
    """The page for people."""
    name = board.spec.path.name
    lines = [
        f"<!-- Made by `harness leaderboard {markdown(name)}` from published/ and results/. "
        "Do not edit. -->",
        f"# {markdown(board.spec.title)}",
        "",
        INTRO,
    ]
    for filled in board.tables:
        lines += ["", f"## {markdown(filled.table.title or filled.table.name)}"]
        lines += ["", markdown(filled.table.note)] if filled.table.note else []
        lines += [] if filled.blocks else ["", "No rows yet."]
        for block in filled.blocks:
            lines += ["", *_markdown_block(filled.table, block)]
    return ("\n".join(lines) + "\n").encode()


def _markdown_block(table: Table, block: Block) -> list[str]:
    lines = [f"### {markdown(block.heading)}", ""]
    if block.kind == "run":
        facts = "; ".join(f"{k} {_fact(k, v)}" for k, v in flat(block.comparable_by))
        lines += [markdown(facts), ""]
    lines += markdown_table(block_frame(table, block))
    footnotes = [OVERLAP] if any(r.tied for r in block.rows) else []
    footnotes += [PAIRED] if sum(r.row.paired for r in block.rows) > 1 else []
    lines += ["", *footnotes] if footnotes else []
    notes = [f"- {note}" for note in _notes(block)]
    return lines + (["", *notes] if notes else [])


def _fact(key: str, value: Any) -> str:
    return "none" if value in ({}, []) else short(value)


def _notes(block: Block) -> list[str]:
    """The remarks on rows, equal ones once, and what cannot be right, as Markdown."""
    by_note: dict[str, list[str]] = {}
    for ranked in block.rows:
        if ranked.row.note:
            by_note.setdefault(ranked.row.note, []).append(ranked.row.model)
    notes = [
        f"**{markdown(', '.join(dict.fromkeys(models)))}**: {markdown(note)}"
        for note, models in by_note.items()
    ]
    warnings = [warning for ranked in block.rows for warning in ranked.row.warnings]
    return notes + [markdown(warning) for warning in warnings]


def markdown_table(table: "DataFrame") -> list[str]:
    """A frame of text as a Markdown table; numbers (all but text columns) to the right."""
    names = [str(name) for name in table.columns]
    left = {"model", "run", "source"}
    lines = [_cells(names), "| " + " | ".join(":--" if n in left else "--:" for n in names) + " |"]
    return lines + [_cells(row) for row in table.itertuples(index=False, name=None)]


def _cells(texts: Sequence[str]) -> str:
    return "| " + " | ".join(markdown(text) for text in texts) + " |"


def summary(board: Board) -> str:
    """For the terminal: how many rows each table has, and where each of our runs stands."""
    from harness.report import printable
    from harness.report import table as aligned

    lines = [["table", "runs", "published", "blocks"]]
    for filled in board.tables:
        kinds = [r.row.kind for block in filled.blocks for r in block.rows]
        counts = (kinds.count("run"), kinds.count("published"), len(filled.blocks))
        lines.append([filled.table.name, *map(str, counts)])
    text = aligned(lines)
    ours = [["run", "model", "table", "class", "rank", "headline", "", "errors"]]
    for filled, block, ranked in board.rows():
        row, cell = ranked.row, ranked.row.cells.get(block.headline)
        if row.kind == "run":
            rank = f"{ranked.rank or '-'} of {len(block.rows)}{' ' + TIED if ranked.tied else ''}"
            value = cell.text if cell else "-"
            errors = f"{row.counts['errors']} of {row.counts['n']}"
            ours.append([row.run, row.model, filled.table.name, block.id, rank,
                         block.headline or "-", value, errors])  # fmt: skip
    text += ["", *aligned(ours)] if len(ours) > 1 else []
    return printable("\n".join(text))
