"""COCO annotation files: index once, rasterise on demand."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.errors import DataError
from harness.files import inside, read_json
from harness.rle import check_size
from harness.types import Mask, Size, is_polygon


def index(
    path: Path, hint: str
) -> tuple[dict[Any, Mapping[str, Any]], dict[Any, Mapping[str, Any]]]:
    """(images by id, annotations by id) of a COCO instances file; raises DataError."""
    content = read_json(path, hint)
    if not isinstance(content, dict):
        raise DataError(f"{path} must hold a JSON object with images and annotations")
    return _by_id(path, content, "images"), _by_id(path, content, "annotations")


def _by_id(path: Path, content: Mapping[str, Any], key: str) -> dict[Any, Mapping[str, Any]]:
    rows = content.get(key)
    if not isinstance(rows, list):
        raise DataError(f"{path} has no list {key!r}")
    found: dict[Any, Mapping[str, Any]] = {}
    for row in rows:
        if not isinstance(row, dict) or not isinstance(row.get("id"), int | str):
            raise DataError(f"{path}: an entry of {key} has no id")
        found[row["id"]] = row
    return found


def image_size(image: Mapping[str, Any], path: Path) -> Size:
    """(height, width) of an image record; raises DataError."""
    try:
        return check_size((image.get("height"), image.get("width")))
    except DataError as error:
        raise DataError(f"{path}: image {image.get('id')!r}: {error}") from None


def look_up(rows: Mapping[Any, Mapping[str, Any]], key: object) -> Mapping[str, Any] | None:
    """The row of an id out of a data file; None if there is none, or if it is no id at all."""
    return rows.get(key) if type(key) in (int, str) else None


def picture(folder: Path, name: object, images: Path | None) -> Path:
    """Where a picture lies: by its name under ``folder``, or by its base name under ``images``.

    Raises DataError for a name that would lead outside.
    """
    path = inside(folder, name)
    return images / path.name if images else path


def annotation_mask(annotation: Mapping[str, Any], size: Size, path: Path) -> Mask | None:
    """The mask of an annotation: polygons drawn and OR-ed, or an RLE of either kind.

    None if it has no usable polygon. Raises DataError for a broken RLE or one of another size.
    """
    segmentation = annotation.get("segmentation")
    if isinstance(segmentation, list):
        usable = [polygon for polygon in segmentation if is_polygon(polygon)]
        return Mask.from_polygons(usable, *size) if usable else None
    try:
        mask = Mask.from_coco(segmentation)
    except DataError as error:
        raise DataError(
            f"{path}: the RLE of annotation {annotation.get('id')} is broken: {error}"
        ) from None
    if mask.size != size:
        raise DataError(
            f"{path}: the RLE of annotation {annotation.get('id')} is "
            f"{mask.width}x{mask.height}, but its "
            f"image is {size[1]}x{size[0]}"
        )
    return mask
