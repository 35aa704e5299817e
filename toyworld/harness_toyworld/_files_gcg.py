"""The world's GranD-f: the caption of each scene, with a mask for each of its phrases."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from . import _files
from ._supply import World, supply
from .captions import Caption, caption
from .scene import Scene

BENCHMARK = 3
THING = 1
"""The only category that the scorer counts."""


def write(root: Path, world: World, count: int) -> Mapping[str, int]:
    """Writes ``count`` pictures with captions; says how many have how many phrases."""
    files = _files.Folder(root)
    images: list[dict[str, Any]] = []
    captions: list[dict[str, Any]] = []
    masks: list[dict[str, Any]] = []
    sizes: Counter[str] = Counter()
    for scene, said in supply(world, ["caption"] * count, _item):
        name = f"toy_{scene.index:08d}"
        files.picture(f"images/val_test/{name}.jpg", scene)
        images.append(_files.coco_image(scene, name, f"{name}.jpg"))
        captions.append(_caption_row(len(captions) + 1, name, said))
        for _, entity in said.phrases:
            mask = scene.entities[entity].mask
            masks.append(_files.coco_annotation(len(masks) + 1, name, THING, mask))
        sizes[f"{len(said.phrases)} phrases"] += 1
    start = f"annotations/{world.split}_gcg_coco"
    files.json(f"{start}_caption_gt.json", {"images": images, "annotations": captions})
    categories = [{"id": THING, "name": "thing", "supercategory": "thing"}]
    files.json(
        f"{start}_mask_gt.json",
        {"images": images, "annotations": masks, "categories": categories},
    )
    return dict(sorted(sizes.items()))


def _item(kind: str, scene: Scene, rng: np.random.Generator) -> Caption | None:
    return caption(scene)


def _caption_row(number: int, image_id: str, said: Caption) -> dict[str, Any]:
    labels = [phrase for phrase, _ in said.phrases]
    return {"id": number, "image_id": image_id, "caption": said.text, "labels": labels}
