"""Toy captions: is a caption of an object true, and does it fit that object alone?

Only a world in which everything is known can say so. The caption must follow the grammar of the toy
world (mask tokens and other marks of the form ``<|...|>`` are left out); an oracle finds what it
fits in the scene. No judge is asked.

``distinct`` (the headline): the caption fits this object and nothing else. ``true``: the object is
among those that it fits. ``oracle_iou``: IoU of the object and all that the caption fits, which is
what a perfect grounder makes of it. ``parse_ok``: it follows the grammar. These are means over all
samples; a text outside the grammar and a request without a reply earn 0. ``attributes``: the mean
number of predicates in a caption (a table shows it times 100, like every value).

``true`` belongs beside ``distinct``: a caption with an invented detail fits nothing. How well a
model finds its own captions again takes a second request, so its trainer measures that.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from harness.errors import DataError
from harness.files import inside, read_jsonl
from harness.judge import Verdict
from harness.metrics import iou, mean, overlap
from harness.task import Task
from harness.types import Prediction, Region, Request, Sample, Score, union

from .. import _scene_file, expressions, language, oracle
from ..scene import WORLD_VERSION, Entity, Scene

PROMPTS = {
    "interleaved": "Could you please give me a detailed description of the following regions? "
    "{region_0}. Please respond with interleaved segmentation masks for the corresponding parts "
    "of the answer.",
    "plain": "Could you please give me a detailed description of the following region? {region_0}.",
}
_MARK = re.compile(r"<\|[^<>|]*\|>")


@dataclass(frozen=True, slots=True, kw_only=True)
class Described(Sample):
    scene: Scene
    entity: Entity


@dataclass(frozen=True)
class Toy(Task[Described]):
    root: Path
    """Folder with ``toy.jsonl`` and its pictures."""
    prompt: Literal["interleaved", "plain"] = "interleaved"
    """The wording: ``interleaved`` is SAMTok's, which asks for masks too; ``plain`` does not."""
    max_new_tokens: int = 64
    """Length of a reply."""

    metrics = {
        "distinct": mean("distinct"),
        "true": mean("true"),
        "oracle_iou": mean("oracle_iou"),
        "parse_ok": mean("parse_ok"),
        "attributes": mean("attributes"),
    }
    primary = "distinct"
    recipe = "`harness build toyworld --out DIR` makes them; the root is DIR/test/toy."

    def files(self) -> Sequence[Path]:
        return (self.root / "toy.jsonl",)

    def samples(self) -> Iterable[Described]:
        return self._loaded

    def request(self, sample: Described) -> Request:
        return Request(
            sample_id=sample.id,
            image=sample.image,
            size=sample.size,
            regions=(Region(sample.entity.mask),),
            prompt=PROMPTS[self.prompt],
            max_new_tokens=self.max_new_tokens,
        )

    def gold(self, sample: Described) -> Prediction | None:
        """The full description of the object; None where that fits another one as well."""
        query = expressions.full(sample.scene, sample.entity)
        if oracle.match(query, sample.scene) != {sample.entity.id}:
            return None
        return Prediction(sample_id=sample.id, text=language.write(query))

    def score(
        self, sample: Described, prediction: Prediction, verdicts: Sequence[Verdict] = ()
    ) -> Score:
        text = plain(prediction.text)
        query = None if prediction.error is not None else language.parse(text)
        found = frozenset() if query is None else oracle.match(query, sample.scene)
        return Score(
            sample_id=sample.id,
            values={
                "distinct": float(found == {sample.entity.id}),
                "true": float(sample.entity.id in found),
                "oracle_iou": _iou(found, sample),
                "parse_ok": float(query is not None),
                "attributes": float(query.n_attributes if query else 0),
            },
            detail={"caption": text[:200], "fits": sorted(found)},
            flags=() if found or query is None else ("fits_nothing",),
        )

    def protocol(self) -> Mapping[str, Any]:
        return {"prompt": self.prompt, "world": WORLD_VERSION}

    @cached_property
    def _loaded(self) -> list[Described]:
        path = self.files()[0]
        return [
            sample
            for number, row in read_jsonl(path, self.recipe)
            for sample in self._read(row, f"{path} line {number}")
        ]

    def _read(self, row: Mapping[str, Any], where: str) -> Iterator[Described]:
        """The samples of one scene; raises DataError that says where and what."""
        scene = _scene_file.from_row(row, where)
        objects = {entity.id: entity for entity in scene.objects}
        regions = row.get("regions")
        if not isinstance(regions, list) or not all(type(r) is int for r in regions):
            raise DataError(f"{where}: regions must be a list of ids")
        try:
            image = inside(self.root, row.get("image"))
        except DataError as error:
            raise DataError(f"{where}: {error}") from None
        for region in regions:
            if region not in objects:
                raise DataError(f"{where}: region {region} is no object of the scene")
            yield Described(
                id=f"{scene.index}/{region}",
                image=image,
                size=objects[region].mask.size,
                scene=scene,
                entity=objects[region],
            )


def plain(text: str) -> str:
    """A reply without marks and mask tokens, and without the white space that they leave."""
    return " ".join(_MARK.sub(" ", text).split()).replace(" .", ".")


def _iou(found: Collection[int], sample: Described) -> float:
    """IoU of the sample's object and the union of some entities; 0 if there are none."""
    if not found:
        return 0.0
    masks = [sample.scene.entities[entity].mask for entity in sorted(found)]
    return iou(*overlap(union(masks), sample.entity.mask))


task = Toy
