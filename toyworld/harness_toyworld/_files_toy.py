"""Scenes with objects to describe, for the task ``toy``: all that is in them is in the file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from . import _files, _scene_file
from ._supply import World, supply
from .scene import Scene

BENCHMARK = 8
USES = 2
"""Objects of one picture."""


def write(root: Path, world: World, count: int) -> Mapping[str, int]:
    """Writes ``count`` objects of scenes; says how many of each there are."""
    files = _files.Folder(root)
    rows: list[dict[str, Any]] = []
    for scene, regions in supply(world, ["scene"] * -(-count // USES), _objects):
        image = f"images/{scene.index:06d}.jpg"
        files.picture(image, scene)
        wanted = regions[: count - USES * len(rows)]
        rows.append({"image": image, "regions": wanted, **_scene_file.to_row(scene)})
    files.lines("toy.jsonl", rows)
    return {"scenes": len(rows), "objects": count}


def _objects(kind: str, scene: Scene, rng: np.random.Generator) -> list[int]:
    """The ids of some objects of a scene."""
    ids = [entity.id for entity in scene.objects]
    return sorted(ids[number] for number in rng.permutation(len(ids))[:USES])
