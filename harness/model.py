"""The contract of a model adapter: requests in, predictions out.

Write a frozen dataclass whose fields are the user's options (``--set model.<field>=...``), load
weights on the first ``predict``, and end the module with ``model = ItsClass``.
The README has one that runs.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, ClassVar

from harness.types import Prediction, Request


class ModelAdapter(ABC):
    """Anything that can answer requests: a network, an endpoint, a file of answers."""

    needs_gold: ClassVar[bool] = False
    """Whether requests carry the truth. Only for adapters that measure ceilings."""

    chunk_size: ClassVar[int] = 64
    """How many requests ``predict`` is handed at a time."""

    operational: ClassVar[tuple[str, ...]] = ()
    """Options that cannot change an answer (time-outs, say): a run may go on with others."""

    @classmethod
    def defaults(cls, tasks: Sequence[str]) -> Mapping[str, Any]:
        """Options that it brings for these tasks, in the form of a file of options.

        For a model that comes with its data (``tasks.<name>.root``) or its judge
        (``judge.name``). They have the lowest priority, are printed, and are recorded like any
        other option. May build files (in the user's cache); called only when the model is run.
        """
        return {}

    @property
    @abstractmethod
    def name(self) -> str:
        """What the tables call it."""

    @abstractmethod
    def fingerprint(self) -> Mapping[str, str]:
        """All that can change an answer. Weights and files by a hash of their **content**."""

    @abstractmethod
    def predict(self, requests: Sequence[Request]) -> Iterable[Prediction]:
        """One prediction for each request, in any order, each as soon as it is known.

        An exception costs only the requests that have no prediction yet: each of them is asked
        again by itself, and what fails again is recorded with its error. A ``ConfigError`` or a
        ``ModelError`` ends the run instead: nothing can be asked.
        """

    def protocol(self, masks_expected: bool) -> Mapping[str, Any]:
        """Its choices that change numbers: how replies are read, in which coordinates.

        ``masks_expected`` tells whether the task scores masks (``Task.masks_expected``).
        """
        return {}

    def notes(self, wanted: Set[str], skipped: Set[str]) -> Sequence[str]:
        """Remarks for the report, given the ids of all samples of all tasks of the run.

        Called before the first request; a HarnessError ends the run there.
        """
        return ()

    def close(self) -> None:  # noqa: B027 (most adapters hold nothing)
        """Frees what it holds."""
