"""Drawing expressions of a scene: true ones of every kind, and near misses that match nothing.

Each is a function of the scene and the state of ``rng``, of which only ``random()`` is used: a
numpy ``Generator`` or a ``random.Random``. Of parts an expression names one at most, and of side
and height it says one.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

from harness.errors import DataError

from ._predicates import (
    Draws,
    Predicate,
    attributes,
    details,
    parts,
    pick,
    positions,
    predicates,
    sayable,
    saying,
    telling,
)
from .language import Query
from .oracle import match, related
from .scene import (
    COLORS,
    MATERIALS,
    RELATIONS,
    SHAPES,
    SIDES,
    SIZES,
    TEXTURES,
    VSIDES,
    Entity,
    Scene,
)

VALUES = {
    "size": SIZES,
    "texture": TEXTURES,
    "material": MATERIALS,
    "color": COLORS,
    "shape": SHAPES,
    "with_color": COLORS,
    "side": SIDES,
    "vside": VSIDES,
}
"""What a near miss can say instead, field by field."""


def describe(rng: Draws, scene: Scene, entity: Entity, level: int) -> Query:
    """A true expression of some level of detail; it may match others as well.

    1 color or shape; 2 both; 3 both, and each of size, texture, material, a part and a position
    with probability one half; 4 everything (``full``). A part's own color is said from level 2 on,
    and the owner of a part or a reflection is described at the same level. A band has one name.
    """
    if level not in (1, 2, 3, 4):
        raise DataError(f"level = {level!r} must be 1, 2, 3 or 4")
    if level == 4:
        return full(scene, entity)
    if entity.kind == "band":
        return Query(kind="band", band=entity.name)
    if entity.kind != "object":
        owner = describe(rng, scene, _owner(scene, entity), level)
        return _of(owner, entity, colored=level > 1)
    said: list[Predicate] = [(("color", entity.color),), (("shape", entity.shape),)]
    if level == 1:
        said = [pick(rng, said)]
    elif level == 3:
        choices = (parts(scene, entity), positions(entity))
        more = details(entity) + [pick(rng, choice) for choice in choices if choice]
        said += [predicate for predicate in more if rng.random() < 0.5]
    return saying(said)


def full(scene: Scene, entity: Entity) -> Query:
    """The true expression that says all it can: every attribute, the first part, the position.

    The position is the side, or the height where there is none.
    """
    if entity.kind == "band":
        return Query(kind="band", band=entity.name)
    if entity.kind != "object":
        return _of(full(scene, _owner(scene, entity)), entity, colored=True)
    return saying(attributes(entity) + parts(scene, entity)[:1] + positions(entity)[:1])


def unique(rng: Draws, scene: Scene, entity: Entity) -> Query | None:
    """One of the shortest expressions that match this entity alone; None if there is none.

    Of a part or a reflection the owner is told from other such owners; a part's own color is said
    only where nothing else helps.
    """
    if entity.kind == "band":
        return Query(kind="band", band=entity.name)
    if entity.kind == "object":
        rivals = [predicates(scene, e) for e in scene.objects if e.id != entity.id]
        return telling(rng, predicates(scene, entity), rivals)
    owner = _owner(scene, entity)
    itself = ("with_part", entity.name)
    said = [predicate for predicate in predicates(scene, owner) if predicate[0] != itself]
    for colored in (False, True) if entity.kind == "part" else (False,):
        rivals = [
            predicates(scene, _owner(scene, e))
            for e in scene.entities
            if e.kind == entity.kind and e.name == entity.name and e.owner != owner.id
            if not colored or e.color == entity.color
        ]
        if told := telling(rng, said, rivals):
            return _of(told, entity, colored)
    return None


def group(rng: Draws, scene: Scene) -> Query | None:
    """What two to four objects share, as in "all the red things"; None if there is no such thing.

    It has one predicate, or two in four of ten cases and wherever one is not enough.
    """
    members: dict[Predicate, int] = {}
    for bit, entity in enumerate(scene.objects):
        for predicate in predicates(scene, entity):
            members[predicate] = members.get(predicate, 0) | 1 << bit
    shared = [p for p, mask in members.items() if mask.bit_count() >= 2]
    options: list[tuple[Predicate, ...]] = [(p,) for p in shared if members[p].bit_count() <= 4]
    if not options or rng.random() < 0.4:
        pairs = [
            pair
            for pair in combinations(shared, 2)
            if 2 <= (members[pair[0]] & members[pair[1]]).bit_count() <= 4 and sayable(pair)
        ]
        options = list(pairs) or options
    return saying(pick(rng, options), plural=True) if options else None


def absent(rng: Draws, scene: Scene) -> Query:
    """An expression without a target: that of a present object with one value changed.

    One in ten names a shape that is nowhere in the scene (as far as there is such a shape).
    """
    objects = scene.objects
    present = describe(rng, scene, pick(rng, objects), 2 if rng.random() < 0.5 else 3)
    nowhere = [shape for shape in SHAPES if all(e.shape != shape for e in objects)]
    if nowhere and rng.random() < 0.1:
        return replace(present, shape=pick(rng, nowhere))
    changes: list[dict[str, Any]] = [
        {field: value}
        for field, values in VALUES.items()
        if (said := getattr(present, field))
        for value in values
        if value != said
    ]
    while changes:
        miss = replace(present, **changes.pop(int(rng.random() * len(changes))))
        if not match(miss, scene):
            return miss
    raise DataError(f"a scene of {len(objects)} objects leaves no near miss; make fewer objects")


def part_expression(rng: Draws, scene: Scene, part: Entity | None = None) -> Query | None:
    """A part by its owner, "the core of the red circle"; by default of any part, None without.

    It is told from others if words can do it. Its color is said in half the cases, or more if it
    is needed.
    """
    part = part or _any(rng, scene.parts)
    if part is None:
        return None
    told = unique(rng, scene, part) or full(scene, part)
    return replace(told, color=part.color if told.color or rng.random() < 0.5 else "")


def band_expression(rng: Draws, scene: Scene, band: Entity | None = None) -> Query | None:
    """A band by its name, "the sand"; by default of any band, None without."""
    band = band or _any(rng, scene.bands)
    return Query(kind="band", band=band.name) if band else None


def reflection_expression(
    rng: Draws, scene: Scene, reflection: Entity | None = None
) -> Query | None:
    """A reflection by the color and shape of what it shows; by default of any, None without."""
    reflection = reflection or _any(rng, scene.reflections)
    return describe(rng, scene, reflection, 2) if reflection else None


def relation_expression(rng: Draws, scene: Scene, entity: Entity | None = None) -> Query | None:
    """An object by its relation to another, "a circle left of the red square".

    By default of any object that has a relation; None if there is none. The other object is told
    from the rest if attributes can do it, or else is named by color and shape.
    """
    objects = scene.objects
    candidates = [entity] if entity else list(objects)
    while candidates:
        a = candidates.pop(int(rng.random() * len(candidates)))
        holds = [(r, b) for b in objects for r in RELATIONS if related(r, a, b, scene)]
        if holds:
            relation, b = pick(rng, holds)
            rivals = [attributes(e) for e in objects if e.id != b.id]
            relative = telling(rng, attributes(b), rivals) or describe(rng, scene, b, 2)
            named = describe(rng, scene, a, 1) if rng.random() < 0.7 else Query()
            return replace(named, relation=relation, relative=relative)
    return None


def reading_order(entities: Iterable[Entity]) -> list[Entity]:
    """From top to bottom, then from left to right, by centre; equals by id."""
    return sorted(entities, key=lambda e: (*_centre(e), e.id))


def _centre(entity: Entity) -> tuple[float, float]:
    """y and x of the centre; of its box where an entity has no radius (a part, a band)."""
    if entity.r or (box := entity.mask.box) is None:
        return entity.y, entity.x
    return (box[1] + box[3]) / 2, (box[0] + box[2]) / 2


def _any(rng: Draws, entities: Sequence[Entity]) -> Entity | None:
    return pick(rng, entities) if entities else None


def _owner(scene: Scene, entity: Entity) -> Entity:
    if entity.owner is None:
        raise DataError(f"entity {entity.id}, a {entity.kind}, has no owner; name one")
    return scene.entities[entity.owner]


def _of(owner: Query, entity: Entity, colored: bool) -> Query:
    """The query of a part or a reflection whose owner is known."""
    if entity.kind == "reflection":
        return Query(kind="reflection", owner=owner)
    color = entity.color if colored else ""
    return Query(kind="part", part=entity.name, color=color, owner=owner)
