"""Regions as boxes in text: ``[x1, y1, x2, y2]``, bare or inside JSON (``"bbox_2d": [...]``).

Coordinates are thousandths of the picture (Qwen3-VL), pixels, pixels of the resized picture
(Qwen2.5-VL), or fractions. Nothing is guessed from the numbers: the convention is an option.

The reading and the arithmetic of the default options follow the GroundingSuite box protocol: four
numbers without sign or fraction in square brackets, divided by 1000 first and multiplied by the
side after, truncated, then clamped; corners are not put in order.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from harness.codec import Canvas, Codec, Reading
from harness.errors import ConfigError
from harness.pictures import smart_resize
from harness.types import Box, Region, Size

Coords = Literal["relative1000", "relative1", "absolute", "resized"]
Parser = Literal["strict", "tolerant"]

_HUGE = 10.0**15  # stands for any longer number: clamped to the picture all the same


def _pattern(number: str, opening: str, closing: str, middle: str) -> re.Pattern[str]:
    pair = rf"\s*({number})\s*,\s*({number})\s*"
    return re.compile(rf"{opening}{pair}{middle}{pair}{closing}")


_STRICT = _pattern(r"\d+", r"\[", r"\]", ",")
_STRICT_FRACTION = _pattern(r"\d+(?:\.\d+)?", r"\[", r"\]", ",")
_TOLERANT = _pattern(
    r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)", r"[\[(]", r"[\])]", r"(?:\)\s*,\s*\(|\]\s*,\s*\[|,)"
)


def find_boxes(text: str, parser: Parser = "strict", *, fractions: bool = False) -> list[Box]:
    """Every box that ``text`` states, in order, as the numbers it states.

    ``strict`` takes four whole numbers without sign in square brackets (``fractions`` allows a
    decimal point); ``tolerant`` also takes signs, decimals, parentheses and two bracketed points.
    """
    pattern = _TOLERANT if parser == "tolerant" else _STRICT_FRACTION if fractions else _STRICT
    boxes = []
    for match in pattern.finditer(text):
        x0, y0, x1, y1 = (_number(digits) for digits in match.groups())
        boxes.append((x0, y0, x1, y1))
    return boxes


def _number(digits: str) -> float:
    if len(digits) <= 15:
        return float(digits)
    return (
        float("-inf") if digits.startswith("-") else _HUGE if "." not in digits else float(digits)
    )


def to_pixels(box: Box, size: Size, unit: tuple[float, float] | None = (1000.0, 1000.0)) -> Box:
    """A stated box in whole pixels: each number / unit * side, truncated, then clamped.

    x1 and y1 are clamped to the last pixel, x2 and y2 to the side. ``unit`` None: pixels already.
    """
    height, width = size
    if unit is not None:
        x_unit, y_unit = unit
        box = (
            box[0] / x_unit * width,
            box[1] / y_unit * height,
            box[2] / x_unit * width,
            box[3] / y_unit * height,
        )
    limits = (width - 1, height - 1, width, height)
    x0, y0, x1, y1 = (
        float(int(min(max(v, 0.0), limit))) for v, limit in zip(box, limits, strict=True)
    )
    return x0, y0, x1, y1


@dataclass(frozen=True)
class Boxes(Codec):
    coords: Coords = "relative1000"
    """What the numbers mean: thousandths, fractions, pixels, or pixels after the resize."""
    parser: Parser = "strict"
    """``strict`` reads whole numbers in square brackets; ``tolerant`` reads what it can."""
    take: Literal["all", "first"] = "all"
    """Whether a reply stands for all of its boxes or for the first one."""
    resize_factor: int = 28
    """``resized`` only: the sides are multiples of this (28 for Qwen2.5-VL, 32 for Qwen3-VL)."""
    min_pixels: int = 3136
    """``resized`` only: the smallest area that the processor allows."""
    max_pixels: int = 12_845_056
    """``resized`` only: the largest area that the processor allows."""

    boxes_only: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.resize_factor < 1 or not 0 < self.min_pixels <= self.max_pixels:
            raise ConfigError(
                "boxes: resize_factor must be at least 1 and 0 < min_pixels <= max_pixels"
            )

    @property
    def instruction(self) -> str:
        meaning = {
            "relative1000": "where coordinates are normalized to [0, 1000]",
            "relative1": "where coordinates are fractions of the image size between 0 and 1",
            "absolute": "in pixels of the image",
            "resized": "in pixels of the image",
        }[self.coords]
        return (
            f"Provide the bounding box in the format [x1, y1, x2, y2] {meaning}. "
            "If no matching object is found, output null."
        )

    def write(self, region: Region, canvas: Canvas) -> str | None:
        """``[x1, y1, x2, y2]`` of a region's box, or of the set pixels of its mask (inclusive)."""
        box = region.box if region.mask is None else region.mask.box
        if box is None:
            return None
        height, width = canvas.size
        if self.coords == "relative1":
            sides = (width, height, width, height)
            return f"[{', '.join(f'{v / s:.4f}' for v, s in zip(box, sides, strict=True))}]"
        x_unit, y_unit = self._unit(canvas.size) or (width, height)
        numbers = (
            int(box[0] / width * x_unit),
            int(box[1] / height * y_unit),
            int(box[2] / width * x_unit),
            int(box[3] / height * y_unit),
        )
        return str(list(numbers))

    def read(self, text: str, canvas: Canvas, mode: str = "") -> Reading:
        """The boxes of a reply, in pixels. A reply with none is flagged ``unparsed``."""
        found = find_boxes(text, self.parser, fractions=self.coords == "relative1")
        if not found:
            return Reading(flags=("unparsed",))
        if self.take == "first":
            found = found[:1]
        unit = self._unit(canvas.size)
        flags = ("outside_picture",) if self._outside(found, canvas.size) else ()
        boxes = (to_pixels(box, canvas.size, unit) for box in found)
        return Reading(tuple(Region(box=box) for box in boxes), flags)

    def protocol(self) -> Mapping[str, Any]:
        stamp: dict[str, Any] = {"coords": self.coords, "parser": self.parser, "take": self.take}
        if self.coords == "resized":
            stamp["resize"] = f"smart/{self.resize_factor}/{self.min_pixels}-{self.max_pixels}"
        return stamp

    def _unit(self, size: Size) -> tuple[float, float] | None:
        """What a stated number is divided by before it is multiplied by the side: (x, y)."""
        if self.coords == "absolute":
            return None
        if self.coords == "resized":
            height, width = smart_resize(
                size,
                factor=self.resize_factor,
                min_pixels=self.min_pixels,
                max_pixels=self.max_pixels,
            )
            return float(width), float(height)
        return (1000.0, 1000.0) if self.coords == "relative1000" else (1.0, 1.0)

    def _outside(self, boxes: list[Box], size: Size) -> bool:
        x_unit, y_unit = self._unit(size) or (size[1], size[0])
        return any(
            min(b) < 0 or max(b[0], b[2]) > x_unit or max(b[1], b[3]) > y_unit for b in boxes
        )


codec = Boxes
