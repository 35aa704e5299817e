"""The contract of a builder: it writes the files of benchmarks (``harness build NAME --out DIR``).

Write a frozen dataclass whose fields are the user's options (flags of the command) and end the
module with ``builder = ItsClass``.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path


class Builder(ABC):
    """Writes benchmark files in the layout that the ordinary tasks read."""

    @abstractmethod
    def build(self, out: Path) -> Mapping[str, Path]:
        """Writes everything below ``out`` and returns the root of each task by its name.

        The same options give the same bytes. A folder that holds other files than this would write
        is refused with a ConfigError; a half-written one is completed.
        """
