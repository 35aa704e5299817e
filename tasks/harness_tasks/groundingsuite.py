"""GroundingSuite-Eval: the mask (or the box) of the region that a caption describes.

Source: Hu et al., "GroundingSuite", 2025, and its evaluator (hustvl/GroundingSuite). The released
file has 3,715 samples (the paper says 3,800) and no sample without a target.

Where this differs from the public scorer: it leaves samples without a prediction out of the mean
and mixes two denominators in box mode; here every sample of the file counts, a missing or failed
answer with 0. In box mode, boxes taken from masks end at the last pixel's index, as in the
CycleGRPO scripts.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from harness.codec import Canvas
from harness.codecs.boxes import Boxes, Coords, Parser
from harness.codecs.mask_tokens import ParseMode, readings_differ
from harness.errors import DataError
from harness.files import read_jsonl
from harness.judge import Verdict
from harness.metrics import Metric, iou, mean, overlap
from harness.task import Task
from harness.types import Box, Mask, Prediction, Region, Request, Sample, Score, union

from . import _coco

CLASSES = {1: "Stuff", 2: "Part", 3: "Multi", 4: "Single"}
NO_BOX: Box = (0.0, 0.0, 0.0, 0.0)
ACCEPTED = 0.5
FILE = "GroundingSuite-Eval.jsonl"

PROMPTS = {
    "mask": "Please carefully check the image and detect the object this sentence describes: "
    "{caption}",
    "qwen3vl": "Please carefully check the image and detect the object this sentence describes: "
    "{caption}\nProvide the bounding box in the format [x1, y1, x2, y2] where coordinates are "
    "normalized to [0, 1000]. If no matching object is found, output null.",
    "qwen25vl": "Outline the position of {caption} and output the bounding box coordinates in JSON "
    "format.",
}
PROMPTS["qwen35"] = "<think>\n\n</think>\n\n" + PROMPTS["qwen3vl"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Described(Sample):
    caption: str
    target: Mask
    box: Box


@dataclass(frozen=True)
class GroundingSuite(Task[Described]):
    root: Path
    """Folder with the pictures, and with ``GroundingSuite-Eval.jsonl`` or ``groundingsuite/``."""
    mode: Literal["mask", "box"] = "mask"
    """``mask`` reports gIoU, ``box`` reports Acc@0.5."""
    images: Path | None = None
    """Another picture folder; pictures are looked up there by base name."""
    prompt: Literal["", "mask", "qwen3vl", "qwen35", "qwen25vl"] = ""
    """Which wording; by default ``mask`` in mask mode and ``qwen3vl`` in box mode."""
    parse: ParseMode = "span"
    """Reading of mask tokens; ``reference:groundingsuite`` is that of the published scripts."""
    box_parser: Parser = "strict"
    """Reading of boxes in box mode: ``strict`` is the protocol, ``tolerant`` takes what it can."""
    max_new_tokens: int = 0
    """Length of a reply; 0 is the protocol's: 512 in mask mode, 256 in box mode."""

    groups = tuple(CLASSES.values())
    recipe = (
        "DIR holds GroundingSuite-Eval.jsonl (repository hustvl/GroundingSuite) and unlabeled2017/ "
        "(COCO 2017 unlabeled)."
    )

    @property
    def metrics(self) -> Mapping[str, Metric]:
        return {"gIoU": mean("iou")} if self.mode == "mask" else {"Acc@0.5": mean("right")}

    @property
    def primary(self) -> str:
        return next(iter(self.metrics))

    @property
    def masks_expected(self) -> bool:
        return self.mode == "mask"

    def files(self) -> Sequence[Path]:
        direct, below = self.root / FILE, self.root / "groundingsuite" / FILE
        use_below = os.path.exists(below) and not os.path.exists(direct)
        return (below if use_below else direct,)

    def samples(self) -> Iterable[Described]:
        return self._loaded

    def request(self, sample: Described) -> Request:
        boxes = self.mode == "box"
        wording = PROMPTS[self.prompt or ("qwen3vl" if boxes else "mask")]
        return Request(
            sample_id=sample.id,
            image=sample.image,
            size=sample.size,
            parse=self.parse,
            prompt=wording.replace("{caption}", sample.caption),
            wants="boxes" if boxes else "regions",
            max_new_tokens=self.max_new_tokens or (256 if boxes else 512),
        )

    def gold(self, sample: Described) -> Prediction | None:
        if self.mode == "box":
            return Prediction(sample_id=sample.id, regions=(Region(box=sample.box),))
        if not sample.target.area:
            return None  # a target without a pixel cannot be found
        return Prediction(sample_id=sample.id, regions=(Region(sample.target),))

    def score(
        self, sample: Described, prediction: Prediction, verdicts: Sequence[Verdict] = ()
    ) -> Score:
        return (
            self._score_box(sample, prediction)
            if self.mode == "box"
            else (self._score_mask(sample, prediction))
        )

    def _score_mask(self, sample: Described, prediction: Prediction) -> Score:
        height, width = sample.target.size
        masks = [region.as_mask(height, width) for region in prediction.regions]
        both, either = overlap(union(masks), sample.target) if masks else (0, sample.target.area)
        flags = ["parsers_differ"] if readings_differ(prediction.text) else []
        if any(region.mask is None for region in prediction.regions):
            flags.append("box_as_mask")
        values = {"iou": iou(both, either), "intersection": float(both), "union": float(either)}
        return Score(sample_id=sample.id, values=values, flags=tuple(flags))

    def _score_box(self, sample: Described, prediction: Prediction) -> Score:
        box, flags = self._stated_box(sample, prediction)
        found = box_iou(box, sample.box)
        values = {"iou": found, "right": float(found >= ACCEPTED)}
        return Score(sample_id=sample.id, values=values, detail={"box": list(box)}, flags=flags)

    def _stated_box(self, sample: Described, prediction: Prediction) -> tuple[Box, tuple[str, ...]]:
        """The predicted box in pixels: from the regions if there are any, else from the text."""
        masks = [region.mask for region in prediction.regions if region.mask is not None]
        if masks:
            return union(masks).box or NO_BOX, ("box_from_masks",)
        for region in prediction.regions:
            if region.box is not None:
                return region.box, ()
        if prediction.error is not None:
            return NO_BOX, ()
        reading = self._boxes.read(prediction.text, Canvas(sample.target.size, sample.image))
        box = reading.regions[0].box if reading.regions else None
        return box or NO_BOX, reading.flags

    @property
    def _boxes(self) -> Boxes:
        """How a reply to the chosen wording states a box: Qwen2.5-VL speaks in resized pixels."""
        coords: Coords = "resized" if self.prompt == "qwen25vl" else "relative1000"
        return Boxes(coords=coords, parser=self.box_parser, take="first")

    def protocol(self) -> Mapping[str, Any]:
        stamp: dict[str, Any] = {"mode": self.mode, "resolution": "native"}
        if self.mode == "mask":
            return stamp | {"masks": "union", "parse": self.parse}
        return stamp | {f"box_{key}": value for key, value in self._boxes.protocol().items()}

    @cached_property
    def _loaded(self) -> list[Described]:
        path = self.files()[0]
        return [self._read(row, f"{path} line {n}") for n, row in read_jsonl(path, self.recipe)]

    def _read(self, row: Mapping[str, Any], where: str) -> Described:
        """The sample of one line; raises DataError that says where and what."""
        class_id = row.get("class_id")
        group = CLASSES.get(class_id) if type(class_id) is int else None
        if group is None:
            raise DataError(f"{where}: class_id must be 1 to 4, not {class_id!r:.80}")
        if type(row.get("idx")) not in (int, str):
            raise DataError(f"{where}: idx must be a number, not {row.get('idx')!r:.80}")
        if not isinstance(row.get("caption"), str):
            raise DataError(f"{where}: caption must be text")
        try:
            target = Mask.from_coco(row.get("segmentation"))
            image = _coco.picture(self.root, row.get("image_path"), self.images)
        except DataError as error:
            raise DataError(f"{where}: {error}") from None
        return Described(
            id=str(row["idx"]),
            image=image,
            size=target.size,
            group=group,
            cluster=str(row["image_path"]),
            caption=row["caption"],
            target=target,
            box=_box(row.get("box"), where),
        )


def box_iou(a: Box, b: Box) -> float:
    """IoU of two boxes as real numbers; 0 if one is inverted or the union is not positive."""
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    if width < 0 or height < 0:
        return 0.0
    both = width * height
    return iou(both, (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both)


def _box(value: object, where: str) -> Box:
    if not (
        isinstance(value, list)
        and len(value) == 4
        and all(type(v) in (int, float) and abs(v) < 1e9 for v in value)
    ):
        raise DataError(f"{where}: box must be four numbers, not {value!r:.80}")
    x0, y0, x1, y1 = map(float, value)
    return x0, y0, x1, y1


task = GroundingSuite
