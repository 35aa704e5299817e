"""Option files by name: ``--config toy-sft`` finds ``toy_sft.toml`` in an installed package.

A package brings option files by an entry point of the group ``harness.configs`` that names a
package whose folder holds them.
"""

import importlib.util
from importlib.metadata import entry_points
from pathlib import Path

from harness.errors import ConfigError, did_you_mean
from harness.registry import canonical


def find(text: str) -> Path:
    """The file that ``--config`` names: a path, or the name of one that a package brings.

    Raises ConfigError if it is neither.
    """
    path = Path(text)
    if path.exists() or path.suffix in (".toml", ".json") or len(path.parts) > 1:
        return path
    known = named()
    if canonical(text) not in known:
        raise ConfigError(
            f"--config {text!r} is no file, and no installed package brings an option file of "
            f"that name.{did_you_mean(canonical(text), known)}"
        )
    return known[canonical(text)]


def named() -> dict[str, Path]:
    """Every option file that an installed package brings, by its name."""
    files: dict[str, Path] = {}
    for entry in entry_points(group="harness.configs"):
        spec = importlib.util.find_spec(entry.value)
        for folder in dict.fromkeys(spec.submodule_search_locations or ()) if spec else ():
            files |= {canonical(file.stem): file for file in sorted(Path(folder).glob("*.toml"))}
    return files
