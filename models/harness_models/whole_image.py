"""Answers with the whole picture: what large targets pay a model that does not look."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.codec import canvas_of
from harness.model import ModelAdapter
from harness.types import Mask, Prediction, Region, Request


@dataclass(frozen=True)
class WholeImage(ModelAdapter):
    @property
    def name(self) -> str:
        return "whole-image"

    def fingerprint(self) -> Mapping[str, str]:
        return {"baseline": "whole-image/1"}

    def predict(self, requests: Sequence[Request]) -> Iterable[Prediction]:
        return map(_answer, requests)


def _answer(request: Request) -> Prediction:
    height, width = canvas_of(request).size
    if request.wants == "boxes":
        region = Region(box=(0.0, 0.0, float(width), float(height)))
    elif request.wants == "text":
        return Prediction(sample_id=request.sample_id)
    else:
        region = Region(Mask.full(height, width))
    return Prediction(sample_id=request.sample_id, regions=(region,))


model = WholeImage
