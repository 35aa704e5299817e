"""Answers nothing: the floor of every task, and what "no target" pays for silence."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.model import ModelAdapter
from harness.types import Prediction, Request


@dataclass(frozen=True)
class Empty(ModelAdapter):
    @property
    def name(self) -> str:
        return "empty"

    def fingerprint(self) -> Mapping[str, str]:
        return {"baseline": "empty/1"}

    def predict(self, requests: Sequence[Request]) -> Iterable[Prediction]:
        return [Prediction(sample_id=request.sample_id) for request in requests]


model = Empty
