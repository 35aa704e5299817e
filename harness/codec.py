"""The contract of a codec: regions to text and back.

What training rewards is what evaluation decodes, so both hold the same codec object. A codec never
raises on a model's reply; it flags what it could not read.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from harness.errors import DataError
from harness.pictures import picture_size, read_pixels
from harness.types import Prediction, Region, Request, Size, Zoom
from harness.views import zoomed_pixels

_REGION = re.compile(r"\{(zoom_)?region_([0-9]{1,6})\}")


@dataclass(frozen=True, slots=True)
class Canvas:
    """The picture that a text speaks of: its (height, width), and its file for codecs that look.

    A picture that lies in memory comes as ``pixels_HWC`` (uint8 RGB). With ``zoom`` the canvas is
    that part of the file's picture, at the zoom's size.
    """

    size: Size
    image: Path
    pixels_HWC: NDArray[np.uint8] | None = field(default=None, compare=False, repr=False)
    zoom: Zoom | None = None

    def pixels(self) -> NDArray[np.uint8]:
        """The RGB picture (H, W, 3), as stored; raises DataError if its file cannot be read."""
        if self.pixels_HWC is not None:
            return self.pixels_HWC
        pixels_HWC = read_pixels(self.image)
        return pixels_HWC if self.zoom is None else zoomed_pixels(pixels_HWC, self.zoom)


@dataclass(frozen=True, slots=True)
class Reading:
    """What a reply says: its regions in order, and flags to count ("unparsed")."""

    regions: tuple[Region, ...] = ()
    flags: tuple[str, ...] = ()


class Codec(ABC):
    """Writes a region as text that a model can read, and reads regions out of its replies."""

    boxes_only: ClassVar[bool] = False
    """Whether its regions are boxes, which a task that scores masks has to fill."""

    @property
    def instruction(self) -> str:
        """The sentence that asks a general model for this format; "" if none is needed."""
        return ""

    @abstractmethod
    def write(self, region: Region, canvas: Canvas) -> str | None:
        """The text of a region; None if it cannot be written (an empty mask)."""

    def write_all(
        self, pictures: Sequence[tuple[Canvas, Sequence[Region]]]
    ) -> list[list[str | None]]:
        """``write`` for the regions of many pictures; codecs that can do better in bulk do."""
        return [[self.write(region, canvas) for region in regions] for canvas, regions in pictures]

    @abstractmethod
    def read(self, text: str, canvas: Canvas, mode: str = "") -> Reading:
        """The regions of a reply. Raises only DataError, and only if it cannot decode at all."""

    def vocabulary(self) -> Sequence[str]:
        """Tokens that the language model must own as single ids."""
        return ()

    def protocol(self) -> Mapping[str, Any]:
        """Its choices that change numbers."""
        return {}


def codec_stamp(name: str, codec: Codec, masks_expected: bool) -> dict[str, Any]:
    """What an adapter's protocol stamp says of its codec."""
    stamp = {"codec": name, **codec.protocol()}
    return stamp | {"box_as_mask": True} if masks_expected and codec.boxes_only else stamp


def canvas_of(request: Request) -> Canvas:
    """The canvas of a request; opens the picture only if the data did not tell its size."""
    return Canvas(request.size or picture_size(request.image), request.image)


def write_regions(text: str, request: Request, codec: Codec) -> str:
    """A text with each ``{region_0}`` and ``{zoom_region_0}`` in the codec's words.

    Other braces stay. Raises DataError for a mark without a region, or a region without words.
    """

    def written(mark: re.Match[str]) -> str:
        index, zoomed = int(mark[2]), bool(mark[1])
        known = len(request.zooms if zoomed else request.regions)
        if index >= known:
            raise DataError(f"the prompt marks {mark[0]} of {known} region(s)")
        region, canvas = _marked(request, index, zoomed)
        said = codec.write(region, canvas)
        if said is None:
            raise DataError(f"the codec cannot write {mark[0]} (an empty mask?)")
        return said

    return _REGION.sub(written, text)


def _marked(request: Request, index: int, zoomed: bool) -> tuple[Region, Canvas]:
    """The region that a mark stands for, and the picture that it is a part of."""
    if not zoomed:
        return request.regions[index], canvas_of(request)
    zoom = request.zooms[index]
    if zoom.region is None:
        raise DataError(f"the prompt marks the region of zoom {index}, which has none")
    return zoom.region, Canvas(zoom.size, request.image, zoom=zoom)


def instruction_for(request: Request, codec: Codec) -> str:
    """The sentence that asks for the codec's format, where a reply holds regions and nothing else.

    It would ruin a grounded caption, so that gets none.
    """
    return codec.instruction if request.wants == "regions" else ""


def read_reply(request: Request, text: str, codec: Codec, info: Mapping[str, Any]) -> Prediction:
    """The prediction that a reply stands for: its regions are read where the task wants regions.

    Tasks that want text or boxes in a format of their own read the text themselves.
    """
    reading = Reading()
    if request.wants in ("regions", "grounded_text"):
        reading = codec.read(text, canvas_of(request), request.parse)
    return Prediction(
        sample_id=request.sample_id,
        text=text,
        regions=reading.regions,
        flags=reading.flags,
        info=info,
    )
