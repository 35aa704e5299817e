"""The rules by which captions are judged: from a question's key and a caption to the reply.

The key is what the benchmark file holds beside the official fields (``x_key``); its ``kind`` names
the rule:

``recognition`` (shape, color): is the description of this object?
``positive`` (attribute, value, part): does it state this detail? Two values contradict each other,
which is as wrong as a wrong one.
``negative`` (attribute, value): does it state something untrue? The attribute may be ``part``.
``relation`` (subject, relation, object): does it say how one object stands to another?
``answer`` (facts): does it state just these attributes?
"""

from collections.abc import Callable, Mapping
from typing import Any

from harness.judge import Question

from .facts import Facts, facts

LETTERS = "ABCDE"


class Unsupported(Exception):
    """A question that no rule answers."""


def reply(question: Question) -> str:
    """What the rules say to a question: "B. ..." or True / False; raises Unsupported."""
    key, caption = question.data.get("x_key"), question.data.get("caption")
    if not isinstance(key, Mapping):
        raise Unsupported("unsupported: the question has no key (x_key), so no rule answers it")
    rule = _RULES.get(str(key.get("kind")))
    if rule is None or not isinstance(caption, str):
        raise Unsupported(
            f"unsupported: no rule answers a question of the kind {key.get('kind')!r:.80} about "
            f"{'a caption' if isinstance(caption, str) else 'no caption'}"
        )
    return rule(key, facts(caption), question)


def _recognition(key: Mapping[str, Any], said: Facts, question: Question) -> str:
    """Yes if the shape is the object's, or if it says "thing" and the colour is."""
    shapes = said.said("shape")
    if shapes:
        fits = shapes == {_text(key, "shape")}
    else:
        fits = said.names_object and said.said("color") == {_text(key, "color")}
    return _choice(question, 1.0 if fits else 0.0)


def _positive(key: Mapping[str, Any], said: Facts, question: Question) -> str:
    part = _text(key, "part")
    values = said.said(_text(key, "attribute"), part)
    if values:
        return _choice(question, 1.0 if values == {_text(key, "value")} else -1.0)
    return _choice(question, *([0.5] if part and said.mentions(part) else []), 0.0)


def _negative(key: Mapping[str, Any], said: Facts, question: Question) -> str:
    attribute, value = _text(key, "attribute"), _text(key, "value")
    if said.mentions(value) if attribute == "part" else value in said.said(attribute):
        return _choice(question, -1.0)
    return _choice(question, *([] if said.names_object else [0.0]), 1.0)


def _relation(key: Mapping[str, Any], said: Facts, question: Question) -> str:
    subject, other = _texts(key, "subject"), _texts(key, "object")
    return str(said.states(subject, _text(key, "relation"), other))


def _answer(key: Mapping[str, Any], said: Facts, question: Question) -> str:
    return str(all(said.said(a) == {value} for a, value in _texts(key, "facts").items()))


_RULES: Mapping[str, Callable[[Mapping[str, Any], Facts, Question], str]] = {
    "recognition": _recognition,
    "positive": _positive,
    "negative": _negative,
    "relation": _relation,
    "answer": _answer,
}


def _choice(question: Question, *wanted: float) -> str:
    """The first choice that is worth the first of these points that any choice is worth."""
    points = question.data.get("points")
    worth = points if isinstance(points, list) else []
    for value in wanted:
        if value in worth and worth.index(value) < len(question.choices):
            index = worth.index(value)
            return f"{LETTERS[index]}. {question.choices[index]}"
    raise Unsupported(f"unsupported: no choice of the question is worth {wanted[0]:g} points")


def _text(key: Mapping[str, Any], name: str) -> str:
    value = key.get(name)
    if not isinstance(value, str):
        raise Unsupported(f"unsupported: {name} of the key (x_key) must be text, not {value!r:.80}")
    return value


def _texts(key: Mapping[str, Any], name: str) -> Mapping[str, str]:
    values = key.get(name)
    if not isinstance(values, Mapping):
        raise Unsupported(
            f"unsupported: {name} of the key (x_key) must be attributes with values, not "
            f"{values!r:.80}"
        )
    return {attribute: _text(values, attribute) for attribute in values}
