"""The annotation files of GAR-Bench: a list of entries, each a picture with its regions."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import DataError
from harness.files import read_json
from harness.types import Mask

from . import _coco

RECIPE = (
    "DIR holds evaluation/GAR-Bench/annotations of the repository Haochen-Wang409/"
    "Grasp-Any-Region, pictures included (or has it as annotations/)."
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry: what it says, its regions (at least one, all of one size), and where it stands."""

    row: Mapping[str, Any]
    where: str
    image: Path
    masks: tuple[Mask, ...]

    def text(self, key: str) -> str:
        """A field that must be text; raises DataError."""
        value = self.row.get(key)
        if not isinstance(value, str):
            raise DataError(f"{self.where}: {key} must be text, not {value!r:.80}")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A field that must be a list of texts, not empty; raises DataError."""
        value = self.row.get(key)
        if not isinstance(value, list) or not value or not all(isinstance(v, str) for v in value):
            raise DataError(f"{self.where}: {key} must be a list of texts, not {value!r:.80}")
        return tuple(value)


def find(root: Path, name: str) -> Path:
    """Where an annotation file lies: in ``annotations/``, or in the folder itself."""
    nested = root / "annotations" / name
    return nested if nested.exists() or not (root / name).exists() else root / name


def entries(path: Path, images: Path | None) -> Iterator[Entry]:
    """The entries of a file in order; raises DataError that says where and what is broken."""
    rows = read_json(path, RECIPE)
    if not isinstance(rows, list):
        raise DataError(f"{path} must hold a JSON list of entries")
    for index, row in enumerate(rows):
        where = f"{path} entry {index}"
        if not isinstance(row, dict):
            raise DataError(f"{where}: it must be a JSON object")
        try:
            image = _coco.picture(path.parent, row.get("image"), images)
        except DataError as error:
            raise DataError(f"{where}: {error}") from None
        yield Entry(row, where, image, _masks(row.get("mask_rles"), where))


def _masks(rles: object, where: str) -> tuple[Mask, ...]:
    if not isinstance(rles, list) or not rles:
        raise DataError(f"{where}: mask_rles must be a list of at least one mask")
    masks = []
    for number, rle in enumerate(rles):
        try:
            masks.append(Mask.from_coco(rle))
        except DataError as error:
            raise DataError(f"{where}: mask {number} is broken: {error}") from None
    if len({mask.size for mask in masks}) > 1:
        raise DataError(f"{where}: its masks must have one size, that of the picture")
    return tuple(masks)
