"""What the judge of DLC-Bench is asked, word for word, and how its replies are read.

Source: the evaluation scripts of NVlabs/describe-anything (text only) and of
Haochen-Wang409/Grasp-Any-Region (with the picture).

The first question asks whether the object was recognised. Its grammar comes from the library
``inflect`` there, whose answers depend on its version; here it is a table of endings and sounds,
which agrees with inflect 6.0.5 to 7.5.0, and so with all published runs, on the 100 objects of the
benchmark ("wine glass" is plural to it).
"""

from collections.abc import Sequence
from typing import Literal

Sees = Literal["text", "picture"]

LETTERS = "ABCDE"

_PLURAL = frozenset(("deer", "fish", "goldfish", "jellyfish", "mice", "people", "sheep"))
_VOWEL_SOUNDS = ("a", "e", "i", "o", "u", "hour", "honest", "heir")
_CONSONANT_SOUNDS = ("eu", "ewe", "one", "once", "uk", "uni", "uri", "usb", "use", "usu", "ut")

_PROMPT = (
    """Answer the multiple-choice question based on the text description of an object in \
{place} image. You need to follow these rules:
1. Do not output any reasoning. Do not perform correction. Please output exactly one answer from \
the choices for each question. Do not repeat the question.
2. There is no need for exact matching. Please choose the closest option based on the description.

The description is:
""",
    """

From the description above, please answer the following question with one of the choices:
""",
)


def prompt(caption: str, question: str, choices: Sequence[str], sees: Sees) -> str:
    """What the judge is asked. The caption goes in as it is, whatever braces it holds."""
    lines = [f"{letter}. {choice}" for letter, choice in zip(LETTERS, choices, strict=False)]
    before, after = _PROMPT
    asked = "\n".join([question, *lines]).strip()
    place = "an" if sees == "text" else "this"
    return f"{before.format(place=place)}{caption}{after}{asked}\n"


def recognition(name: str, sees: Sees) -> str:
    """The question whether a description is of an object of class ``name``."""
    if sees == "picture":
        return (
            f"The object in the image is {name}. Based on the image, is it likely that the object "
            f"in the description is given class: {name} or object of a similar type?"
        )
    if is_plural(name):
        what = f"objects in the description are {name} or objects"
    else:
        what = f"object in the description is {with_article(name)} or an object"
    return (
        f"Is it likely that the {what} of a similar type? Again, It does not have to be an exact "
        "match."
    )


def is_plural(name: str) -> bool:
    """Whether a class is spoken of in the plural: it ends in s (but "bus"), or is irregular."""
    return name != "bus" and (name.endswith("s") or name.split(" ")[-1] in _PLURAL)


def with_article(name: str) -> str:
    """``a taco``, ``an apple``: by the first sound, which fits every class of the benchmark."""
    word = name.lower()
    vowel = word.startswith(_VOWEL_SOUNDS) and not word.startswith(_CONSONANT_SOUNDS)
    return f"{'an' if vowel else 'a'} {name}"


def read_choice(reply: str, choices: Sequence[str]) -> int | None:
    """The index of the choice that a reply stands for, in the official order of readings.

    None where the official script finds nothing (it scores 0) and where it crashes: an empty
    reply, a letter that is no choice.
    """
    said = reply.strip().lower()
    texts = [choice.strip().lower() for choice in choices]
    for index, (letter, text) in enumerate(zip(LETTERS.lower(), texts, strict=False)):
        if said in (text, f"{letter}. {text}", letter):
            return index
    inside = [index for index, text in enumerate(texts) if text in said]
    if len(inside) == 1:
        return inside[0]
    if said[:1] in tuple(LETTERS.lower()) and said[1:2] in ("", "."):
        return _letter(said, texts)
    if inside:
        return max(inside, key=lambda index: (said.index(texts[index]), len(texts[index])))
    around = [index for index, text in enumerate(texts) if said and said in text]
    if around:
        return max(around, key=lambda index: len(texts[index]))
    return _letter(said, texts) if said[1:2] == "\n" else None


def _letter(said: str, texts: Sequence[str]) -> int | None:
    """The choice of the first letter, if there is such a choice."""
    index = LETTERS.lower().find(said[:1]) if said else -1
    return index if 0 <= index < len(texts) else None
