"""What can be said of an object, and the shortest expressions that tell it from others."""

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any, Protocol, TypeVar

from .language import Query
from .scene import Entity, Scene

T = TypeVar("T")

Predicate = tuple[tuple[str, str], ...]
"""Fields of a query and their values: one, or two for "with a blue core"."""

_ONE_WORD = {"vside": "side"}
"""A field that shares its place in an expression with another."""


class Draws(Protocol):
    """What is asked of a random generator."""

    def random(self) -> float:
        """A number in [0, 1)."""
        ...


def pick(rng: Draws, options: Sequence[T]) -> T:
    """One of the options, all equally likely."""
    return options[int(rng.random() * len(options))]


def saying(predicates: Iterable[Predicate], plural: bool = False) -> Query:
    """The query of an object with these predicates."""
    fields: dict[str, Any] = dict(pair for predicate in predicates for pair in predicate)
    return Query(plural=plural, **fields)


def details(entity: Entity) -> list[Predicate]:
    """Size, texture and material, as far as it has them."""
    return _present(
        ("size", entity.size), ("texture", entity.texture), ("material", entity.material)
    )


def attributes(entity: Entity) -> list[Predicate]:
    """The details, then color and shape."""
    return details(entity) + _present(("color", entity.color), ("shape", entity.shape))


def parts(scene: Scene, entity: Entity) -> list[Predicate]:
    """The parts of an object, each with its color."""
    return [
        (("with_part", part.name), ("with_color", part.color))
        for part in scene.entities
        if part.kind == "part" and part.owner == entity.id
    ]


def positions(entity: Entity) -> list[Predicate]:
    """Side and height, as far as it has them."""
    return _present(("side", entity.side), ("vside", entity.vside))


def predicates(scene: Scene, entity: Entity) -> list[Predicate]:
    """Everything that can be said of an object by itself."""
    return attributes(entity) + parts(scene, entity) + positions(entity)


def sayable(predicates: Iterable[Predicate]) -> bool:
    """Whether an expression can hold all of them: one value, one part and one position word."""
    places = [_ONE_WORD.get(p[0][0], p[0][0]) for p in predicates]
    return len(set(places)) == len(places)


def telling(
    rng: Draws, said: Sequence[Predicate], rivals: Iterable[Sequence[Predicate]]
) -> Query | None:
    """One of the shortest expressions made of ``said`` that is false of each rival, or None.

    It has at least one predicate. ``rivals`` holds what can be said of each of the others.
    """
    masks = [0] * len(said)
    for bit, rival in enumerate(rivals):
        for index, predicate in enumerate(said):
            masks[index] |= (predicate in rival) << bit
    for length in range(1, len(said) + 1):
        found = [
            chosen
            for indices in combinations(range(len(said)), length)
            if _disjoint(masks, indices) and sayable(chosen := [said[i] for i in indices])
        ]
        if found:
            return saying(pick(rng, found))
    return None


def _disjoint(masks: Sequence[int], indices: Iterable[int]) -> bool:
    left = -1
    for index in indices:
        left &= masks[index]
    return not left


def _present(*pairs: tuple[str, str]) -> list[Predicate]:
    return [(pair,) for pair in pairs if pair[1]]
