"""The judge's part of a run: which questions are open, what was answered before, what it costs.

A verdict is found again by a key over everything that can change it: the judge's fingerprint and
all that the question says. So an edited caption is judged anew, and an unedited one never twice,
within a run or across the runs that share a cache.
"""

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import ConfigError, DataError, JudgeError
from harness.files import parse_json
from harness.judge import Estimate, Judge, Question, Verdict
from harness.plan import PlannedTask
from harness.progress import Progress
from harness.runner import answers
from harness.store import RunStore

Verdicts = Mapping[str, Sequence[Verdict]]
"""The verdicts of each sample, in the order of its questions."""


@dataclass(frozen=True)
class Budget:
    """What judging may take; checked before the first call."""

    calls: int | None = None
    cost: float | None = None


NO_LIMIT = Budget()


def question_key(judge: Judge, question: Question) -> str:
    """The cache key of a question: a hash over the judge and all that it is shown.

    A judge that goes by the sample's id is shown nothing, so no picture is opened for it.
    """
    shown = [
        [part.text, hashlib.sha256(part.picture).hexdigest() if part.picture else ""]
        for part in (question.parts if judge.cacheable else ())
    ]
    address = None if judge.cacheable else [question.sample_id, question.index]
    everything = [
        dict(judge.fingerprint()),
        question.prompt,
        shown,
        list(question.choices),
        question.max_tokens,
        dict(question.data),
        address,
    ]
    text = json.dumps(everything, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def questions(planned: PlannedTask, store: RunStore) -> Iterator[Question]:
    """The questions about every answered sample, in order. A failed request has none."""
    for sample, prediction in answers(planned, store):
        if prediction.error is None:
            yield from planned.task.questions(sample, prediction)


class Cache:
    """Verdicts that outlive a run, by key, in one SQLite file; None keeps nothing.

    Raises ConfigError if the file cannot be used.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.connection: sqlite3.Connection | None = None

    def get(self, key: str) -> dict[str, Any] | None:
        """The stored verdict line, or None."""
        with self._open() as connection:
            if connection is None:
                return None
            query = "SELECT line FROM verdicts WHERE key = ?"
            found = connection.execute(query, (key,)).fetchone()
            line = found[0] if found else None
            return sound_line(parse_json(line)) if isinstance(line, str | bytes) else None

    def keep(self, lines: Mapping[str, Mapping[str, Any]]) -> None:
        """Keeps verdict lines by key, all at once; one that is there stays."""
        rows = [(key, json.dumps(line)) for key, line in lines.items() if line["reply"] is not None]
        with self._open() as connection:
            if connection is not None:
                with connection:
                    connection.executemany("INSERT OR IGNORE INTO verdicts VALUES (?, ?)", rows)

    def close(self) -> None:
        """Closes the file."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection | None]:
        try:
            if self.connection is None and self.path is not None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self.connection = sqlite3.connect(self.path, timeout=20)
                self.connection.execute(
                    "CREATE TABLE IF NOT EXISTS verdicts (key TEXT PRIMARY KEY, line TEXT)"
                )
            yield self.connection
        except (OSError, sqlite3.Error, DataError) as error:
            raise ConfigError(
                f"the verdict cache {self.path} cannot be used ({error}); if no other run is using "
                "it, remove the file, or name another with --judge-cache FILE"
            ) from None


def verdict_row(judge: Judge, question: Question, verdict: Verdict, key: str) -> dict[str, Any]:
    """The line of a verdict: the question, the judge, the raw reply."""
    row: dict[str, Any] = {
        "sample_id": verdict.sample_id, "question_index": verdict.index, "prompt": question.prompt,
        "reply": None if verdict.error is not None else verdict.raw, "key": key,
        "judge": {"name": judge.name, **judge.fingerprint()},
    }  # fmt: skip
    if question.choices:
        row["choices"] = list(question.choices)
    if verdict.error is not None:
        row["error"] = verdict.error
    if verdict.info:
        row["info"] = dict(verdict.info)
    return row


def parse_verdict(row: Mapping[str, Any]) -> Verdict:
    """The verdict of a line that the harness wrote."""
    return Verdict(
        sample_id=row["sample_id"], index=row["question_index"], raw=row["reply"] or "",
        error=row.get("error"), info=row.get("info", {}),
    )  # fmt: skip


def known_verdicts(planned: PlannedTask, store: RunStore) -> dict[str, dict[str, Any]]:
    """The verdict lines of a run by key; failed ones are left out, so that they are asked again."""
    lines = store.lines(f"{planned.name}/verdicts.jsonl")
    return {row["key"]: row for line, _ in lines if (row := sound_line(line)) is not None}


def sound_line(row: object) -> dict[str, Any] | None:
    """A stored verdict line that can be used; None for one without a reply, or not of our form."""
    if not isinstance(row, dict):
        return None
    texts = (row.get("key"), row.get("prompt"), row.get("reply"), row.get("sample_id"))
    return row if all(isinstance(text, str) for text in texts) else None


def judge_all(
    planned: PlannedTask,
    store: RunStore,
    judge: Judge,
    cache: Cache,
    budget: Budget,
    progress: Progress,
) -> dict[str, list[Verdict]]:
    """A verdict for every question of a task, by sample: from the run, the cache, or the judge.

    Each verdict is on disk before the next is counted. Raises ConfigError if the open questions are
    beyond the budget, before the first call.
    """
    cache = cache if judge.cacheable else Cache(None)
    known = known_verdicts(planned, store)
    todo = open_questions(judge, questions(planned, store), known, cache)
    check_budget(judge.estimate(todo), budget, planned.name)
    progress.total += len(todo)
    try:
        _ask_open(planned, store, judge, todo, known, budget, progress)
    finally:
        cache.keep(known)
    found: dict[str, list[Verdict]] = {}
    lines = []
    for question in questions(planned, store):
        row = _line(judge, question, known, cache)
        lines.append(row)
        found.setdefault(question.sample_id, []).append(parse_verdict(row))
    store.write_lines(f"{planned.name}/verdicts.jsonl", lines)
    return found


def _ask_open(
    planned: PlannedTask,
    store: RunStore,
    judge: Judge,
    todo: Sequence[Question],
    known: dict[str, dict[str, Any]],
    budget: Budget,
    progress: Progress,
) -> None:
    """Asks the open questions; adds the line of each verdict to ``known`` once it is on disk.

    Raises ConfigError as soon as the verdicts have cost more than the budget.
    """
    spent = 0.0
    with store.appender(f"{planned.name}/verdicts.jsonl") as append:
        for start in range(0, len(todo), judge.chunk_size):
            chunk = {(q.sample_id, q.index): q for q in todo[start : start + judge.chunk_size]}
            for verdict in _ask(judge, chunk):
                question = chunk[verdict.sample_id, verdict.index]
                key = question_key(judge, question)
                known[key] = verdict_row(judge, question, verdict, key)
                append(known[key])
                progress.add(failed=verdict.error is not None)
                spent += float(verdict.info.get("cost", 0.0))
                if budget.cost is not None and spent > budget.cost:
                    raise ConfigError(
                        f"judging {planned.name} has cost {spent:.4f}, more than --max-judge-cost "
                        f"{budget.cost:.4f}; its verdicts are saved: raise the limit and run the "
                        "same command again"
                    )


def check_budget(estimate: Estimate, budget: Budget, task: str) -> None:
    """Raises ConfigError if an estimate is beyond the budget."""
    if budget.calls is not None and estimate.calls > budget.calls:
        raise ConfigError(
            f"judging {task} takes {estimate.calls} calls, more than --max-judge-calls "
            f"{budget.calls}; nothing was asked"
        )
    if budget.cost is not None and estimate.cost is not None and estimate.cost > budget.cost:
        raise ConfigError(
            f"judging {task} is estimated to cost {estimate.cost:.2f}, more than --max-judge-cost "
            f"{budget.cost:.2f}; nothing was asked"
        )


def open_questions(
    judge: Judge, asked: Iterable[Question], known: Mapping[str, dict[str, Any]], cache: Cache
) -> list[Question]:
    """The questions that neither the run nor the cache answers, equal ones once."""
    todo: dict[str, Question] = {}
    for question in asked:
        key = question_key(judge, question)
        if key not in todo and _stored(key, question, known, cache) is None:
            todo[key] = question
    return list(todo.values())


def _stored(
    key: str, question: Question, known: Mapping[str, dict[str, Any]], cache: Cache
) -> dict[str, Any] | None:
    """The verdict line of a question; one that holds another prompt is not believed."""
    row = known.get(key) or cache.get(key)
    return row if row is not None and row["prompt"] == question.prompt else None


def _line(
    judge: Judge, question: Question, known: Mapping[str, dict[str, Any]], cache: Cache
) -> dict[str, Any]:
    """The verdict line of a question, re-addressed: equal questions of two samples share one."""
    key = question_key(judge, question)
    row = _stored(key, question, known, cache)
    if row is None:
        raise JudgeError(
            f"there is no verdict for question {question.index} of {question.sample_id!r}"
        )
    return {**row, "sample_id": question.sample_id, "question_index": question.index}


def _ask(judge: Judge, chunk: Mapping[tuple[str, int], Question]) -> Iterator[Verdict]:
    """The verdict of each question; one that the judge leaves out or answers twice is its error."""
    pending = dict(chunk)
    for verdict in judge.ask(list(chunk.values())):
        if pending.pop((verdict.sample_id, verdict.index), None) is None:
            raise JudgeError(
                f"the judge {judge.name} answered question {verdict.index} of sample "
                f"{verdict.sample_id!r}, which it was not asked (or answered twice); this is its "
                "fault"
            )
        yield verdict
    for sample_id, index in pending:
        yield Verdict(sample_id=sample_id, index=index, error="the judge gave no verdict for it")
