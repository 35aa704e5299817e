"""The world's GAR-Bench: questions of seven types, descriptions with a relation, free answers.

Every entry has a picture of its own, as in the real files. The captions carry a key for the judge
that goes by rule, ``x_key``: what a caption must name, in the world's own words.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from . import _files, questions
from ._supply import World, plan, supply
from .captions import direction
from .language import Query, write
from .scene import Entity, Scene

VQA, DETAILED, SIMPLE = 4, 5, 6
"""The benchmark numbers of the three files."""
ASKED = {
    "object": ("color", "shape"),
    "color": ("color",),
    "shape": ("shape",),
    "texture": ("texture",),
    "size": ("size",),
}
"""What ``Caption-Simple`` asks for, and the attributes that an answer must name."""


def write_vqa(root: Path, world: World, count: int) -> Mapping[str, int]:
    """Writes ``GAR-Bench-VQA.json``; says how many questions there are of each type."""
    places: Counter[str] = Counter()
    files = _files.Folder(root / "annotations")
    rows: list[dict[str, Any]] = []

    def make(kind: str, scene: Scene, rng: np.random.Generator) -> questions.Question | None:
        return questions.ask(kind, scene, rng, places[kind] + questions.KINDS.index(kind))

    kinds = plan(world, dict.fromkeys(questions.KINDS, 1), make, count)
    for kind, (scene, asked) in zip(kinds, supply(world, kinds, make), strict=True):
        places[kind] += 1  # the right letter goes round within each type
        options = [f"{letter}. {c}" for letter, c in zip("ABCD", asked.choices, strict=False)]
        entry = _entry(files, f"vqa_{len(rows)}", scene, asked.regions)
        more = {"question": asked.text, "choices": options, "answer": asked.letter, "type": kind}
        rows.append(entry | more)
    files.json("GAR-Bench-VQA.json", rows)
    return Counter(kinds)


def write_detailed(root: Path, world: World, count: int) -> Mapping[str, int]:
    """Writes ``GAR-Bench-Caption-Detailed.json``; says how many entries have which relation."""
    files = _files.Folder(root / "annotations")
    rows: list[dict[str, Any]] = []
    relations: Counter[str] = Counter()
    for scene, said in supply(world, ["relation"] * count, _related):
        entry = _entry(files, f"caption_detailed_{len(rows)}", scene, (said.a.id, said.b.id))
        names = {"subject_name": _name(said.a), "object_name": _name(said.b)}
        key = {"kind": "relation", "subject": _key(said.a), "object": _key(said.b)}
        rows.append(
            entry | names | {"predicate_name": said.relation}
            | {"x_key": key | {"relation": said.relation}}
        )  # fmt: skip
        relations[said.relation] += 1
    files.json("GAR-Bench-Caption-Detailed.json", rows)
    return dict(sorted(relations.items()))


def write_simple(root: Path, world: World, count: int) -> Mapping[str, int]:
    """Writes ``GAR-Bench-Caption-Simple.json``; says how many entries ask for what."""
    kinds = plan(world, dict.fromkeys(ASKED, 1), _any_object, count)
    files = _files.Folder(root / "annotations")
    rows: list[dict[str, Any]] = []
    for kind, (scene, entity) in zip(kinds, supply(world, kinds, _any_object), strict=True):
        facts = {attribute: getattr(entity, attribute) for attribute in ASKED[kind]}
        entry = _entry(files, f"caption_simple_{len(rows)}", scene, (entity.id,))
        rows.append(entry | {
            "question": "What is <Prompt0>?" if kind == "object" else f"What {kind} is <Prompt0>?",
            "answer": _name(entity, "a") if kind == "object" else facts[kind],
            "x_key": {"kind": "answer", "facts": facts},
        })  # fmt: skip
    files.json("GAR-Bench-Caption-Simple.json", rows)
    return Counter(kinds)


@dataclass(frozen=True, slots=True)
class _Pair:
    """``a`` is ``relation`` ``b``."""

    a: Entity
    relation: str
    b: Entity


def _related(kind: str, scene: Scene, rng: np.random.Generator) -> _Pair | None:
    """Two objects that colour and shape tell apart, in one of the four directions."""
    pairs = [
        _Pair(a, relation, b)
        for a in scene.objects
        for b in scene.objects
        if _name(a) != _name(b) and (relation := direction(a, b, scene))
    ]
    return pairs[int(rng.integers(len(pairs)))] if pairs else None


def _any_object(kind: str, scene: Scene, rng: np.random.Generator) -> Entity | None:
    """An object that has what is asked for."""
    entity = scene.objects[int(rng.integers(len(scene.objects)))]
    return entity if all(getattr(entity, attribute) for attribute in ASKED[kind]) else None


def _name(entity: Entity, article: Literal["a", ""] = "") -> str:
    return write(Query(color=entity.color, shape=entity.shape), article)


def _key(entity: Entity) -> dict[str, str]:
    return {"color": entity.color, "shape": entity.shape}


def _entry(files: _files.Folder, name: str, scene: Scene, regions: Sequence[int]) -> dict[str, Any]:
    """The fields that every entry has; writes its picture."""
    image = f"images/{name}.png"
    files.picture(image, scene)
    masks = [scene.entities[entity].mask.to_coco() for entity in regions]
    return {"image": image, "image_path": image, "mask_rles": masks}
