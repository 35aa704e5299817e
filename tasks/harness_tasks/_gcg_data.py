"""GranD-f's annotation files: one picture with its captions, its phrases and their masks."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import DataError
from harness.files import inside, read_json
from harness.types import Sample

from . import _coco
from ._gcg_masks import Target

CAPTIONS, MASKS = "_gcg_coco_caption_gt.json", "_gcg_coco_mask_gt.json"
_FOLDERS = ("annotations", "annotations/gcg_val_test", "")
_USUAL = ("val", "test")


@dataclass(frozen=True, slots=True, kw_only=True)
class Grounded(Sample):
    """A picture: every caption is a reference; the k-th mask belongs to the k-th label."""

    captions: tuple[str, ...]
    labels: tuple[str, ...]
    targets: tuple[Target, ...]


@dataclass(frozen=True)
class Split:
    """One split: its pictures in the order of the caption file."""

    samples: list[Grounded]
    targets_elsewhere: int
    """True masks of pictures that only the mask file lists; the public AP counts them as missed."""


def folder(root: Path) -> Path:
    """Where the annotation files lie under ``root``."""
    folders = [root / name for name in _FOLDERS]
    return next((f for f in folders if any(f.glob(f"*{CAPTIONS}"))), folders[0])


def splits(root: Path) -> list[str]:
    """The splits that have a caption file: val, test, then others by name."""
    names = [path.name.removesuffix(CAPTIONS) for path in folder(root).glob(f"*{CAPTIONS}")]
    return sorted(names, key=lambda n: (_USUAL.index(n) if n in _USUAL else len(_USUAL), n))


def read_split(root: Path, split: str, images: Path, hint: str) -> Split:
    """The samples of a split; raises DataError with the file and the place in it."""
    captions = _Captions(folder(root) / f"{split}{CAPTIONS}", hint)
    masks = _Masks(folder(root) / f"{split}{MASKS}", hint)
    samples = []
    for image_id in captions.images:
        references, labels = captions.of(image_id)
        samples.append(
            Grounded(
                id=f"{split}/{image_id}",
                image=inside(images, f"{image_id}.jpg"),
                size=masks.size(image_id),
                group=split,
                cluster=image_id,
                captions=references,
                labels=labels,
                targets=masks.of(image_id),
            )
        )
    listed = set(captions.images)
    elsewhere = [t for i in masks.images if i not in listed for t in masks.of(i)]
    return Split(samples, sum(t.counted and not t.crowd for t in elsewhere))


class _Captions:
    def __init__(self, path: Path, hint: str) -> None:
        self.path = path
        content = read_json(path, hint)
        self.images = [_image_id(path, row) for row in _rows(path, content, "images")]
        self._of_image = _by_image(path, _rows(path, content, "annotations"))

    def of(self, image_id: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """(every caption, the labels of the first annotation) of a picture."""
        rows = self._of_image.get(image_id)
        if not rows:
            raise DataError(f"{self.path}: image {image_id!r} has no caption")
        captions, labels = [], rows[0].get("labels")
        for row in rows:
            caption = row.get("caption")
            if not isinstance(caption, str):
                raise DataError(f"{self.path}: annotation {row.get('id')!r} has no caption (text)")
            captions.append(caption)
        if not (isinstance(labels, list) and all(isinstance(label, str) for label in labels)):
            raise DataError(
                f"{self.path}: labels of annotation {rows[0].get('id')!r} must be a list of texts"
            )
        return tuple(captions), tuple(labels)


class _Masks:
    def __init__(self, path: Path, hint: str) -> None:
        self.path = path
        content = read_json(path, hint)
        rows = _rows(path, content, "images")
        self.images = {_image_id(path, row): row for row in rows}
        annotations = _rows(path, content, "annotations")
        self._of_image = _by_image(path, annotations)
        numbers: set[int] = set()
        for row in annotations:
            number = row.get("id")
            if type(number) is not int or number in numbers:
                raise DataError(
                    f"{path}: annotation ids must be whole numbers, each once, not {number!r:.80}"
                )
            numbers.add(number)

    def size(self, image_id: str) -> tuple[int, int]:
        """(height, width) of a picture."""
        row = self.images.get(image_id)
        if row is None:
            raise DataError(f"{self.path} has no image {image_id!r}, which the caption file lists")
        return _coco.image_size(row, self.path)

    def of(self, image_id: str) -> tuple[Target, ...]:
        """The true masks of a picture, in the order of the file."""
        size = self.size(image_id)
        targets = []
        for row in self._of_image.get(image_id, ()):
            mask = _coco.annotation_mask(row, size, self.path)
            if mask is None:
                raise DataError(f"{self.path}: annotation {row['id']} has no usable polygon")
            crowd, counted = row.get("iscrowd") == 1, row.get("category_id", 1) == 1
            targets.append(Target(row["id"], mask, crowd, counted))
        return tuple(targets)


def _rows(path: Path, content: object, key: str) -> Sequence[Mapping[str, Any]]:
    rows = content.get(key) if isinstance(content, dict) else None
    if not (isinstance(rows, list) and all(isinstance(row, dict) for row in rows)):
        raise DataError(f"{path} must hold a JSON object with a list of objects {key!r}")
    return rows


def _image_id(path: Path, row: Mapping[str, Any]) -> str:
    image_id = row.get("id")
    if not isinstance(image_id, str):
        raise DataError(
            f"{path}: image ids must be text (names without .jpg), not {image_id!r:.80}"
        )
    return image_id


def _by_image(path: Path, rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        image_id = row.get("image_id")
        if not isinstance(image_id, str):
            raise DataError(
                f"{path}: annotation {row.get('id')!r} must name its image_id as text, not "
                f"{image_id!r:.80}"
            )
        found.setdefault(image_id, []).append(row)
    return found


def warnings(split: str, part: Split) -> Iterator[str]:
    """What is odd about a split's files, though it can be scored."""
    zero = [s.id for s in part.samples if any(t.number == 0 for t in s.targets)]
    if zero:
        yield (
            f"gcg {split}: a mask of {zero[0]} has annotation id 0, which COCO's evaluation never "
            "counts as found (AP50 follows it)"
        )
    unpaired = [s.id for s in part.samples if len(s.labels) != len(s.targets)]
    if unpaired:
        yield (
            f"gcg {split}: {len(unpaired)} pictures have not as many masks as labels, "
            f"{unpaired[0]} first"
        )
    if part.targets_elsewhere:
        yield (
            f"gcg {split}: {part.targets_elsewhere} masks are of pictures without a caption; AP50 "
            "counts them as missed, as the public scorer does"
        )
    if len(part.samples) == 1:
        yield f"gcg {split}: CIDEr of a single picture is 0 by its definition"
