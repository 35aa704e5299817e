"""Judges captions of the toy world by rule: exact, at no cost, and the same every time.

For benchmark files that `harness build toyworld` wrote. Each question there has a key (``x_key``)
that says what a caption must state; a lenient scan finds what it does state, also in free text.
A caption that claims two values of one attribute is wrong on it, so listing them all does not pay.
A question without a key is an error of the judge, counted and never guessed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.judge import Judge, Question, Verdict

from .. import _rules
from ..scene import WORLD_VERSION

RULES_VERSION = 1
"""Raise it whenever the same question could be answered differently."""


@dataclass(frozen=True)
class Rules(Judge):
    @property
    def name(self) -> str:
        return f"rules:shapeworld/{WORLD_VERSION}"

    def fingerprint(self) -> Mapping[str, str]:
        return {"judge": self.name, "rules": str(RULES_VERSION)}

    def ask(self, questions: Sequence[Question]) -> Iterator[Verdict]:
        """One verdict a question, in order; an ``error`` where no rule answers it."""
        for question in questions:
            raw, error = "", None
            try:
                raw = _rules.reply(question)
            except _rules.Unsupported as reason:
                error = str(reason)
            yield Verdict(sample_id=question.sample_id, index=question.index, raw=raw, error=error)


judge = Rules
