"""Regions as polygons in text: a JSON list of outlines, each ``[x1, y1, x2, y2, ...]``.

Writing traces the outer edge of every part of a mask and thins it out. Holes are dropped: a
polygon inside another is no hole for the COCO rasteriser, and general models do not state any.

Coordinates are thousandths of the picture, fractions, or pixels, as the option says. They name
places on the picture's edge grid: pixel (0, 0) is the square from 0, 0 to 1, 1.

Letters in names: H height, W width, N points; a ring_N2 holds (x, y) rows and closes by itself.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from harness.codec import Canvas, Codec, Reading
from harness.errors import ConfigError
from harness.types import Mask, Region, Size, is_polygon

Coords = Literal["relative1000", "relative1", "absolute"]
Ring = NDArray[np.float64]
Shape = list[list[float]]
"""The polygons of one region, each flat, as the numbers that the text states."""

_BRACKET = re.compile(r"[\[{]")
KEYS = ("polygon", "polygons", "points", "segmentation")

# What a reply may ask of this machine. Beyond any of these it counts as unparsed.
MAX_CHARS = 1_000_000
MAX_POINTS = 100_000
MAX_POLYGONS = 5_000
MAX_OUTLINE = 2_000_000  # pixels walked by the rasteriser, which keeps some 100 bytes for each
_MAX_FAILURES = 20  # brackets that open no JSON; each may cost a look at the rest of the text
_MAX_DEPTH = 6  # a list of objects that hold a list of polygons that are lists of points: 5


def outlines(mask_HW: NDArray[np.bool_]) -> list[Ring]:
    """The outer outline of each 4-connected part, exact, as its corners on the pixel-edge grid."""
    x_N, y_N, horizontal, vertical, opens = _corners(mask_HW)
    rings = []
    todo = np.ones(len(x_N), np.bool_)
    for first in range(len(x_N)):
        if not todo[first]:
            continue
        path, corner = [], first
        while todo[corner]:
            across = horizontal[corner]
            path += [corner, across]
            todo[corner] = todo[across] = False
            corner = vertical[across]
        # The first corner in reading order is the top left one of its ring: what lies below and
        # right of it is the part itself, or the hole.
        if opens[first]:
            rings.append(np.stack([x_N[path], y_N[path]], axis=1).astype(np.float64))
    return rings


def _corners(
    mask_HW: NDArray[np.bool_],
) -> tuple[NDArray[np.int64], NDArray[np.int64], list[int], list[int], NDArray[np.bool_]]:
    """(x, y, partner along the row, partner along the column, is its lower right pixel set).

    Where two pixels touch only by a corner there are two corners, joined so that they stay apart.
    Along a row or column the edges of a mask pair up: first to second, third to fourth, ...
    """
    pad = np.pad(mask_HW, 1)
    up_left, up_right, low_left, low_right = pad[:-1, :-1], pad[:-1, 1:], pad[1:, :-1], pad[1:, 1:]
    twice = (up_left == low_right) & (up_right == low_left) & (up_left != up_right)
    once = up_left ^ up_right ^ low_left ^ low_right
    y_N, x_N = np.nonzero(once | twice)
    copies = np.where(twice[y_N, x_N], 2, 1)
    y_N, x_N = np.repeat(y_N, copies), np.repeat(x_N, copies)
    low_right_N = low_right[y_N, x_N]
    # Of a double corner the first copy ends the edge from the left, the second begins the one to
    # the right. Where the lower right pixel is set, the first turns up and the second turns down;
    # else the first turns down and the second turns up.
    order_N = np.zeros(len(x_N), np.int64)
    second = np.flatnonzero(twice[y_N, x_N])[1::2]
    order_N[second] = np.where(low_right_N[second], 1, -1)
    by_column = np.lexsort((order_N, y_N, x_N))
    horizontal = np.arange(len(x_N)) ^ 1
    vertical = np.empty(len(x_N), np.int64)
    vertical[by_column[0::2]], vertical[by_column[1::2]] = by_column[1::2], by_column[0::2]
    return x_N, y_N, horizontal.tolist(), vertical.tolist(), low_right_N


def thin_out(ring_N2: Ring, tolerance: float) -> Ring:
    """A ring that leaves out points less than ``tolerance`` off its line (Douglas-Peucker).

    Thin parts would vanish, so the tolerance is halved until 95 % to 105 % of the area is kept.
    """
    if len(ring_N2) <= 4:
        return ring_N2
    area = _area(ring_N2)
    while tolerance >= 0.25:
        thin = _simplified(ring_N2, tolerance)
        if abs(_area(thin) - area) <= 0.05 * area:
            return thin
        tolerance /= 2
    return ring_N2


def _simplified(ring_N2: Ring, tolerance: float) -> Ring:
    closed = np.concatenate([ring_N2, ring_N2[:1]])
    last = len(ring_N2)
    far = int(np.argmax(_norms(ring_N2 - ring_N2[0])))
    keep = np.zeros(last + 1, np.bool_)
    keep[[0, far]] = True
    todo = [(0, far), (far, last)]
    while todo:
        start, end = todo.pop()
        if end - start < 2:
            continue
        offsets = _distances(closed[start + 1 : end], closed[start], closed[end])
        worst = int(np.argmax(offsets))
        if offsets[worst] > tolerance:
            split = start + 1 + worst
            keep[split] = True
            todo += [(start, split), (split, end)]
    return ring_N2[keep[:last]]


def _distances(points_N2: Ring, start: Ring, end: Ring) -> Ring:
    """How far each point lies from the segment between two points."""
    along = end - start
    length = max(float(along @ along), 1.0)  # on the pixel grid; 0 if both ends are one point
    share_N = np.clip((points_N2 - start) @ along / length, 0, 1)
    return _norms(points_N2 - start - share_N[:, None] * along)


def _norms(steps_N2: Ring) -> Ring:
    lengths_N: Ring = np.hypot(steps_N2[:, 0], steps_N2[:, 1])
    return lengths_N


def _area(ring_N2: Ring) -> float:
    x, y = ring_N2.T
    return abs(float(x @ np.roll(y, -1) - y @ np.roll(x, -1))) / 2


def _length(ring_N2: Ring, limit: float) -> float:
    """How many steps the rasteriser takes around a ring, which it clips at -limit and limit."""
    steps_N2 = np.diff(
        np.clip(ring_N2, -limit, limit), axis=0, append=ring_N2[:1].clip(-limit, limit)
    )
    return float(np.abs(steps_N2).max(axis=1).sum())


def find_shapes(text: str) -> list[Shape]:
    """The regions that the JSON in a text states; [] if there are none, or absurdly much.

    An object with a polygon is one region; so is a list of polygons outside any object, which is
    what ``write`` makes. Polygons are flat lists or lists of points, with at least three points.
    """
    if len(text) > MAX_CHARS:
        return []
    try:
        shapes = []
        for value in _json_values(text):
            shapes += _objects(value)
            shapes += [plain] if (plain := _plain(value)) else []
    except RecursionError:  # brackets nested a thousand deep state no polygon
        return []
    polygons = list(chain.from_iterable(shapes))
    if len(polygons) > MAX_POLYGONS or sum(map(len, polygons)) > 2 * MAX_POINTS:
        return []
    return shapes


def _json_values(text: str) -> Iterator[object]:
    """Every JSON list or object in a text, outermost ones only, all numbers as floats."""
    decoder = json.JSONDecoder(parse_int=float)  # int() refuses numbers of many digits
    at = failures = 0
    while failures < _MAX_FAILURES and (bracket := _BRACKET.search(text, at)):
        try:
            value, at = decoder.raw_decode(text, bracket.start())
        except json.JSONDecodeError:
            failures, at = failures + 1, bracket.end()
        else:
            yield value


def _objects(value: object, depth: int = 0) -> list[Shape]:
    """The shape of each outermost object in a JSON value that holds a polygon."""
    if depth > _MAX_DEPTH or not isinstance(value, list | dict):
        return []
    if isinstance(value, list):
        return [shape for item in value for shape in _objects(item, depth + 1)]
    inside = [value.get(key) for key in KEYS]
    shape = [*_plain(inside, depth), *chain.from_iterable(_objects(inside, depth))]
    return [shape] if shape else []


def _plain(value: object, depth: int = 0) -> Shape:
    """The polygons in a JSON value that lie in no object of it."""
    if depth > _MAX_DEPTH or not isinstance(value, list):
        return []
    polygon = _polygon(value)
    if polygon is not None:
        return [polygon]
    return [found for item in value for found in _plain(item, depth + 1)]


def _polygon(value: list[object]) -> list[float] | None:
    """A flat polygon from a list of numbers or of points; None if it is not one."""
    flat: list[Any] = value
    if value and all(isinstance(v, list) and len(v) == 2 for v in value):
        flat = list(chain.from_iterable(flat))
    numbers = all(type(v) is float for v in flat)  # JSON's true and false are no coordinates
    return flat if numbers and is_polygon(flat) else None


@dataclass(frozen=True)
class Polygons(Codec):
    coords: Coords = "relative1000"
    """What the numbers mean: thousandths, fractions, or pixels."""
    tolerance: float = 1.0
    """How far, in pixels, a written outline may stray from the mask's edge."""
    take: Literal["all", "first"] = "all"
    """Whether a reply stands for all of its regions or for the first one."""

    def __post_init__(self) -> None:
        if not 0 <= self.tolerance < float("inf"):
            raise ConfigError(f"polygons: tolerance must be 0 or more pixels, not {self.tolerance}")

    @property
    def instruction(self) -> str:
        meaning = {
            "relative1000": "where coordinates are normalized to [0, 1000]",
            "relative1": "where coordinates are fractions of the image size between 0 and 1",
            "absolute": "in pixels of the image",
        }[self.coords]
        return (
            "Provide the outline as a JSON list of polygons in the format "
            f"[[x1, y1, x2, y2, x3, y3, ...], ...] {meaning}. "
            "If no matching object is found, output null."
        )

    def write(self, region: Region, canvas: Canvas) -> str | None:
        """``[[x1, y1, ...], ...]``: one outline for each part, without its holes.

        A box counts as a filled rectangle. None for an empty mask.
        """
        mask = region.as_mask(*canvas.size)
        if mask.box is None:
            return None
        x0, y0, x1, y1 = (int(v) for v in mask.box)
        rings = outlines(mask.to_array()[y0 : y1 + 1, x0 : x1 + 1])
        return json.dumps([self._stated(ring + np.array([x0, y0]), mask.size) for ring in rings])

    def _stated(self, ring_N2: Ring, size: Size) -> list[float]:
        """An outline, thinned out, as the flat numbers that state it."""
        fine = 10_000 if self.coords == "relative1" else 1  # four decimals, or whole numbers
        grid = self._unit(size) / np.array(size[::-1]) * fine
        ring_N2 = thin_out(ring_N2, self.tolerance) * grid
        whole_N2 = np.rint(ring_N2)
        whole_N2 = whole_N2[np.any(whole_N2 != np.roll(whole_N2, 1, axis=0), axis=1)]
        if not _area(whole_N2):  # smaller than a step of the grid: the box of steps around it
            (x0, y0), (x1, y1) = np.floor(ring_N2.min(axis=0)), np.ceil(ring_N2.max(axis=0))
            whole_N2 = np.array([[x0, y0], [x1, y0], [x1, y1], [x0, y1]])
        flat = (int(v) for v in whole_N2.ravel())
        return [v / fine for v in flat] if fine > 1 else list(flat)

    def read(self, text: str, canvas: Canvas, mode: str = "") -> Reading:
        """The regions of a reply, as masks. A reply with none is flagged ``unparsed``."""
        height, width = canvas.size
        sides = np.array([width, height], np.float64)
        shapes = [
            [np.reshape(polygon, (-1, 2)) / self._unit(canvas.size) * sides for polygon in shape]
            for shape in find_shapes(text)
        ]
        if self.take == "first":
            shapes = shapes[:1]
        rings = list(chain.from_iterable(shapes))
        if not rings or sum(_length(ring, 4 * float(sides.sum())) for ring in rings) > MAX_OUTLINE:
            return Reading(flags=("unparsed",))
        regions = []
        for shape in shapes:
            flat = [ring_N2.ravel().tolist() for ring_N2 in shape]
            regions.append(Region(mask=Mask.from_polygons(flat, height, width)))
        outside = any(ring_N2.min() < 0 or (ring_N2 > sides).any() for ring_N2 in rings)
        return Reading(tuple(regions), ("outside_picture",) if outside else ())

    def protocol(self) -> Mapping[str, Any]:
        return {"coords": self.coords, "tolerance": self.tolerance, "take": self.take}

    def _unit(self, size: Size) -> Ring:
        """The number that stands for the whole side: (x, y)."""
        unit = {"relative1000": (1000, 1000), "relative1": (1, 1), "absolute": size[::-1]}
        return np.array(unit[self.coords], np.float64)


codec = Polygons
