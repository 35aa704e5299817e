"""The world's GroundingSuite-Eval: bands, parts, groups and single objects, in equal shares.

The ``box`` of a line is the tight box of its mask, each side moved by up to 3 pixels but no more
than an eighth of the box: the boxes of the real file are not tight either.
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

BENCHMARK = 2
CLASSES = {"stuff": 1, "part": 2, "multi": 3, "single": 4}
USES = 2
"""Lines of one picture."""
JITTER = 3


def write(root: Path, world: World, count: int) -> Mapping[str, int]:
    """Writes ``count`` lines and their pictures; says how many lines there are of each class."""
    kinds = plan(world, dict.fromkeys(CLASSES, 1), _item, count)
    files = _files.Folder(root)
    rows: list[dict[str, Any]] = []
    for kind, (scene, (query, box)) in zip(kinds, supply(world, kinds, _item, USES), strict=True):
        name = f"unlabeled2017/{scene.index:012d}.jpg"
        files.picture(name, scene)
        rows.append({
            "idx": len(rows), "image_path": name, "class_id": CLASSES[kind],
            "label": _label(kind, query), "caption": language.write(query, "the"), "box": box,
            "segmentation": _target(query, scene).to_coco(),
        })  # fmt: skip
    files.lines("GroundingSuite-Eval.jsonl", rows)
    return Counter(kinds)


def _item(
    kind: str, scene: Scene, rng: np.random.Generator
) -> tuple[language.Query, list[float]] | None:
    """An expression of a kind, and the box of what it means."""
    query = _query(kind, scene, rng)
    return None if query is None else (query, _box(_target(query, scene), rng))


def _query(kind: str, scene: Scene, rng: np.random.Generator) -> language.Query | None:
    if kind == "stuff":
        return expressions.band_expression(rng, scene)
    if kind == "part":
        query = expressions.part_expression(rng, scene)
        return query if query and len(oracle.match(query, scene)) == 1 else None
    if kind == "multi":
        return expressions.group(rng, scene)
    objects = scene.objects
    return expressions.unique(rng, scene, objects[int(rng.integers(len(objects)))])


def _target(query: language.Query, scene: Scene) -> Mask:
    return union([scene.entities[entity].mask for entity in sorted(oracle.match(query, scene))])


def _label(kind: str, query: language.Query) -> str:
    """A word for what is meant."""
    return {"stuff": query.band, "part": query.part}.get(kind) or query.shape or "thing"


def _box(mask: Mask, rng: np.random.Generator) -> list[float]:
    """[x0, y0, x1, y1] in pixels, nearly tight, within the picture."""
    x, y, width, height = _files.bbox(mask)
    far_x, far_y = min(JITTER, int(width) // 8), min(JITTER, int(height) // 8)
    moved = rng.integers([-far_x, -far_y] * 2, [far_x + 1, far_y + 1] * 2).tolist()
    x0, y0 = max(0.0, x + moved[0]), max(0.0, y + moved[1])
    x1 = min(float(mask.width), x + width + moved[2])
    y1 = min(float(mask.height), y + height + moved[3])
    return [x0, y0, x1, y1]
