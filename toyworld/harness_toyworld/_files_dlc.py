"""The world's DLC-Bench: objects, and questions about what a description of each must say.

Three to five positive questions (colour, each part's colour, texture, size, material) and five
negative ones (values of other objects of the scene, parts that the object does not have). Each
carries a key for the judge that goes by rule, ``x_key``.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from . import _files
from ._supply import World, supply
from .scene import COLORS, MATERIALS, PARTS, SHAPES, SIZES, TEXTURES, Entity, Scene

BENCHMARK = 7
POSITIVES = NEGATIVES = 5
ABSENT_PARTS = 2
"""How many negative questions are about parts."""
ASKED = "Which of the following is applicable to the description?"
VALUES = {
    "color": COLORS,
    "texture": TEXTURES,
    "size": SIZES,
    "material": MATERIALS,
    "shape": SHAPES,
}


def write(root: Path, world: World, count: int) -> Mapping[str, int]:
    """Writes ``count`` objects; says how many questions there are of each type."""
    files = _files.Folder(root)
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    qa: dict[str, list[dict[str, Any]]] = {}
    for scene, (entity, asked) in supply(world, ["object"] * count, _item):
        name = f"objects365_v2_{scene.index:08d}.jpg"
        files.picture(f"images/{name}", scene)
        images.append(_files.coco_image(scene, scene.index, name))
        key = {"kind": "recognition", "shape": entity.shape, "color": entity.color}
        number = len(annotations) + 1
        row = _files.coco_annotation(
            number, scene.index, _files.category(entity.shape), entity.mask
        )
        annotations.append(row | {"x_key": key})
        qa[str(number)] = asked
    names = {str(a["id"]): a["x_key"]["shape"] for a in annotations}
    files.json(
        "annotations.json",
        {"images": images, "annotations": annotations, "categories": _files.CATEGORIES},
    )
    files.json("class_names.json", names)
    files.json("qa.json", qa)
    types = [question["type"] for questions in qa.values() for question in questions]
    return {
        "objects": count,
        "positive": types.count("positive"),
        "negative": types.count("negative"),
    }


def _item(kind: str, scene: Scene, rng: np.random.Generator) -> tuple[Entity, list[dict[str, Any]]]:
    """An object and its questions, the choices of each in random order."""
    entity = scene.objects[int(rng.integers(len(scene.objects)))]
    asked = [*positives(entity, scene), *negatives(entity, scene, rng)]
    return entity, [q | {"choices": _mixed(q["choices"], rng)} for q in asked]


def positives(entity: Entity, scene: Scene) -> list[dict[str, Any]]:
    """The details that a description must state, the most telling first."""
    parts = [_positive(entity, "color", part.color, part.name) for part in scene.parts_of(entity)]
    texture, size, material = (
        [_positive(entity, attribute, getattr(entity, attribute))]
        if getattr(entity, attribute)
        else []
        for attribute in ("texture", "size", "material")
    )
    own = _positive(entity, "color", entity.color)
    return [own, *parts, *texture, *size, *material][:POSITIVES]


def _positive(entity: Entity, attribute: str, value: str, part: str = "") -> dict[str, Any]:
    """The question for one attribute of an object, or of its part; choices in fixed order."""
    of, whole = part or entity.shape, entity.shape
    subject = f"The {attribute} of the {of}"
    mentioned = f"the {of} of the {whole} is" if part else f"the {whole} is"
    missing = f"The {of} or the {whole} is" if part else f"The {whole} is"
    return {
        "question": ASKED,
        "choices": [
            [f"{subject} is mentioned in the description and is {value}.", 1],
            [f"{subject} is mentioned in the description but is not {value}.", -1],
            [f"{subject} is not mentioned, but {mentioned} mentioned.", 0.5 if part else 0],
            [f"{missing} not mentioned.", 0],
        ],
        "type": "positive",
        "x_key": {"kind": "positive", "attribute": attribute, "value": value, "part": part},
    }


def negatives(entity: Entity, scene: Scene, rng: np.random.Generator) -> list[dict[str, Any]]:
    """Details that a description must not state: of the neighbours first, then of nobody."""
    parts = list(_absent_parts(entity, scene, rng))[:ABSENT_PARTS]
    values = list(_foreign_values(entity, scene, rng))[: NEGATIVES - len(parts)]
    return [*values, *parts]


def _absent_parts(
    entity: Entity, scene: Scene, rng: np.random.Generator
) -> Iterator[dict[str, Any]]:
    own = {part.name for part in scene.parts_of(entity)}
    for part in _mixed(PARTS, rng):
        if part not in own:
            yield _negative(entity, "part", part, f"The {part} of the {entity.shape}")


def _foreign_values(
    entity: Entity, scene: Scene, rng: np.random.Generator
) -> Iterator[dict[str, Any]]:
    """Questions for values that neither the object nor a part of it has."""
    own = {getattr(entity, attribute) for attribute in VALUES}
    own |= {part.color for part in scene.parts_of(entity)}
    near = {(a, getattr(other, a)) for a in VALUES for other in scene.objects}
    every = {(a, value) for a, values in VALUES.items() for value in values if getattr(entity, a)}
    for pool in (near, every - near):
        for attribute, value in _mixed(sorted(pool), rng):
            if value and value not in own:
                text = f"The {attribute} {value}"
                yield _negative(entity, attribute, value, text)


def _negative(entity: Entity, attribute: str, value: str, subject: str) -> dict[str, Any]:
    """The question whether a description states something untrue."""
    return {
        "question": ASKED,
        "choices": [
            [f"{subject} is mentioned in the description.", -1],
            [f"{subject} is not mentioned in the description.", 1],
            [f"The {entity.shape} is not mentioned in the description.", 0],
        ],
        "type": "negative",
        "subtype": "negative part" if attribute == "part" else "salient negative",
        "x_key": {"kind": "negative", "attribute": attribute, "value": value, "part": ""},
    }


def _mixed(values: Sequence[Any], rng: np.random.Generator) -> list[Any]:
    return [values[number] for number in rng.permutation(len(values))]
