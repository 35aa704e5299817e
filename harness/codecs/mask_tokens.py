"""Regions as mask tokens in text: ``<|mt_start|><|mt_0017|><|mt_0408|><|mt_end|>``.

A code is one index per level of a residual codebook, each in 0..size-1; in text, level l is moved
by l * size. This module writes and reads the text. Turning masks into codes and codes into masks
takes a picture half: a subclass of ``MaskTokens`` that overrides ``encode`` and ``decode``.

Replies are untrusted: every reading takes time linear in the text, and none raises.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, Literal, NamedTuple

from harness.codec import Canvas, Codec, Reading
from harness.errors import ConfigError, DataError, did_you_mean
from harness.types import Mask, Region

Code = tuple[int | None, ...]
"""One index per level. None where the text states no valid one, and in every level after that.

Only ``reference:gcg`` departs from it: any level can be None there, or negative in ``Found.code``.
"""

ParseMode = Literal[
    "span",
    "strict_span",
    "exact",
    "cyclegrpo",
    "reference:gres",
    "reference:groundingsuite",
    "reference:gcg",
]
"""The named readings; see ``parse``."""

START, END = "<|mt_start|>", "<|mt_end|>"
_NO_CODE = 9999  # what the published scripts insert for a missing code; no code of 256 x 2

_MARK = "<|mt_"
_CODE = re.compile(r"<\|mt_([0-9]{4})\|>")
_ANY_NUMBER = re.compile(r"<\|mt_[0-9]++\|>")
_ANY_TOKEN = re.compile(r"<\|mt_(?:start|end|[0-9]{4})\|>")
_ADJACENT = re.compile(  # a run of tokens with nothing between, cut after an end, before a start
    r"(?=<\|mt_(?:start|end|[0-9]{4})\|>)"
    r"(?P<start><\|mt_start\|>)?(?P<codes>(?:<\|mt_[0-9]{4}\|>)*+)(?P<end><\|mt_end\|>)?"
)
_SPACED = re.compile(  # a start and what follows it with nothing but white space between
    r"<\|mt_start\|>(?:\s*+<\|mt_[0-9]{4}\|>)*+(?P<end>\s*+<\|mt_end\|>)?"
)


@dataclass(frozen=True, slots=True)
class Found:
    """A stretch of text that states a mask, or fails to.

    ``code`` is None where it states nothing that can be decoded. ``span`` is where it stands,
    [first character, last + 1). ``status`` is ``ok`` or what is wrong, parts joined by ``+``:
    ``empty``, ``bad_level_0`` (no code); ``missing_level_l``, ``bad_level_l`` (the code ends before
    level l), then ``extra_tokens``, then ``unterminated``; ``invalid`` in mode ``exact``.
    """

    code: Code | None
    span: tuple[int, int]
    status: str = "ok"


@dataclass(frozen=True, slots=True)
class Parsed:
    """What one reading makes of a text: its masks in order, also those without a code.

    ``outcome`` of ``span``, ``strict_span`` and ``exact``: ``ok`` (at least one code), ``invalid``
    (masks but no code), ``malformed`` (only bits of mask tokens), ``none``. Of the reference modes,
    what the published script does with the text: ``decode``, ``zero_mask``, ``no_masks``,
    ``crash_empty_batch``, ``index_error_all_zero_masks``, ``assertion_error``.
    """

    found: tuple[Found, ...]
    outcome: str
    loose_tokens: int = 0
    """``strict_span`` only: numbered tokens outside every span."""
    well_formed: int = 0
    """``strict_span`` only: start, the right number of codes, end, adjacent, whatever the codes."""

    @property
    def codes(self) -> tuple[Code, ...]:
        """What is to be decoded, in order; empty unless the outcome is ``ok`` or ``decode``."""
        if self.outcome not in ("ok", "decode"):
            return ()
        return tuple(f.code for f in self.found if f.code is not None)

    @property
    def flags(self) -> tuple[str, ...]:
        """``tokens_...`` for each thing that is wrong, once."""
        parts = chain(*(f.status.split("+") for f in self.found), (self.outcome,))
        return tuple(f"tokens_{p}" for p in dict.fromkeys(parts) if p not in ("ok", "decode"))


def vocabulary(levels: int = 2, size: int = 256) -> tuple[str, ...]:
    """The tokens that the language model must own: start, every code in order, end.

    Raises ConfigError if the codes cannot be named by four digits.
    """
    if levels < 1 or size < 1 or levels * size > 10_000:
        raise ConfigError(
            f"mask-tokens: a codebook of {levels} levels of {size} codes does not fit; both must "
            "be at least 1 and their product at most 10000 (a code's name has four digits)"
        )
    return (START, *(f"{_MARK}{number:04d}|>" for number in range(levels * size)), END)


def format_code(code: Code, levels: int = 2, size: int = 256) -> str:
    """The text of a code; levels that are None or missing at its end are left out.

    Raises DataError if the code has too many levels, none, or an index outside 0..size-1.
    """
    stated = code[: code.index(None)] if None in code else code
    if not 0 < len(stated) <= levels or not all(v is not None and 0 <= v < size for v in stated):
        raise DataError(f"{code} is no mask code of {levels} levels with indices 0 to {size - 1}")
    numbers = (level * size + (index or 0) for level, index in enumerate(stated))
    return START + "".join(f"{_MARK}{number:04d}|>" for number in numbers) + END


def parse(text: str, mode: str = "span", *, levels: int = 2, size: int = 256) -> Parsed:
    """The masks that a text states. Raises ConfigError for an unknown mode, and nothing else.

    ``span`` (also "") forgives text inside a span, a missing end and lost start tokens;
    ``strict_span`` takes white space between tokens and nothing else; ``exact`` takes adjacent
    tokens with valid codes only, as rewards need it. ``reference:gres`` (also ``cyclegrpo``),
    ``reference:groundingsuite`` and ``reference:gcg`` do what the published scripts do.
    """
    reader = _READERS.get(mode or "span")
    if reader is None:
        raise ConfigError(
            f"no way to parse mask tokens named {mode!r}.{did_you_mean(mode, _READERS)}"
        )
    return reader(text, levels, size)


def readings_differ(text: str, levels: int = 2, size: int = 256) -> bool:
    """Whether ``span`` and ``reference:gres`` would decode different codes."""
    whole = rf"<\|mt_start\|>(?:<\|mt_[0-9]{{4}}\|>){{{levels}}}<\|mt_end\|>"
    if _MARK not in re.sub(whole, "", text):
        return False  # only whole masks, or none: every reading takes them as they stand
    ours, theirs = (parse(text, m, levels=levels, size=size) for m in ("span", "reference:gres"))
    return ours.codes != theirs.codes


def _judge(
    numbers: Sequence[int], levels: int, size: int, *, closed: bool = True
) -> tuple[Code | None, str]:
    """(code, status) of the token numbers of one span."""
    if not numbers:
        return None, "empty"
    indices = [number - level * size for level, number in enumerate(numbers[:levels])]
    valid = next((i for i, v in enumerate(indices) if not 0 <= v < size), len(indices))
    if not valid:
        return None, "bad_level_0"
    parts = []
    if valid < levels:
        parts.append(f"{'bad' if valid < len(indices) else 'missing'}_level_{valid}")
    if len(numbers) > levels:
        parts.append("extra_tokens")
    if not closed:
        parts.append("unterminated")
    return (*indices[:valid], *[None] * (levels - valid)), "+".join(parts) or "ok"


def _parsed(
    text: str, found: Iterable[Found], loose_tokens: int = 0, well_formed: int = 0
) -> Parsed:
    found = tuple(found)
    if found:
        outcome = "ok" if any(f.code is not None for f in found) else "invalid"
    else:
        outcome = "malformed" if _ANY_TOKEN.search(text) else "none"
    return Parsed(found, outcome, loose_tokens, well_formed)


def _span(text: str, levels: int, size: int) -> Parsed:
    """Reads from each start to the next end, start or end of text, whatever stands between."""
    starts = [m.start() for m in re.finditer(re.escape(START), text)]
    if not starts:
        # Some decoders drop the start and end tokens; the codes still come level by level.
        tokens = [_Token(int(m[1]), m.start(), m.end()) for m in _CODE.finditer(text)]
        whole = len(tokens) - len(tokens) % levels
        return _parsed(text, _flat(tokens[:whole], levels, size))
    found = []
    for start, limit in zip(starts, [*starts[1:], len(text)], strict=True):
        end = text.find(END, start, limit)
        codes = list(_CODE.finditer(text, start, limit if end < 0 else end))
        last = end + len(END) if end >= 0 else codes[-1].end() if codes else start + len(START)
        code, status = _judge([int(m[1]) for m in codes], levels, size, closed=end >= 0)
        found.append(Found(code, (start, last), status))
    return _parsed(text, found)


def _strict_span(text: str, levels: int, size: int) -> Parsed:
    found, inside = [], 0
    for match in _SPACED.finditer(text):
        numbers = [int(n) for n in _CODE.findall(text, *match.span())]
        inside += len(numbers)
        code, status = _judge(numbers, levels, size, closed=match["end"] is not None)
        found.append(Found(code, match.span(), status))
    loose = sum(1 for _ in _ANY_NUMBER.finditer(text)) - inside
    whole = sum(group.is_whole(levels) for group in _groups(text))
    return _parsed(text, found, loose, whole)


def _exact(text: str, levels: int, size: int) -> Parsed:
    found = []
    for group in _groups(text):
        if group.opened and group.tokens and group.closed:
            code, status = _judge([token.number for token in group.tokens], levels, size)
            valid = status == "ok"
            found.append(Found(code if valid else None, group.span, "ok" if valid else "invalid"))
    return _parsed(text, found)


class _Token(NamedTuple):
    number: int
    start: int
    end: int


class _Group(NamedTuple):
    """Adjacent tokens: perhaps a start, codes, perhaps an end."""

    opened: bool
    tokens: list[_Token]
    closed: bool
    span: tuple[int, int]
    before_mark: bool
    """Whether the text goes on with ``<|mt_`` right away."""

    def is_whole(self, levels: int) -> bool:
        return self.opened and self.closed and len(self.tokens) == levels


def _groups(text: str) -> list[_Group]:
    groups = []
    for match in _ADJACENT.finditer(text):
        codes = _CODE.finditer(text, *match.span("codes"))
        tokens = [_Token(int(m[1]), m.start(), m.end()) for m in codes]
        follows = text.startswith(_MARK, match.end())
        opened, closed = match["start"] is not None, match["end"] is not None
        groups.append(_Group(opened, tokens, closed, match.span(), follows))
    return groups


def _repaired(group: _Group, levels: int) -> _Group:
    """A group as the published scripts rewrite it: cut to ``levels`` codes, or filled with 9999."""
    if not group.opened or not group.tokens:
        return group
    missing = levels - len(group.tokens)
    if (missing < 0 and group.closed) or (missing > 0 and (group.closed or not group.before_mark)):
        nothing = _Token(_NO_CODE, group.tokens[-1].end, group.tokens[-1].end)
        tokens = [*group.tokens[:levels], *[nothing] * missing]
        return group._replace(tokens=tokens, closed=True)
    return group


def _flat(tokens: Sequence[_Token], levels: int, size: int) -> list[Found]:
    """Codes taken level by level in order, whatever start and end tokens say."""
    found = []
    for first in range(0, len(tokens), levels):
        chunk = tokens[first : first + levels]
        code, status = _judge([token.number for token in chunk], levels, size)
        found.append(Found(code, (chunk[0].start, chunk[-1].end), status))
    return found


def _reference(text: str, levels: int, size: int, *, task: str) -> Parsed:
    """The flat reading of the published scripts, with the repair that ``task`` applies."""
    groups = _groups(text)
    tokens = [token for group in groups for token in group.tokens]
    if not tokens:
        return Parsed((), "no_masks" if task == "gcg" else "zero_mask")
    if len(tokens) % levels:
        if task == "groundingsuite":
            return Parsed((), "zero_mask")
        groups = [_repaired(group, levels) for group in groups]
        if task == "gres":
            groups = [group for group in groups if group.is_whole(levels)]
        tokens = [token for group in groups for token in group.tokens]
        if len(tokens) % levels:
            return Parsed((), "assertion_error")
    if task == "gcg":
        return _gcg(tokens, levels, size)
    found = tuple(_flat(tokens, levels, size))
    if any(f.code is not None for f in found):
        return Parsed(found, "decode")
    return Parsed(found, "crash_empty_batch" if task == "gres" else "zero_mask")


def _gcg(tokens: Sequence[_Token], levels: int, size: int) -> Parsed:
    """As the GCG script hands codes to its decoder: -1 and an index that is too large are None.

    Level 0 can be None here, and a token of a lower level gives a negative index, of which the
    decoder dies: then the script writes an empty mask for every code of the reply.
    """
    indices = [token.number - i % levels * size for i, token in enumerate(tokens)]
    passed = [None if v == -1 or v >= size else v for v in indices]
    found = tuple(
        replace(f, code=tuple(passed[levels * i : levels * (i + 1)]))
        for i, f in enumerate(_flat(tokens, levels, size))
    )
    return Parsed(found, "index_error_all_zero_masks" if min(indices) < -1 else "decode")


_READERS: Mapping[str, Callable[[str, int, int], Parsed]] = {
    "span": _span,
    "strict_span": _strict_span,
    "exact": _exact,
    "cyclegrpo": partial(_reference, task="gres"),
    "reference:gres": partial(_reference, task="gres"),
    "reference:groundingsuite": partial(_reference, task="groundingsuite"),
    "reference:gcg": partial(_reference, task="gcg"),
}


@dataclass(frozen=True)
class MaskTokens(Codec):
    codebook_size: int = 256
    """How many entries each level of the codebook has."""
    depth: int = 2
    """How many levels a code has."""

    def __post_init__(self) -> None:
        self.vocabulary()

    def encode(self, masks: Sequence[Mask], canvas: Canvas) -> Sequence[Code]:
        """A code for each mask, none of which is empty. A picture half overrides it."""
        raise DataError(
            "the codec mask-tokens cannot write a region, because it has no mask tokenizer to turn "
            "a mask into a code; choose a codec or model that brings one, or the codec boxes"
        )

    def decode(self, codes: Sequence[Code], canvas: Canvas) -> Sequence[Mask]:
        """A mask of the picture's size for each code. A picture half overrides it.

        None is a level without a valid index; in mode ``reference:gcg`` level 0 can be None too.
        """
        raise DataError(
            "the codec mask-tokens found codes in a reply, but has no mask tokenizer to draw "
            "them; give `masks` in the predictions file, or choose a codec or model that brings one"
        )

    def write(self, region: Region, canvas: Canvas) -> str | None:
        """The mask tokens of a region (a box counts as a filled rectangle)."""
        mask = region.as_mask(*canvas.size)
        if not mask.area:
            return None
        (code,) = self.encode([mask], canvas)
        return format_code(code, self.depth, self.codebook_size)

    def read(self, text: str, canvas: Canvas, mode: str = "") -> Reading:
        """The masks of a reply; raises DataError if it has codes and there is no mask tokenizer."""
        parsed = parse(text, mode, levels=self.depth, size=self.codebook_size)
        stated = [found for found in parsed.found if found.code is not None]
        masks: Sequence[Mask] = ()
        if parsed.codes:
            masks = self.decode(parsed.codes, canvas)
        elif stated:  # what the GCG script writes after its decoder has died
            masks = [Mask.empty(*canvas.size)] * len(stated)
        regions = (Region(mask=m, span=f.span) for m, f in zip(masks, stated, strict=True))
        return Reading(tuple(regions), parsed.flags)

    def vocabulary(self) -> Sequence[str]:
        return vocabulary(self.depth, self.codebook_size)

    def protocol(self) -> Mapping[str, Any]:
        return {"codebook": f"{self.codebook_size}x{self.depth}"}


codec = MaskTokens
