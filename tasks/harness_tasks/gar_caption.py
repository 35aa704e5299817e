"""GAR-Bench captions, read by a judge that sees: does the caption say what it should?

Source: Wang et al., "Grasp Any Region", 2025 (Haochen-Wang409/Grasp-Any-Region).
``kind=detailed`` (107 entries): describe one region and its relation to another; the judge says
whether the caption names the subject and conveys the relation. ``kind=simple`` (97): a free answer
to a question about regions; the judge says whether it means the same as the true answer.

A sample is an entry of the file, ``caption_detailed/{position}`` or ``caption_simple/{position}``.
One question a sample: the whole picture, each region with its surroundings and its mask, and the
instruction. The caption is right if the reply is exactly ``True`` ("True." and "true" are wrong,
as in the official script); a reply that is neither ``True`` nor ``False`` counts as unreadable.
``accuracy`` is the mean over the samples whose verdict could be had.

Where this differs from the official scripts: an empty mask is shown as the whole picture and
flagged (they crash); pictures go to the judge as RGB, under their true type, PNG (they say JPEG);
a request without a reply is wrong. The instruction of ``simple`` is our own (stamped
``judge_prompt: own``), so its numbers are not comparable with published ones.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from harness.errors import DataError
from harness.judge import Question, Verdict
from harness.metrics import mean
from harness.task import Task
from harness.types import Mask, Prediction, Request, Sample, Score

from . import _crops, _gar, _keys, _regions

REPLIES = ("True", "False")
MAX_TOKENS = 1000

WORDINGS = {
    "reference": "1. Describe <Prompt0> in detail 2. Describe the relationship between <Prompt0> "
    "and <Prompt1>.",
    "official": "Describe <Prompt0> in detail, including the relationship with <Prompt1>.",
}

_DETAILED = (
    """
You are a language model expert. Your task is to evaluate the following model output based on the \
provided images, and subject, object, and relationship.

- subject_name: {subject}
- object_name: {object}
- predicate_name: {predicate}
- model_output: """,
    """

Task:
1. Check if the model output describes the {subject}. """
    """
2. Check if the model output conveys the relationship between {subject} and {object} related to \
{predicate}.

Note:
- The first task only requires checking if {subject} is mentioned in the model output.
- The second task asks if the output conveys a relationship related to {predicate} between \
{subject} and {object}, even if different words or phrases are used.
- If both tasks are successfully completed, return "True" Otherwise, return "False"
- Do not output any reasoning. Do not perform correction. Please output only just one "True" or \
"False".

""",
)
_SIMPLE = (
    """
Below are the true answer to a question about the marked regions of an image and the answer of a \
model. Decide whether both mean the same, given the images. Other words for the same thing are fine.

- true answer: {answer}
- model output: """,
    """

