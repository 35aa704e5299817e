"""Every error that a user of the harness can meet.

A message is one sentence that says what is wrong, where, and what to do. The command line prints
it and exits with 2. Anything else that escapes is a bug of ours (exit 1, with its traceback).
"""

from collections.abc import Iterable
from difflib import get_close_matches


class HarnessError(Exception):
    """A problem that the user can mend; the message says how."""


class ConfigError(HarnessError, ValueError):
    """An option, a file of options or a command line that does not fit."""


class UnknownPlugin(ConfigError, LookupError):
    """A name that no registry knows."""


class DataError(HarnessError, ValueError):
    """A benchmark file, a predictions file or a mask that breaks its format."""


class StorageError(HarnessError, OSError):
    """A run folder that cannot be written, is in use, or is damaged."""


class DeadShard(HarnessError):
    """A worker process that ended before its shard was done."""


class ModelError(HarnessError):
    """A model that cannot be loaded or asked at all (one failed request is not this)."""


class JudgeError(HarnessError):
    """A judge that cannot be asked at all (one missing verdict is not this)."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`` Did you mean 'gres'? Known: dlc, gres.`` for the known word nearest to ``word``."""
    names = sorted(known)
    near = get_close_matches(word, names, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"{hint} Known: {', '.join(names) or 'none'}."
