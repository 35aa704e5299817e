"""GAR-Bench VQA: multiple-choice questions about one to nine marked regions of a picture.

Source: Wang et al., "Grasp Any Region", 2025 (Haochen-Wang409/Grasp-Any-Region), 424 questions; the
wording and the clean reading are those of the CycleGRPO scripts.

A sample is an entry of GAR-Bench-VQA.json, ``vqa/{position}``. An answer is right if it equals the
letter. ``accuracy`` compares after a clean-up, as CycleGRPO does: ``<|im_end|>`` and empty think
blocks go, then the white space around, then one full stop at the end. ``accuracy_exact`` is the
official comparison: the text without the white space around, in any case of letters. "(B)" and
"B. Blue" are wrong in both; so is a letter that is no option. Both are means over all samples.

Where this differs from the public scripts: a request without a reply is wrong (they have no such
case), and the boxes of ``regions=boxes`` are computed in double precision (theirs in single, which
differs only for some positions in pictures 1000 or 2000 pixels wide or high).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from harness.errors import DataError
from harness.judge import Verdict
from harness.metrics import mean
from harness.task import Task
from harness.types import Prediction, Region, Request, Sample, Score

from . import _gar, _regions

COLUMNS = {
    "color": "Color",
    "shape": "Shape",
    "texture/pattern": "Texture",
    "material": "Material",
    "ordering": "Position",
    "mirror": "Non-Entity",
    "relation": "Relation",
}
"""The file's types, and what the paper's table calls them."""

_EMPTY_THINK = re.compile(r"<think>\n\n</think>\n\n", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice(Sample):
    question: str
    options: tuple[str, ...]
    answer: str
    regions: tuple[Region, ...]


@dataclass(frozen=True)
class GarVqa(Task[Choice]):
    root: Path
    """Folder with ``GAR-Bench-VQA.json`` and ``images/``, or with both under ``annotations/``."""
    images: Path | None = None
    """Another picture folder; pictures are looked up there by base name."""
    regions: _regions.Form = "mask_tokens"
    """How questions speak of regions: ``mask_tokens``, ``boxes``, or ``overlay`` (painted)."""
    think: Literal["keep", "remove"] = "keep"
    """``remove`` drops all up to the last ``</think>`` before the clean reading."""
    max_new_tokens: int = 1024
    """Length of a reply."""

    metrics = {"accuracy": mean("right"), "accuracy_exact": mean("right_exact")}
    primary = "accuracy"
    groups = tuple(COLUMNS.values())
    tags = ("gar",)
    recipe = _gar.RECIPE

    def files(self) -> Sequence[Path]:
        return (_gar.find(self.root, "GAR-Bench-VQA.json"),)

    def samples(self) -> Iterable[Choice]:
        return self._loaded

    def request(self, sample: Choice) -> Request:
        text = "\n".join(
            [
                f"Question: {sample.question}",
                "Options:",
                *sample.options,
                "Answer with the correct option's letter directly.",
            ]
        )
        return Request(
            sample_id=sample.id,
            image=sample.image,
            size=sample.size,
            prompt=_regions.fill(text, len(sample.regions), self.regions),
            regions=sample.regions,
            paint=self.regions == "overlay",
            max_new_tokens=self.max_new_tokens,
        )

    def gold(self, sample: Choice) -> Prediction:
        return Prediction(sample_id=sample.id, text=sample.answer)

    def score(
        self, sample: Choice, prediction: Prediction, verdicts: Sequence[Verdict] = ()
    ) -> Score:
        if prediction.error is not None:
            return Score(sample_id=sample.id, values={"right": 0.0, "right_exact": 0.0})
        said = clean(without_think(prediction.text) if self.think == "remove" else prediction.text)
        values = {
            "right": float(said == clean(sample.answer)),
            "right_exact": float(exact(prediction.text) == sample.answer.lower()),
        }
        letters = {option[:1].lower() for option in sample.options}
        return Score(
            sample_id=sample.id,
            values=values,
            detail={"read": said[:200], "answer": sample.answer},
            flags=() if said in letters else ("not_a_bare_letter",),
        )

    def protocol(self) -> Mapping[str, Any]:
        return {"regions": self.regions, "think": self.think}

    @cached_property
    def _loaded(self) -> list[Choice]:
        entries = _gar.entries(self.files()[0], self.images)
        return [self._read(index, entry) for index, entry in enumerate(entries)]

    def _read(self, index: int, entry: _gar.Entry) -> Choice:
        """The sample of one entry; raises DataError that says where and what."""
        column = COLUMNS.get(entry.text("type"))
        if column is None:
            raise DataError(
                f"{entry.where}: no question type {entry.row['type']!r:.80}; known: "
                f"{', '.join(COLUMNS)}"
            )
        return Choice(
            id=f"vqa/{index}",
            image=entry.image,
            size=entry.masks[0].size,
            group=column,
            cluster=str(entry.row["image"]),
            question=entry.text("question"),
            options=entry.texts("choices"),
            answer=entry.text("answer"),
            regions=_regions.regions(entry.masks, self.regions),
        )


def clean(text: str) -> str:
    """The clean reading, in lower case."""
    text = _EMPTY_THINK.sub("", text.replace("<|im_end|>", "")).strip()
    return text.removesuffix(".").strip().lower()


def exact(text: str) -> str:
    """The official reading, in lower case. (An end mark of its own model is dropped.)"""
    text = text.strip()
    return (text.replace("<|eot_id|>", "") if text.endswith("<|eot_id|>") else text).lower()


def without_think(text: str) -> str:
    """What follows the last ``</think>``; the whole text if there is none."""
    return text.rpartition("</think>")[2]


task = GarVqa
