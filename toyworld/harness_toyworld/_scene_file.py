"""Scenes in a file: all that is known of each, one JSON object a line, without the picture."""

import dataclasses
from collections.abc import Mapping
from typing import Any, get_args

import numpy as np

from harness.errors import DataError
from harness.types import Mask

from .scene import SPLIT_IDS, Entity, Kind, Scene

_TEXTS = ("shape", "color", "texture", "size", "material", "name", "side", "vside")
_NUMBERS = ("x", "y", "r")


def to_row(scene: Scene) -> dict[str, Any]:
    """The record of a scene."""
    entities = [_entity_row(entity) for entity in scene.entities]
    return {
        "profile": scene.profile,
        "split": scene.split,
        "index": scene.index,
        "entities": entities,
    }


def from_row(row: Mapping[str, Any], where: str) -> Scene:
    """The scene of a record, its picture black; raises DataError that says where and what."""
    entities = row.get("entities")
    if not isinstance(entities, list) or not entities:
        raise DataError(f"{where}: entities must be a list with at least one entity")
    if row.get("split") not in tuple(SPLIT_IDS) or type(row.get("index")) is not int:
        raise DataError(f"{where}: split or index does not name a scene")
    read = tuple(_entity(e, n, len(entities), where) for n, e in enumerate(entities))
    if len({entity.mask.size for entity in read}) > 1:
        raise DataError(f"{where}: the masks of its entities must have one size")
    height, width = read[0].mask.size
    return Scene(
        profile=str(row.get("profile", "")),
        split=row["split"],
        index=row["index"],
        pixels=np.broadcast_to(np.uint8(0), (height, width, 3)),
        entities=read,
    )


def _entity_row(entity: Entity) -> dict[str, Any]:
    """The attributes that an entity has, and its mask."""
    fields = {f.name: getattr(entity, f.name) for f in dataclasses.fields(entity)}
    told = {key: value for key, value in fields.items() if value not in ("", None)}
    return told | {"mask": entity.mask.to_coco()}


def _entity(row: object, number: int, count: int, where: str) -> Entity:
    where = f"{where}: entity {number}"
    if not isinstance(row, dict) or row.get("id") != number or row.get("kind") not in _KINDS:
        raise DataError(f"{where} must be an object with its id and a kind ({', '.join(_KINDS)})")
    texts = {key: row.get(key, "") for key in _TEXTS}
    numbers = {key: row.get(key, 0.0) for key in _NUMBERS}
    owner = row.get("owner")
    if not all(isinstance(text, str) for text in texts.values()):
        raise DataError(f"{where}: its attributes must be text")
    if not all(type(value) in (int, float) for value in numbers.values()):
        raise DataError(f"{where}: {', '.join(_NUMBERS)} must be numbers")
    if owner is not None and not (type(owner) is int and 0 <= owner < count):
        raise DataError(f"{where}: its owner must be the id of an entity, not {owner!r:.80}")
    try:
        mask = Mask.from_coco(row.get("mask"))
    except DataError as error:
        raise DataError(f"{where}: its mask is broken: {error}") from None
    return Entity(id=number, kind=row["kind"], mask=mask, owner=owner, **texts, **numbers)


_KINDS = get_args(Kind)
