"""Answers with a box drawn at random: chance level. The same seed gives the same boxes."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from harness.codec import canvas_of
from harness.model import ModelAdapter
from harness.types import Mask, Prediction, Region, Request


@dataclass(frozen=True)
class RandomBox(ModelAdapter):
    seed: int = 0
    """Another seed draws other boxes."""

    @property
    def name(self) -> str:
        return "random-box"

    def fingerprint(self) -> Mapping[str, str]:
        return {"baseline": "random-box/1", "seed": str(self.seed)}

    def predict(self, requests: Sequence[Request]) -> Iterable[Prediction]:
        return map(self._answer, requests)

    def _answer(self, request: Request) -> Prediction:
        """Corners uniform over the picture. The draw hangs on seed and sample alone, so shards and
        resumed runs answer alike."""
        if request.wants == "text":
            return Prediction(sample_id=request.sample_id)
        height, width = canvas_of(request).size
        digest = hashlib.sha256(f"{self.seed}/{request.sample_id}".encode()).digest()
        rng = np.random.default_rng(int.from_bytes(digest[:8], "big"))
        (x0, x1), (y0, y1) = sorted(rng.uniform(0, width, 2)), sorted(rng.uniform(0, height, 2))
        box = (float(round(x0)), float(round(y0)), float(round(x1)), float(round(y1)))
        if request.wants == "boxes":
            region = Region(box=box)
        else:
            region = Region(Mask.from_box(box, height, width))
        return Prediction(sample_id=request.sample_id, regions=(region,))


model = RandomBox
