"""What a text claims, by a lenient scan of its words: for texts that break the grammar.

The first thing of a text, and every later one that no relation introduces, is its *subject*; what
they claim is taken together, so a list of all colors contradicts itself. "A red circle left of a
blue square" claims nothing blue of its subject. Words under a negation claim nothing.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from . import _lexicon as words
from ._lexicon import Value
from .scene import BANDS

ATTRIBUTES = ("size", "texture", "material", "color", "shape", "side", "vside")

_TOKEN = re.compile(r"[a-z]+|[.;:!?]")
_CONVERSE = {"left of": "right of", "right of": "left of", "above": "below", "below": "above"}


@dataclass(slots=True, eq=False)
class Thing:
    """An object of a text, with all that is claimed of it."""

    values: dict[str, set[str]] = field(default_factory=dict)
    """Values by attribute; attributes without any are left out."""
    parts: dict[str, set[str]] = field(default_factory=dict)
    """The parts mentioned, each with the colors claimed of it (perhaps none)."""
    named: bool = False
    """Whether a noun stands for it: a shape or a word such as "thing"."""
    relative: bool = False
    """Whether the text only relates its subject to it."""

    def claims(self, wanted: Mapping[str, str]) -> bool:
        """Whether it claims each of these values by attribute, and no other value beside it."""
        return all(self.values.get(a) == {value} for a, value in wanted.items())


@dataclass(frozen=True, slots=True)
class Facts:
    """The claims of a text."""

    things: tuple[Thing, ...] = ()
    """In the order of the text."""
    relations: tuple[tuple[int, str, int], ...] = ()
    """``(0, "left of", 1)``: the first thing is left of the second."""
    bands: frozenset[str] = frozenset()
    """The bands mentioned."""
    reflection: bool = False
    """Whether the text speaks of a reflection."""

    @property
    def names_object(self) -> bool:
        """Whether a noun stands for the subject."""
        return any(thing.named for thing in self._subject)

    @property
    def contradictions(self) -> frozenset[str]:
        """Attributes and parts of the subject for which more than one value is claimed."""
        return frozenset(
            [a for a in ATTRIBUTES if len(self.said(a)) > 1]
            + [p for thing in self._subject for p in thing.parts if len(self.said("color", p)) > 1]
        )

    def said(self, attribute: str, part: str = "") -> frozenset[str]:
        """The values claimed of the subject, or of a part of it: several are a contradiction."""
        if part:
            found = (t.parts.get(part, ()) for t in self._subject) if attribute == "color" else ()
            return frozenset().union(*found)
        return frozenset().union(*(t.values.get(attribute, ()) for t in self._subject))

    def mentions(self, part: str) -> bool:
        """Whether the subject is said to have a part."""
        return any(part in thing.parts for thing in self._subject)

    def states(self, subject: Mapping[str, str], relation: str, other: Mapping[str, str]) -> bool:
        """Whether a thing with these attributes is said to be ``relation`` one with those.

        "b right of a" says "a left of b" as well. Two directions contradict each other.
        """
        stated = set()
        for i, said, j in self.relations:
            a, b = self.things[i], self.things[j]
            if a.claims(subject) and b.claims(other):
                stated.add(said)
            elif said in _CONVERSE and b.claims(subject) and a.claims(other):
                stated.add(_CONVERSE[said])
        return relation in stated and (relation not in _CONVERSE or len(stated & {*_CONVERSE}) == 1)

    @property
    def _subject(self) -> Iterable[Thing]:
        return [thing for thing in self.things if not thing.relative]


def facts(text: str) -> Facts:
    """The claims of any text; one without a word of the world claims nothing."""
    return _Scanner(text).facts()


class _Scanner:
    """Reads a text once, from left to right."""

    def __init__(self, text: str) -> None:
        self._words = ["", *_TOKEN.findall(text.lower()), "", "", ""]
        """With room to look at the neighbours of each."""
        self._things: list[Thing] = []
        self._relations: list[tuple[int, str, int]] = []
        self._bands: set[str] = set()
        self._waiting: list[Value] = []
        """Adjectives that have no noun yet."""
        self._article = ""
        self._negated = False
        self._relation: tuple[int, str] | None = None
        """What the next noun is the object of: the index of a thing, and a relation."""
        self._thing: Thing | None = None
        """The thing spoken of."""
        self._part = ""
        """The part of it that is spoken of."""

    def facts(self) -> Facts:
        """What all the words claim."""
        index = 1
        while self._words[index]:
            index += self._read(index)
        self._settle()
        return Facts(
            things=tuple(self._things),
            relations=tuple(self._relations),
            bands=frozenset(self._bands),
            reflection=not words.REFLECTIONS.isdisjoint(self._words),
        )

    def _read(self, index: int) -> int:
        """Reads at a word; says how many words that took."""
        word = self._words[index]
        if taken := self._relate(index):
            return taken
        if word in words.VALUES:
            self._wait(words.VALUES[word])
        elif word in words.POSITIONS:
            if self._is_position(index):
                self._wait(words.POSITIONS[word])
        elif word in words.NOUNS:
            self._noun(words.NOUNS[word])
        elif word in words.PART_NOUNS:
            self._name_part(words.PART_NOUNS[word])
        elif word in words.MARKS:
            self._waiting = []
            self._wait(("texture", words.MARKS[word]))
            self._settle()
            self._negated = False
        elif word in BANDS or word in words.ELSEWHERE:
            self._elsewhere(word)
        elif word == "it":
            self._pronoun()
        else:
            self._function_word(word)
        return 1

    def _function_word(self, word: str) -> None:
        if word in words.NEGATIONS:
            self._settle()
            self._negated = True
        elif word in words.ARTICLES or word in words.TRAITS:
            self._settle()
            self._article = word if word in words.ARTICLES else ""
        elif word in ".;:!?":
            self._settle()
            self._negated, self._relation, self._part = False, None, ""
            self._thing = next((t for t in self._things if not t.relative), self._thing)
        elif word == "but":
            self._settle()
            self._negated = False

    def _wait(self, value: Value) -> None:
        if not self._negated:
            self._waiting.append(value)

    def _is_position(self, index: int) -> bool:
        """Whether "left" or "top" here says where in the picture something is."""
        before, after = self._words[index - 1], self._words[index + 1 : index + 4]
        if after[0] == "of":
            return not words.PICTURE.isdisjoint(after)
        return before in words.BEFORE or after[0] in words.AFTER

    def _relate(self, index: int) -> int:
        """Reads a relation; how many words it has, 0 if there is none here."""
        if self._words[index] in words.POSITIONS and self._is_position(index):
            return 0
        for length in (3, 2, 1):
            phrase = tuple(self._words[index : index + length])
            if phrase in words.RELATION_PHRASES:
                self._settle()
                subject = self._things.index(self._spoken_of())
                self._relation, self._part = (subject, words.RELATION_PHRASES[phrase]), ""
                return length
        return 0

    def _noun(self, shape: str) -> None:
        """A noun names a thing: one of before, or a new one."""
        claimed = self._waiting + ([("shape", shape)] if shape else [])
        self._waiting = []
        if self._negated:
            self._negated, self._relation = False, None
            return
        thing = self._known(claimed)
        if thing is None:
            thing = Thing(relative=self._relation is not None)
            self._things.append(thing)
        thing.named = True
        self._speak_of(thing)
        _claim(thing, claimed)

    def _known(self, claimed: list[Value]) -> Thing | None:
        """The earlier thing that a noun with these values stands for.

        None after "a", unless what was spoken of last has no noun yet.
        """
        if self._article in ("a", "an", "another"):
            unnamed = self._thing
            return unnamed if unnamed and not unnamed.named and not self._relation else None
        subject = self._things[self._relation[0]] if self._relation else None
        fitting = (
            thing
            for thing in self._things
            if thing is not subject
            and all(thing.values.get(a, {value}) == {value} for a, value in claimed)
        )
        return next(fitting, None)

    def _speak_of(self, thing: Thing) -> None:
        if self._relation is not None and self._relation[1]:
            self._relations.append((*self._relation, self._things.index(thing)))
        self._relation, self._article, self._part = None, "", ""
        self._thing = thing

    def _pronoun(self) -> None:
        self._settle()
        subject = next((t for t in self._things if not t.relative), None)
        if subject is not None:
            self._speak_of(subject)

    def _name_part(self, part: str) -> None:
        if self._negated:
            self._negated, self._waiting = False, []
            return
        colors = {value for attribute, value in self._waiting if attribute == "color"}
        self._waiting = []
        self._spoken_of().parts.setdefault(part, set()).update(colors)
        self._part = part

    def _elsewhere(self, word: str) -> None:
        """A band or a place in the picture takes the adjectives before it."""
        if word in BANDS:
            self._bands.add(word)
        self._waiting = [(a, value) for a, value in self._waiting if a in ("side", "vside")]
        self._settle()
        self._relation = None

    def _settle(self) -> None:
        """Gives adjectives that wait in vain to what was spoken of last."""
        if self._waiting:
            thing = self._spoken_of()
            if self._part:
                colors = {value for a, value in self._waiting if a == "color"}
                thing.parts[self._part] |= colors
                self._waiting = [v for v in self._waiting if v[0] in ("side", "vside")]
            _claim(thing, self._waiting)
        self._waiting = []

    def _spoken_of(self) -> Thing:
        if self._thing is None:
            self._thing = Thing()
            self._things.append(self._thing)
        return self._thing


def _claim(thing: Thing, values: list[Value]) -> None:
    for attribute, value in values:
        thing.values.setdefault(attribute, set()).add(value)
