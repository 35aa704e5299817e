"""A run folder: plain files, one line a sample, never half written, never shared by accident.

    run.json                       what was asked: options, versions, hashes (written once)
    sessions.jsonl                 one line each time somebody worked on it
    <task>/predictions.jsonl       one line a sample, flushed as it comes
    <task>/predictions.1-of-4.jsonl    the same, while shards are at work
    <task>/scores.jsonl            written whole when all samples are answered
    result.json                    the result object that `--json` prints

A killed process can leave a torn last line; it is dropped and asked again.
"""

import fcntl
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from harness.errors import ConfigError, DataError, StorageError
from harness.files import (
    dump_json,
    parse_json,
    pretty_json,
    remove_unfinished,
    storage_error,
    write_atomic,
    write_new,
)
from harness.record import check_record

LOCK_PATIENCE = 10.0  # seconds that a run waits for a predecessor's dying workers
_SHARD_FILE = re.compile(r"predictions\.\d+-of-\d+\.jsonl")


@dataclass(frozen=True)
class Shard:
    """One of several equal parts of a run: the samples ``index, index + count, ...``."""

    index: int = 0
    count: int = 1

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """A shard from ``i/N``; raises ConfigError."""
        match = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text)
        if not match or int(match[1]) >= int(match[2]):
            raise ConfigError(f"--shard {text!r} must be i/N with i from 0 to N-1, e.g. 0/4")
        return cls(int(match[1]), int(match[2]))

    @property
    def whole(self) -> bool:
        return self.count == 1

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"


