"""A language model behind an OpenAI-compatible endpoint as judge, with or without sight.

Needs ``pip install 'region-harness[openai]'``. A model of your own is served and stopped around a
command by ``harness judge serve --model DIR -- harness eval ...``.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from harness.chat.client import ChatClient, NoAnswer
from harness.chat.pictures import data_url
from harness.errors import DataError, HarnessError, JudgeError
from harness.judge import Estimate, Judge, Question, Verdict

CHARACTERS_PER_TOKEN = 4  # for estimates only
TOKENS_PER_PICTURE = 1000  # likewise; each model cuts pictures its own way


@dataclass(frozen=True)
class OpenAIChatJudge(ChatClient, Judge):
    top_p: float | None = 1.0
    """The share of probability to sample from."""
    max_concurrency: int = 32
    """The most requests at a time; fewer while the server says that it is busy."""

    chunk_size: ClassVar[int] = 1024

    @property
    def name(self) -> str:
        return f"openai-chat:{self.model}"

    def fingerprint(self) -> Mapping[str, str]:
        """All that can change an answer; neither the key nor credentials in the address."""
        return {"judge": "openai-chat", **self.chat_fingerprint()}

    def check(self) -> None:
        _ = self._connection.client

    def ask(self, questions: Sequence[Question]) -> Iterator[Verdict]:
        """One verdict a question, as the answers arrive; JudgeError if the server refuses."""
        return self.send_all(questions, self._verdict)

    def estimate(self, questions: Sequence[Question]) -> Estimate:
        """Calls and tokens, roughly; the price if ``price_in`` or ``price_out`` is given."""
        asked = sum(_tokens(question) for question in questions)
        replied = sum(question.max_tokens for question in questions)
        return Estimate(
            calls=len(questions), prompt_tokens=asked, completion_tokens=replied,
            cost=self.cost(asked, replied),
        )  # fmt: skip

    @property
    def _where(self) -> str:
        return "judge"

    def _refused(self, message: str, advice: str) -> HarnessError:
        return JudgeError(self._refusal(message, advice))

    def _verdict(self, question: Question, stop: threading.Event) -> Verdict:
        empty = Verdict(sample_id=question.sample_id, index=question.index)
        key = f"{question.sample_id}/{question.index}"
        try:
            body = self.body(_content(question), question.max_tokens)
            answer, tries = self.send(body, key, stop)
        except NoAnswer as error:
            return replace(empty, error=str(error), info={"attempts": error.tries})
        except DataError as error:
            return replace(empty, error=str(error))
        return replace(empty, raw=answer.text, info=self.usage(answer, tries))


def _content(question: Question) -> str | list[dict[str, Any]]:
    """The message: the prompt, or the parts in order where there are pictures to see."""
    if not question.parts:
        return question.prompt
    return [
        {"type": "text", "text": part.text}
        if part.picture is None
        else {"type": "image_url", "image_url": {"url": data_url(part.picture, part.mime)}}
        for part in question.parts
    ]


def _tokens(question: Question) -> int:
    pictures = len(question.parts) // 2  # texts and pictures take turns
    return len(question.prompt) // CHARACTERS_PER_TOKEN + pictures * TOKENS_PER_PICTURE


judge = OpenAIChatJudge
