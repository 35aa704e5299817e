"""COCO run-length encodings: read them, check them, and refuse what pycocotools would misread.

pycocotools accepts runs that are too short for the picture and returns uninitialised memory for
the rest, so the runs are summed here before any decode. Letters: H height, W width.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.errors import DataError

MAX_PIXELS = 2**28  # 16384 x 16384: pycocotools takes four bytes a pixel to merge two masks
_MAX_CHARS_PER_RUN = 7  # 5 bits each; seven hold any run of a picture and its sign
_CODE = bytes(range(48, 112))  # the 64 characters: ``0`` to ``O`` end a number, the others do not
_GOES_ON = 80  # the first character that does not
# The five bits of each character; of one that ends a number the highest is the sign.
_BITS = np.array([(c & 31) - (32 if c < 32 and c & 16 else 0) for c in range(-48, 208)], np.int64)


def run_lengths(counts: bytes) -> NDArray[np.int64]:
    """The run lengths of a compressed COCO string, background first.

    Each character carries five bits (low to high), 0x20 says that more follow, 0x10 of the last one
    is the sign. From the fourth run on a number is the difference to the run two before.
    Raises DataError for a character outside the code, an unfinished number or a negative run.
    """
    if not counts:
        return np.zeros(0, np.int64)
    if counts.translate(None, _CODE):
        raise DataError("it holds a character that is not part of the RLE code")
    if counts[-1] >= _GOES_ON:
        raise DataError("its counts end in the middle of a number")
    # Every mask comes through here several times, hence the plain methods: many of numpy's
    # convenience functions take longer than the work itself.
    (ends,) = (np.frombuffer(b"0" + counts, np.uint8) < _GOES_ON).nonzero()
    first, chars = ends[:-1], ends[1:] - ends[:-1]  # the extra character shifts ends to starts
    if chars.max() > _MAX_CHARS_PER_RUN:
        raise DataError("it holds a run of more pixels than any picture has")
    shift = np.arange(0, 5 * len(counts), 5) - (5 * first).repeat(chars)
    runs = np.add.reduceat(_BITS.take(np.frombuffer(counts, np.uint8)) << shift, first)
    np.add.accumulate(runs[1::2], out=runs[1::2])
    np.add.accumulate(runs[2::2], out=runs[2::2])
    if runs.min() < 0:
        raise DataError("it holds a negative run")
    return runs


@lru_cache(maxsize=2**16)  # a mask is met again when its stored line is scored
def checked(height: int, width: int, counts: bytes) -> bytes:
    """The counts, if their runs fill a picture of height x width exactly; else raises DataError.

    Runs of no pixel are joined away (except the first): they say nothing, and pycocotools loses
    count of them when it merges two masks, up to writing past its buffer.
    """
    runs = run_lengths(counts)
    total = int(runs.sum())
    if total != height * width:
        raise DataError(f"its runs cover {total} pixels, but {width}x{height} has {height * width}")
    if runs[1:].all():
        return counts
    if runs[1:-1].all():  # what pycocotools itself leaves at the end of a union
        return counts[: _last_number(counts)]
    return _encode(height, width, _joined(runs))


def _last_number(counts: bytes) -> int:
    """Where the last number of a valid string begins."""
    start = len(counts) - 1
    while counts[start - 1] >= _GOES_ON:
        start -= 1
    return start


def _joined(runs: NDArray[np.int64]) -> list[int]:
    """The same pixels without a run of length 0 after the first."""
    (kept,) = runs.nonzero()
    values = kept % 2
    (changes,) = np.concatenate(([1], values[1:] != values[:-1])).nonzero()
    joined: list[int] = np.add.reduceat(runs[kept], changes).tolist()
    return [0, *joined] if values[0] else joined


def _encode(height: int, width: int, runs: list[int]) -> bytes:
    from pycocotools import mask as coco

    rle = coco.frPyObjects({"size": [height, width], "counts": runs}, height, width)
    return bytes(rle["counts"])


def check_size(size: object) -> tuple[int, int]:
    """(height, width) from the ``size`` field of an RLE; raises DataError if it is not a size."""
    if not (isinstance(size, Sequence) and not isinstance(size, str | bytes) and len(size) == 2):
        raise DataError(f"its size must be [height, width], not {size!r:.80}")
    height, width = size
    if not (type(height) is int and type(width) is int and height > 0 and width > 0):
        raise DataError(f"its size must be two positive whole numbers, not {size!r:.80}")
    if height * width > MAX_PIXELS:
        raise DataError(f"its size {width}x{height} is more than {MAX_PIXELS} pixels")
    return height, width


def compress(height: int, width: int, runs: Sequence[int]) -> bytes:
    """The compressed string of a list of run lengths; raises DataError if they do not fit."""
    if not all(type(run) is int and 0 <= run <= MAX_PIXELS for run in runs):
        raise DataError("its counts must be whole numbers that are not negative")
    if sum(runs) != height * width:
        total = height * width
        raise DataError(f"its runs cover {sum(runs)} pixels, but {width}x{height} has {total}")
    return _encode(height, width, list(runs) if all(runs[1:]) else _joined(np.array(runs)))


def parse_rle(rle: object) -> tuple[int, int, bytes]:
    """(height, width, compressed counts) of an RLE object as COCO files hold it.

    Takes ``{"size": [H, W], "counts": str | bytes | [int, ...]}`` and checks all of it.
    Raises DataError whose message starts with "its ..." or "it ...".
    """
    if not isinstance(rle, Mapping):
        raise DataError(f"it must be an object with size and counts, not {type(rle).__name__}")
    height, width = check_size(rle.get("size"))
    counts: Any = rle.get("counts")
    if isinstance(counts, list):
        return height, width, compress(height, width, counts)
    if isinstance(counts, str):
        if not counts.isascii():
            raise DataError("it holds a character that is not part of the RLE code")
        counts = counts.encode("ascii")
    if not isinstance(counts, bytes):
        raise DataError(f"its counts must be text or a list, not {type(counts).__name__}")
    return height, width, checked(height, width, counts)
