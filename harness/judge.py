"""The contract of a judge: it answers the questions that a task asks about a prediction.

Questions and verdicts are stored, so that a run can be scored again without the judge.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One thing to ask a judge about one sample.

    ``prompt`` is what a language model is sent; ``choices`` are the answers it may give; ``data``
    is for judges that go by rule and is never sent to a model.
    """

    sample_id: str
    index: int
    prompt: str
    choices: tuple[str, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The raw reply of a judge; ``error`` says why there is none (never the model's fault)."""

    sample_id: str
    index: int
    raw: str = ""
    error: str | None = None


class Judge(ABC):
    """Answers questions; a judge plug-in ends in ``judge = ItsClass``."""

    @property
    @abstractmethod
    def name(self) -> str: ...

    @abstractmethod
    def fingerprint(self) -> Mapping[str, str]:
        """All that can change an answer: model, temperature, prompt version."""

    @abstractmethod
    def ask(self, questions: Sequence[Question]) -> Sequence[Verdict]:
        """One verdict for each question, in order."""
