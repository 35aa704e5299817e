"""The world's gRefCOCO: expressions of one, several or no objects, in the official layout.

45 % of the sentences have one target (a minimal expression that fits nothing else), 30 % several,
25 % none (near misses: one word of a true expression is wrong).
"""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from harness.types import Mask, union

from . import _files, expressions, language, oracle
from ._supply import World, plan, supply
from .scene import Scene

BENCHMARK = 1
SHARES = {"single": 9, "multi": 6, "none": 5}
USES = 3
"""Sentences of one picture."""


def write(root: Path, world: World, count: int) -> Mapping[str, int]:
    """Writes ``count`` sentences below ``root`` and says how many there are of each kind."""
    kinds = plan(world, SHARES, _query, count)
    files = _files.Folder(root)
    instances = _Instances(files)
    refs: list[dict[str, Any]] = []
    for kind, (scene, query) in zip(kinds, supply(world, kinds, _query, USES), strict=True):
        targets = sorted(oracle.match(query, scene))
        ids = instances.of(scene, targets)
        if kind == "multi" and instances.crowd is None:
            ids.append(instances.add_crowd(scene, targets))
        refs.append(
            _ref(len(refs) + 1, scene, language.write(query, "the"), ids, targets, world.split)
        )
    files.json("grefcoco/grefs(unc).json", refs)
    files.json("grefcoco/instances.json", instances.content())
    return Counter(kinds)


def _query(kind: str, scene: Scene, rng: np.random.Generator) -> language.Query | None:
    if kind == "none":
        return expressions.absent(rng, scene)
    if kind == "multi":
        return expressions.group(rng, scene)
    objects = scene.objects
    return expressions.unique(rng, scene, objects[int(rng.integers(len(objects)))])


class _Instances:
    """``instances.json`` as it grows: pictures, and the objects of each as annotations."""

    def __init__(self, files: _files.Folder) -> None:
        self.files = files
        self.images: list[dict[str, Any]] = []
        self.annotations: list[dict[str, Any]] = []
        self.crowd: int | None = None
        self._ids: dict[tuple[int, int], int] = {}
        """The annotation of an object, by its scene and its own id."""

    def of(self, scene: Scene, objects: list[int]) -> list[int]:
        """The annotation ids of some objects; ``[-1]`` of none. Adds the scene if it is new."""
        if (scene.index, scene.objects[0].id) not in self._ids:
            self._add(scene)
        return [self._ids[scene.index, entity] for entity in objects] or [-1]

    def _add(self, scene: Scene) -> None:
        name = file_name(scene)
        self.files.picture(f"images/train2014/{name}", scene)
        self.images.append(_files.coco_image(scene, scene.index, name))
        for entity in scene.objects:
            row = self._annotation(scene, _files.category(entity.shape), entity.mask)
            outline = _files.polygons(entity.mask)
            if outline is not None:  # what has a hole stays RLE
                row["segmentation"] = outline
            self._ids[scene.index, entity.id] = row["id"]

    def add_crowd(self, scene: Scene, objects: list[int]) -> int:
        """The id of a crowd annotation over some objects, which every reader must leave out."""
        mask = union([scene.entities[entity].mask for entity in objects])
        row = self._annotation(scene, _files.category(scene.entities[objects[0]].shape), mask)
        row |= {"segmentation": _files.run_lengths(mask), "iscrowd": 1}
        self.crowd = row["id"]
        return self.crowd

    def _annotation(self, scene: Scene, category: int, mask: Mask) -> dict[str, Any]:
        row = _files.coco_annotation(len(self.annotations) + 1, scene.index, category, mask)
        self.annotations.append(row)
        return row

    def content(self) -> dict[str, Any]:
        return {
            "images": self.images,
            "annotations": self.annotations,
            "categories": _files.CATEGORIES,
        }


def file_name(scene: Scene) -> str:
    """What COCO would call the picture."""
    return f"COCO_train2014_{scene.index:012d}.jpg"


def _ref(
    ref_id: int, scene: Scene, text: str, ids: list[int], targets: list[int], split: str
) -> dict[str, Any]:
    """The record of one sentence."""
    sentence = {"raw": text, "sent": text, "sent_id": ref_id, "tokens": text.split()}
    categories = sorted({_files.category(scene.entities[entity].shape) for entity in targets})
    return {
        "ref_id": ref_id, "image_id": scene.index, "ann_id": ids, "category_id": categories or [-1],
        "file_name": file_name(scene), "no_target": not targets, "sent_ids": [ref_id],
        "sentences": [sentence], "split": split,
    }  # fmt: skip
