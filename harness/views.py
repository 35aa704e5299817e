"""Pictures that a request asks for beside the file itself: zooms, and regions painted on.

Tasks say what is wanted as data (``Request.zooms``, ``Request.paint``); an adapter draws it here,
so that every model is shown the same pixels. Letters: H height, W width, in pixels.

The zoom rule is that of the SAMTok / CycleGRPO scripts (DLC-Bench and the captioner's training).
One size differs from them: a cut of 275 x 275 is shown at 280 x 280 (theirs loses a column to a
rounding error).
"""

import io
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from harness.types import Mask, Region, Request, Size, Zoom

if TYPE_CHECKING:
    from PIL import Image

LARGE = 0.3
"""A box of this share of the picture or more is not zoomed."""
SMALLEST = 140
"""Pixels; what is cut is made so wide and so high, where the picture allows it."""
SHOWN = 280
"""Pixels; a cut with no side as long as this is enlarged until its shorter side is."""

COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (230, 25, 25), "green": (25, 180, 50), "blue": (30, 80, 240), "yellow": (250, 220, 0),
    "magenta": (240, 0, 200), "cyan": (0, 210, 230), "orange": (250, 130, 0),
    "purple": (120, 30, 180), "white": (255, 255, 255), "black": (0, 0, 0),
}  # fmt: skip
"""Region i is painted in the i-th colour; after the last they start again."""
_RIM = 2  # pixels of a painted region's rim

_ZOOM = re.compile(r"\{zoom_([0-9]{1,6})\}")


def zoom(mask: Mask) -> Zoom | None:
    """The zoom on a region; None if the region is large, or has no pixel.

    A box goes from the first to the last pixel's index, so it is one pixel short, here as there.
    """
    if mask.box is None:
        return None
    x0, y0, x1, y1 = (int(v) for v in mask.box)
    if (x1 - x0) * (y1 - y0) / (mask.width * mask.height) >= LARGE:
        return None
    left, right = _grown(x0, x1, mask.width)
    top, bottom = _grown(y0, y1, mask.height)
    size = _shown(bottom - top, right - left)
    part_HW = resized(mask.to_array()[top:bottom, left:right], size)
    return Zoom((left, top, right, bottom), size, Region(mask=Mask.from_array(part_HW)))


def _grown(low: int, high: int, side: int) -> tuple[int, int]:
    """A range of at least ``SMALLEST`` pixels (one less if odd), then clipped to the picture."""
    margin = max(0, SMALLEST - (high - low)) // 2
    return max(0, low - margin), min(side, high + margin)


def _shown(height: int, width: int) -> Size:
    """The size at which a cut is shown."""
    shorter = min(height, width)
    if max(height, width) >= SHOWN:
        return height, width
    return height * SHOWN // shorter, width * SHOWN // shorter


def resized(mask_HW: NDArray[np.bool_], size: Size) -> NDArray[np.bool_]:
    """An enlarged mask: bilinear between pixel centres, then more than one half."""
    if mask_HW.shape == size:
        return mask_HW
    low_h, high_h, part_h = _neighbours(mask_HW.shape[0], size[0])
    low_w, high_w, part_w = _neighbours(mask_HW.shape[1], size[1])
    values = mask_HW.astype(np.float64)
    values = values[low_h] * (1 - part_h)[:, None] + values[high_h] * part_h[:, None]
    values = values[:, low_w] * (1 - part_w) + values[:, high_w] * part_w
    return np.asarray(values > 0.5)


def _neighbours(
    side: int, new_side: int
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float64]]:
    """For each new pixel: the old ones before and after its centre, and how far it is to the
    latter (0 to 1)."""
    centres = np.maximum((np.arange(new_side) + 0.5) * side / new_side - 0.5, 0.0)
    low = centres.astype(np.intp)
    return low, np.minimum(low + 1, side - 1), centres - low


def zoomed(picture: "Image.Image", zoom: Zoom) -> "Image.Image":
    """The pixels of a zoom: cut from the first picture, enlarged by Lanczos resampling."""
    from PIL import Image

    part = picture.convert("RGB").crop(zoom.box)
    height, width = zoom.size
    if part.size == (width, height):
        return part
    return part.resize((width, height), Image.Resampling.LANCZOS)


def zoomed_pixels(pixels_HWC: NDArray[np.uint8], zoom: Zoom) -> NDArray[np.uint8]:
    """The pixels of a zoom on a picture that lies in memory."""
    from PIL import Image

    return np.asarray(zoomed(Image.fromarray(pixels_HWC), zoom))


def as_jpeg(picture: "Image.Image") -> bytes:
    """A picture as the scripts send it: JPEG at Pillow's default quality."""
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG")
    return buffer.getvalue()


def as_png(picture: "Image.Image") -> bytes:
    """A picture as PNG: no pixel is changed."""
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    return buffer.getvalue()


def colour(index: int) -> str:
    """The name of the colour that region ``index`` is painted in."""
    return list(COLOURS)[index % len(COLOURS)]


def painted(picture: "Image.Image", regions: Sequence[Region]) -> "Image.Image":
    """The picture with each region tinted in its colour and rimmed with it.

    Later regions lie over earlier ones. The rim keeps to the region's own pixels.
    """
    from PIL import Image

    pixels_HWC = np.array(picture.convert("RGB"))
    for index, region in enumerate(regions):
        mask_HW = region.as_mask(*pixels_HWC.shape[:2]).to_array()
        tint = np.array(COLOURS[colour(index)], np.uint16)
        pixels_HWC[mask_HW] = (pixels_HWC[mask_HW] * np.uint16(2) + tint) // 3
        pixels_HWC[_rim(mask_HW)] = tint
    return Image.fromarray(pixels_HWC)


def _rim(mask_HW: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The pixels of a mask that lie within ``_RIM`` steps of one outside it."""
    inner = mask_HW
    for _ in range(_RIM):
        wide = np.pad(inner, 1)
        inner = (
            inner & wide[:-2, 1:-1] & wide[2:, 1:-1] & wide[1:-1, :-2] & wide[1:-1, 2:]
        )  # fmt: skip
    return mask_HW & ~inner


def pieces(request: Request) -> list[str | Zoom]:
    """The prompt cut at its zooms: texts and further pictures in the order they are sent.

    A mark without a zoom stays text. Regions are still to be written (``{region_0}`` ...).
    """
    found: list[str | Zoom] = []
    end = 0
    for mark in _ZOOM.finditer(request.prompt):
        if int(mark[1]) < len(request.zooms):
            found += [request.prompt[end : mark.start()], request.zooms[int(mark[1])]]
            end = mark.end()
    found.append(request.prompt[end:])
    return [piece for piece in found if piece]
