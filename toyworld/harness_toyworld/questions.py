"""Multiple-choice questions about marked regions of a scene, of the seven types of GAR-Bench.

Regions are called ``<Prompt0>``, ``<Prompt1>`` ... as there. Wrong choices are values that the
scene has elsewhere, as far as there are any.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from . import language
from .captions import DIRECTIONS, direction
from .scene import COLORS, MATERIALS, SHAPES, TEXTURES, Entity, Scene

T = TypeVar("T")

CHOICES = 4
"""The most choices of a question."""
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")
GAP = 0.04
"""Centres that are to be counted from the left differ by this share of the picture's side."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question, its choices (without letters), which of them is right, and its regions."""

    text: str
    choices: tuple[str, ...]
    answer: int
    regions: tuple[int, ...]
    """Ids of entities: ``<Prompt0>`` is the first."""

    @property
    def letter(self) -> str:
        return "ABCD"[self.answer]


def ask(kind: str, scene: Scene, rng: np.random.Generator, place: int) -> Question | None:
    """A question of a type; None if the scene has nothing to ask about.

    The right choice is the one numbered ``place`` modulo the number of choices.
    """
    return _TYPES[kind](scene, rng, place)


def _about(attribute: str, noun: str, values: Sequence[str]) -> "_Type":
    """The type that asks for one attribute of one object."""

    def asked(scene: Scene, rng: np.random.Generator, place: int) -> Question | None:
        entity = _one(scene.objects, rng)
        right = getattr(entity, attribute)
        if not right:  # the profile has no such attribute
            return None
        wrong = _wrong(right, [getattr(other, attribute) for other in scene.objects], values, rng)
        text = f"What is the {noun} of <Prompt0>?"
        return _question(text, right, wrong, place, (entity.id,))

    return asked


def _ordering(scene: Scene, rng: np.random.Generator, place: int) -> Question | None:
    """Which place an object has from the left, among those of its shape or among all."""
    entity = _one(scene.objects, rng)
    rivals = [other for other in scene.objects if other.shape == entity.shape]
    shape = entity.shape
    if len(rivals) < 2:
        rivals, shape = list(scene.objects), ""
    rivals.sort(key=lambda other: other.x)
    gap = GAP * scene.pixels.shape[1]
    if any(b.x - a.x < gap for a, b in itertools.pairwise(rivals)):
        return None
    right = ORDINALS[rivals.index(entity)]
    wrong = _wrong(right, ORDINALS[: len(rivals)], ORDINALS[:CHOICES], rng)
    noun = language.write(language.Query(shape=shape, plural=True), article="")
    text = f"Which place has <Prompt0> among the {noun}, counted from the left?"
    return _question(text, right, wrong, place, (entity.id,))


def _mirror(scene: Scene, rng: np.random.Generator, place: int) -> Question | None:
    """Which of two to four regions is a reflection; the object that it shows is among them."""
    if not scene.reflections:
        return None
    reflection = _one(scene.reflections, rng)
    others = [entity for entity in scene.objects if entity.id != reflection.owner]
    assert reflection.owner is not None
    more = _mixed([entity.id for entity in others], rng)[: int(rng.integers(CHOICES - 1))]
    shown = _mixed([reflection.owner, *more], rng)
    answer = place % (len(shown) + 1)
    shown.insert(answer, reflection.id)
    names = tuple(f"<Prompt{number}>" for number in range(len(shown)))
    return Question("Which of the regions is a reflection?", names, answer, tuple(shown))


def _relation(scene: Scene, rng: np.random.Generator, place: int) -> Question | None:
    """Where one object is as seen from another."""
    pairs = [(a, b) for a in scene.objects for b in scene.objects if direction(a, b, scene)]
    if not pairs:
        return None
    a, b = pairs[int(rng.integers(len(pairs)))]
    right = direction(a, b, scene)
    wrong = _wrong(right, DIRECTIONS, (), rng)
    text = "Where is <Prompt0> as seen from <Prompt1>?"
    return _question(text, right, wrong, place, (a.id, b.id))


_Type = Callable[[Scene, np.random.Generator, int], Question | None]
_TYPES: Mapping[str, _Type] = {
    "color": _about("color", "color", COLORS),
    "shape": _about("shape", "shape", SHAPES),
    "texture/pattern": _about("texture", "texture", TEXTURES),
    "material": _about("material", "material", MATERIALS),
    "ordering": _ordering,
    "mirror": _mirror,
    "relation": _relation,
}
KINDS = tuple(_TYPES)
"""The types, by the names that the file of GAR-Bench gives them."""


def _one(entities: Sequence[Entity], rng: np.random.Generator) -> Entity:
    return entities[int(rng.integers(len(entities)))]


def _wrong(
    right: str, present: Sequence[str], others: Sequence[str], rng: np.random.Generator
) -> list[str]:
    """Up to three wrong values: those of the scene first, then others, each in random order."""
    found: list[str] = []
    for values in (present, others):
        found += _mixed(sorted({*values} - {right, "", *found}), rng)
    return found[: CHOICES - 1]


def _mixed(values: Sequence[T], rng: np.random.Generator) -> list[T]:
    return [values[number] for number in rng.permutation(len(values))]


def _question(
    text: str, right: str, wrong: list[str], place: int, regions: tuple[int, ...]
) -> Question:
    answer = place % (len(wrong) + 1)
    choices = [*wrong[:answer], right, *wrong[answer:]]
    return Question(text, tuple(choices), answer, regions)
