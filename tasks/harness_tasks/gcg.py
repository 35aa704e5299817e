"""GCG (GranD-f): describe the picture, and segment each phrase of the description.

Source: Rasheed et al., "GLaMM: Pixel Grounding Large Multimodal Model", CVPR 2024; its evaluator
(mbzuai-oryx/groundingLMM eval/gcg) with the prompts and the parser of SAMTok / CycleGRPO.

METEOR, AP50, mIoU and Recall are fractions, CIDEr is 0 to 10 (papers print all of them times 100).
METEOR and CIDEr need Java (PTB tokens); without it they are null, and the result says why. Recall
depends on ``similarity``: only ``bert`` is comparable with published numbers.

Where this differs from the public scorer: a missing answer counts as an empty caption without masks
(there, it is an error); characters that end a line are replaced by spaces before tokenizing (there,
they shift every later caption); AP50 without any detection is 0 (there, it crashes); a Recall over
no label is null (there, 0). Intervals of CIDEr keep the run's document frequencies. METEOR of a
resample is its corpus value, not a mean. All quirks that change a number on sound files are kept.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from harness.errors import ConfigError, DataError
from harness.judge import Verdict
from harness.metrics import Metric, mean, ratio
from harness.task import Overall, Task
from harness.types import Prediction, Region, Request, Score

from . import _caption_cache, _caption_scores, _gcg_data, _gcg_masks, _gcg_parse, _phrases
from ._caption_scores import Values, official, without_java
from ._caption_text import CaptionTools, ends_lines
from ._gcg_data import Grounded
from ._java import Unavailable
from ._meteor import Meteor

log = logging.getLogger(__name__)

PROMPTS = {
    # As CycleGRPO's evaluation/gcg asks; the published numbers of SAMTok and CycleGRPO are its.
    "cyclegrpo": "Could you please give me a brief description of the image? Please respond with "
    "interleaved segmentation masks for the corresponding parts of the answer.",
    # A line continuation put five spaces into GLaMM's. Its adapter writes the sentence before it.
    "glamm": "Could you please give me a detailed description of the image? Please respond with "
    "interleaved     segmentation masks for the corresponding parts of the answer.",
}
ALIKE = 0.5


@dataclass(frozen=True)
class Gcg(Task[Grounded]):
    root: Path
    """Folder with ``annotations/`` (or its files directly) and ``images/val_test/``."""
    split: tuple[str, ...] = ()
    """Splits to run; by default every one present, ``val`` before ``test``."""
    images: Path | None = None
    """Another picture folder; a picture is its id and ``.jpg``."""
    prompt: Literal["cyclegrpo", "glamm"] = "cyclegrpo"
    """The wording: ``cyclegrpo`` asks for a brief description, ``glamm`` for a detailed one."""
    parser: Literal["official", "strict"] = "official"
    """Reading of mask tokens: codes in pairs, as published, or group by group."""
    similarity: _phrases.Name = "bow"
    """Likeness of phrases for Recall: ``bert`` is published, ``bow`` needs no model."""
    similarity_path: Path | None = None
    """``table``: a JSONL of {gt, pred, sim}; ``bert``, ``minilm``: the folder of the model."""
    matching: Literal["official", "skip"] = "official"
    """Recall at a pair whose phrases differ: ``official`` ends the picture, ``skip`` goes on."""
    cider_regex: bool = False
    """Also ``CIDEr-regex``: CIDEr over words found by a pattern, which needs no Java."""
    max_new_tokens: int = 512
    """Length of a reply."""
    java_timeout: Annotated[float, Field(gt=0)] = 300.0
    """Seconds that a Java program may be silent before the caption metrics are given up."""
    cache: Path = _caption_cache.DEFAULT
    """File in which Java's work is remembered by content, for all runs; ``off`` for none."""

    primary = "AP50"
    overall: ClassVar[Overall] = "one group"
    masks_expected = True
    recipe = (
        "DIR holds annotations/{val,test}_gcg_coco_{caption,mask}_gt.json (MBZUAI/GranD-f, "
        "val_test) and images/val_test/ (SA-1B)."
    )

    @property
    def metrics(self) -> Mapping[str, Metric]:
        extra = {"CIDEr-regex": mean("CIDEr-regex")} if self.cider_regex else {}
        return {
            "METEOR": Meteor(),
            "CIDEr": mean("CIDEr"),
            **extra,
            "AP50": _gcg_masks.AP50(),
            "mIoU": mean("mIoU"),
            "Recall": ratio("matched", "labels"),
        }

    def files(self) -> Sequence[Path]:
        folder = _gcg_data.folder(self.root)
        ends = (_gcg_data.CAPTIONS, _gcg_data.MASKS)
        data = [folder / f"{split}{end}" for split in self._splits for end in ends]
        return (*data, *_phrases.files(self.similarity, self.similarity_path))

    def samples(self) -> Iterable[Grounded]:
        return chain.from_iterable(part.samples for part in self._loaded.values())

    def request(self, sample: Grounded) -> Request:
        return Request(
            sample_id=sample.id,
            image=sample.image,
            size=sample.size,
            prompt=PROMPTS[self.prompt],
            wants="grounded_text",
            parse="reference:gcg" if self.parser == "official" else "strict_span",
            max_new_tokens=self.max_new_tokens,
        )

    def gold(self, sample: Grounded) -> Prediction | None:
        """The first caption with its phrases marked, and the true masks."""
        if not all(t.mask.area and t.number and t.counted for t in sample.targets):
            return None  # a mask that cannot be found, or not be rewarded
        return Prediction(
            sample_id=sample.id,
            text=_gcg_parse.write(sample.captions[0], sample.labels),
            regions=tuple(
                Region(t.mask, phrase=sample.labels[k] if k < len(sample.labels) else "")
                for k, t in enumerate(sample.targets)
            ),
        )

    def score(
        self, sample: Grounded, prediction: Prediction, verdicts: Sequence[Verdict] = ()
    ) -> Score:
        """What the masks earn, and what ``complete`` needs for caption metrics and Recall.

        A failed request is an empty caption without masks.
        """
        assert sample.size is not None
        reply = _gcg_parse.read(prediction.text)
        tokens = _gcg_parse.inspect_tokens(prediction.text)
        masks = [region.as_mask(*sample.size) for region in prediction.regions]
        iou_PG = _gcg_masks.ious(masks, [target.mask for target in sample.targets])
        counted = sum(target.counted and not target.crowd for target in sample.targets)
        flags = list(tokens.flags)
        if any(region.mask is None for region in prediction.regions):
            flags.append("box_as_mask")
        if any(map(ends_lines, (reply.caption, *sample.captions))):
            flags.append("line_end_replaced")
        return Score(
            sample_id=sample.id,
            values={
                "mIoU": _gcg_masks.greedy_miou(iou_PG),
                "targets": float(counted),
                "labels": float(len(sample.labels)),
            },
            detail={
                "caption": reply.caption,
                "phrases": list(_gcg_parse.phrases(reply, prediction)),
                "detections": _gcg_masks.outcomes(iou_PG, masks, sample.targets),
                "pairs": [list(pair) for pair in _gcg_masks.overlapping(iou_PG)],
                "n_mask_groups_malformed": tokens.malformed,
            },
            flags=tuple(flags),
        )

    def complete(self, scores: Sequence[Score]) -> Sequence[Score]:
        """Adds caption metrics, matched phrases and what AP50 misses elsewhere, split by split."""
        splits = [[s for s in scores if s.group == split] for split in self._splits]
        splits = [part for part in splits if part]
        ordered = list(chain(*splits))
        more = dict(zip((s.sample_id for s in ordered), self._caption_values(splits), strict=True))
        for part in splits:
            whole = self._loaded[part[0].group]
            if whole.targets_elsewhere and len(part) == len(whole.samples):
                more[part[0].sample_id]["targets_elsewhere"] = float(whole.targets_elsewhere)
        self._similarity.prepare(self._texts(scores))
        return [self._with(score, more[score.sample_id]) for score in scores]

    def unavailable(self) -> Mapping[str, str]:
        if isinstance(self._tools, str):
            return dict.fromkeys(_caption_scores.METRICS, self._tools)
        return self._failures

    def protocol(self) -> Mapping[str, Any]:
        return {
            "prompt": self.prompt,
            "parse": self.parser,
            "matching": self.matching,
            "similarity": self.similarity,
            "METEOR": "1.5 jar, -l en -norm",
            "CIDEr": "CIDEr-D, PTB tokens",
        }

    @cached_property
    def _splits(self) -> Sequence[str]:
        present = _gcg_data.splits(self.root)
        if not present:
            missing = _gcg_data.folder(self.root) / f"val{_gcg_data.CAPTIONS}"
            raise DataError(f"there is no file {missing}. {self.recipe}")
        for split in self.split:
            if split not in present:
                raise ConfigError(
                    f"tasks.gcg.split: {_gcg_data.folder(self.root)} has no split {split!r}; it "
                    f"has {', '.join(present)}"
                )
        return self.split or present

    @cached_property
    def _loaded(self) -> dict[str, _gcg_data.Split]:
        images = self.images or self.root / "images" / "val_test"
        loaded = {}
        for split in self._splits:
            loaded[split] = _gcg_data.read_split(self.root, split, images, self.recipe)
            for warning in _gcg_data.warnings(split, loaded[split]):
                log.warning("%s", warning)
        return loaded

    @cached_property
    def _by_id(self) -> dict[str, Grounded]:
        return {sample.id: sample for sample in self.samples()}

    @cached_property
    def _tools(self) -> CaptionTools | str:
        """The Java tools, or why there are none."""
        try:
            return CaptionTools.find(self.java_timeout, self.cache)
        except Unavailable as reason:
            return str(reason)

    @cached_property
    def _failures(self) -> dict[str, str]:
        """The metrics whose tool failed while it worked, with the reason; filled in the end."""
        return {}

    @cached_property
    def _similarity(self) -> _phrases.Similarity:
        return _phrases.build(self.similarity, self.similarity_path)

    def _caption_values(self, splits: Sequence[Sequence[Score]]) -> list[Values]:
        """What METEOR and CIDEr need of each sample; none of it if a tool fails."""
        said = [[str(s.detail["caption"]) for s in part] for part in splits]
        true = [[self._by_id[s.sample_id].captions for s in part] for part in splits]
        values: list[Values] = [{} for _ in chain(*splits)]
        if self.cider_regex:
            for own, new in zip(values, chain(*without_java(said, true)), strict=True):
                own.update(new)
        if isinstance(self._tools, CaptionTools):
            scored, reasons = official(self._tools, said, true)
            self._failures.update(reasons)
            for own, new in zip(values, chain(*scored), strict=True):
                own.update(new)
        return values

    def _texts(self, scores: Sequence[Score]) -> set[str]:
        """Every text whose likeness may be asked for."""
        close = [score for score in scores if score.detail["pairs"]]
        labels = chain.from_iterable(self._by_id[score.sample_id].labels for score in close)
        return {*labels, *chain.from_iterable(score.detail["phrases"] for score in close)}

    def _with(self, score: Score, more: Values) -> Score:
        """The score with more values, and the labels that were found."""
        labels, phrases = self._by_id[score.sample_id].labels, score.detail["phrases"]
        found, kept = self._match(score.detail["pairs"], labels, phrases)
        values = {**more, **score.values, "matched": float(found)}
        return replace(score, values=values, flags=(*score.flags, *kept))

    def _match(
        self, pairs: Iterable[Sequence[int]], labels: Sequence[str], phrases: Sequence[str]
    ) -> tuple[int, tuple[str, ...]]:
        """(how many labels are found by IoU and text, flags).

        As published: the first pair whose phrases differ ends the picture, and a mask without a
        phrase (or a label) loses all that was found there.
        """
        used: tuple[set[int], set[int]] = (set(), set())
        found = 0
        for label, phrase in pairs:
            if label in used[0] or phrase in used[1]:
                continue
            inside = label < len(labels) and phrase < len(phrases)
            if not inside and self.matching == "official":
                return 0, ("recall_lost",)
            if inside and self._similarity(labels[label], phrases[phrase]) >= ALIKE:
                found += 1
                used[0].add(label)
                used[1].add(phrase)
            elif self.matching == "official":
                break
        return found, ()


task = Gcg
