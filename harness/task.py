"""The contract of a task: benchmark files in; samples, requests and scores out.

Subclass ``Task`` as a frozen dataclass. Its fields are the user's options (``--set
tasks.<name>.<field>=...``); ``root`` is where the benchmark's files lie. End the module with
``task = ItsClass``. The README has one that runs.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, TypeVar

from harness.judge import Question, Verdict
from harness.metrics import Metric
from harness.types import Prediction, Request, Sample, Score

S = TypeVar("S", bound=Sample)

Overall = Literal["samples", "groups", "one group"]


class Task(ABC, Generic[S]):
    """One benchmark. Score functions are pure: (sample, prediction, verdicts) in, numbers out."""

    version: ClassVar[int] = 1
    """Raise it whenever the same answers would score differently."""

    recipe: ClassVar[str] = "See the task's own page."
    """Where to get the benchmark's files: one or two sentences, shown when ``root`` is missing."""

    overall: ClassVar[Overall] = "samples"
    """Headline over all samples, or the plain mean of the groups (their usual "Avg"), or none
    unless there is only one group (``one group``: a corpus metric means nothing across them)."""

    tags: ClassVar[tuple[str, ...]] = ()
    """Names of task groups it belongs to: ``--tasks <tag>`` runs them all."""

    needs_judge: ClassVar[bool] = False
    """Whether a judge's verdicts are part of the score."""

    @property
    @abstractmethod
    def metrics(self) -> Mapping[str, Metric]:
        """Name -> metric, in the order of the table (a plain class attribute will do).

        Values are fractions; larger is better.
        """

    @property
    @abstractmethod
    def primary(self) -> str:
        """The headline metric (a plain class attribute will do)."""

    @property
    def groups(self) -> tuple[str, ...]:
        """Groups that the table always shows, in this order, empty or not; others follow.

        A class attribute will do.
        """
        return ()

    @property
    def masks_expected(self) -> bool:
        """Whether answers are scored as masks, so that boxes are filled (``box_as_mask``).

        A class attribute will do.
        """
        return False

    @abstractmethod
    def files(self) -> Sequence[Path]:
        """The data files whose content decides the score; they are hashed into the record."""

    @abstractmethod
    def samples(self) -> Iterable[S]:
        """Every sample, in a stable order with unique ids. Raises DataError on a broken file."""

    @abstractmethod
    def request(self, sample: S) -> Request:
        """What the model is asked."""

    @abstractmethod
    def score(self, sample: S, prediction: Prediction, verdicts: Sequence[Verdict]) -> Score:
        """What the answer earned. A prediction with an ``error`` must earn nothing."""

    def questions(self, sample: S, prediction: Prediction) -> Sequence[Question]:
        """What a judge is asked about the answer; most tasks need none."""
        return ()

    def reading(self, reply: str, choices: Sequence[str]) -> str | None:
        """The answer that the official reader sees in a judge's reply; None if it sees none."""
        return reply.strip()

    def complete(self, scores: Sequence[Score]) -> Sequence[Score]:
        """The scores with what only the whole set can tell (document frequencies, batched tools).

        Called once for all samples of a run, in order, never for a shard; same ids out as in.
        """
        return scores

    def unavailable(self) -> Mapping[str, str]:
        """Metrics that cannot be had here, with the reason; they are null in the result."""
        return {}

    def gold(self, sample: S) -> Prediction | None:
        """An answer that earns full marks, where there is one."""
        return None

    def skipped(self) -> Sequence[str]:
        """Ids that the files name but the protocol leaves out; they are listed in the result."""
        return ()

    def protocol(self) -> Mapping[str, Any]:
        """The choices that change numbers; results with unequal ones are never mixed silently."""
        return {}
