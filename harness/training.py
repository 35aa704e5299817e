"""The contract of a trainer: it runs in stages and yields checkpoints.

What a checkpoint is worth is said by the same ``harness eval`` that a user would run, never by the
trainer. Write a frozen dataclass whose fields are the user's options (``--set
trainer.<field>=...``) and end the module with ``trainer = ItsClass``.
"""

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A folder of weights, and the adapter that can load it (``options`` without its path)."""

    path: Path
    stage: str
    step: int
    model: str = ""
    """The adapter to evaluate it with; "" if it cannot be evaluated (a codec)."""
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLogged:
    """Numbers of one step (or of the steps since the last line): loss, rate, tokens per second."""

    step: int
    of: int
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSaved:
    """A checkpoint is complete on disk.

    With ``score_on`` it is scored before the trainer goes on: when this is yielded, the trainer has
    released its devices until it is resumed.
    """

    checkpoint: Checkpoint
    score_on: tuple[str, ...] = ()


TrainEvent = StepLogged | CheckpointSaved
TrainEvents = Generator[TrainEvent, None, None]
"""A generator: it is closed when the run is interrupted, so that ``finally`` blocks are run."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A part of the training that ends with a checkpoint; ``score_on`` names tasks beyond the
    run's own."""

    name: str
    score_on: tuple[str, ...] = ()


class Trainer(ABC):
    """Turns a start (weights or nothing) into checkpoints, stage by stage."""

    operational: ClassVar[tuple[str, ...]] = ()
    """Options that cannot change the weights (workers, logging): a run may go on with others."""

    @abstractmethod
    def stages(self) -> Sequence[Stage]:
        """Its stages in order."""

    @abstractmethod
    def run(self, stage: Stage, start: Checkpoint | None, out: Path) -> TrainEvents:
        """Trains one stage in the folder ``out`` and yields what happens; ends with a checkpoint.

        If ``out`` holds the state of an earlier, killed run of the same stage, it goes on from
        there, and the weights at the end are the same bytes (on one kind of machine). ``start`` is
        the checkpoint of the stage before, None for the first stage.
        """

    def fingerprint(self) -> Mapping[str, str]:
        """All that can change the weights beside the options: data by content, versions."""
        return {}

    def check(self) -> None:  # noqa: B027 (most trainers have nothing to check)
        """Raises ConfigError or DataError if it cannot start; cheap, before anything is loaded."""
