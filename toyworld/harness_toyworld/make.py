"""Makes scenes: ``make_scene(profile, split, index)`` is a pure function.

One generator a scene, seeded by world version, split, index and profile. A layout that breaks a
rule (a region that can hardly be seen, two objects that no word tells apart) is thrown away and the
same generator draws the next.
"""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from harness.errors import ConfigError
from harness.types import Mask

from . import _draw
from ._profiles import Profile, profile
from .scene import BANDS, MATERIALS, PARTS, SPLIT_IDS, WORLD_VERSION, Entity, Scene, Split

__all__ = ["Profile", "make_scene", "profile"]

TRIES = 1000
"""Layouts drawn before a profile counts as impossible."""
PLACES = 60
"""Places tried for one object."""


@dataclass(slots=True)
class _Thing:
    """An object while its scene is laid out."""

    shape: str
    color: str
    texture: str
    size: str
    material: str
    r: int
    x: int = 0
    y: int = 0
    parts: dict[str, str] = field(default_factory=dict)
    """Colour by name."""
    tint: tuple[int, int, int] = (0, 0, 0)

    @property
    def above(self) -> int:
        """How far it reaches over its centre."""
        return self.r * 3 // 2 + 1 if "hat" in self.parts else self.r

    @property
    def look(self) -> tuple[object, ...]:
        """All that words can say of it but its place."""
        parts = tuple(sorted(self.parts.items()))
        return self.shape, self.color, self.texture, self.size, self.material, parts


def make_scene(name: str, split: Split, index: int) -> Scene:
    """The scene with this number; raises ConfigError for a profile or split that is unknown."""
    chosen = profile(name)
    if split not in SPLIT_IDS:
        raise ConfigError(f"there is no split {split!r}; known: {', '.join(SPLIT_IDS)}")
    seed = [WORLD_VERSION, SPLIT_IDS[split], index, chosen.number]
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed)))
    for _ in range(TRIES):
        drawn = _attempt(chosen, rng)
        if drawn is not None:
            return Scene(name, split, index, *drawn)
    raise AssertionError(f"no layout of the profile {name} fits; its numbers contradict each other")


def _attempt(
    chosen: Profile, rng: np.random.Generator
) -> tuple[NDArray[np.uint8], tuple[Entity, ...]] | None:
    """(pixels, entities) of one layout, or None if it breaks a rule."""
    mirrored = int(rng.integers(100)) < chosen.mirrors
    names, band_SS = _bands(chosen, rng, mirrored)
    things = _placed(chosen, rng, _things(chosen, rng))
    if things is None or _twins(chosen, things):
        return None
    image = None
    if mirrored:
        image = _reflected(chosen, rng, things, band_SS == names.index("mirror"))
        if image is None:
            return None
    return _painted(chosen, rng, names, band_SS, things, image)


