"""Which regions of a scene a query means: exact, since everything in a scene is known."""

from .language import Query
from .scene import Entity, Scene

CLEAR = 1.2
"""How far apart along an axis two centres must be for a direction, in radii of the larger one."""
NEARER = 1.1
"""How many times further away the second nearest must be, for "nearest to" to hold."""


def match(query: Query, scene: Scene) -> frozenset[int]:
    """The ids of the entities for which all predicates hold; empty if there is no target.

    An object is never met through its reflection nor the other way round. A part or a reflection
    matches through each of the owners that match. "left of the red circle" holds if it does for
    any red circle.
    """
    kind = query.kind
    if kind == "object":
        return frozenset([e.id for e in _objects(query, scene)])
    if kind == "everything":
        return frozenset([e.id for e in scene.entities if e.kind == "object"])
    if kind == "band":
        return frozenset([e.id for e in scene.entities if e.kind == kind and e.name == query.band])
    owners = {e.id for e in _objects(query.owner or Query(), scene)}
    return frozenset(
        [
            e.id
            for e in scene.entities
            if e.kind == kind
            and e.owner in owners
            and (kind == "reflection" or e.name == query.part)
            and query.color in ("", e.color)
        ]
    )


def _objects(query: Query, scene: Scene) -> list[Entity]:
    found = [
        e
        for e in scene.entities
        if e.kind == "object"
        and query.shape in ("", e.shape)
        and query.color in ("", e.color)
        and query.texture in ("", e.texture)
        and query.size in ("", e.size)
        and query.material in ("", e.material)
        and query.side in ("", e.side)
        and query.vside in ("", e.vside)
    ]
    if query.with_part:
        owners = {
            e.owner
            for e in scene.entities
            if e.kind == "part" and e.name == query.with_part and query.with_color in ("", e.color)
        }
        found = [e for e in found if e.id in owners]
    if query.relation:
        others = _objects(query.relative or Query(), scene)
        found = [e for e in found if any(related(query.relation, e, o, scene) for o in others)]
    return found


def related(relation: str, a: Entity, b: Entity, scene: Scene) -> bool:
    """Whether object ``a`` clearly is ``relation`` object ``b``; False for other entities.

    A direction holds if the centres differ along its axis by more than ``CLEAR`` radii of the
    larger object and by more than along the other axis. ``nearest to``: every third
    object is more than ``NEARER`` times as far from ``b`` as ``a`` is, by centres.
    """
    if a.kind != "object" or b.kind != "object" or a.id == b.id:
        return False
    dx, dy = b.x - a.x, b.y - a.y
    if relation == "nearest to":
        bound = NEARER * NEARER * (dx * dx + dy * dy)
        return all(
            (c.x - b.x) ** 2 + (c.y - b.y) ** 2 > bound
            for c in scene.entities
            if c.kind == "object" and c.id != a.id and c.id != b.id
        )
    if relation in ("left of", "right of"):
        along, across = (dx if relation == "left of" else -dx), abs(dy)
    else:
        along, across = (dy if relation == "above" else -dy), abs(dx)
    return along > CLEAR * max(a.r, b.r) and along > across
