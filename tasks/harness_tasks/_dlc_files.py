"""The three files of DLC-Bench, read and checked: objects, names, and questions about them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from harness.errors import DataError
from harness.files import read_json
from harness.types import Mask

from . import _coco, _keys
from ._dlc_judge import LETTERS

RECIPE = (
    "DIR holds annotations.json, class_names.json, qa.json and images/ of DLC-Bench (data set "
    "nvidia/DLC-Bench; CC BY-NC-SA 4.0)."
)

Kind = Literal["recognition", "positive", "negative"]


@dataclass(frozen=True, slots=True)
class Item:
    """One question about a description: its choices, and what each is worth (-1 to 1)."""

    kind: Kind
    text: str
    choices: tuple[str, ...]
    points: tuple[float, ...]
    key: Mapping[str, Any] = field(default_factory=dict)
    """What a judge that goes by rule is told about it."""


@dataclass(frozen=True, slots=True)
class Object:
    """One object: where it lies in which picture (if the annotations are there), its questions."""

    id: str
    name: str
    items: tuple[Item, ...]
    mask: Mask | None
    image: Path
    picture: str
    """The picture's id, or the object's own where it is not known."""
    key: Mapping[str, Any]
    """What a judge that goes by rule is told about the object itself."""


def files(root: Path) -> list[Path]:
    """The files that decide the score. The annotations only decide what the model is asked, so
    recorded answers can be scored without them."""
    annotations = root / "annotations.json"
    return [root / "qa.json", root / "class_names.json", *([annotations] * annotations.exists())]


def objects(root: Path, images: Path | None) -> Iterator[Object]:
    """Every object of ``qa.json`` in its order; raises DataError that says where and what."""
    qa, names = _table(root / "qa.json"), _table(root / "class_names.json")
    places = _Places(root, images)
    for key, questions in qa.items():
        name = names.get(key)
        if not isinstance(name, str):
            raise DataError(
                f"{root / 'class_names.json'} has no name for object {key!r}, which qa.json names"
            )
        items = _items(questions, f"{root / 'qa.json'} object {key!r}")
        yield Object(key, name, items, *places.find(key))


class _Places:
    """Where the objects lie, by annotation id as text."""

    def __init__(self, root: Path, images: Path | None) -> None:
        self.path, self.folder, self.images = root / "annotations.json", root / "images", images
        self.pictures: Mapping[Any, Mapping[str, Any]] = {}
        self.annotations: Mapping[str, Mapping[str, Any]] = {}
        self.known = self.path.exists()
        if self.known:
            self.pictures, by_id = _coco.index(self.path, RECIPE)
            self.annotations = {str(key): row for key, row in by_id.items()}

    def find(self, key: str) -> tuple[Mask | None, Path, str, Mapping[str, Any]]:
        """(mask, picture file, picture's id, key for rules) of an object; raises DataError.

        Without annotations the file that is missing stands for the picture, so that a model that
        opens it says what to get.
        """
        if not self.known:
            return None, self.path, key, {}
        annotation = self.annotations.get(key)
        if annotation is None:
            raise DataError(f"{self.path} has no annotation {key!r}, which qa.json names")
        picture = self.pictures.get(annotation.get("image_id"))
        if picture is None:
            raise DataError(
                f"{self.path} has no image {annotation.get('image_id')!r:.80}, which annotation "
                f"{key} names"
            )
        size = _coco.image_size(picture, self.path)
        mask = _coco.annotation_mask(annotation, size, self.path)
        if mask is None:
            raise DataError(f"{self.path}: annotation {key} has no usable segmentation")
        image = _coco.picture(self.folder, picture.get("file_name"), self.images)
        told = _keys.of(annotation, f"{self.path}: annotation {key}")
        return mask, image, str(picture["id"]), told


def _table(path: Path) -> Mapping[str, Any]:
    content = read_json(path, RECIPE)
    if not isinstance(content, dict):
        raise DataError(f"{path} must hold a JSON object by annotation id")
    return content


def _items(questions: object, where: str) -> tuple[Item, ...]:
    if not isinstance(questions, list):
        raise DataError(f"{where}: it must be a list of questions")
    items = tuple(_item(q, f"{where} question {n}") for n, q in enumerate(questions, 1))
    if not any(item.kind == "positive" for item in items):
        raise DataError(f"{where}: it needs at least one positive question")
    return items


def _item(question: object, where: str) -> Item:
    if not isinstance(question, dict) or not isinstance(question.get("question"), str):
        raise DataError(f"{where}: it must be an object with a text question")
    kind, choices = question.get("type"), question.get("choices")
    if kind not in ("positive", "negative"):
        raise DataError(f"{where}: type must be positive or negative, not {kind!r:.80}")
    if not isinstance(choices, list) or not 1 <= len(choices) <= len(LETTERS):
        raise DataError(f"{where}: it must have one to {len(LETTERS)} choices")
    if not all(_is_choice(choice) for choice in choices):
        raise DataError(f"{where}: each choice must be [text, score]")
    texts, points = zip(*choices, strict=True)
    scores = tuple(float(p) for p in points)
    return Item(kind, question["question"], tuple(texts), scores, _keys.of(question, where))


def _is_choice(choice: object) -> bool:
    return (
        isinstance(choice, Sequence)
        and len(choice) == 2
        and isinstance(choice[0], str)
        and type(choice[1]) in (int, float)
    )
