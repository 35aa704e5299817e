"""The contract of a source: pictures with regions, and texts about them to learn from.

Trainers ask a source; what it draws from (files, a generator) is its own affair. Write a frozen
dataclass whose fields are the user's options and end the module with ``source = ItsClass``.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.types import Mask


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture as a model is shown it (uint8, H x W x 3) and its regions, none of them empty."""

    pixels_HWC: NDArray[np.uint8]
    regions: tuple[Mask, ...]


@dataclass(frozen=True, slots=True)
class Example:
    """One question about a picture and the answer to learn.

    ``{region_2}`` in either text stands for the third region of the picture; the trainer writes it
    in its codec, as an evaluation would. ``zooms`` are regions shown enlarged as further pictures:
    ``{zoom_0}`` is where the first of them stands in the prompt, ``{zoom_region_0}`` the region as
    it lies there (``harness.views.zoom``). ``kind`` is for statistics ("caption", "refer").
    """

    prompt: str
    answer: str
    zooms: tuple[int, ...] = ()
    kind: str = ""


class Source(ABC):
    """Pictures by number, and examples of each. All of it is a function of the options alone."""

    @abstractmethod
    def __len__(self) -> int:
        """How many pictures there are."""

    def load(self, processes: int) -> None:  # noqa: B027 (most sources are ready)
        """Does once what is expensive; afterwards ``picture`` and ``examples`` are cheap.

        Called before worker processes are forked, so they share what it keeps.
        """

    @abstractmethod
    def picture(self, index: int) -> Picture:
        """The picture with this number, 0 to ``len(self) - 1``."""

    @abstractmethod
    def examples(self, index: int, visit: int) -> Sequence[Example]:
        """What to learn from a picture the ``visit``-th time it is seen (0, 1, ...).

        The same numbers give the same examples. Endless sources give new texts at each visit.
        """

    @abstractmethod
    def fingerprint(self) -> Mapping[str, str]:
        """What decides its content beside the options: hashes of files, versions."""
