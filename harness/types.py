"""The values that cross borders: masks, regions, samples, requests, predictions, scores.

Frozen data, no files and no network. Letters in names: H height, W width, in pixels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from harness.errors import DataError
from harness.rle import check_size, checked, parse_rle

Box = tuple[float, float, float, float]
"""x0, y0, x1, y1 in pixels of the stored picture; x1 and y1 are where the box ends."""

Size = tuple[int, int]
"""height, width in pixels."""

Wants = Literal["text", "regions", "boxes", "grounded_text"]


@dataclass(frozen=True, slots=True)
class Mask:
    """A set of pixels of one picture, kept as COCO compressed RLE.

    Checked once, on entry: the runs fill height x width exactly (else DataError). It stays RLE from
    the adapter to the score; ``to_array`` is for drawing and for codecs.
    """

    height: int
    width: int
    counts: bytes

    def __post_init__(self) -> None:
        check_size((self.height, self.width))
        object.__setattr__(self, "counts", checked(self.height, self.width, self.counts))

    @classmethod
    def _trusted(cls, height: int, width: int, counts: bytes) -> Mask:
        """A mask whose counts come from pycocotools itself or were checked a moment ago."""
        mask = object.__new__(cls)
        object.__setattr__(mask, "height", height)
        object.__setattr__(mask, "width", width)
        object.__setattr__(mask, "counts", counts)
        return mask

    @classmethod
    def from_array(cls, mask_HW: NDArray[np.bool_]) -> Mask:
        """The mask of the true (non-zero) pixels of a 2-D array."""
        from pycocotools import mask as coco

        height, width = mask_HW.shape
        rle = coco.encode(np.asfortranarray(mask_HW, dtype=np.uint8))
        return cls._trusted(height, width, rle["counts"])

    @classmethod
    def from_coco(cls, rle: object) -> Mask:
        """The mask of a COCO RLE object, compressed or not; raises DataError if it is broken."""
        return cls._trusted(*parse_rle(rle))

    @classmethod
    def from_polygons(cls, polygons: Iterable[Sequence[float]], height: int, width: int) -> Mask:
        """The union of polygons, each a flat [x0, y0, x1, y1, ...], drawn by the COCO rasteriser.

        Polygons with an odd number of coordinates, fewer than three points, or a coordinate that is
        not finite are left out; with none left the mask is empty. A polygon inside another is
        no hole.
        """
        from pycocotools import mask as coco

        usable = [list(map(float, p)) for p in polygons if is_polygon(p)]
        if not usable:
            return cls.empty(height, width)
        # Far outside the picture the rasteriser only costs time and memory (it walks every edge).
        usable = [
            [min(max(v, -4.0 * (height + width)), 4.0 * (height + width)) for v in p]
            for p in usable
        ]
        rle = coco.merge(coco.frPyObjects(usable, height, width))
        return cls._trusted(height, width, rle["counts"])

    @classmethod
    def from_box(cls, box: Box, height: int, width: int) -> Mask:
        """The filled rectangle of a box: pixels with index in [x0, x1) and [y0, y1), rounded."""
        x0, y0, x1, y1 = (round(min(max(v, -1e9), 1e9)) for v in box)
        x0, x1 = max(x0, 0), min(x1, width)
        y0, y1 = max(y0, 0), min(y1, height)
        if x0 >= x1 or y0 >= y1:
            return cls.empty(height, width)
        start, end, tall = x0 * height + y0, (x1 - 1) * height + y1, y1 - y0
        columns = [tall, height - tall] * (x1 - x0 - 1) + [tall]
        filled = [end - start] if tall == height else columns
        rest = height * width - end
        return cls.from_coco(
            {"size": [height, width], "counts": [start, *filled, *([rest] if rest else [])]}
        )

    @classmethod
    def empty(cls, height: int, width: int) -> Mask:
        """The mask without a pixel."""
        return cls.from_coco({"size": [height, width], "counts": [height * width]})

    @classmethod
    def full(cls, height: int, width: int) -> Mask:
        """The mask of every pixel."""
        return cls.from_coco({"size": [height, width], "counts": [0, height * width]})

    @property
    def size(self) -> Size:
        return self.height, self.width

    @property
    def area(self) -> int:
        """How many pixels are set."""
        return areas([self])[0]

    @property
    def box(self) -> Box | None:
        """[min x, min y, max x, max y] of the set pixels as indices (the maximum is inclusive).

        None for an empty mask. This is the convention of the benchmarks here: one pixel short.
        """
        from pycocotools import mask as coco

        if not self.area:
            return None
        x, y, width, height = (float(v) for v in coco.toBbox(self._rle()))
        return x, y, x + width - 1, y + height - 1

    def to_array(self) -> NDArray[np.bool_]:
        """The pixels as a bool array (H, W)."""
        from pycocotools import mask as coco

        decoded: NDArray[np.bool_] = coco.decode(self._rle()).astype(np.bool_)
        return decoded

    def to_coco(self) -> dict[str, Any]:
        """``{"size": [H, W], "counts": str}``, ready for JSON."""
        return {"size": [self.height, self.width], "counts": self.counts.decode("ascii")}

    def _rle(self) -> dict[str, Any]:
        return {"size": [self.height, self.width], "counts": self.counts}


def is_polygon(points: object) -> bool:
    """Whether ``points`` is a flat list of at least three finite (x, y) pairs."""
    return (
        isinstance(points, Sequence)
        and not isinstance(points, str | bytes)
        and len(points) >= 6
        and len(points) % 2 == 0
        and all(isinstance(v, int | float) and abs(v) < 1e9 for v in points)
    )


def union(masks: Sequence[Mask]) -> Mask:
    """The pixels that are in any of the masks; DataError if there is none or sizes differ."""
    return _merge(masks, intersect=False)


def intersection(masks: Sequence[Mask]) -> Mask:
    """The pixels that are in all of the masks; DataError if there is none or sizes differ."""
    return _merge(masks, intersect=True)


def areas(masks: Sequence[Mask]) -> list[int]:
    """How many pixels are set in each mask; faster than asking one at a time."""
    from pycocotools import mask as coco

    counted: list[int] = coco.area([mask._rle() for mask in masks]).tolist()
    return counted


def _merge(masks: Sequence[Mask], *, intersect: bool) -> Mask:
    from pycocotools import mask as coco

    if len({mask.size for mask in masks}) != 1:
        sizes = ", ".join(sorted({f"{m.width}x{m.height}" for m in masks})) or "none given"
        raise DataError(f"masks can be merged only at one size (got: {sizes})")
    if len(masks) == 1:
        return masks[0]
    rle = coco.merge([mask._rle() for mask in masks], intersect=intersect)
    return Mask._trusted(masks[0].height, masks[0].width, rle["counts"])


@dataclass(frozen=True, slots=True)
class Region:
    """A part of one picture: a mask, a box, or both.

    ``phrase`` holds the words it grounds, ``span`` where it stood in the model's text.
    """

    mask: Mask | None = None
    box: Box | None = None
    phrase: str = ""
    span: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if self.mask is None and self.box is None:
            raise DataError("a region needs a mask or a box")

    def as_mask(self, height: int, width: int) -> Mask:
        """Its mask, or its box as a filled rectangle (the stamp ``box_as_mask``)."""
        if self.mask is not None:
            return self.mask
        assert self.box is not None
        return Mask.from_box(self.box, height, width)


@dataclass(frozen=True, slots=True)
class Zoom:
    """A further picture of a request: a part of the first one, cut out and perhaps enlarged.

    ``box`` is what is cut, in whole pixels: columns x0 to x1, rows y0 to y1, the ends not included.
    ``size`` is its (height, width) as shown. ``region`` is the region as it lies in this picture.
    ``harness.views`` makes and draws it.
    """

    box: tuple[int, int, int, int]
    size: Size
    region: Region | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One thing to ask. Tasks subclass it with what they need to score the answer.

    ``id`` is unique and stable within its task. ``group`` is the row of the result table it belongs
    to (a split, a category). ``cluster`` names what is resampled for intervals; by default the
    picture, since several samples of one picture are not independent.
    """

    id: str
    image: Path
    size: Size | None = None
    group: str = ""
    cluster: str = ""

    @property
    def resampled_as(self) -> str:
        return self.cluster or str(self.image)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a model is asked: a picture, a text, and the regions that the text speaks of.

    ``{region_0}`` in ``prompt`` stands for ``regions[0]``; the adapter writes it in its codec.
    ``{zoom_0}`` is where the picture ``zooms[0]`` stands in it, ``{zoom_region_0}`` the region as
    it lies there. With ``paint`` the regions are painted on the first picture instead, and the
    prompt names their colours (``harness.views.painted``).
    ``size`` is the picture's (height, width) where the data tells it, so that nobody opens the
    picture just to learn it. ``parse`` names the reading of mask tokens that the task asks for.
    ``gold`` is filled only for adapters that ask for it (``needs_gold``).
    """

    sample_id: str
    image: Path
    prompt: str
    regions: tuple[Region, ...] = ()
    zooms: tuple[Zoom, ...] = ()
    paint: bool = False
    size: Size | None = None
    wants: Wants = "text"
    max_new_tokens: int = 1024
    parse: str = "span"
    gold: Prediction | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What a model answered to one request.

    ``error`` says why there is no answer; then text and regions are empty and the sample earns
    nothing. ``flags`` are countable facts about the reply ("unparsed"); ``info`` is anything that
    JSON can hold (finish reason, token counts).
    """

    sample_id: str
    text: str = ""
    regions: tuple[Region, ...] = ()
    flags: tuple[str, ...] = ()
    info: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """What one sample earned. ``values`` feed the metrics, ``detail`` is for people and reports.

    ``flags`` are counted in the result; ``unreadable`` is how many verdicts the official reader
    could not read. The runner fills ``group``, ``cluster`` and ``failed``.
    """

    sample_id: str
    values: Mapping[str, float]
    detail: Mapping[str, Any] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    unreadable: int = 0
    group: str = ""
    cluster: str = ""
    failed: bool = False
