"""Answers from a file: any system, in any language, is scored with no model at all.

Each line of the JSONL file is one answer:

    {"sample_id": "7_0", "text": "...", "masks": [COCO RLE, ...], "phrases": ["...", ...]}

``masks`` win over reading ``text``; without them the text is read with ``codec``. ``text: null`` is
a failed request, and so is a sample without a line. Lines for other samples are counted
and named. A ``predictions.jsonl`` out of a run folder has this form.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from harness.codec import Codec, codec_stamp, read_reply
from harness.errors import ConfigError, DataError
from harness.files import read_jsonl, sha256
from harness.model import ModelAdapter
from harness.records import FIELDS, parse_prediction
from harness.registry import CodecChoice, build_codec, codec_name
from harness.runner import some
from harness.types import Prediction, Request


@dataclass(frozen=True)
class Recorded(ModelAdapter):
    path: tuple[Path, ...]
    """The file, or several separated by commas. One file may hold several tasks."""
    codec: CodecChoice = "mask_tokens"
    """How texts without masks are read."""
    label: str = ""
    """What the tables call it; by default the file's name."""

    @property
    def name(self) -> str:
        return self.label or f"recorded:{self.path[0].name if self.path else ''}"

    def fingerprint(self) -> Mapping[str, str]:
        if not self.path:
            raise ConfigError(
                "model.path must name a file of predictions: --set model.path=FILE.jsonl"
            )
        return {f"sha256/{i}": sha256(path) for i, path in enumerate(self.path)}

    def protocol(self, masks_expected: bool) -> Mapping[str, Any]:
        return codec_stamp(codec_name(self.codec), self._codec, masks_expected)

    def predict(self, requests: Sequence[Request]) -> Iterable[Prediction]:
        return map(self._answer, requests)

    def notes(self, wanted: Set[str], skipped: Set[str]) -> Sequence[str]:
        if not self._rows:
            raise DataError(f"{', '.join(map(str, self.path))}: there is no answer in it")
        unknown = [i for i in self._rows if i not in wanted and i not in skipped]
        missing = sorted(wanted - self._rows.keys())
        if len(missing) == len(wanted):
            raise DataError(
                f"{', '.join(map(str, self.path))} answers no sample of this run: its ids are "
                f"like {some(unknown[:2]) or 'none'}, the samples' like {some(missing[:2])}; "
                "check the file and the task"
            )
        remarks = []
        unread = sorted({key for row in self._rows.values() for key in row if key not in FIELDS})
        if unread:
            remarks.append(f"fields that are not read: {some(unread)} (known: {', '.join(FIELDS)})")
        if unknown:
            remarks.append(
                f"{len(unknown)} recorded answers are for no sample of this run: {some(unknown)}"
            )
        if missing:
            remarks.append(
                f"{len(missing)} samples have no recorded answer (failed): {some(missing)}"
            )
        return remarks

    @cached_property
    def _codec(self) -> Codec:
        return build_codec(self.codec)

    @cached_property
    def _rows(self) -> Mapping[str, Mapping[str, Any]]:
        """Every line by sample id; raises DataError if an id occurs twice or is no text."""
        rows: dict[str, Mapping[str, Any]] = {}
        for path in self.path:
            for number, row in read_jsonl(path):
                sample_id = row.get("sample_id")
                if type(sample_id) is int:
                    sample_id = str(sample_id)
                if "sample_id" not in row:
                    raise DataError(
                        f"{path} line {number} has no sample_id (it has: "
                        f"{some(list(row)) or 'nothing'}); each line is the answer to one "
                        "sample, see `harness show recorded`"
                    )
                if not isinstance(sample_id, str):
                    raise DataError(
                        f"{path} line {number}: sample_id must be text, not {sample_id!r:.80}"
                    )
                if sample_id in rows:
                    raise DataError(
                        f"{path} line {number}: sample {sample_id!r} is answered a second time; "
                        "keep one"
                    )
                rows[sample_id] = row
        return rows

    def _answer(self, request: Request) -> Prediction:
        row = self._rows.get(request.sample_id)
        if row is None:
            return Prediction(
                sample_id=request.sample_id, error="the file has no answer for this sample"
            )
        try:
            prediction = parse_prediction({**row, "sample_id": request.sample_id})
            has_regions = row.get("masks") is not None or row.get("boxes") is not None
            if prediction.error is not None or has_regions:
                return prediction
            return self._read(prediction, request, row.get("phrases"))
        except DataError as error:
            return Prediction(
                sample_id=request.sample_id,
                error=f"the recorded answer cannot be used: {error}",
                info={"reply": row.get("text")},
            )

    def _read(self, said: Prediction, request: Request, phrases: Any) -> Prediction:
        """What the text says in the codec; recorded phrases win over those in the text."""
        read = read_reply(request, said.text, self._codec, said.info)
        if isinstance(phrases, list) and len(phrases) == len(read.regions):
            pairs = zip(read.regions, phrases, strict=True)
            return replace(read, regions=tuple(replace(r, phrase=str(p)) for r, p in pairs))
        return read


model = Recorded
