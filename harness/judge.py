"""The contract of a judge: it answers the questions that a task asks about a prediction.

Questions and verdicts are stored, so that a run can be scored again without the judge. Write a
frozen dataclass whose fields are the user's options (``--set judge.<field>=...``) and end the
module with ``judge = ItsClass``.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A piece of a question to a judge that sees: a text, or a picture file's bytes."""

    text: str = ""
    picture: bytes | None = None
    mime: str = "image/png"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One thing to ask a judge about one sample.

    ``prompt`` is what a language model is sent; where ``parts`` are given they are sent instead
    (texts and pictures in order) and ``prompt`` is the instruction among them. Parts may be drawn
    only when they are looked at: a judge that needs no picture opens none. ``choices`` are the
    answers it may give; ``max_tokens`` bounds the reply. ``data`` is for judges that go by rule and
    is never sent to a model.
    """

    sample_id: str
    index: int
    prompt: str
    parts: Sequence[Part] = ()
    choices: tuple[str, ...] = ()
    max_tokens: int = 300
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The raw reply of a judge; ``error`` says why there is none (never the model's fault).

    ``info`` is what else is worth keeping: the model that answered, token counts, cost.
    """

    sample_id: str
    index: int
    raw: str = ""
    error: str | None = None
    info: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What asking would take: calls, tokens, and the price where the judge knows it."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None


class Judge(ABC):
    """Answers questions."""

    chunk_size: ClassVar[int] = 256
    """How many questions ``ask`` is handed at a time."""

    cacheable: ClassVar[bool] = True
    """Whether equal questions have equal answers, so that one verdict serves all of them.

    False for a judge that goes by the sample's id (a recorded one).
    """

    operational: ClassVar[tuple[str, ...]] = ()
    """Options that cannot change an answer (time-outs, prices): a run may go on with others."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What the tables call it."""

    @abstractmethod
    def fingerprint(self) -> Mapping[str, str]:
        """All that can change an answer: model, temperature, endpoint. Part of each cache key."""

    @abstractmethod
    def ask(self, questions: Sequence[Question]) -> Iterable[Verdict]:
        """One verdict for each question, in any order, each as soon as it is known.

        A reply that cannot be had is a verdict with an ``error``. Raises JudgeError or ConfigError
        if nothing can be asked at all.
        """

    def check(self) -> None:  # noqa: B027 (most judges have nothing to check)
        """Raises ConfigError or DataError if it cannot be asked (no key, no file).

        Called before the model is asked, so that nobody waits for answers that cannot be judged.
        """

    def estimate(self, questions: Sequence[Question]) -> Estimate:
        """What asking these would take; by default one call each, at no price."""
        return Estimate(calls=len(questions))

    def close(self) -> None:  # noqa: B027 (most judges hold nothing)
        """Frees what it holds."""
