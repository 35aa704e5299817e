"""What the writers of benchmark files share: pictures, JSON, COCO records."""

import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.codecs.polygons import outlines
from harness.files import dump_json
from harness.types import Mask

from .scene import SHAPES, Scene

JPEG_QUALITY = 95


def jpeg(pixels_HWC: NDArray[np.uint8]) -> bytes:
    """A picture as the benchmarks hold it; colours are not subsampled, since parts are small."""
    return _encoded(pixels_HWC, "JPEG", quality=JPEG_QUALITY, subsampling=0)


def png(pixels_HWC: NDArray[np.uint8]) -> bytes:
    """A picture as GAR-Bench holds it: exact."""
    return _encoded(pixels_HWC, "PNG", compress_level=1)


def _encoded(pixels_HWC: NDArray[np.uint8], kind: str, **options: Any) -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(pixels_HWC).save(buffer, kind, **options)
    return buffer.getvalue()


class Folder:
    """A folder of a benchmark that is being written; parents appear as they are needed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._there: set[Path] = set()

    def picture(self, name: str, scene: Scene) -> None:
        """The scene's picture as JPEG or PNG, by the ending of the name; once is enough."""
        path = self._path(name)
        if path not in self._there:
            self._there.add(path)
            path.write_bytes((png if path.suffix == ".png" else jpeg)(scene.pixels))

    def json(self, name: str, value: object) -> None:
        """A JSON file in one line."""
        self._path(name).write_bytes(dump_json(value))

    def lines(self, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """A JSONL file."""
        self._path(name).write_bytes(b"".join(map(dump_json, rows)))

    def _path(self, name: str) -> Path:
        path = self.root / name
        if path.parent not in self._there:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._there.add(path.parent)
        return path


def coco_image(scene: Scene, image_id: int | str, name: str) -> dict[str, Any]:
    """The record of a picture in a COCO file."""
    height, width = scene.pixels.shape[:2]
    return {"id": image_id, "file_name": name, "height": height, "width": width}


def coco_annotation(
    annotation_id: int, image_id: int | str, category_id: int, mask: Mask
) -> dict[str, Any]:
    """The record of a region in a COCO file, its mask as compressed RLE."""
    return {
        "id": annotation_id, "image_id": image_id, "category_id": category_id,
        "segmentation": mask.to_coco(), "area": mask.area, "bbox": bbox(mask), "iscrowd": 0,
    }  # fmt: skip


def bbox(mask: Mask) -> list[float]:
    """[x, y, width, height] of a mask that is not empty, in pixels."""
    assert mask.box is not None
    x0, y0, x1, y1 = mask.box
    return [x0, y0, x1 - x0 + 1, y1 - y0 + 1]


def polygons(mask: Mask) -> list[list[float]] | None:
    """The outlines of a mask, flat; None if they cannot say it exactly (it has a hole)."""
    rings = [ring.ravel().tolist() for ring in outlines(mask.to_array())]
    return rings if Mask.from_polygons(rings, *mask.size) == mask else None


def run_lengths(mask: Mask) -> dict[str, Any]:
    """The mask as uncompressed RLE: a list of counts, background first."""
    flat = mask.to_array().ravel(order="F")
    changes = np.flatnonzero(np.diff(flat)) + 1
    ends = [0, *changes.tolist(), len(flat)]
    runs = np.diff(ends).tolist()
    return {"size": list(mask.size), "counts": [0, *runs] if flat[0] else runs}


CATEGORIES = [
    {"id": number, "name": shape, "supercategory": "thing"}
    for number, shape in enumerate(SHAPES, 1)
]
"""The shapes as COCO categories."""


def category(shape: str) -> int:
    """The category of a shape."""
    return SHAPES.index(shape) + 1
