"""The sentence that a scene deserves: what stands where, and on what ground.

A function of the scene alone, so that it can be learnt: of the objects in reading order the first
pair that a relation holds between, the band that the second lies in, and one object more where the
scene has five or more. No two of its objects are described in the same words.
"""

import itertools
from dataclasses import dataclass

from . import expressions, oracle
from .language import Query, write
from .scene import RELATIONS, Entity, Scene

DIRECTIONS = RELATIONS[:4]
"""The relations of which at most one holds between two objects."""
CROWDED = 5


@dataclass(frozen=True, slots=True)
class Caption:
    """A text, and the phrases in it, in order, each with the entity that it means."""

    text: str
    phrases: tuple[tuple[str, int], ...]


def caption(scene: Scene) -> Caption | None:
    """The caption of a scene; None if no relation holds between two objects of unlike nouns."""
    objects = expressions.reading_order(scene.objects)
    pair = first_relation(objects, scene)
    if pair is None:
        return None
    a, relation, b = pair
    phrases = [_phrase(a), _phrase(b)]
    text = f"{_with_article(a)} is {relation} {_with_article(b)}"
    ground = band_under(b, scene)
    if ground is not None:
        phrases.append((ground.name, ground.id))
        text += f" on the {ground.name}"
    text = f"{text[0].upper()}{text[1:]}."
    other = next((entity for entity in objects if noun(entity) not in (noun(a), noun(b))), None)
    if other is not None and len(objects) >= CROWDED:
        phrases.append(_phrase(other))
        text += f" There is also {_with_article(other)}."
    return Caption(text, tuple(phrases))


def first_relation(objects: list[Entity], scene: Scene) -> tuple[Entity, str, Entity] | None:
    """The first pair, in the order given, in one of the four directions and of unlike nouns."""
    for a, b in itertools.combinations(objects, 2):
        relation = direction(a, b, scene)
        if relation and noun(a) != noun(b):
            return a, relation, b
    return None


def direction(a: Entity, b: Entity, scene: Scene) -> str:
    """Where ``a`` is as seen from ``b``: one of the four directions, or "" if none holds."""
    return next((r for r in DIRECTIONS if oracle.related(r, a, b, scene)), "")


def noun(entity: Entity) -> Query:
    """An object in a few words: size, texture unless plain, colour, shape."""
    texture = "" if entity.texture == "plain" else entity.texture
    return Query(size=entity.size, texture=texture, color=entity.color, shape=entity.shape)


def _phrase(entity: Entity) -> tuple[str, int]:
    return write(noun(entity), article=""), entity.id


def _with_article(entity: Entity) -> str:
    return write(noun(entity))


def band_under(entity: Entity, scene: Scene) -> Entity | None:
    """The band that an object lies in from top to bottom; None if it crosses a border."""
    top, bottom = entity.y - entity.r, entity.y + entity.r
    for band in scene.bands:
        box = band.mask.box
        if box is not None and box[1] <= top and bottom <= box[3] + 1:
            return band
    return None
