"""What an eval would take, before anything is asked: samples, requests, judge calls, tokens."""

from collections.abc import Iterator, Mapping
from typing import Any

from harness.evaluate import Settings, cache_for
from harness.files import parse_json
from harness.judge import Question
from harness.judging import Cache, known_verdicts, open_questions
from harness.plan import Plan, PlannedTask, RunSpec, default_folder
from harness.records import parse_prediction
from harness.store import RunStore
from harness.types import Prediction

CHARACTERS_PER_TOKEN = 4
"""A rough count for English; pictures are not counted, since each model cuts them its own way."""


def dry_run(spec: RunSpec, settings: Settings) -> dict[str, Any]:
    """``{run, tasks: {task: {samples, answered, requests, prompt_tokens, judge}}}``.

    Reads data and what the run folder holds; asks nobody and writes nothing. The questions about a
    sample that is not answered yet are counted for an empty answer.
    """
    plan = Plan.build(spec)
    store = RunStore(settings.folder or default_folder(plan.record()))
    cache = cache_for(store, settings)
    cache = cache if cache.path is not None and cache.path.exists() else Cache(None)
    try:
        tasks = {planned.name: _task(planned, store, cache) for planned in plan.tasks}
    finally:
        cache.close()
    return {"schema": 1, "run": str(store.root), "model": plan.model.name, "tasks": tasks}


def _task(planned: PlannedTask, store: RunStore, cache: Cache) -> dict[str, Any]:
    answered = store.predictions(planned.name)
    todo = [sample for sample in planned.samples if sample.id not in answered]
    requests = planned.requests(todo)
    return {
        "samples": len(planned.samples),
        "answered": len(planned.samples) - len(todo),
        "requests": len(todo),
        "prompt_tokens": sum(len(r.prompt) for r in requests) // CHARACTERS_PER_TOKEN,
        "max_new_tokens": sum(r.max_new_tokens for r in requests),
        "judge": _judge(planned, store, cache, answered) if planned.judge else None,
    }


def _judge(
    planned: PlannedTask, store: RunStore, cache: Cache, answered: Mapping[str, bytes]
) -> dict[str, Any]:
    assert planned.judge is not None
    questions = list(_questions(planned, answered))
    known = known_verdicts(planned, store)
    todo = open_questions(planned.judge, questions, known, cache)
    estimate = planned.judge.estimate(todo)
    return {
        "name": planned.judge.name,
        "questions": len(questions),
        "known": len(questions) - len(todo),
        "calls": estimate.calls,
        "prompt_tokens": estimate.prompt_tokens,
        "completion_tokens": estimate.completion_tokens,
        "cost": estimate.cost,
    }


def _questions(planned: PlannedTask, answered: Mapping[str, bytes]) -> Iterator[Question]:
    for sample in planned.samples:
        prediction = Prediction(sample_id=sample.id)
        if sample.id in answered:
            prediction = parse_prediction(parse_json(answered[sample.id]))
        if prediction.error is None:
            yield from planned.task.questions(sample, prediction)


def render(plan: Mapping[str, Any]) -> str:
    """The plan as text."""
    lines = [f"{plan['model']}    run folder: {plan['run']}    (dry run: nothing was asked)"]
    for name, task in plan["tasks"].items():
        lines.append(
            f"{name}: {task['samples']} samples, {task['answered']} answered; {task['requests']} "
            f"requests with about {task['prompt_tokens']} tokens of text (without pictures) and "
            f"at most {task['max_new_tokens']} new tokens"
        )
        if judge := task["judge"]:
            cost = (
                "" if judge["cost"] is None else f", about {judge['cost']:.2f} at the given prices"
            )
            lines.append(
                f"  judge {judge['name']}: {judge['questions']} questions, {judge['known']} known; "
                f"{judge['calls']} calls with about {judge['prompt_tokens']} tokens in and at most "
                f"{judge['completion_tokens']} out{cost}"
            )
    return "\n".join(lines)
