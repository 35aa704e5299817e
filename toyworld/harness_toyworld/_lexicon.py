"""The words that ``facts`` knows, the world's own and some that others use for the same."""

from .scene import COLORS, MATERIALS, PARTS, SHAPES, SIDES, SIZES, TEXTURES, VSIDES

Value = tuple[str, str]
"""An attribute and its value."""

VALUES: dict[str, Value] = {
    word: (attribute, word)
    for attribute, words in (
        ("size", SIZES),
        ("texture", TEXTURES),
        ("material", MATERIALS),
        ("color", COLORS),
    )
    for word in words
} | {
    "little": ("size", "small"),
    "tiny": ("size", "small"),
    "big": ("size", "large"),
    "huge": ("size", "large"),
    "solid": ("texture", "plain"),
    "uniform": ("texture", "plain"),
    "stripy": ("texture", "striped"),
    "spotted": ("texture", "dotted"),
    "matt": ("material", "matte"),
    "glossy": ("material", "shiny"),
    "metallic": ("material", "metal"),
    "violet": ("color", "purple"),
}
MARKS = {
    "stripe": "striped",
    "stripes": "striped",
    "dot": "dotted",
    "dots": "dotted",
    "spots": "dotted",
}
"""Nouns that claim a texture; their color is not that of the object."""
NOUNS = (
    {shape: shape for shape in SHAPES}
    | {shape + ("es" if shape.endswith("s") else "s"): shape for shape in SHAPES}
    | {"disc": "circle", "disk": "circle", "rhombus": "diamond"}
    | dict.fromkeys(("thing", "things", "object", "objects", "shape", "item", "figure", "one"), "")
)
PART_NOUNS = {part: part for part in PARTS} | {part + "s": part for part in PARTS}
POSITIONS: dict[str, Value] = {
    **{word: ("side", word) for word in SIDES},
    **{word: ("vside", word) for word in VSIDES},
    "upper": ("vside", "top"),
    "lower": ("vside", "bottom"),
}
RELATION_PHRASES = {
    ("left", "of"): "left of",
    ("right", "of"): "right of",
    ("on", "top", "of"): "above",
    ("nearest", "to"): "nearest to",
    ("closest", "to"): "nearest to",
    ("nearest",): "nearest to",
    ("closest",): "nearest to",
    ("above",): "above",
    ("over",): "above",
    ("below",): "below",
    ("under",): "below",
    ("beneath",): "below",
    ("underneath",): "below",
} | {(word,): "" for word in ("near", "next", "beside", "behind", "between", "among", "than")}
"""Words that introduce another object; "" is a relation that the world does not know."""
PICTURE = frozenset(("image", "picture", "scene", "photo", "canvas", "frame"))
ELSEWHERE = PICTURE | frozenset(
    ("background", "ground", "center", "centre", "middle", "corner", "edge", "side", "half", "area")
)
"""Nouns that take the adjectives before them, positions apart."""
TRAITS = frozenset(
    ("pattern", "texture", "surface", "finish", "material", "color", "colour", "size", "with")
)
"""Words after which adjectives belong to what was spoken of before."""
ARTICLES = frozenset(("a", "an", "the", "its", "this", "that", "another", "each", "every"))
NEGATIONS = frozenset(("no", "not", "without", "never", "neither", "nor", "isn"))
REFLECTIONS = frozenset(("reflection", "reflections", "reflected", "mirrored"))
BEFORE = frozenset(("the", "at", "far", *POSITIONS))
AFTER = frozenset(("side", "half", "part", "corner", "edge", "hand", *POSITIONS))
