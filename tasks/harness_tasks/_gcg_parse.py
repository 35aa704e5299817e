"""A grounded reply taken apart: its caption, its phrases, and how sound its mask tokens are.

The rules and their order are those of the public GCG scripts (GLaMM, CycleGRPO), quirks included:
newlines are removed, not replaced, and a lone ``<`` takes everything up to the next ``>`` with it.
Replies are untrusted: every reading takes time linear in the text, and none raises.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.codecs.mask_tokens import parse
from harness.types import Prediction

OBJECT = ("<|object_ref_start|>", "<|object_ref_end|>")
PARAGRAPH = ("<p>", "</p>")
SEGMENT = "[SEG]"
_EMPTY_THOUGHT = "<think>\n\n</think>\n\n"
_CODE = re.compile(r"<\|mt_[0-9]{4}\|>")


@dataclass(frozen=True, slots=True)
class Reply:
    """What a reply says: ``caption`` without any mark-up, ``phrases`` in order, "" included."""

    caption: str
    phrases: tuple[str, ...]


def read(text: str) -> Reply:
    """The caption and the phrases of a reply, of a mask-token model or in GLaMM's ``<p>`` form."""
    glamm = OBJECT[0] not in text and (PARAGRAPH[0] in text or SEGMENT in text)
    text = text.replace(_EMPTY_THOUGHT, "").replace("<s>", "").replace("\n", "")
    text = text.replace("  ", " ").rsplit("ASSISTANT: ", 1)[-1]
    phrases = [text[a:b] for a, b in _between(text, PARAGRAPH if glamm else OBJECT)]
    caption = without_tags(text)
    if glamm:
        caption = caption.replace(SEGMENT, "")
    return Reply(" ".join(caption.split()).strip("'").strip(), tuple(p.strip() for p in phrases))


def write(caption: str, labels: Sequence[str]) -> str:
    """The caption with each label marked where it stands, in order.

    The caption alone if the labels do not all stand in it in this order.
    """
    parts, position = [], 0
    for label in labels:
        found = caption.find(label, position)
        if found < 0:
            return caption
        parts += [caption[position:found], OBJECT[0], label, OBJECT[1]]
        position = found + len(label)
    return "".join([*parts, caption[position:]])


def without_tags(text: str) -> str:
    """The text without anything from a ``<`` to the next ``>``."""
    kept, position = [], 0
    for start, end in _between(text, ("<", ">")):
        kept.append(text[position : start - 1])
        position = end + 1
    return "".join([*kept, text[position:]])


def _between(text: str, marks: tuple[str, str]) -> Iterator[tuple[int, int]]:
    """[start, end) of what stands between each opening mark and the next closing one."""
    opening, closing = marks
    position = 0
    while (start := text.find(opening, position)) >= 0:
        start += len(opening)
        end = text.find(closing, start)
        if end < 0:
            return
        yield start, end
        position = end + len(closing)


@dataclass(frozen=True, slots=True)
class Tokens:
    """How sound the mask tokens of a reply are."""

    malformed: int
    """Groups of start, codes, end without exactly one valid code; codes outside any add one."""
    odd: bool
    """Whether the public scripts have to repair the reply: its codes do not come in pairs."""
    shifted: bool
    """Whether reading codes in pairs gives other masks than reading them group by group."""

    @property
    def flags(self) -> tuple[str, ...]:
        """What to count in the result."""
        named = {
            "mask_groups_malformed": self.malformed > 0,
            "mask_codes_odd": self.odd,
            "parsers_differ": self.shifted,
        }
        return tuple(name for name, holds in named.items() if holds)


def inspect_tokens(text: str) -> Tokens:
    """What is wrong with the mask tokens of a reply."""
    if "<|mt_" not in text:
        return Tokens(0, False, False)
    strict, paired = parse(text, "strict_span"), parse(text, "reference:gcg")
    malformed = sum(found.status != "ok" for found in strict.found) + (strict.loose_tokens > 0)
    return Tokens(malformed, len(_CODE.findall(text)) % 2 == 1, strict.codes != paired.codes)


def phrases(reply: Reply, prediction: Prediction) -> Sequence[str]:
    """The phrases of a prediction: recorded ones win over those of its text.

    The list of a recorded file need not be as long as its masks. It is in ``info["phrases"]`` where
    it is not; the regions hold as much of it as there are masks, "" beyond its end.
    """
    recorded = prediction.info.get("phrases")
    if isinstance(recorded, list) and all(isinstance(phrase, str) for phrase in recorded):
        return recorded
    held = [region.phrase for region in prediction.regions]
    said = [*reply.phrases, *[""] * len(held)][: len(held)]
    return held if any(held) and held != said else reply.phrases
