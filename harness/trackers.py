"""Where numbers of a training run go beside its own files: TensorBoard, trackio, Weights & Biases.

Each is imported when it is asked for. events.jsonl always has everything.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.errors import ConfigError, did_you_mean


class Tracker(ABC):
    """Takes numbers by step."""

    @abstractmethod
    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Numbers of a step."""

    @abstractmethod
    def close(self) -> None:
        """Writes what is still held back."""


class TensorBoard(Tracker):
    """Event files below ``tensorboard/`` of the run folder."""

    def __init__(self, folder: Path, record: Mapping[str, Any]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(folder / "tensorboard"))

    def log(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self.writer.add_scalar(name, value, step)

    def close(self) -> None:
        self.writer.close()


class _Module(Tracker):
    """A package with ``init``, ``log`` and ``finish``: wandb, and trackio which is like it."""

    def __init__(self, module: Any, folder: Path, record: Mapping[str, Any]) -> None:
        self.module = module
        config = {"trainer": record["trainer"], **record["options"]}
        module.init(project="harness", name=folder.name, config=config)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self.module.log(dict(values), step=step)

    def close(self) -> None:
        self.module.finish()


def _wandb(folder: Path, record: Mapping[str, Any]) -> Tracker:
    import wandb

    return _Module(wandb, folder, record)


def _trackio(folder: Path, record: Mapping[str, Any]) -> Tracker:
    import trackio

    return _Module(trackio, folder, record)


TRACKERS = {"tensorboard": TensorBoard, "trackio": _trackio, "wandb": _wandb}


def open_trackers(names: Sequence[str], folder: Path, record: Mapping[str, Any]) -> list[Tracker]:
    """The trackers of these names; raises ConfigError for one that is unknown or not installed."""
    opened: list[Tracker] = []
    for name in names:
        if name not in TRACKERS:
            raise ConfigError(f"train.trackers: no tracker {name!r}.{did_you_mean(name, TRACKERS)}")
        try:
            opened.append(TRACKERS[name](folder, record))
        except ImportError as error:
            raise ConfigError(
                f"train.trackers: {name} cannot be imported ({error}); pip install {name}"
            ) from error
    return opened
