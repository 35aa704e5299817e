"""DLC-Bench: detailed descriptions of one region, questioned by a judge detail by detail.

Source: Lian et al., "Describe Anything", 2025 (NVlabs/describe-anything; the data are CC BY-NC-SA
4.0), with the prompts of SAMTok / CycleGRPO. 100 objects, 892 questions in the released files.

A sample is one object, named by its annotation id. The judge is asked whether the description is
of the object at all (question 0), then each question of ``qa.json``; the choice it takes has a
score in the file (right detail 1, wrong detail -1, ...). If the object was not recognised, no score
is above 0. ``Pos`` and ``Neg`` are means over objects of the mean over an object's positive
(negative) questions; an object without negatives is left out of ``Neg``. ``Avg`` is half the sum of
``Pos`` and ``Neg``. All lie in [-1, 1].

Where this differs from the public scripts:

* A reply that they crash on (empty, or a letter that is no choice) is no match, score 0; an answer
  to question 0 that cannot be read means "not recognised". Both count as unreadable.
* A question without a verdict is left out of its object's means; without the verdict on question 0
  the object has no score.
* A request without a reply scores 0 on both sides: what silence earns from a fair judge, since
  nothing mentioned is 0, and an object that is not recognised earns no more. (They stop.) A text
  that starts with "Error:", where they stop too, is judged as any other and flagged.
* ``judge_sees=picture`` (the variant of Grasp-Any-Region): that script divides ``Neg`` by the
  number of all objects, which is the same on the released files.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from harness import views
from harness.errors import DataError
from harness.judge import Part, Question, Verdict
from harness.metrics import Additive, Floats, divide, mean
from harness.task import Task
from harness.types import Prediction, Region, Request, Sample, Score

from . import _crops, _dlc_files, _dlc_judge, _regions
from ._dlc_files import Item

MAX_TOKENS = 300

PROMPTS = {
    "mask_tokens": "Given a detailed description of this region {region_0}.",
    "boxes": "Given a detailed description of the region at bounding box {region_0}.",
    "overlay": f"Give a detailed description of {_regions.noun(0, 'overlay')}.",
}
ZOOMS = {
    "mask_tokens": " Zoom in with the perspective as {zoom_0}, {zoom_region_0}.",
    "boxes": " Zoom in with the perspective as{zoom_0}, give a detailed description of this "
    "cropped region.",
}
ZOOMS["overlay"] = ZOOMS["boxes"]


@dataclass(frozen=True)
class HalfSum(Additive):
    """Half the sum of two means, each over the samples that have its key."""

    first: str
    second: str

    def table(self, scores: Sequence[Score]) -> Floats:
        keys = (self.first, self.second)
        rows = [
            [v for key in keys for v in (s.values.get(key, 0.0), float(key in s.values))]
            for s in scores
        ]
        return np.array(rows, np.float64).reshape(len(rows), 4)

    def value(self, sums_KD: Floats) -> Floats:
        first, second = divide(sums_KD[:, 0], sums_KD[:, 1]), divide(sums_KD[:, 2], sums_KD[:, 3])
        return np.asarray((first + second) / 2, np.float64)

    def count(self, scores: Sequence[Score]) -> int:
        return sum(self.first in s.values or self.second in s.values for s in scores)


@dataclass(frozen=True, slots=True, kw_only=True)
class Described(Sample):
    name: str
    region: Region | None
    """None if there is no ``annotations.json``: then only recorded answers can be scored."""
    items: tuple[Item, ...]
    """The questions of the file, in its order."""
    key: Mapping[str, Any]
    """What a judge that goes by rule is told about the object itself."""


@dataclass(frozen=True)
class Dlc(Task[Described]):
    root: Path
    """Folder with ``qa.json``, ``class_names.json``, ``annotations.json`` and ``images/``."""
    images: Path | None = None
    """Another picture folder; pictures are looked up there by base name."""
    regions: _regions.Form = "mask_tokens"
    """How requests speak of the region: ``mask_tokens``, ``boxes``, or ``overlay`` (painted)."""
    zoom: bool = True
    """Whether a region whose box is below 30 % of the picture is shown a second time, enlarged."""
    judge_sees: _dlc_judge.Sees = "text"
    """``text`` is the protocol; ``picture`` shows the judge the region as well."""
    max_new_tokens: int = 1024
    """Length of a reply."""

    metrics = {"Pos": mean("pos"), "Neg": mean("neg"), "Avg": HalfSum("pos", "neg")}
    primary = "Avg"
    needs_judge = True
    recipe = _dlc_files.RECIPE

    def files(self) -> Sequence[Path]:
        return _dlc_files.files(self.root)

    def samples(self) -> Iterable[Described]:
        return self._loaded

    def request(self, sample: Described) -> Request:
        mask = sample.region.mask if sample.region else None
        zoom = views.zoom(mask) if self.zoom and mask else None
        return Request(
            sample_id=sample.id,
            image=sample.image,
            size=sample.size,
            prompt=PROMPTS[self.regions] + (ZOOMS[self.regions] if zoom else ""),
            regions=_regions.regions([mask], self.regions) if mask else (),
            zooms=(zoom,) if zoom else (),
            paint=self.regions == "overlay",
            max_new_tokens=self.max_new_tokens,
        )

    def gold(self, sample: Described) -> Prediction:
        """The class, and each detail that a positive question asks for, as its choice tells it."""
        name = _dlc_judge.with_article(sample.name)
        best = [
            item.choices[item.points.index(max(item.points))]
            for item in sample.items
            if item.kind == "positive"
        ]
        text = " ".join([f"{name[0].upper()}{name[1:]}.", *best])
        return Prediction(
            sample_id=sample.id, text=text.replace(" mentioned in the description and is", "")
        )

    def questions(self, sample: Described, prediction: Prediction) -> Sequence[Question]:
        if prediction.error is not None:
            return ()
        return [
            self._question(sample, prediction.text, index, item)
            for index, item in enumerate(self._items(sample))
        ]

    def reading(self, reply: str, choices: Sequence[str]) -> str | None:
        index = _dlc_judge.read_choice(reply, choices)
        return None if index is None else choices[index]

    def score(
        self, sample: Described, prediction: Prediction, verdicts: Sequence[Verdict] = ()
    ) -> Score:
        items = self._items(sample)
        if prediction.error is not None:
            return Score(sample_id=sample.id, values=_means(items, [0.0] * len(items), True))
        replies = {verdict.index: verdict.raw for verdict in verdicts if verdict.error is None}
        read = {
            i: _dlc_judge.read_choice(replies[i], item.choices)
            for i, item in enumerate(items)
            if i in replies
        }
        points = [_points(item, read[i]) if i in read else None for i, item in enumerate(items)]
        flags = ["judge_error"] if None in points else []
        if prediction.text.startswith("Error:"):
            flags.append("says_error")
        values: Mapping[str, float] = {}
        if points[0] is not None:
            recognised = points[0] > 0
            values = _means(items, points, recognised)
            flags += [] if recognised else ["not_recognised"]
        return Score(
            sample_id=sample.id,
            values=values,
            detail={"choices": [read.get(i) for i in range(len(items))]},
            flags=tuple(flags),
            unreadable=sum(choice is None for choice in read.values()),
        )

    def protocol(self) -> Mapping[str, Any]:
        return {"regions": self.regions, "zoom": self.zoom, "judge_sees": self.judge_sees}

    def _items(self, sample: Described) -> list[Item]:
        """All that the judge is asked about a sample, in order."""
        text = _dlc_judge.recognition(sample.name, self.judge_sees)
        return [Item("recognition", text, ("Yes", "No"), (1.0, 0.0), sample.key), *sample.items]

    def _question(self, sample: Described, caption: str, index: int, item: Item) -> Question:
        prompt = _dlc_judge.prompt(caption, item.text, item.choices, self.judge_sees)
        return Question(
            sample_id=sample.id,
            index=index,
            prompt=prompt,
            parts=self._parts(sample, prompt),
            choices=item.choices,
            max_tokens=MAX_TOKENS,
            data={
                "kind": item.kind,
                "name": sample.name,
                "question": item.text,
                "points": list(item.points),
                "caption": caption,
                **item.key,
            },
        )

    def _parts(self, sample: Described, prompt: str) -> Sequence[Part]:
        """What a judge that sees is shown."""
        if self.judge_sees == "text":
            return ()
        mask = sample.region.mask if sample.region else None
        return _crops.Drawn(
            [
                "The image:\n",
                _crops.around(sample.image, mask) if mask else self._no_annotations,
                "\nThe mask of the image:\n",
                _crops.mask_around(mask) if mask else self._no_annotations,
                f"\n{prompt}\n",
            ]
        )

    def _no_annotations(self) -> bytes:
        """Stands for a picture of a region that nobody knows; raises DataError when looked at."""
        raise DataError(
            f"there is no file {self.root / 'annotations.json'}, which judge_sees=picture needs. "
            f"{self.recipe}"
        )

    @cached_property
    def _loaded(self) -> list[Described]:
        return [
            Described(
                id=row.id,
                image=row.image,
                size=row.mask.size if row.mask else None,
                cluster=row.picture,
                name=row.name,
                region=Region(mask=row.mask) if row.mask else None,
                items=row.items,
                key=row.key,
            )
            for row in _dlc_files.objects(self.root, self.images)
        ]


def _points(item: Item, choice: int | None) -> float:
    """What a choice is worth; nothing if none could be read."""
    return 0.0 if choice is None else item.points[choice]


def _means(
    items: Sequence[Item], points: Sequence[float | None], recognised: bool
) -> dict[str, float]:
    """``pos`` and ``neg`` of an object, where it has such questions with a verdict.

    The points are at most 0 if it was not recognised.
    """
    means = {}
    for key, kind in (("pos", "positive"), ("neg", "negative")):
        earned = [
            p if recognised else min(0.0, p)
            for item, p in zip(items, points, strict=True)
            if item.kind == kind and p is not None
        ]
        if earned:
            means[key] = sum(earned) / len(earned)
    return means


task = Dlc