class RunStore:
    """The files of one run folder. Raises StorageError, or ConfigError for another run's folder."""

    record_file: ClassVar[str] = "run.json"

    def __init__(self, root: Path) -> None:
        self.root = root

    def begin(self, record: Mapping[str, Any]) -> None:
        """Writes the record, or checks that the one there describes the same run.

        Raises ConfigError if the folder holds another run, and names the first difference.
        """
        file = self.root / self.record_file
        if not file.exists() and write_new(file, pretty_json(record)):
            return
        difference = first_difference(self.identity(self.record()), self.identity(record))
        if difference:
            path, old, new = difference
            raise ConfigError(
                f"{self.root} holds another run: {path} was {old!r:.200} and is now {new!r:.200}; "
                "choose another --run folder"
            )

    @classmethod
    def existing(cls, root: Path) -> "RunStore":
        """A folder that must already hold a run; raises ConfigError if it does not."""
        if not (root / cls.record_file).is_file():
            raise ConfigError(
                f"{root} is not a run folder: it has no {cls.record_file}; check the path"
            )
        return cls(root)

    def record(self) -> dict[str, Any]:
        """The content of the record."""
        return check_record(self.read_json(self.record_file), str(self.root / self.record_file))

    def identity(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """The part of a record that decides what is computed here."""
        return identity(record)

    def read_json(self, name: str) -> dict[str, Any]:
        """A JSON file of the folder; raises StorageError if it is missing or damaged."""
        path = self.root / name
        try:
            value = parse_json(path.read_bytes())
        except OSError as error:
            raise StorageError(f"{path} cannot be read ({error.strerror})") from error
        except DataError as error:
            raise StorageError(
                f"{path} is damaged: {error}; restore it or choose another --run folder"
            ) from None
        if not isinstance(value, dict):
            raise StorageError(f"{path} is damaged: it must hold a JSON object")
        return value

    def write_json(self, name: str, value: Mapping[str, Any]) -> None:
        """Writes a JSON file wholly or not at all."""
        write_atomic(self.root / name, pretty_json(value))

    def discard(self, name: str) -> None:
        """Removes a file if it is there."""
        try:
            (self.root / name).unlink(missing_ok=True)
        except OSError as error:
            raise storage_error(self.root / name, error) from error

    # Lines

    def lines(self, name: str) -> Iterator[tuple[dict[str, Any], bytes]]:
        """(object, its bytes) for each complete line of a file; a torn last line is left out.

        Raises StorageError for a damaged line in the middle: that is no crash of ours.
        """
        path = self.root / name
        if not path.exists():
            return
        pending: tuple[int, str] | None = None
        try:
            file = path.open("rb")
        except OSError as error:
            raise StorageError(f"{path} cannot be read ({error.strerror})") from error
        with file:
            for number, line in enumerate(file, 1):
                if pending:
                    raise StorageError(
                        f"{path} line {pending[0]} is damaged ({pending[1]}); remove the line "
                        "and run the same command again: the sample will be asked again"
                    )
                if not line.endswith(b"\n"):
                    return  # not read on: another shard may be writing the rest at this moment
                row, problem = _parse_line(line)
                if row is None:
                    pending = (number, problem)
                    continue
                yield row, line

    @contextmanager
    def appender(self, name: str) -> Iterator[Callable[[Mapping[str, Any]], None]]:
        """A function that appends one line and has it written before it returns.

        A torn last line is cut off first. On a full disk the file is cut back to whole lines
        and StorageError is raised. Who comes while another appends to the file waits.
        """
        path = self.root / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = path.open("ab", buffering=0)
        except OSError as error:
            raise storage_error(path, error) from error
        with file:
            fcntl.flock(file, fcntl.LOCK_EX)
            whole = sum(len(line) for _, line in self.lines(name))
            file.truncate(whole)

            def append(record: Mapping[str, Any]) -> None:
                nonlocal whole
                line = dump_json(record)
                try:
                    written = 0
                    while written < len(line):
                        written += file.write(line[written:])
                except OSError as error:
                    file.truncate(whole)
                    raise storage_error(path, error) from error
                whole += len(line)

            yield append

    # Predictions

    def shard_file(self, task: str, shard: Shard) -> str:
        """The file that a shard of a run appends its predictions to."""
        part = "" if shard.whole else f".{shard.index}-of-{shard.count}"
        return f"{task}/predictions{part}.jsonl"

    def prediction_files(self, task: str) -> list[str]:
        """The files that hold predictions of a task: the whole one first, then shards."""
        folder = self.root / task
        shards = sorted(
            p.name for p in folder.glob("predictions.*.jsonl") if _SHARD_FILE.fullmatch(p.name)
        )
        names = [f"{task}/predictions.jsonl", *(f"{task}/{name}" for name in shards)]
        return [name for name in names if (self.root / name).exists()]

    def predictions(self, task: str) -> dict[str, bytes]:
        """The line of each answered sample by its id; raises StorageError if two disagree."""
        found: dict[str, bytes] = {}
        for name in self.prediction_files(task):
            for row, line in self.lines(name):
                sample_id = str(row.get("sample_id"))
                if found.setdefault(sample_id, line) != line:
                    raise StorageError(
                        f"{self.root / name} answers sample {sample_id!r} a second time, "
                        "differently; remove one of the two lines"
                    )
        return found

    def settle(self, task: str, ids: Iterable[str], *, drop_failed: bool = False) -> list[str]:
        """Brings all predictions into one file in sample order; returns the ids still missing.

        Shard files go only after the one file is complete on disk. ``drop_failed`` leaves out
        failed requests, so that they are asked again.
        """
        remove_unfinished(self.root / task)
        files = self.prediction_files(task)
        found = self.predictions(task)
        if drop_failed:
            found = {
                i: line for i, line in found.items() if parse_json(line).get("text") is not None
            }
        order = list(ids)
        foreign = sorted(found.keys() - set(order))
        if foreign:
            raise StorageError(
                f"{self.root / task} answers sample {foreign[0]!r}, which is not part of this run "
                f"({len(foreign)} such lines); it belongs to another run"
            )
        whole = self.root / task / "predictions.jsonl"
        data = b"".join(found[i] for i in order if i in found)
        if files and (files != [f"{task}/predictions.jsonl"] or whole.read_bytes() != data):
            write_atomic(whole, data)
        for name in files:
            if _SHARD_FILE.fullmatch(Path(name).name):
                (self.root / name).unlink()
        return [i for i in order if i not in found]

    def put_predictions(self, task: str, lines: Iterable[bytes]) -> None:
        """Writes the predictions of a task at once, in place of any there."""
        path = self.root / task / "predictions.jsonl"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise storage_error(path, error) from error
        write_atomic(path, b"".join(lines))

    def forget_failed(self, name: str) -> None:
        """Takes the failed requests out of a file of predictions, so that they are asked again."""
        rows = list(self.lines(name))
        kept = [line for row, line in rows if row.get("text") is not None]
        if len(kept) < len(rows):
            write_atomic(self.root / name, b"".join(kept))

    def write_lines(self, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Writes a whole file of lines at once, or none of it."""
        write_atomic(self.root / name, b"".join(dump_json(row) for row in rows))

    # Locks

    @contextmanager
    def locked(self, shard: Shard | None = None, *, worker: bool = False) -> Iterator[None]:
        """Keeps others off: the whole folder, or one shard of it. Raises StorageError if in use.

        Several shards may work in one folder if they cut the run into equally many; a whole run
        works alone. ``worker`` is a process of a whole run, whose parent holds the folder.
        """
        self._make_folder()
        folder = self.root / ".lock"
        with _File(folder) as whole:
            if shard is None:
                whole.lock(fcntl.LOCK_EX, folder)
                for path in sorted(self.root.glob(".lock-*")):
                    with _File(path) as part:
                        part.lock(fcntl.LOCK_EX, path)
                yield
                return
            if not worker:
                whole.lock(fcntl.LOCK_SH, folder)
            path = self.root / f".lock-{shard.index}-of-{shard.count}"
            with _File(path) as part:
                part.lock(fcntl.LOCK_EX, path)
                if not worker:
                    self._refuse_other_cuts(shard)
                yield

    def _make_folder(self) -> None:
        """Makes the folder; raises ConfigError if something else stands there."""
        if self.root.exists() and not self.root.is_dir():
            raise ConfigError(f"{self.root} is a file; --run needs a folder")
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            # Listed first: of several shards that start here, another may write run.json now.
            others = [p.name for p in self.root.iterdir() if not p.name.startswith(".")]
        except OSError as error:
            raise ConfigError(
                f"the run folder {self.root} cannot be made ({error.strerror}); choose another"
            ) from error
        if others and not (self.root / self.record_file).exists():
            raise ConfigError(
                f"{self.root} is not a run folder but holds {others[0]!r}; choose another "
                "--run folder"
            )

    def _refuse_other_cuts(self, shard: Shard) -> None:
        """Raises StorageError if a shard of another count is at work: both would ask one sample."""
        for path in self.root.glob(".lock-*"):
            if not path.name.endswith(f"-of-{shard.count}"):
                with _File(path) as other:
                    other.lock(fcntl.LOCK_EX, path)


class _File:
    """An open lock file; the lock goes with the process, however it ends."""

    def __init__(self, path: Path) -> None:
        try:
            self.handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise storage_error(path, error) from error

    def __enter__(self) -> "_File":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.handle)

    def lock(self, kind: int, path: Path) -> None:
        deadline = time.monotonic() + LOCK_PATIENCE
        while True:
            try:
                fcntl.flock(self.handle, kind | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise StorageError(
                        f"another process is working in {path.parent} ({path.name}); wait for it "
                        "to end, or choose another --run folder"
                    ) from None
                time.sleep(0.05)
            except OSError as error:
                raise storage_error(path, error) from error


def _parse_line(line: bytes) -> tuple[dict[str, Any] | None, str]:
    try:
        row = parse_json(line)
    except DataError as error:
        return None, str(error)
    return (row, "") if isinstance(row, dict) else (None, "it is no JSON object")


IDENTITY = ("schema", "spec", "model", "tasks")


def identity(record: Mapping[str, Any]) -> dict[str, Any]:
    """The part of run.json that decides the answers; the rest says who computed them."""
    return {key: record.get(key) for key in IDENTITY}


def first_difference(old: Any, new: Any, path: str = "") -> tuple[str, Any, Any] | None:
    """(path, old value, new value) of the first difference of two JSON values; None if equal."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(k for k in new if k not in old)]:
            found = first_difference(old.get(key), new.get(key), f"{path}.{key}" if path else key)
            if found:
                return found
        return None
    return None if old == new else (path, old, new)
