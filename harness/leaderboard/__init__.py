"""Leaderboards: tables of our runs and published rows, in blocks of rows that may be compared."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import ConfigError
from harness.files import inside, storage_error, write_atomic
from harness.leaderboard.board import Block, Board, Filled, Ranked, build, one_block
from harness.leaderboard.entries import Entry, joined, read_entry, shelf
from harness.leaderboard.rows import Row, attainable, check_comparable, published_rows, run_rows
from harness.leaderboard.spec import Column, Spec, Table, read_spec

__all__ = [
    "Block", "Board", "Column", "Entry", "Filled", "Published", "Ranked", "Row", "Spec", "Table",
    "attainable", "build", "check_comparable", "one_block", "publish", "published_rows",
    "read_entry", "read_spec", "run_rows",
]  # fmt: skip


@dataclass(frozen=True)
class Published:
    """What was made: the leaderboard, and its files with whether each was changed."""

    board: Board
    files: dict[Path, bool]


def publish(
    path: Path, runs: Sequence[Path] = (), *, out: Path | None = None, check: bool = False
) -> Published:
    """Writes the tables of a leaderboard; with ``check`` only compares them, byte for byte.

    Runs that are given join it: without ``out`` a copy of their results is kept in its results
    folder, so that the tables can be made again without them; with ``out`` the tables go to that
    folder and nothing is kept. Raises ConfigError if two runs have one name, or if ``check`` finds
    a stale file.
    """
    from harness.leaderboard.render import as_csv, as_json, as_markdown

    spec = read_spec(path)
    results = inside(spec.folder, spec.results)
    given = [read_entry(run) for run in runs]
    entries = joined(shelf(results), given)
    wanted: dict[Path, bytes] = {}
    if out is None and given:
        wanted = {results / entry.file_name: entry.as_json() for entry in given}
        # What is printed now must be what the shelf alone gives later, without the run folders.
        entries = [_unpaired(entry) for entry in entries]
    board = build(spec, entries)
    folder = spec.folder if out is None else out
    for ending, make in ((".md", as_markdown), (".csv", as_csv), (".json", as_json)):
        wanted[folder / f"{spec.path.stem}{ending}"] = make(board)
    changed = {file: _content(file) != data for file, data in wanted.items()}
    if check:
        _refuse_stale([file for file in wanted if changed[file]], path, runs)
    else:
        _write({file: data for file, data in wanted.items() if changed[file]})
    return Published(board, changed)


def _unpaired(entry: Entry) -> Entry:
    return Entry(entry.name, entry.model, entry.tasks, entry.raw)


def _content(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except OSError:
        return None


def _refuse_stale(stale: Sequence[Path], path: Path, runs: Sequence[Path]) -> None:
    if stale:
        names = ", ".join(map(str, stale))
        command = " ".join(["harness leaderboard", str(path), *map(str, runs)])
        raise ConfigError(
            f"stale: {names} {'is' if len(stale) == 1 else 'are'} not what {path} gives now; run "
            f"`{command}` and commit what it writes"
        )


def _write(files: dict[Path, bytes]) -> None:
    for file, data in files.items():
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise storage_error(file, error) from error
        write_atomic(file, data)
