"""Pictures as data URLs, such that the server sees the pixel grid that regions speak of."""

import base64
import io
import struct
import threading
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from harness.errors import DataError
from harness.types import Size

PASSED_ON = {
    "JPEG": "image/jpeg",
    "PNG": "image/png",
    "WEBP": "image/webp",
    "GIF": "image/gif",
}
"""Formats that every server reads, by their name in Pillow; other files are sent as PNG."""

MAX_BYTES = 32 * 2**20
"""No picture larger than this is sent: servers refuse it, and most likely it is the wrong one."""

_ORIENTATION = 0x0112
_UNREADABLE = (
    OSError,
    ValueError,
    SyntaxError,
    TypeError,
    KeyError,
    IndexError,
    struct.error,
    Image.DecompressionBombError,
)  # what Pillow raises on broken files, depending on the format
_PNG_MODES = {"1", "I;16", "I;16B", "L", "LA", "P", "RGB", "RGBA"}
_NEAREST_PNG_MODE = {"I": "I;16", "PA": "RGBA", "La": "LA", "RGBa": "RGBA"}


@dataclass(frozen=True, slots=True)
class Encoded:
    """A picture ready to be sent, and the (height, width) of its stored pixel grid."""

    url: str
    size: Size

    def open(self) -> Image.Image:
        """The pixels of what is sent."""
        return Image.open(io.BytesIO(base64.b64decode(self.url.partition(",")[2])))


def data_url(content: bytes, mime: str) -> str:
    """A picture file's bytes as a data URL."""
    return f"data:{mime};base64,{base64.b64encode(content).decode('ascii')}"


def encode(path: Path) -> Encoded:
    """The picture as a data URL; raises DataError if it is missing, broken or too large.

    The bytes of the file go out untouched, except for formats that servers do not read, and for
    pictures with an EXIF orientation: some servers turn these, and then no coordinate fits. Both
    are sent as PNG with the same pixels.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"there is no picture {path}") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error})") from None
    try:
        with Image.open(io.BytesIO(content)) as picture:
            size = (picture.height, picture.width)
            mime = PASSED_ON.get(picture.format or "")
            if mime is None or _may_be_turned(picture):
                content, mime = _as_png(picture), "image/png"
    except _UNREADABLE as error:
        raise DataError(f"{path} cannot be read as a picture ({error})") from None
    if len(content) > MAX_BYTES:
        raise DataError(
            f"{path} takes {len(content):,} bytes to send, more than the limit of {MAX_BYTES:,}; "
            "check that it is the benchmark's own picture"
        )
    return Encoded(data_url(content, mime), size)


def _may_be_turned(picture: Image.Image) -> bool:
    """Whether its metadata ask for a turn, or cannot be read (then nobody knows)."""
    try:
        return bool(picture.getexif().get(_ORIENTATION, 1) != 1)
    except _UNREADABLE:
        return True


def _as_png(picture: Image.Image) -> bytes:
    """The pixels as PNG without metadata; a mode that PNG lacks (CMYK, floats) becomes RGB."""
    transparency = picture.info.get("transparency")
    plain = picture
    if picture.mode not in _PNG_MODES:
        plain = picture.convert(_NEAREST_PNG_MODE.get(picture.mode, "RGB"))
    plain.load()
    plain.info = {} if transparency is None else {"transparency": transparency}
    buffer = io.BytesIO()
    # Pictures here are sent once: speed matters more than the last bytes.
    plain.save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()


class Pictures:
    """Encoded pictures; keeps the latest, since neighbouring requests often share one."""

    def __init__(self, max_bytes: int = 64 * 2**20) -> None:
        self.max_bytes = max_bytes
        self._held = 0
        self._kept: OrderedDict[Path, Encoded] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, path: Path) -> Encoded:
        """The picture as a data URL; raises DataError as ``encode`` does."""
        with self._lock:
            if path in self._kept:
                self._kept.move_to_end(path)
                return self._kept[path]
        encoded = encode(path)  # outside the lock: threads may read different pictures at once
        with self._lock:
            if path not in self._kept:
                self._kept[path] = encoded
                self._held += len(encoded.url)
            while self._held > self.max_bytes:
                _, dropped = self._kept.popitem(last=False)
                self._held -= len(dropped.url)
        return encoded
