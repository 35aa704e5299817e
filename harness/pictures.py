"""Picture files: their stored size, and the resize rule of the Qwen-VL processors."""

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from harness.errors import DataError
from harness.types import Size


def read_pixels(path: Path) -> NDArray[np.uint8]:
    """The RGB pixels of a picture file as stored (no EXIF rotation), uint8 (H, W, 3).

    Raises DataError if there is no such file or it is not a picture.
    """
    from PIL import Image

    try:
        with Image.open(path) as picture:
            return np.asarray(picture.convert("RGB"))
    except FileNotFoundError:
        raise DataError(f"there is no picture {path}") from None
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise DataError(f"{path} cannot be read as a picture ({error})") from None


def picture_size(path: Path) -> Size:
    """(height, width) of a picture file as stored (no EXIF rotation).

    Raises DataError if there is no such file or it is not a picture.
    """
    from PIL import Image

    try:
        with Image.open(path) as picture:
            return picture.height, picture.width
    except FileNotFoundError:
        raise DataError(f"there is no picture {path}") from None
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise DataError(f"{path} cannot be read as a picture ({error})") from None


def smart_resize(size: Size, *, factor: int, min_pixels: int, max_pixels: int) -> Size:
    """The (height, width) that a Qwen-VL processor resizes a picture to.

    Both sides become multiples of ``factor``; then both are scaled so that the area lies within
    [min_pixels, max_pixels]. Source: the published Qwen2-VL image processor.
    """
    height, width = size
    new_height = max(factor, round(height / factor) * factor)
    new_width = max(factor, round(width / factor) * factor)
    if new_height * new_width > max_pixels:
        scale = math.sqrt(height * width / max_pixels)
        new_height = max(factor, math.floor(height / scale / factor) * factor)
        new_width = max(factor, math.floor(width / scale / factor) * factor)
    elif new_height * new_width < min_pixels:
        scale = math.sqrt(min_pixels / (height * width))
        new_height = math.ceil(height * scale / factor) * factor
        new_width = math.ceil(width * scale / factor) * factor
    return new_height, new_width
