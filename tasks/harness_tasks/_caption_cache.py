"""What the Java programs said before, by content, so that the same captions cost nothing again.

One SQLite file that any number of runs share; it can be removed at any time. It is a help and never
a condition: a file that is locked, damaged or on a full disk is left alone with a warning.
"""

import hashlib
import json
import logging
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)

DEFAULT = Path("~/.cache/region-harness/captions.sqlite")
OFF = Path("off")
_KEYS_AT_A_TIME = 500
_SECONDS_FOR_A_LOCK = 10


def key(*content: Any) -> str:
    """The key of a piece of work: a hash of all that decides its outcome (JSON values)."""
    text = json.dumps(content, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


class CaptionCache:
    """Texts by key. ``get`` and ``put`` never raise."""

    def __init__(self, path: Path) -> None:
        self.path = None if path == OFF else path.expanduser()

    def get(self, keys: Sequence[str]) -> dict[str, str]:
        """The stored texts of those keys that have one."""
        found: dict[str, str] = {}
        if self.path is None or not self.path.exists():
            return found
        try:
            with closing(self._connect(self.path)) as connection:
                for start in range(0, len(keys), _KEYS_AT_A_TIME):
                    part = keys[start : start + _KEYS_AT_A_TIME]
                    marks = ",".join("?" * len(part))
                    query = f"SELECT key, text FROM texts WHERE key IN ({marks})"
                    found.update(connection.execute(query, list(part)))
        except (OSError, sqlite3.Error) as error:
            self._warn(error)
        return found

    def put(self, texts: Mapping[str, str]) -> None:
        """Stores texts, all of them or (when killed) none."""
        if self.path is None or not texts:
            return
        try:
            with closing(self._connect(self.path)) as connection, connection:
                connection.executemany("INSERT OR REPLACE INTO texts VALUES (?, ?)", texts.items())
        except (OSError, sqlite3.Error) as error:
            self._warn(error)

    def _connect(self, path: Path) -> sqlite3.Connection:
        path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(path, timeout=_SECONDS_FOR_A_LOCK)
        try:
            connection.execute(
                "CREATE TABLE IF NOT EXISTS texts (key TEXT PRIMARY KEY, text TEXT NOT NULL)"
            )
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def _warn(self, error: Exception) -> None:
        log.warning("the cache %s is not used (%s); removing the file is safe", self.path, error)
