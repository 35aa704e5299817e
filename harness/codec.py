"""The contract of a codec: regions to text and back.

What training rewards is what evaluation decodes, so both hold the same codec object. A codec never
raises on a model's reply; it flags what it could not read.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from harness.pictures import picture_size, read_pixels
from harness.types import Prediction, Region, Request, Size


@dataclass(frozen=True, slots=True)
class Canvas:
    """The picture that a text speaks of: its (height, width), and its file for codecs that look.

    A picture that lies in memory (a zoom, a training scene) comes as ``pixels_HWC`` (uint8 RGB).
    """

    size: Size
    image: Path
    pixels_HWC: NDArray[np.uint8] | None = field(default=None, compare=False, repr=False)

    def pixels(self) -> NDArray[np.uint8]:
        """The RGB picture (H, W, 3), as stored; raises DataError if its file cannot be read."""
        return read_pixels(self.image) if self.pixels_HWC is None else self.pixels_HWC


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
