"""Answers with the truth; with a codec, with what that codec can say of it: the codec's ceiling.

It reads the benchmark's own annotations, so its numbers measure files and codecs, never a model.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

from harness.codec import Codec, canvas_of, codec_stamp, read_reply
from harness.model import ModelAdapter
from harness.registry import CodecChoice, build_codec, codec_name
from harness.types import Prediction, Request


@dataclass(frozen=True)
class Oracle(ModelAdapter):
    codec: CodecChoice = ""
    """Write the truth as text in this codec and read it back; by default the truth itself."""

    needs_gold: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return f"oracle:{codec_name(self.codec)}" if self.codec else "oracle"

    def fingerprint(self) -> Mapping[str, str]:
        return {"baseline": "oracle/1"}

    def predict(self, requests: Sequence[Request]) -> Iterable[Prediction]:
        return map(self._answer, requests)

    def protocol(self, masks_expected: bool) -> Mapping[str, Any]:
        if self._codec is None:
            return {}
        return codec_stamp(codec_name(self.codec), self._codec, masks_expected)

    @cached_property
    def _codec(self) -> Codec | None:
        return build_codec(self.codec) if self.codec else None

    def _answer(self, request: Request) -> Prediction:
        gold = request.gold
        if gold is None:  # nothing earns full marks here, so the truth is as good as nothing
            return Prediction(sample_id=request.sample_id)
        if self._codec is None or request.wants == "text":
            return gold
        canvas = canvas_of(request)
        texts = [self._codec.write(region, canvas) for region in gold.regions]
        said = " ".join(text for text in texts if text is not None)
        # Whatever the task wants, what the codec said is what counts here.
        return read_reply(replace(request, wants="regions"), said, self._codec, {})


model = Oracle
