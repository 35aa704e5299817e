"""Pictures for judges that see: the region with its surroundings, and its mask, to the pixel.

The cut is the "focal crop" of the describe-anything and Grasp-Any-Region scripts. Pictures are
drawn only when a judge looks at them, so that recorded verdicts need no picture files.
Letters: H height, W width, C channels; all in pixels of the stored picture.
"""

import io
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import overload

import numpy as np
from numpy.typing import NDArray

from harness.errors import DataError
from harness.judge import Part
from harness.types import Mask

SMALLEST = 56
"""A region counts as at least so wide and so high."""

Span = tuple[int, int, int, int]
"""Columns x0 to x1 and rows y0 to y1, the ends not included."""


class Drawn(Sequence[Part]):
    """Parts of a question: texts as they are, pictures drawn (as PNG) when they are looked at.

    Drawing raises DataError if the picture file is missing, broken, or of another size.
    """

    def __init__(self, items: Sequence[str | Callable[[], bytes]]) -> None:
        self._items = tuple(items)

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, index: int) -> Part: ...
    @overload
    def __getitem__(self, index: slice) -> "Drawn": ...
    def __getitem__(self, index: int | slice) -> "Part | Drawn":
        if isinstance(index, slice):
            return Drawn(self._items[index])
        item = self._items[index]
        return Part(text=item) if isinstance(item, str) else Part(picture=item())


def focal_span(mask: Mask) -> Span:
    """What of a picture a judge is shown: three times the region's box, clipped to the picture.

    The box ends after its last pixel and counts as at least 56 pixels wide and high, about its
    centre. For an empty mask it is the whole picture (the scripts crash).
    """
    if mask.box is None:
        return 0, 0, mask.width, mask.height
    left, top, last_x, last_y = mask.box
    x0, x1 = _focal_range(left, last_x + 1 - left, mask.width)
    y0, y1 = _focal_range(top, last_y + 1 - top, mask.height)
    return x0, y0, x1, y1


def _focal_range(start: float, length: float, side: int) -> tuple[int, int]:
    centre = start + length / 2
    length = max(int(length), SMALLEST)
    start = int(centre - length / 2)
    return max(start - length, 0), min(start + 2 * length, side)


def whole(image: Path, masks: Sequence[Mask]) -> Callable[[], bytes]:
    """The whole picture; ``masks`` say what size it must have."""
    return partial(_whole, image, masks[0].size)


def around(image: Path, mask: Mask) -> Callable[[], bytes]:
    """The region with its surroundings."""
    return partial(_around, image, mask)


def mask_around(mask: Mask) -> Callable[[], bytes]:
    """The mask in the same cut: grey, 255 inside and 0 outside."""
    return partial(_mask_around, mask)


# A question's key and the judge look at each picture several times, one sample after the other.
@lru_cache(maxsize=16)
def _whole(image: Path, size: tuple[int, int]) -> bytes:
    return _png(_pixels(image, size))


@lru_cache(maxsize=16)
def _around(image: Path, mask: Mask) -> bytes:
    x0, y0, x1, y1 = focal_span(mask)
    return _png(_pixels(image, mask.size)[y0:y1, x0:x1])


@lru_cache(maxsize=16)
def _mask_around(mask: Mask) -> bytes:
    x0, y0, x1, y1 = focal_span(mask)
    return _png(mask.to_array()[y0:y1, x0:x1].astype(np.uint8) * 255)


@lru_cache(maxsize=2)
def _pixels(path: Path, size: tuple[int, int]) -> NDArray[np.uint8]:
    """The picture as RGB (H, W, C); raises DataError if it cannot be read or has another size."""
    from PIL import Image

    try:
        with Image.open(path) as picture:
            pixels_HWC = np.asarray(picture.convert("RGB"))
    except FileNotFoundError:
        raise DataError(f"there is no picture {path}, which a judge is to be shown") from None
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise DataError(f"{path} cannot be read as a picture ({error})") from None
    if pixels_HWC.shape[:2] != size:
        (height, width), (mask_height, mask_width) = pixels_HWC.shape[:2], size
        raise DataError(
            f"{path} is {width}x{height} (width x height), but its mask is "
            f"{mask_width}x{mask_height}; get the benchmark's own pictures"
        )
    return pixels_HWC


def _png(pixels: NDArray[np.uint8]) -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()
