"""METEOR and CIDEr of captions, split by split: from texts to ``Score.values``."""

import re
from collections.abc import Sequence
from itertools import chain

from ._caption_text import CaptionTools
from ._cider import cider
from ._java import Unavailable
from ._meteor import as_values, meteor_of

METRICS = ("METEOR", "CIDEr")
"""What needs Java."""

_WORD = re.compile(r"\w+(?:'\w+)?")

Values = dict[str, float]
Texts = Sequence[Sequence[str]]
"""References of each picture."""


def official(
    tools: CaptionTools, candidates: Sequence[Sequence[str]], references: Sequence[Texts]
) -> tuple[list[list[Values]], dict[str, str]]:
    """METEOR (with its statistics) and CIDEr of each caption, by split, and reasons by metric.

    A metric whose tool fails has a reason and no values. A split is tokenized as the public scorers
    do it: all its candidates, and all its references, each at once and in order. CIDEr's document
    frequencies are those of the split.
    """
    values: list[list[Values]] = [[{} for _ in captions] for captions in candidates]
    try:
        tokens = tools.tokenize([*candidates, *(list(chain(*texts)) for texts in references)])
    except Unavailable as reason:
        return values, dict.fromkeys(METRICS, str(reason))
    said, flat = tokens[: len(candidates)], tokens[len(candidates) :]
    true = [_shaped(words, texts) for words, texts in zip(flat, references, strict=True)]
    for own, captions, texts in zip(values, said, true, strict=True):
        for value, score in zip(own, cider(captions, texts), strict=True):
            value["CIDEr"] = score
    try:
        statistics = tools.segments(list(zip(map(tuple, chain(*true)), chain(*said), strict=True)))
    except Unavailable as reason:
        return values, {"METEOR": str(reason)}
    scores = meteor_of(statistics)
    for value, numbers, score in zip(chain(*values), statistics, scores, strict=True):
        value |= {**as_values(numbers), "METEOR": score}
    return values, {}


def without_java(
    candidates: Sequence[Sequence[str]], references: Sequence[Texts]
) -> list[list[Values]]:
    """``CIDEr-regex`` of each caption, by split: CIDEr over words found by a pattern.

    Equal to CIDEr on plain text; contractions, brackets and numbers make them differ.
    """
    scored = []
    for captions, texts in zip(candidates, references, strict=True):
        words = [[regex_tokens(text) for text in of_picture] for of_picture in texts]
        values = cider([regex_tokens(caption) for caption in captions], words)
        scored.append([{"CIDEr-regex": value} for value in values])
    return scored


def regex_tokens(text: str) -> str:
    """The words of the lower-cased text (an apostrophe may stand inside), joined by spaces."""
    return " ".join(_WORD.findall(text.lower()))


def _shaped(flat: Sequence[str], like: Texts) -> list[Sequence[str]]:
    """A flat list cut into parts as long as those of ``like``."""
    parts, start = [], 0
    for texts in like:
        parts.append(flat[start : start + len(texts)])
        start += len(texts)
    return parts