def _bands(
    chosen: Profile, rng: np.random.Generator, mirrored: bool
) -> tuple[list[str], NDArray[np.int64]]:
    """The bands' names from top to bottom, and for each pixel (S, S) the number of its band."""
    side = chosen.side
    count = int(rng.integers(chosen.bands[0], chosen.bands[1] + 1))
    names = [str(name) for name in rng.permutation(BANDS[:-1])[:count]]
    if mirrored:
        count = max(count, 2)
        names = [str(name) for name in rng.permutation(BANDS[:-1])[:count]]
        names[int(rng.integers(count))] = "mirror"
    rows = np.arange(side)[:, None]
    band_SS = np.zeros((side, side), np.int64)
    for border in range(1, count):
        middle = side * border // count + int(rng.integers(-side // 12, side // 12 + 1))
        wide, deep = int(rng.integers(side // 6, side // 2)), chosen.scaled(2)
        start = int(rng.integers(wide))
        wave = abs((np.arange(side) + start) % wide * 2 - wide) * deep // wide
        band_SS += rows >= middle + wave
    return names, band_SS


def _things(chosen: Profile, rng: np.random.Generator) -> list[_Thing]:
    """Objects without a place. Three of four copy some attributes of an earlier one."""
    things: list[_Thing] = []
    for _ in range(int(rng.integers(chosen.objects[0], chosen.objects[1] + 1))):
        pick = rng.integers(1 << 16, size=6).tolist()
        size = ("small", "large")[pick[3] % 2]
        low, high = (7, 9) if size == "small" else (12, 15)
        r = int(rng.integers(chosen.scaled(low), chosen.scaled(high) + 1))
        thing = _Thing(
            shape=chosen.shapes[pick[0] % len(chosen.shapes)],
            color=chosen.colors[pick[1] % len(chosen.colors)],
            texture=chosen.textures[pick[2] % len(chosen.textures)],
            size=size,
            material=MATERIALS[pick[4] % 3] if chosen.materials else "",
            r=r,
        )
        if things and int(rng.integers(4)) < 3:
            copied, other = 1 + pick[5] % 7, things[int(rng.integers(len(things)))]
            thing.shape = other.shape if copied & 1 else thing.shape
            thing.color = other.color if copied & 2 else thing.color
            thing.texture = other.texture if copied & 4 else thing.texture
        if chosen.parts and size == "large":
            _add_parts(chosen, rng, thing)
        share = int(rng.integers(88, 106))
        red, green, blue = (min(255, v * share // 100) for v in _draw.BASE[thing.color])
        thing.tint = (red, green, blue)
        things.append(thing)
    return things


def _add_parts(chosen: Profile, rng: np.random.Generator, thing: _Thing) -> None:
    """None, one or two parts, each in a colour of its own; a ring has no core."""
    names = [name for name in PARTS if (thing.shape, name) != ("ring", "core")]
    colors = [color for color in chosen.colors if color != thing.color]
    count = (0, 1, 1, 2)[int(rng.integers(4))]
    chosen_names = rng.permutation(len(names))[:count].tolist()
    chosen_colors = rng.permutation(len(colors))[:count].tolist()
    for name, color in zip(chosen_names, chosen_colors, strict=True):
        thing.parts[names[name]] = colors[color]


def _placed(chosen: Profile, rng: np.random.Generator, things: list[_Thing]) -> list[_Thing] | None:
    """Each at a place where it touches no other; with occlusion one pair may overlap."""
    hiding = chosen.occlusion and int(rng.integers(2)) == 1
    for index, thing in enumerate(things):
        overlap = hiding and index == len(things) - 1
        if not _place(chosen, rng, thing, things[:index], overlap):
            return None
    return things


def _place(
    chosen: Profile,
    rng: np.random.Generator,
    thing: _Thing,
    others: list[_Thing],
    overlap: bool = False,
) -> bool:
    """Finds a place for an object; False if there is none."""
    low_y, low_x, high = thing.above + 1, thing.r + 1, chosen.side - thing.r - 1
    places_y = rng.integers(low_y, high, size=PLACES).tolist()
    places_x = rng.integers(low_x, high, size=PLACES).tolist()
    for thing.y, thing.x in zip(places_y, places_x, strict=True):
        touched = [other for other in others if _touch(thing, other)]
        if overlap and len(touched) == 1 and _hides(thing, touched[0]):
            return True
        if not overlap and not touched:
            return True
    return False


def _touch(one: _Thing, other: _Thing) -> bool:
    """Whether two objects come within two pixels of each other."""
    upper, lower = (one, other) if one.y < other.y else (other, one)
    down, across = lower.y - upper.y, lower.x - upper.x
    near = one.r + other.r + 2
    if down * down + across * across <= near * near:
        return True
    hat = lower.above - lower.r  # it stands over the lower one
    return hat > 0 and abs(across) <= upper.r + lower.r * 3 // 5 + 2 and down <= near + hat


def _hides(front: _Thing, back: _Thing) -> bool:
    """Whether one hides a part of the other, but not most of it."""
    apart = (front.x - back.x) ** 2 + (front.y - back.y) ** 2
    reach = front.r + back.r
    return 36 * reach * reach <= 100 * apart <= 72 * reach * reach


def _twins(chosen: Profile, things: list[_Thing]) -> bool:
    """Whether two objects are alike in all attributes and lie on the same sides."""
    seen = {(thing.look, *_sides(chosen, thing.x, thing.y)) for thing in things}
    return len(seen) < len(things)


def _sides(chosen: Profile, x: float, y: float) -> tuple[str, str]:
    """(side, vside) of a point; "" in the dead zone of 4 % around the middle."""
    words = []
    for value, low, high in ((x, "left", "right"), (y, "top", "bottom")):
        off = 2 * value - chosen.side
        words.append("" if 100 * abs(off) < 8 * chosen.side else low if off < 0 else high)
    return words[0], words[1]


def _reflected(
    chosen: Profile,
    rng: np.random.Generator,
    things: list[_Thing],
    band_SS: NDArray[np.bool_],
) -> tuple[_Thing, int] | None:
    """The image of one object inside the mirror band, and that object's number; None: no room."""
    for index in rng.permutation(len(things)).tolist():
        image = replace(things[index])
        below = image.above  # it hangs upside down
        for _ in range(PLACES // 2):
            image.y = int(rng.integers(image.r + 1, chosen.side - below - 1))
            image.x = int(rng.integers(image.r + 1, chosen.side - image.r - 1))
            top, bottom = image.y - image.r, image.y + below + 1
            inside = band_SS[top:bottom, image.x - image.r : image.x + image.r + 1].all()
            upright = replace(image, y=image.y + below - image.r)
            if inside and not any(_touch(upright, t) or _touch(image, t) for t in things):
                return image, index
    return None


def _painted(
    chosen: Profile,
    rng: np.random.Generator,
    names: list[str],
    band_SS: NDArray[np.int64],
    things: list[_Thing],
    image: tuple[_Thing, int] | None,
) -> tuple[NDArray[np.uint8], tuple[Entity, ...]] | None:
    """Draws back to front; None if some region is hardly seen."""
    noise = rng.integers(-10, 11, size=(chosen.side, chosen.side))
    grounds = np.stack([_draw.ground(name, noise, chosen) for name in names])
    pixels = np.take_along_axis(grounds, band_SS[None, ..., None], 0)[0].astype(np.uint8)
    owner_SS = np.full((chosen.side, chosen.side), -1, np.int64)
    parts_SS = owner_SS.copy()
    parts: list[tuple[int, str, str]] = []
    if image is not None:
        _stamp(chosen, pixels, owner_SS, parts_SS, image[0], len(things), [], flipped=True)
    for index, thing in enumerate(things):
        _stamp(chosen, pixels, owner_SS, parts_SS, thing, index, parts)
    entities = _entities(chosen, names, band_SS, things, image, owner_SS, parts_SS, parts)
    return None if entities is None else (pixels, entities)


def _stamp(
    chosen: Profile,
    pixels: NDArray[np.uint8],
    owner_SS: NDArray[np.int64],
    parts_SS: NDArray[np.int64],
    thing: _Thing,
    number: int,
    parts: list[tuple[int, str, str]],
    flipped: bool = False,
) -> None:
    """Draws one object with its parts, and writes whose each pixel now is.

    ``parts`` grows by (owner, name, colour). A flipped one is a darkened image without parts of
    its own.
    """
    reach = chosen.scaled(15) * 3 // 2 + 2
    colors = _draw.body(
        chosen, thing.shape, thing.r, reach, thing.tint, thing.texture, thing.material
    )
    whole = _draw.outline(thing.shape, thing.r, reach).copy()
    part_of = np.full(whole.shape, -1)
    for name, color in thing.parts.items():
        own = _draw.part_outline(name, thing.shape, thing.r, reach)
        colors[own] = _draw.BASE[color]
        whole |= own
        part_of[own] = len(parts)
        parts.append((number, name, color))
    if flipped:
        colors, whole = colors[::-1] * 55 // 100, whole[::-1]
        part_of = np.full(whole.shape, -1)
    top, left = thing.y - reach, thing.x - reach
    rows = slice(max(0, -top), min(2 * reach + 1, chosen.side - top))
    columns = slice(max(0, -left), min(2 * reach + 1, chosen.side - left))
    seen = whole[rows, columns]
    window = (
        slice(top + rows.start, top + rows.stop),
        slice(left + columns.start, left + columns.stop),
    )
    pixels[window][seen] = colors[rows, columns][seen]
    owner_SS[window][seen] = number
    parts_SS[window][seen] = part_of[rows, columns][seen]


def _entities(
    chosen: Profile,
    names: list[str],
    band_SS: NDArray[np.int64],
    things: list[_Thing],
    image: tuple[_Thing, int] | None,
    owner_SS: NDArray[np.int64],
    parts_SS: NDArray[np.int64],
    parts: list[tuple[int, str, str]],
) -> tuple[Entity, ...] | None:
    """Every region with its visible pixels; None if an object, band or image is hardly seen.

    A part that is hardly seen is no region.
    """
    found: list[tuple[NDArray[np.bool_], Entity]] = []
    nothing = Mask.empty(1, 1)
    for index, thing in enumerate(things):
        found.append((owner_SS == index, _object(chosen, thing, index, nothing)))
    for index, (owner, name, color) in enumerate(parts):
        seen = parts_SS == index
        if int(seen.sum()) >= chosen.smallest:
            part = Entity(0, "part", nothing, color=color, name=name, owner=owner)
            found.append((seen, part))
    for index, name in enumerate(names):
        seen = (band_SS == index) & (owner_SS < 0)
        found.append((seen, Entity(0, "band", nothing, name=name)))
    if image is not None:
        entity = _object(chosen, image[0], 0, nothing)
        entity = replace(entity, kind="reflection", owner=image[1])
        found.append((owner_SS == len(things), entity))
    if any(int(seen.sum()) < chosen.smallest for seen, _ in found):
        return None
    return tuple(
        replace(entity, id=index, mask=Mask.from_array(seen))
        for index, (seen, entity) in enumerate(found)
    )


def _object(chosen: Profile, thing: _Thing, index: int, mask: Mask) -> Entity:
    side, vside = _sides(chosen, thing.x, thing.y)
    return Entity(
        index, "object", mask, thing.shape, thing.color, thing.texture, thing.size, thing.material,
        x=float(thing.x), y=float(thing.y), r=float(thing.r), side=side, vside=vside,
    )  # fmt: skip
