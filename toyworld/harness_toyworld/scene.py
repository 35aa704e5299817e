"""What a scene is: a picture and the regions in it, with every attribute known.

Frozen data. ``harness_toyworld.make`` makes scenes, ``language`` speaks of them, ``oracle`` knows
which regions a text means. Letters: S side of the (square) picture, in pixels.
"""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from harness.types import Mask

WORLD_VERSION = 1
"""Raise it whenever the same (profile, split, index) would give another scene."""

Split = Literal["codec", "sft", "rl", "val", "test", "demo"]
SPLIT_IDS: dict[Split, int] = {"codec": 1, "sft": 2, "rl": 3, "val": 4, "test": 5, "demo": 6}

SHAPES = ("circle", "square", "triangle", "diamond", "cross", "ring")
COLORS = ("red", "green", "blue", "yellow", "purple", "orange", "white", "black")
TEXTURES = ("plain", "striped", "dotted")
SIZES = ("small", "large")
MATERIALS = ("matte", "shiny", "metal")
PARTS = ("core", "rim", "hat")
BANDS = ("sky", "grass", "sand", "water", "brick", "mirror")
SIDES = ("left", "right")
VSIDES = ("top", "bottom")
RELATIONS = ("left of", "right of", "above", "below", "nearest to")

Kind = Literal["object", "part", "band", "reflection"]


@dataclass(frozen=True, slots=True)
class Entity:
    """One region of a scene. Attributes that it does not have are ""."""

    id: int
    """Its index in ``Scene.entities``."""
    kind: Kind
    mask: Mask
    """Its visible pixels; an object's mask includes its parts. Never empty."""
    shape: str = ""
    color: str = ""
    """Of an object, a reflection or a part."""
    texture: str = ""
    size: str = ""
    material: str = ""
    """"" in profiles without materials."""
    name: str = ""
    """Of a part (``PARTS``) or a band (``BANDS``)."""
    owner: int | None = None
    """The object that a part belongs to, or that a reflection shows."""
    x: float = 0.0
    y: float = 0.0
    r: float = 0.0
    """Centre and circumscribed radius in pixels (objects and reflections)."""
    side: str = ""
    vside: str = ""
    """``left``/``right`` and ``top``/``bottom`` of the middle; "" in the dead zone around it."""


@dataclass(frozen=True, slots=True)
class Scene:
    """A picture of S x S pixels and everything that is in it."""

    profile: str
    split: Split
    index: int
    pixels: NDArray[np.uint8] = field(repr=False, compare=False)
    """As drawn (S, S, 3); files hold them as JPEG of quality 95 or as PNG."""
    entities: tuple[Entity, ...]

    @property
    def objects(self) -> tuple[Entity, ...]:
        return self._of("object")

    @property
    def parts(self) -> tuple[Entity, ...]:
        return self._of("part")

    @property
    def bands(self) -> tuple[Entity, ...]:
        return self._of("band")

    @property
    def reflections(self) -> tuple[Entity, ...]:
        return self._of("reflection")

    def parts_of(self, entity: Entity) -> tuple[Entity, ...]:
        """The parts of an object."""
        return tuple(part for part in self.parts if part.owner == entity.id)

    def _of(self, kind: Kind) -> tuple[Entity, ...]:
        return tuple(entity for entity in self.entities if entity.kind == kind)
