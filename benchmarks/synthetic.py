"""Synthetic benchmark files of any size: real formats, realistic masks, the same on every machine.

A shape is one vertical interval per column, so that its runs come straight from its outline and no
picture is ever drawn: fifty thousand samples take seconds. Letters: C columns of a shape.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pycocotools import mask as coco

VERSION = 1  # raise it when the files would come out differently
SEED = 20250
HEIGHT, WIDTH = 480, 640
SAMPLES_PER_PICTURE = 1.36  # as in the released file: 3,715 samples of 2,727 pictures
CLASS_SHARES = {1: 0.27, 2: 0.12, 3: 0.21, 4: 0.40}  # Stuff, Part, Multi, Single, as released

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Shape:
    """The pixels [top, bottom) of each column from ``left`` on."""

    left: int
    top_C: Ints
    bottom_C: Ints

    def moved(self, right: int, down: int) -> "Shape":
        return Shape(self.left + right, self.top_C + down, self.bottom_C + down)

    def eroded(self, pixels: int) -> "Shape":
        """Thinner from above and below; columns that vanish are dropped on the way to runs."""
        return replace(self, top_C=self.top_C + pixels, bottom_C=self.bottom_C - pixels)

    def edges(self) -> Ints:
        """The column-major positions at which background and shape alternate."""
        column_C = np.arange(self.left, self.left + self.top_C.size)
        top_C, bottom_C = np.clip(self.top_C, 0, HEIGHT), np.clip(self.bottom_C, 0, HEIGHT)
        seen_C = (column_C >= 0) & (column_C < WIDTH) & (top_C < bottom_C)
        starts, ends = (column_C * HEIGHT + top_C)[seen_C], (column_C * HEIGHT + bottom_C)[seen_C]
        edges, times = np.unique(np.concatenate([starts, ends]), return_counts=True)
        kept: Ints = edges[times == 1]  # an interval that ends where the next one starts goes on
        return kept

    def polygon(self) -> list[float]:
        """Its outline as a flat [x0, y0, x1, y1, ...], a corner every fourth column."""
        picked = np.arange(0, self.top_C.size, 4)
        there = np.stack([self.left + picked, self.top_C[picked]], axis=1)
        back = np.stack([self.left + picked, self.bottom_C[picked]], axis=1)[::-1]
        outline: list[float] = np.concatenate([there, back]).astype(float).ravel().tolist()
        return outline


def walk(rng: np.random.Generator, length: int) -> Ints:
    """A rough edge: a random walk in steps of at most two pixels."""
    return np.cumsum(rng.integers(-2, 3, length))


def blob(rng: np.random.Generator, smallest: int, largest: int) -> Shape:
    """An ellipse with rough edges, of a width between the two limits."""
    width = int(rng.integers(smallest, largest))
    half = width * rng.uniform(0.3, 0.8) / 2 * np.sqrt(1 - np.linspace(-1, 1, width) ** 2)
    x, y = rng.integers(0, WIDTH - width // 2), rng.integers(HEIGHT // 6, HEIGHT)
    top_C = (y - half).astype(np.int64) + walk(rng, width) // 2
    return Shape(int(x), top_C, np.maximum(top_C, (y + half).astype(np.int64) + walk(rng, width)))


def stuff(rng: np.random.Generator) -> Shape:
    """Sky, grass or road: from a rough horizon to the upper or lower border."""
    horizon_C = rng.integers(HEIGHT // 5, HEIGHT) + walk(rng, WIDTH)
    border_C = np.zeros(WIDTH, np.int64)
    if rng.random() < 0.5:
        return Shape(0, border_C, horizon_C)
    return Shape(0, horizon_C, border_C + HEIGHT)


def shapes(rng: np.random.Generator, class_id: int) -> list[Shape]:
    """What one sample of a class shows."""
    if class_id == 1:
        return [stuff(rng)]
    if class_id == 2:
        return [blob(rng, 20, 120)]
    if class_id == 3:
        return [blob(rng, 40, 160) for _ in range(rng.integers(2, 6))]
    return [blob(rng, 60, 480)]


def answered(rng: np.random.Generator, truth: list[Shape], class_id: int) -> list[Shape]:
    """What a fair model would answer: mostly a bit off, sometimes thin, wrong or nothing."""
    luck = rng.random()
    if luck < 0.70:
        right, down = rng.integers(-6, 7, 2)
        return [shape.moved(int(right), int(down)) for shape in truth]
    if luck < 0.85:
        return [shape.eroded(int(rng.integers(1, 8))) for shape in truth]
    return shapes(rng, class_id) if luck < 0.95 else []


def to_rle(drawn: list[Shape]) -> dict[str, Any]:
    """The union of shapes as COCO compressed RLE, ready for JSON."""
    parts = []
    for shape in drawn or [Shape(0, np.zeros(0, np.int64), np.zeros(0, np.int64))]:
        runs = np.diff(shape.edges(), prepend=0, append=HEIGHT * WIDTH).tolist()
        raw = {"size": [HEIGHT, WIDTH], "counts": runs}
        parts.append(coco.frPyObjects(raw, HEIGHT, WIDTH))
    rle = coco.merge(parts) if len(parts) > 1 else parts[0]
    return {"size": [HEIGHT, WIDTH], "counts": rle["counts"].decode("ascii")}


def rows(count: int, seed: int = SEED) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """(line of the benchmark file, line of the predictions file) for each sample."""
    rng = np.random.default_rng(seed)
    classes = rng.choice(list(CLASS_SHARES), count, p=list(CLASS_SHARES.values()))
    for idx, class_id in enumerate(classes.tolist()):
        truth = shapes(rng, class_id)
        said = answered(rng, truth, class_id)
        target = to_rle(truth)
        x, y, width, height = coco.toBbox({**target, "counts": target["counts"].encode()}).tolist()
        code, picture = rng.integers(0, 256, 2).tolist(), int(idx / SAMPLES_PER_PICTURE)
        yield (
            {
                "idx": idx,
                "image_path": f"unlabeled2017/{picture:012d}.jpg",
                "class_id": class_id,
                "label": f"thing {idx}",
                "caption": f"The thing number {idx} that is seen somewhere in the picture.",
                "box": [x, y, x + width, y + height],
                "segmentation": target,
            },
            {
                "sample_id": str(idx),
                "text": f"It is <|mt_start|><|mt_{code[0]:04d}|><|mt_{code[1] + 256:04d}|>"
                "<|mt_end|>.",
                "masks": [to_rle(said)] if said or idx % 2 else [],
            },
        )


def polygons(count: int, seed: int = SEED) -> list[tuple[list[list[float]], dict[str, Any]]]:
    """(polygons of the truth, RLE of the answer) as gRefCOCO has them: one to five objects."""
    rng = np.random.default_rng(seed)
    made = []
    for class_id in rng.choice([3, 4], count, p=[0.4, 0.6]).tolist():
        truth = shapes(rng, class_id)
        made.append(([s.polygon() for s in truth], to_rle(answered(rng, truth, class_id))))
    return made


@dataclass(frozen=True)
class Files:
    """One set on disk."""

    root: Path

    @property
    def truth(self) -> Path:
        return self.root / "GroundingSuite-Eval.jsonl"

    @property
    def predictions(self) -> Path:
        return self.root / "predictions.jsonl"

    def read(self, count: int) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
        """The first pairs of lines."""
        with self.truth.open() as truth, self.predictions.open() as said:
            pairs = islice(zip(truth, said, strict=True), count)
            return [(json.loads(t), json.loads(s)) for t, s in pairs]


def files(folder: Path, count: int) -> Files:
    """A set of ``count`` samples under ``folder``; made on the first call, then kept."""
    made = Files(folder / f"groundingsuite-v{VERSION}-{count}")
    if not made.root.exists():
        unfinished = Files(folder / f".{made.root.name}.unfinished")
        unfinished.root.mkdir(parents=True, exist_ok=True)
        with unfinished.truth.open("w") as truth, unfinished.predictions.open("w") as said:
            for target, answer in rows(count):
                truth.write(json.dumps(target) + "\n")
                said.write(json.dumps(answer) + "\n")
        unfinished.root.rename(made.root)
    return made