Reply with just one word and nothing else: "True" if they mean the same, otherwise "False".
""",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Described(Sample):
    prompt: str
    masks: tuple[Mask, ...]
    facts: Mapping[str, str]
    """What the judge is told: ``subject``, ``object`` and ``predicate``, or ``answer``."""
    key: Mapping[str, Any]
    """What a judge that goes by rule is told besides."""


@dataclass(frozen=True)
class GarCaption(Task[Described]):
    root: Path
    """Folder with ``GAR-Bench-Caption-*.json`` and ``images/``, or both under ``annotations/``."""
    kind: Literal["detailed", "simple"] = "detailed"
    """``detailed`` descriptions with a relation, or ``simple`` free answers."""
    images: Path | None = None
    """Another picture folder; pictures are looked up there by base name."""
    regions: _regions.Form = "mask_tokens"
    """How requests speak of regions: ``mask_tokens``, ``boxes``, or ``overlay`` (painted)."""
    wording: Literal["reference", "official"] = "reference"
    """What ``detailed`` asks: as the CycleGRPO scripts, or as the official one."""
    max_new_tokens: int = 1024
    """Length of a reply."""

    metrics = {"accuracy": mean("right")}
    primary = "accuracy"
    tags = ("gar",)
    needs_judge = True
    recipe = _gar.RECIPE

    def files(self) -> Sequence[Path]:
        return (_gar.find(self.root, f"GAR-Bench-Caption-{self.kind.capitalize()}.json"),)

    def samples(self) -> Iterable[Described]:
        return self._loaded

    def request(self, sample: Described) -> Request:
        return Request(
            sample_id=sample.id,
            image=sample.image,
            size=sample.size,
            prompt=_regions.fill(sample.prompt, len(sample.masks), self.regions),
            regions=_regions.regions(sample.masks, self.regions),
            paint=self.regions == "overlay",
            max_new_tokens=self.max_new_tokens,
        )

    def gold(self, sample: Described) -> Prediction:
        """What a fair judge must accept: the true answer, or the relation in plain words."""
        facts = sample.facts
        text = facts.get("answer") or "The {subject} is {predicate} the {object}.".format(**facts)
        return Prediction(sample_id=sample.id, text=text)

    def questions(self, sample: Described, prediction: Prediction) -> Sequence[Question]:
        if prediction.error is not None:
            return ()
        prompt = judge_prompt(sample.facts, prediction.text)
        return [
            Question(
                sample_id=sample.id,
                index=0,
                prompt=prompt,
                parts=_crops.Drawn([*_shown(sample), prompt]),
                choices=REPLIES,
                max_tokens=MAX_TOKENS,
                data={
                    "kind": self.kind,
                    "caption": prediction.text,
                    **sample.facts,
                    **sample.key,
                },
            )
        ]

    def reading(self, reply: str, choices: Sequence[str]) -> str | None:
        return reply if reply in REPLIES else None

    def score(
        self, sample: Described, prediction: Prediction, verdicts: Sequence[Verdict] = ()
    ) -> Score:
        flags = [] if all(mask.area for mask in sample.masks) else ["empty_mask"]
        if prediction.error is not None:
            return Score(sample_id=sample.id, values={"right": 0.0}, flags=tuple(flags))
        if not verdicts or verdicts[0].error is not None:
            return Score(sample_id=sample.id, values={}, flags=(*flags, "judge_error"))
        reply = verdicts[0].raw
        return Score(
            sample_id=sample.id,
            values={"right": float(reply == "True")},
            detail={"reply": reply[:200]},
            flags=tuple(flags),
            unreadable=int(reply not in REPLIES),
        )

    def protocol(self) -> Mapping[str, Any]:
        stamp: dict[str, Any] = {"kind": self.kind, "regions": self.regions}
        if self.kind == "detailed":
            return stamp | {"wording": self.wording, "judge_prompt": "official"}
        return stamp | {"judge_prompt": "own"}

    @cached_property
    def _loaded(self) -> list[Described]:
        entries = _gar.entries(self.files()[0], self.images)
        return [self._read(index, entry) for index, entry in enumerate(entries)]

    def _read(self, index: int, entry: _gar.Entry) -> Described:
        """The sample of one entry; raises DataError that says where and what."""
        if self.kind == "simple":
            prompt, facts = entry.text("question"), {"answer": entry.text("answer")}
        else:
            if len(entry.masks) != 2:
                raise DataError(
                    f"{entry.where}: it needs two masks, subject and object, not {len(entry.masks)}"
                )
            prompt = WORDINGS[self.wording]
            facts = {k: entry.text(f"{k}_name") for k in ("subject", "object", "predicate")}
        return Described(
            id=f"caption_{self.kind}/{index}",
            image=entry.image,
            size=entry.masks[0].size,
            cluster=str(entry.row["image"]),
            prompt=prompt,
            masks=entry.masks,
            facts=facts,
            key=_keys.of(entry.row, entry.where),
        )


def judge_prompt(facts: Mapping[str, str], caption: str) -> str:
    """The instruction to the judge. The caption goes in as it is, whatever braces it holds."""
    before, after = _SIMPLE if "answer" in facts else _DETAILED
    return before.format(**facts) + caption + after.format(**facts)


def _shown(sample: Described) -> Iterable[str | Callable[[], bytes]]:
    """What the judge sees before the instruction: the picture, then each region and its mask."""
    yield "\n1. The original image:\n"
    yield _crops.whole(sample.image, sample.masks)
    for k, mask in enumerate(sample.masks):
        yield f"\n{2 * k + 2}. <Prompt{k}>:\n"
        yield _crops.around(sample.image, mask)
        yield f"\n{2 * k + 3}. The mask of <Prompt{k}>:\n"
        yield _crops.mask_around(mask)


task = GarCaption
