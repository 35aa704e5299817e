"""The small English of the toy world: a ``Query`` and its one text, in both directions.

::

    text   := NP | "everything" | "the" band | "the" [color] part "of" NP
            | "the" "reflection" "of" NP
    NP     := article [size] [texture] [material] [color] noun [with] [at] [rel]
    with   := "with" "a" [color] part
    at     := "at" "the" [vside] [side]
    rel    := relation "the" [size] [texture] [material] [color] noun
    noun   := a shape or "thing", singular or plural

``write`` says a plural as "all the red circles". ``parse`` takes articles or leaves them, and
ignores case, spaces and one final full stop; a text that breaks the grammar is no query at all.
"""

from dataclasses import dataclass
from typing import Any, Literal

from .scene import (
    BANDS,
    COLORS,
    MATERIALS,
    PARTS,
    RELATIONS,
    SHAPES,
    SIDES,
    SIZES,
    TEXTURES,
    VSIDES,
)

Kind = Literal["object", "part", "band", "reflection", "everything"]
Article = Literal["a", "the", ""]


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What a text asks for. A field that is "" asks for nothing; each kind has fields of its own.

    ``object``: the attributes, ``with_part`` and ``with_color``, the position, ``relation`` and
    ``relative``. ``part``: ``part``, ``color`` and ``owner``. ``band``: ``band``. ``reflection``:
    ``owner``. ``everything``: none. Fields of other kinds stay empty.
    """

    kind: Kind = "object"
    plural: bool = False
    """Of an object: "all the red things"; the same objects match."""
    size: str = ""
    texture: str = ""
    material: str = ""
    color: str = ""
    shape: str = ""
    """"" is said as "thing"."""
    part: str = ""
    with_part: str = ""
    with_color: str = ""
    """The color of ``with_part``."""
    side: str = ""
    vside: str = ""
    relation: str = ""
    relative: "Query | None" = None
    """The singular object that the relation is to; attributes only (one level)."""
    band: str = ""
    owner: "Query | None" = None
    """The object that has the part or the reflection."""

    @property
    def n_attributes(self) -> int:
        """How many predicates the text states; those of its relative or owner count, too.

        Each attribute is one, and so are "with a blue core", a side, a relation, a part's name, a
        band's name and "reflection".
        """
        stated = sum(
            map(bool, (
                self.size, self.texture, self.material, self.color, self.shape, self.part,
                self.with_part, self.side, self.vside, self.relation, self.band,
                self.kind == "reflection",
            ))
        )  # fmt: skip
        return stated + sum(q.n_attributes for q in (self.relative, self.owner) if q is not None)


_PLURALS = {shape: shape + ("es" if shape.endswith("s") else "s") for shape in SHAPES}
_PLURALS[""] = "things"
_NOUNS = {shape or "thing": (shape, False) for shape in _PLURALS}
_NOUNS |= {plural: (shape, True) for shape, plural in _PLURALS.items()}
_ADJECTIVES = {
    word: (place, field)
    for place, (field, words) in enumerate(
        (("size", SIZES), ("texture", TEXTURES), ("material", MATERIALS), ("color", COLORS))
    )
    for word in words
}
_RELATIONS = {relation.split()[0]: (relation, len(relation.split())) for relation in RELATIONS}
_ARTICLES = frozenset(("a", "an", "the"))

VOCABULARY: tuple[str, ...] = tuple(
    sorted(
        {"all", "everything", "of", "with", "at", "reflection"}
        | {*_ARTICLES, *_NOUNS, *_ADJECTIVES, *PARTS, *BANDS, *SIDES, *VSIDES}
        | {word for relation in RELATIONS for word in relation.split()}
    )
)
"""Every word of the grammar, in alphabetical order."""


def write(query: Query, article: Article = "a") -> str:
    """The text of a query, in lower case and without a full stop.

    ``article`` is that of one object ("" for none, which leaves "all the" out as well). A part, a
    band or a reflection always has "the".
    """
    kind = query.kind
    if kind == "object":
        return " ".join(_phrase(query, article))
    if kind == "everything":
        return "everything"
    if kind == "band":
        return f"the {query.band}"
    noun = "reflection" if kind == "reflection" else f"{query.color} {query.part}".lstrip()
    owner = query.owner or Query()
    return f"the {noun} of {' '.join(_phrase(owner, 'the'))}"


def _phrase(query: Query, article: Article) -> list[str]:
    """The words of an object."""
    words = _head(query)
    if query.plural:
        words[:0] = ("all", "the") if article else ()
    elif article:
        words.insert(0, _article(article, words[0]))
    if query.with_part:
        thing = f"{query.with_color} {query.with_part}".lstrip()
        words += ("with", _article("a", thing), thing)
    if query.side or query.vside:
        words += ("at", "the", f"{query.vside} {query.side}".strip())
    if query.relation:
        words += (query.relation, "the", *_head(query.relative or Query()))
    return words


def _head(query: Query) -> list[str]:
    """The attributes and the noun."""
    words = [w for w in (query.size, query.texture, query.material, query.color) if w]
    words.append(_PLURALS[query.shape] if query.plural else query.shape or "thing")
    return words


def _article(article: str, following: str) -> str:
    return "an" if article == "a" and following[0] in "aeiou" else article


def parse(text: str) -> Query | None:
    """The query that a text states, or None if any of it is outside the grammar."""
    words = text.strip().lower().removesuffix(".").split()
    if words == ["everything"]:
        return Query(kind="everything")
    reader = _Reader(words)
    query = reader.text()
    return query if query is not None and reader.ended else None


class _Reader:
    """Reads words from left to right. A method that finds no sense in them gives None."""

    def __init__(self, words: list[str]) -> None:
        self._words = [*words, "", ""]
        self._next = 0

    @property
    def ended(self) -> bool:
        return not self._words[self._next]

    def text(self) -> Query | None:
        start = self._next
        self._skip(_ARTICLES)
        word = self._take()
        if word in BANDS:
            return Query(kind="band", band=word)
        if word == "reflection":
            owner = self._owner()
            return owner and Query(kind="reflection", owner=owner)
        color, word = (word, self._take()) if word in COLORS else ("", word)
        if word in PARTS:
            owner = self._owner()
            return owner and Query(kind="part", color=color, part=word, owner=owner)
        self._next = start
        return self._object()

    def _owner(self) -> Query | None:
        return self._object() if self._take() == "of" else None

    def _object(self) -> Query | None:
        fields: dict[str, Any] = {}
        every = self._skip(("all",))
        noun = self._head(fields)
        relative = None
        if noun is None or not self._with(fields) or not self._at(fields):
            return None
        if (relation := self._relation()) is not None:
            relative = self._relative()
            if relative is None:
                return None
        return Query(
            plural=every or noun[1],
            shape=noun[0],
            relation=relation or "",
            relative=relative,
            **fields,
        )

    def _head(self, fields: dict[str, Any]) -> tuple[str, bool] | None:
        """Shape and whether it is plural; the attributes go into ``fields``."""
        self._skip(_ARTICLES)
        last = -1
        while (known := _ADJECTIVES.get(self._words[self._next])) is not None:
            place, field = known
            if place <= last:
                return None
            fields[field], last = self._take(), place
        return _NOUNS.get(self._take())

    def _with(self, fields: dict[str, Any]) -> bool:
        if not self._skip(("with",)):
            return True
        self._skip(_ARTICLES)
        word = self._take()
        if word in COLORS:
            fields["with_color"], word = word, self._take()
        fields["with_part"] = word
        return word in PARTS

    def _at(self, fields: dict[str, Any]) -> bool:
        if not self._skip(("at",)):
            return True
        self._skip(_ARTICLES)
        for field, sides in (("vside", VSIDES), ("side", SIDES)):
            # "at the top left of the ring" is at the top, and left of the ring.
            if self._words[self._next] in sides and self._words[self._next + 1] != "of":
                fields[field] = self._take()
        return "side" in fields or "vside" in fields

    def _relation(self) -> str | None:
        relation, length = _RELATIONS.get(self._words[self._next], ("", 0))
        if not relation or self._words[self._next : self._next + length] != relation.split():
            return None
        self._next += length
        return relation

    def _relative(self) -> Query | None:
        fields: dict[str, Any] = {}
        noun = self._head(fields)
        if noun is None or noun[1]:
            return None
        return Query(shape=noun[0], **fields)

    def _take(self) -> str:
        word = self._words[self._next]
        self._next += bool(word)
        return word

    def _skip(self, words: frozenset[str] | tuple[str, ...]) -> bool:
        skipped = self._words[self._next] in words
        self._next += skipped
        return skipped
