"""Verdicts from a file: what any judge once replied is scored again without it.

Each line of the JSONL file holds the reply to one question, or the replies to all of a sample:

    {"sample_id": "7", "question_index": 1, "reply": "A. Yes", "prompt": "..."}
    {"sample_id": "7", "replies": ["A. Yes", "B. ..."]}

``question_index`` is 0 when it is absent. A question is found by its sample and index, since equal
prompts can have unequal replies. Where the line has a ``prompt`` it must be the one that is asked:
a reply to other words is no verdict. Such a line, a ``reply: null`` and a question without a line
are errors of the judge. A ``verdicts.jsonl`` out of a run folder has this form.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from harness.errors import ConfigError, DataError
from harness.files import read_jsonl, sha256
from harness.judge import Judge, Question, Verdict

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Reply:
    """What a line says about one question; ``text`` None: there was no reply, and ``error`` why."""

    text: str | None
    prompt: str | None
    error: str


@dataclass(frozen=True)
class Recorded(Judge):
    path: tuple[Path, ...]
    """The file, or several separated by commas. One file may hold several tasks."""
    label: str = ""
    """What the tables call it (the judge that was recorded); by default the file's name."""

    cacheable: ClassVar[bool] = False

    @property
    def name(self) -> str:
        return self.label or f"recorded:{self.path[0].name if self.path else ''}"

    def fingerprint(self) -> Mapping[str, str]:
        return self._fingerprint

    def check(self) -> None:
        _ = self._replies

    def ask(self, questions: Sequence[Question]) -> Iterable[Verdict]:
        return map(self._answer, questions)

    @cached_property
    def _fingerprint(self) -> Mapping[str, str]:
        """The files' hashes, once: part of the key of every question."""
        if not self.path:
            raise ConfigError("judge.path must name a file of replies: --set judge.path=FILE.jsonl")
        return {f"sha256/{i}": sha256(path) for i, path in enumerate(self.path)}

    @cached_property
    def _replies(self) -> Mapping[Address, Reply]:
        """Every reply by its address; raises DataError with the line that is broken or repeated."""
        found: dict[Address, Reply] = {}
        for path in self.path:
            for number, row in read_jsonl(path):
                where = f"{path} line {number}"
                for address, reply in _read(row, where):
                    if address in found:
                        raise DataError(
                            f"{where}: question {address[1]} of sample {address[0]!r} is answered "
                            "a second time; keep one"
                        )
                    found[address] = reply
        return found

    def _answer(self, question: Question) -> Verdict:
        reply = self._replies.get((question.sample_id, question.index))
        error = _problem(reply, question)
        raw = "" if reply is None or error is not None else (reply.text or "")
        return Verdict(sample_id=question.sample_id, index=question.index, raw=raw, error=error)


def _problem(reply: Reply | None, question: Question) -> str | None:
    """Why a recorded reply is no verdict on a question."""
    if reply is None:
        return "the file has no reply to this question"
    if reply.text is None:
        return reply.error
    if reply.prompt is not None and reply.prompt != question.prompt:
        return (
            "the recorded reply is to another prompt than the one asked now (they differ from "
            f"character {_common(reply.prompt, question.prompt)} on)"
        )
    return None


def _common(a: str, b: str) -> int:
    """How many characters two texts share at their beginning."""
    pairs = enumerate(zip(a, b, strict=False))
    return next((i for i, (x, y) in pairs if x != y), min(len(a), len(b)))


def _read(row: Mapping[str, Any], where: str) -> Iterable[tuple[Address, Reply]]:
    """The replies of one line with their addresses; raises DataError that says where and what."""
    sample_id, index = row.get("sample_id"), row.get("question_index", 0)
    if type(sample_id) is int:
        sample_id = str(sample_id)
    if not isinstance(sample_id, str):
        raise DataError(f"{where}: sample_id must be text, not {sample_id!r:.80}")
    if type(index) is not int or index < 0:
        raise DataError(f"{where}: question_index must be 0 or more, not {index!r:.80}")
    prompt = row.get("prompt")
    if prompt is not None and not isinstance(prompt, str):
        raise DataError(f"{where}: prompt must be text, not {type(prompt).__name__}")
    if ("reply" in row) == ("replies" in row):
        raise DataError(f"{where}: it must have either reply or replies")
    texts = [row["reply"]] if "reply" in row else row["replies"]
    if not isinstance(texts, list) or not all(isinstance(t, str | None) for t in texts):
        raise DataError(f"{where}: a reply must be text or null, and replies a list of them")
    error = str(row.get("error") or "the file records no reply (it is null)")
    start = index if "reply" in row else 0
    return [((sample_id, start + i), Reply(t, prompt, error)) for i, t in enumerate(texts)]


judge = Recorded
