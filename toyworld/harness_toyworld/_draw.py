"""Draws ground, objects, parts and reflections with whole numbers and boolean masks only.

No library draws and nothing is smoothed, so the same scene has the same bytes on every machine.
Local arrays ``dx``, ``dy`` hold offsets from an object's centre. Letters: S side, in pixels.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ._profiles import Profile

Flags = NDArray[np.bool_]
Whole = NDArray[np.int64]
Color = tuple[int, int, int]

BASE: dict[str, Color] = {
    "red": (222, 38, 38), "green": (40, 175, 60), "blue": (45, 75, 225), "yellow": (245, 225, 45),
    "purple": (155, 55, 195), "orange": (248, 140, 25), "white": (246, 246, 246),
    "black": (22, 22, 22),
}  # fmt: skip
GROUND: dict[str, Color] = {
    "sky": (150, 190, 212), "grass": (122, 150, 98), "sand": (203, 188, 150),
    "water": (92, 138, 160), "brick": (158, 116, 100), "mirror": (172, 178, 182),
}  # fmt: skip
DARK = 110
"""A colour of less luminance gets a brighter second tone, any other a darker one."""


@lru_cache(maxsize=64)
def offsets(reach: int) -> tuple[Whole, Whole]:
    """(dy, dx) of a square patch that reaches so far from its middle."""
    dy, dx = np.indices((2 * reach + 1, 2 * reach + 1)) - reach
    return dy, dx


@lru_cache(maxsize=512)
def outline(shape: str, r: int, reach: int, percent: int = 100) -> Flags:
    """The pixels of a shape of circumscribed radius ``r`` (times ``percent``), in its patch."""
    dy, dx = offsets(reach)
    size = r * percent  # in hundredths of a pixel, and so is all below
    y, x = dy * 100, dx * 100
    far = x * x + y * y
    if shape == "circle":
        return far <= size * size
    if shape == "square":
        return np.maximum(abs(x), abs(y)) * 100 <= size * 76
    if shape == "triangle":
        return (abs(x) * 100 <= (y + size) * 62) & (y * 100 <= size * 62)
    if shape == "diamond":
        return abs(x) + abs(y) <= size
    if shape == "cross":
        arm, long = size * 36, size * 96
        thin, tall = abs(x) * 100 <= arm, abs(y) * 100 <= long
        return (thin & tall) | ((abs(y) * 100 <= arm) & (abs(x) * 100 <= long))
    assert shape == "ring"
    inner = r * 55 if percent == 100 else 0
    return (far <= size * size) & (far >= inner * inner)


@lru_cache(maxsize=512)
def part_outline(name: str, shape: str, r: int, reach: int) -> Flags:
    """The pixels of a part of a shape."""
    dy, dx = offsets(reach)
    body = outline(shape, r, reach)
    if name == "core":
        return body & ((dx * dx + dy * dy) * 100 <= 16 * r * r)
    if name == "rim":
        return body & ~outline(shape, r, reach, 80)
    assert name == "hat"
    top = {"square": -76, "cross": -96, "triangle": -62}.get(shape, -94) * r
    y = dy * 100 - top + 55 * r  # 0 at the apex
    return (y >= 0) & (dy * 100 <= top) & (abs(dx) * 100 * 55 <= y * 55) & ~body


@lru_cache(maxsize=256)
def pattern(texture: str, reach: int, period: int, width: int) -> Flags:
    """Where the second tone of a texture lies."""
    dy, dx = offsets(reach)
    if texture == "striped":
        return (dx + dy) % period < width
    if texture == "dotted":
        half = period // 2
        y, x = dy % period - half, dx % period - half
        return (x * x + y * y) * 4 <= width * width
    return np.zeros(dx.shape, np.bool_)


def second_tone(color: Color) -> Color:
    """The other tone of a textured object."""
    red, green, blue = color
    if (299 * red + 587 * green + 114 * blue) // 1000 < DARK:
        return (min(255, red // 2 + 150), min(255, green // 2 + 150), min(255, blue // 2 + 150))
    return red * 35 // 100, green * 35 // 100, blue * 35 // 100


def body(
    profile: Profile, shape: str, r: int, reach: int, color: Color, texture: str, material: str
) -> Whole:
    """The colours of an object's patch (side, side, 3); only its outline is to be used."""
    period, width = (7, 3) if texture == "dotted" else (6, 2)
    marks = pattern(texture, reach, profile.scaled(period), profile.scaled(width))
    patch = np.where(marks[..., None], np.array(second_tone(color)), np.array(color))
    dy, dx = offsets(reach)
    if material == "metal":
        patch = patch + np.where(dy * 3 < -r, 70, np.where(dy * 3 > r, -70, 0))[..., None]
    if material == "shiny":
        glint = (dx * 20 + 7 * r) ** 2 + (dy * 20 + 7 * r) ** 2 <= (5 * r) ** 2
        patch = np.where(glint[..., None], 255, patch)
    return np.clip(patch, 0, 255)


def ground(name: str, noise: Whole, profile: Profile) -> Whole:
    """The colours of a whole picture of one kind of ground; ``noise`` is (S, S)."""
    y, x = np.indices(noise.shape)
    step = profile.scaled(6)
    picture = np.array(GROUND[name]) + noise[..., None]
    if name == "water":
        wave = abs((x + 3 * (y // step)) % (4 * step) - 2 * step) // (2 * step // 3 + 1)
        picture = picture + np.where((y + wave) % step == 0, 30, 0)[..., None]
    elif name == "brick":
        course = y // step
        joint = (y % step == 0) | ((x + course % 2 * step) % (2 * step) == 0)
        picture = picture + np.where(joint, 38, 0)[..., None]
    elif name == "grass":
        picture = picture + np.where(noise % 5 == 0, -28, 0)[..., None]
    elif name == "sand":
        picture = picture + np.where(noise % 7 == 0, -24, 0)[..., None]
    elif name == "mirror":
        picture = picture + np.where((x - y) % (4 * step) < step, 22, 0)[..., None]
    return np.clip(picture, 0, 255)
