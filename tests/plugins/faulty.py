"""A model that fails in every way that a test asks for. Not shipped.

It lies in a folder of its own with the metadata of an installed package: on ``PYTHONPATH`` it is
found by the entry point like any stranger's plug-in, in worker processes too.
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import ConfigError, ModelError
from harness.model import ModelAdapter
from harness.types import Mask, Prediction, Region, Request


@dataclass(frozen=True)
class Faulty(ModelAdapter):
    faults: Path
    """A JSON file, ``{sample id: fault}``. Being a place, its content is no part of the run's
    identity, so that a test can mend it between two calls."""
    fault_for_all: str = ""
    """The fault of samples that the file does not name."""

    chunk_size = 8

    @property
    def name(self) -> str:
        return "faulty"

    def fingerprint(self) -> Mapping[str, str]:
        return {"weights": "none"}

    def predict(self, requests: Sequence[Request]) -> Iterable[Prediction]:
        with self.asked.open("a") as file:
            file.write(json.dumps([r.sample_id for r in requests]) + "\n")
        faults = json.loads(self.faults.read_text())
        for request in requests:
            fault = faults.get(request.sample_id, self.fault_for_all)
            yield from FAULTS[fault](request, len(requests))

    def close(self) -> None:
        self.faults.with_suffix(".closed").touch()

    @property
    def asked(self) -> Path:
        """Where each call of ``predict`` is written down, one line each: a list of ids."""
        return self.faults.with_suffix(".asked")


def _answer(request: Request, **changes: Any) -> Prediction:
    assert request.size is not None
    good = {"text": "all of it", "regions": (Region(Mask.full(*request.size)),)}
    return Prediction(sample_id=request.sample_id, **{**good, **changes})


def _raise(error: BaseException) -> Iterable[Prediction]:
    raise error


def _die() -> Iterable[Prediction]:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def _wait() -> Iterable[Prediction]:
    print("waiting", file=sys.stderr, flush=True)
    while True:
        signal.pause()


FAULTS: Mapping[str, Callable[[Request, int], Iterable[Prediction]]] = {
    "": lambda r, n: [_answer(r)],
    "says nothing": lambda r, n: [_answer(r, text="", regions=())],
    "raises": lambda r, n: _raise(RuntimeError(f"no luck with {r.sample_id}")),
    "raises in company": lambda r, n: (
        _raise(RuntimeError("too crowded")) if n > 1 else [_answer(r)]
    ),
    "silent": lambda r, n: [],
    "silent in company": lambda r, n: [] if n > 1 else [_answer(r)],
    "foreign": lambda r, n: [_answer(r), Prediction(sample_id="nobody")],
    "foreign alone": lambda r, n: (
        _raise(RuntimeError("too crowded")) if n > 1 else [Prediction(sample_id="7")]
    ),
    "twice": lambda r, n: [_answer(r), _answer(r)],
    "wrong size": lambda r, n: [_answer(r, regions=(Region(Mask.full(2, 3)),))],
    "far box": lambda r, n: [_answer(r, regions=(Region(box=(0.0, 0.0, 1e12, 1.0)),))],
    "box of nan": lambda r, n: [_answer(r, regions=(Region(box=(0.0, 0.0, float("nan"), 1.0)),))],
    "no text": lambda r, n: [_answer(r, text=None)],
    "info is no JSON": lambda r, n: [_answer(r, info={"tokens": object()})],
    "info is not finite": lambda r, n: [_answer(r, info={"seconds": float("inf")})],
    "regions are masks": lambda r, n: [_answer(r, regions=(Mask.full(2, 3),))],
    "no prediction": lambda r, n: ["all of it"],  # type: ignore[list-item]
    "error with regions": lambda r, n: [_answer(r, error="gave up")],
    "lone surrogate": lambda r, n: _raise(RuntimeError("\ud800\n\0")),
    "config error": lambda r, n: _raise(ConfigError("the adapter wants another option")),
    "model error": lambda r, n: _raise(ModelError("the weights are gone")),
    "interrupted": lambda r, n: _raise(KeyboardInterrupt()),
    "dies": lambda r, n: _die(),
    "waits": lambda r, n: _wait(),
}

model = Faulty
