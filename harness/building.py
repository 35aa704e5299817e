"""Builds benchmark files: a builder by name, its options, a folder (``harness build``)."""

from collections.abc import Mapping
from pathlib import Path

from harness import registry
from harness.config import Options
from harness.errors import ConfigError, StorageError


def build(name: str, options: Options, out: Path) -> Mapping[str, Path]:
    """The root of each task by its name, after a builder has written all of them below ``out``.

    Raises UnknownPlugin or ConfigError for what cannot be built, StorageError if ``out`` cannot be
    written.
    """
    builder = registry.builders.build(name, options, where="builder")
    if out.exists() and not out.is_dir():
        raise ConfigError(f"--out {out} is a file; name a folder")
    try:
        return builder.build(out)
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(
            f"{out} could not be written ({error.strerror or error}); make room or name another "
            "folder with --out"
        ) from error
