"""Files in, files out: JSON that is not trusted, hashes, and writes done wholly or not at all."""

import hashlib
import json
import math
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

from harness.errors import DataError, StorageError

UNFINISHED = ".unfinished"
"""How the names of temporary files end."""


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise ValueError(f"{digits:.20} is too large a number")
    return value


_encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
_decoder = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)


def parse_json(data: bytes | str) -> Any:
    """The value of a JSON text (UTF-8); raises DataError whose message says what is wrong in it."""
    try:
        text = data.decode().removeprefix("\ufeff") if isinstance(data, bytes) else data
        return _decoder.decode(text)
    except RecursionError:
        raise DataError("it is nested too deeply") from None
    except ValueError as error:
        raise DataError(f"it is not valid JSON ({error})") from None


def dump_json(value: Any) -> bytes:
    """One line of JSON with its newline. Text stays readable; a lone surrogate is escaped."""
    try:
        line = _encoder.encode(value).encode("utf-8")
    except UnicodeEncodeError:
        line = json.dumps(value, ensure_ascii=True, allow_nan=False).encode("ascii")
    return line + b"\n"


def pretty_json(value: Any) -> bytes:
    """Indented JSON with a final newline, keys in the order given."""
    return (json.dumps(value, indent=2, ensure_ascii=True, allow_nan=False) + "\n").encode("ascii")


def read_json(path: Path, hint: str = "") -> Any:
    """The content of a JSON file. ``hint`` is added where it is missing: where to get it."""
    with _opened(path, hint) as file:
        data = file.read()
    try:
        return parse_json(data)
    except DataError as error:
        raise DataError(f"{path} is damaged: {error}; fetch it again") from None


def read_jsonl(path: Path, hint: str = "") -> Iterator[tuple[int, dict[str, Any]]]:
    """(line number, object) for each line that is not blank; raises DataError with the line."""
    with _opened(path, hint) as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = parse_json(line)
            except DataError as error:
                raise DataError(
                    f"{path} line {number}: {error}; the file must be UTF-8 with one JSON object a "
                    "line: mend or remove the line"
                ) from None
            if not isinstance(row, dict):
                raise DataError(f"{path} line {number}: it must be a JSON object, one a line")
            yield number, row


@contextmanager
def _opened(path: Path, hint: str = "") -> Iterator[BufferedReader]:
    """A regular file open for reading; raises DataError for anything else (a pipe would hang)."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise DataError(f"{path} is not a regular file; check the path")
        with path.open("rb") as file:
            yield file
    except FileNotFoundError:
        raise DataError(f"there is no file {path}{_advice(hint)}") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}){_advice(hint)}") from None
    except ValueError as error:
        if "null byte" not in str(error):
            raise
        raise DataError(f"{str(path)!r} is no file name; check the path") from None


def _advice(hint: str) -> str:
    return f". {hint}" if hint else "; check the path"


def inside(root: Path, name: object) -> Path:
    """``root / name`` for a name out of a data file; a name that leaves it is a DataError."""
    if not isinstance(name, str) or not name or "\0" in name:
        raise DataError(f"a file name must be text, not {name!r:.80}")
    if name.startswith("/") or ".." in name.split("/") or "\\" in name:
        raise DataError(f"the file name {name!r:.200} leads outside {root}")
    return root / name


def sha256(path: Path) -> str:
    """The SHA-256 of a file's content, in hex; raises DataError if it cannot be read."""
    with _opened(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_atomic(path: Path, data: bytes) -> None:
    """Writes a file so that a crash leaves the old content or the new; raises StorageError."""
    with _whole(path, data) as temporary:
        os.replace(temporary, path)


def write_new(path: Path, data: bytes) -> bool:
    """Writes a file wholly unless there is one already, which is left alone (then False)."""
    with _whole(path, data) as temporary:
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
        except OSError:  # a filesystem without hard links: two at once are not kept apart there
            if path.exists():
                return False
            os.replace(temporary, path)
    return True


def remove_unfinished(folder: Path) -> None:
    """Removes what writes that were killed left in a folder; nobody may be writing there."""
    for path in folder.glob(f".*{UNFINISHED}"):
        path.unlink(missing_ok=True)


@contextmanager
def _whole(path: Path, data: bytes) -> Iterator[str]:
    """A temporary file beside ``path`` that holds ``data`` on disk; gone at the end."""
    temporary = None
    try:
        handle, temporary = tempfile.mkstemp(
            dir=path.parent, prefix=f".{path.name}.", suffix=UNFINISHED
        )
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        yield temporary
    except OSError as error:
        raise storage_error(path, error) from error
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


def storage_error(path: Path, error: OSError) -> StorageError:
    """What to tell the user when ``path`` could not be written."""
    return StorageError(
        f"{path} could not be written ({error.strerror or error}); everything before it is saved: "
        "make room or choose another --run folder, and run the same command again"
    )
