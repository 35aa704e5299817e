"""GRES (gRefCOCO): one referring expression, any number of targets (also none), one mask.

Source: Liu et al., "GRES: Generalized Referring Expression Segmentation", CVPR 2023; its evaluator
(henghuiding/ReLA) at native resolution, with the prompt of SAMTok / CycleGRPO.

A sample is one sentence of one ref, ``{ref_id}_{k}``. Where this differs from the public scorers:
masks are compared at the picture's own size (ReLA squashes to 480x480); a request without a reply
earns nothing, also where there is no target; a ref without a usable annotation is skipped and
listed (ReLA crashes); ``no target`` comes from the annotation, never from the area of the mask.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

from harness.codecs.mask_tokens import ParseMode, readings_differ
from harness.errors import ConfigError, DataError
from harness.files import read_json
from harness.judge import Verdict
from harness.metrics import iou, mean, overlap, ratio
from harness.task import Overall, Task
from harness.types import Mask, Prediction, Region, Request, Sample, Score, union

from . import _coco

THRESHOLDS = (0.7, 0.8, 0.9)
NO_TARGET = [-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression(Sample):
    phrase: str
    target: Mask
    no_target: bool


@dataclass(frozen=True)
class Gres(Task[Expression]):
    root: Path
    """Folder with ``grefcoco/`` and ``images/train2014/``."""
    split: tuple[str, ...] = ()
    """Splits to run, e.g. ``val,testA``; by default every split present but ``train``."""
    images: Path | None = None
    """Another picture folder; pictures are looked up there by base name."""
    text: Literal["sent", "raw"] = "sent"
    """``sent`` stripped and in lower case (SAMTok, GSVA), or ``raw`` unchanged (ReLA)."""
    prompt: str = "Please segment {phrase} in this image."
    """What is asked; ``{phrase}`` is replaced."""
    parse: ParseMode = "span"
    """Reading of mask tokens; ``cyclegrpo`` is that of the published scripts."""
    max_new_tokens: int = 128
    """Length of a reply; a mask takes four tokens."""

    metrics = {
        "gIoU": mean("iou"),
        "cIoU": ratio("intersection", "union"),
        "N_acc": mean("no_target_right"),
        "T_acc": mean("target_right"),
        **{f"Pr@{t}": mean(f"iou>={t}") for t in THRESHOLDS},
    }
    primary = "gIoU"
    overall: ClassVar[Overall] = "groups"
    masks_expected = True
    recipe = (
        "DIR holds grefcoco/grefs(unc).json and grefcoco/instances.json (release of 2023-08-29 of "
        "henghuiding/gRefCOCO) and images/train2014/ (COCO 2014 train)."
    )

    def files(self) -> Sequence[Path]:
        return (self._folder / "grefs(unc).json", self._folder / "instances.json")

    def samples(self) -> Iterable[Expression]:
        return self._loaded[0]

    def skipped(self) -> Sequence[str]:
        """Sentences whose ref has targets but no annotation that can be used."""
        return self._loaded[1]

    def request(self, sample: Expression) -> Request:
        return Request(
            sample_id=sample.id,
            image=sample.image,
            size=sample.size,
            wants="regions",
            prompt=self.prompt.replace("{phrase}", sample.phrase),
            parse=self.parse,
            max_new_tokens=self.max_new_tokens,
        )

    def gold(self, sample: Expression) -> Prediction | None:
        if not sample.no_target and not sample.target.area:
            return None  # a target without a pixel cannot be found
        regions = () if sample.no_target else (Region(sample.target),)
        return Prediction(sample_id=sample.id, regions=regions)

    def score(
        self, sample: Expression, prediction: Prediction, verdicts: Sequence[Verdict] = ()
    ) -> Score:
        """IoU, pixel sums and the no-target verdict of one sentence.

        The prediction is the union of its regions; it says "no target" if that has no pixel. A
        failed request is wrong in every way and adds no predicted pixel to the union.
        """
        height, width = sample.target.size
        masks = [region.as_mask(height, width) for region in prediction.regions]
        predicted = union(masks) if masks else Mask.empty(height, width)
        both, either = overlap(predicted, sample.target)
        empty = both == either == 0 if sample.no_target else not predicted.area
        if sample.no_target:
            right = empty and prediction.error is None
            values = {"iou": float(right), "no_target_right": float(right)}
        else:
            found = iou(both, either)
            values = {"iou": found, "target_right": float(not empty)}
            values |= {f"iou>={t}": float(found >= t) for t in THRESHOLDS}
        values |= {"intersection": float(both), "union": float(either)}
        flags = ["parsers_differ"] if readings_differ(prediction.text) else []
        if any(region.mask is None for region in prediction.regions):
            flags.append("box_as_mask")
        return Score(sample_id=sample.id, values=values, flags=tuple(flags))

    def protocol(self) -> Mapping[str, Any]:
        return {
            "no_target": "annotation",
            "masks": "union",
            "resolution": "native",
            "text": self.text,
            "parse": self.parse,
        }

    @property
    def _folder(self) -> Path:
        return self.root / "grefcoco"

    @cached_property
    def _refs(self) -> list[Mapping[str, Any]]:
        path = self.files()[0]
        refs = read_json(path, self.recipe)
        if not isinstance(refs, list):
            raise DataError(f"{path} must hold a list of refs")
        for ref in refs:
            if not isinstance(ref, dict) or not isinstance(ref.get("ref_id"), int):
                raise DataError(f"{path}: a ref has no ref_id")
        return refs

    @property
    def groups(self) -> tuple[str, ...]:
        """The splits to run: those asked for, or all that are present but ``train``."""
        present = sorted({str(ref.get("split")) for ref in self._refs}, key=_split_order)
        for split in self.split:
            if split not in present:
                raise ConfigError(
                    f"tasks.gres.split: {self.files()[0]} has no split {split!r}; it has "
                    f"{', '.join(present)}"
                )
        return self.split or tuple(split for split in present if split != "train")

    @cached_property
    def _loaded(self) -> tuple[list[Expression], list[str]]:
        images, annotations = _coco.index(self.files()[1], self.recipe)
        samples: list[Expression] = []
        skipped: list[str] = []
        splits = self.groups
        for ref in self._refs:
            if ref.get("split") in splits:
                self._read_ref(ref, images, annotations, samples, skipped)
        return samples, skipped

    def _read_ref(
        self,
        ref: Mapping[str, Any],
        images: Mapping[Any, Any],
        annotations: Mapping[Any, Any],
        samples: list[Expression],
        skipped: list[str],
    ) -> None:
        """Appends the sentences of one ref to the samples, or their ids to the skipped ones."""
        instances = self.files()[1]
        where = f"ref {ref['ref_id']}"
        sentences = _list(ref, "sentences", where)
        if not sentences:
            return
        image = _coco.look_up(images, ref.get("image_id"))
        if image is None:
            raise DataError(
                f"{instances} has no image {ref.get('image_id')!r}, which {where} names"
            )
        targets = ref.get("ann_id")
        targets = targets if isinstance(targets, list) else [targets]
        target = self._target(targets, image, annotations, where)
        ids = [f"{ref['ref_id']}_{k}" for k in range(len(sentences))]
        if target is None:
            skipped.extend(ids)
            return
        path = _coco.picture(
            self.root / "images" / "train2014", image.get("file_name"), self.images
        )
        for sample_id, sentence in zip(ids, sentences, strict=True):
            samples.append(
                Expression(
                    id=sample_id,
                    image=path,
                    size=target.size,
                    group=ref["split"],
                    cluster=str(ref["image_id"]),
                    phrase=self._phrase(sentence, where),
                    target=target,
                    no_target=targets == NO_TARGET,
                )
            )

    def _target(
        self,
        targets: Sequence[Any],
        image: Mapping[str, Any],
        annotations: Mapping[Any, Any],
        where: str,
    ) -> Mask | None:
        """The union of a ref's annotations; None if it has targets and none can be used."""
        instances = self.files()[1]
        size = _coco.image_size(image, instances)
        if targets == NO_TARGET:
            return Mask.empty(*size)
        masks = []
        for annotation_id in targets:
            annotation = _coco.look_up(annotations, annotation_id)
            if annotation is None:
                raise DataError(
                    f"{instances} has no annotation {annotation_id!r}, which {where} names"
                )
            if annotation.get("iscrowd") == 1:
                continue
            mask = _coco.annotation_mask(annotation, size, instances)
            if mask is not None:
                masks.append(mask)
        return union(masks) if masks else None

    def _phrase(self, sentence: object, where: str) -> str:
        text = sentence.get(self.text) if isinstance(sentence, dict) else None
        if not isinstance(text, str):
            raise DataError(f"{self.files()[0]}: a sentence of {where} has no text {self.text!r}")
        return text.strip().lower() if self.text == "sent" else text


def _list(row: Mapping[str, Any], key: str, where: str) -> list[Any]:
    value = row.get(key)
    if not isinstance(value, list):
        raise DataError(f"grefs(unc).json: {key} of {where} must be a list")
    return value


def _split_order(split: str) -> tuple[int, str]:
    usual = ("val", "testA", "testB")
    return (usual.index(split) if split in usual else len(usual), split)


task = Gres
