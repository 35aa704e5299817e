"""The run: ask the model what is not answered yet, then score everything that is.

Asking and scoring are two stages with files between them, so a killed run goes on where it was and
a finished one can be scored again without the model.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import islice

from harness.errors import ConfigError, DataError, ModelError, StorageError
from harness.judge import Verdict
from harness.model import ModelAdapter
from harness.plan import Plan, PlannedTask
from harness.progress import Progress
from harness.records import parse_prediction, prediction_row, score_row
from harness.store import RunStore, Shard
from harness.types import Prediction, Request, Sample, Score

log = logging.getLogger(__name__)

Accept = Callable[[Prediction], None]


def ask(plan: Plan, store: RunStore, shard: Shard, progress: Progress | None = None) -> None:
    """Answers every sample of this shard that no file of the run answers yet.

    Each answer is on disk before the next is counted. Raises ConfigError or ModelError if the model
    cannot be asked at all. The model is closed at the end, however that comes.
    """
    with closing(plan.model):
        for planned in plan.tasks:
            todo = unanswered(planned, store, shard)
            if todo:
                _ask_task(plan.model, planned, todo, store, shard, progress)


def _ask_task(
    model: ModelAdapter,
    planned: PlannedTask,
    todo: Sequence[Sample],
    store: RunStore,
    shard: Shard,
    progress: Progress | None,
) -> None:
    with store.appender(store.shard_file(planned.name, shard)) as append:

        def accept(prediction: Prediction) -> None:
            try:
                append(prediction_row(prediction))
            except (TypeError, ValueError, RecursionError) as error:
                prediction = Prediction(
                    sample_id=prediction.sample_id,
                    error=f"the adapter's prediction cannot be written as JSON: {error}",
                )
                append(prediction_row(prediction))
            if progress:
                progress.add(failed=prediction.error is not None)

        for samples in batched(todo, model.chunk_size):
            ask_chunk(model, planned.requests(samples, gold=model.needs_gold), accept)


def unanswered(planned: PlannedTask, store: RunStore, shard: Shard) -> list[Sample]:
    """The samples of a shard that have no prediction. Shards are cut before this, so that it does
    not matter when each of them starts."""
    answered = store.predictions(planned.name).keys()
    mine = planned.samples[shard.index :: shard.count]
    return [sample for sample in mine if sample.id not in answered]


def batched(samples: Sequence[Sample], size: int) -> Iterator[list[Sample]]:
    """Consecutive chunks of at most ``size`` samples."""
    rest = iter(samples)
    while chunk := list(islice(rest, max(1, size))):
        yield chunk


def ask_chunk(model: ModelAdapter, requests: Sequence[Request], accept: Accept) -> None:
    """Hands each request's prediction to ``accept``; one that fails twice gets its error.

    Whatever an exception leaves unanswered is asked again, one request at a time, so that a bad
    picture costs one sample and not its neighbours.
    """
    pending = {request.sample_id: request for request in requests}
    for prediction in _predictions(model, pending, []):
        accept(prediction)
    for sample_id, request in pending.items():
        alone, why = {sample_id: request}, ["the adapter gave no prediction for it"]
        for prediction in _predictions(model, alone, why):
            accept(prediction)
        if alone:
            accept(Prediction(sample_id=sample_id, error=why[-1]))


def _predictions(
    model: ModelAdapter, pending: dict[str, Request], why: list[str]
) -> Iterator[Prediction]:
    """Each prediction as it comes, its request taken out of ``pending``.

    If requests are left over because of an exception, its text is added to ``why``.
    """
    try:
        for prediction in model.predict(list(pending.values())):
            request = pending.get(prediction.sample_id)
            if request is None:
                raise ModelError(
                    f"the adapter {model.name} answered sample {prediction.sample_id!r}, which "
                    "it was not asked (or answered twice); this is a fault of the adapter"
                )
            checked = _checked(prediction, request)
            del pending[prediction.sample_id]
            yield checked
    except (ConfigError, ModelError, StorageError):
        raise
    except (Exception, SystemExit) as error:
        # The one place of the project that catches everything: a request may fail in any way, and
        # its error is recorded with the sample.
        log.info("%d requests of %s failed: %r", len(pending), model.name, error, exc_info=True)
        why.append(f"{type(error).__name__}: {error}")


def _checked(prediction: Prediction, request: Request) -> Prediction:
    """The prediction, or an error in its place if it could not be scored."""
    problem = _problem(prediction, request)
    if problem is None:
        return prediction
    return Prediction(
        sample_id=prediction.sample_id,
        error=problem,
        info={**prediction.info, "reply": prediction.text},
    )


def _problem(prediction: Prediction, request: Request) -> str | None:
    """What is wrong with a prediction: its text, a box, or a mask of another size."""
    if not isinstance(prediction.text, str):
        return f"its text is of type {type(prediction.text).__name__}"
    if any(r.box is not None or r.span is not None for r in prediction.regions):
        try:  # what could not be read back could never be scored
            parse_prediction(prediction_row(prediction))
        except DataError as error:
            return str(error)
    for i, region in enumerate(prediction.regions):
        if request.size and region.mask is not None and region.mask.size != request.size:
            height, width = request.size
            return (
                f"mask {i} is {region.mask.width}x{region.mask.height} (width x height), but the "
                f"picture is {width}x{height}"
            )
    return None


def answers(planned: PlannedTask, store: RunStore) -> Iterator[tuple[Sample, Prediction]]:
    """Every sample with its prediction, in order.

    All samples must be answered (raises StorageError that names the first one that is not).
    """
    name = f"{planned.name}/predictions.jsonl"
    lines = store.lines(name)
    for sample in planned.samples:
        row, _ = next(lines, ({}, b""))
        if row.get("sample_id") != sample.id:
            raise StorageError(
                f"{store.root / name} has no answer for sample {sample.id!r} where it belongs; "
                "run the same command again"
            )
        try:
            prediction = parse_prediction(row)
        except DataError as error:
            raise StorageError(
                f"{store.root / name} is damaged at sample {sample.id!r}: {error}; remove the line "
                "and run the same command again: the sample will be asked again"
            ) from None
        yield sample, prediction


def score(
    planned: PlannedTask, store: RunStore, verdicts: Mapping[str, Sequence[Verdict]]
) -> list[Score]:
    """The score of every sample in order, also written to ``scores.jsonl``."""
    scores = [
        score_one(planned, sample, prediction, verdicts.get(sample.id, ()))
        for sample, prediction in answers(planned, store)
    ]
    scores = list(planned.task.complete(scores))
    store.write_lines(f"{planned.name}/scores.jsonl", map(score_row, scores))
    return scores


def score_one(
    planned: PlannedTask, sample: Sample, prediction: Prediction, verdicts: Sequence[Verdict] = ()
) -> Score:
    """The score of one sample, with its group, cluster and flags filled in."""
    scored = planned.task.score(sample, prediction, verdicts)
    return replace(
        scored,
        group=sample.group,
        cluster=sample.resampled_as,
        flags=(*prediction.flags, *scored.flags),
        failed=prediction.error is not None,
    )


def failures(planned: PlannedTask, store: RunStore, most: int = 5) -> list[str]:
    """What went wrong, for the report: each reason, how often and where; the commonest first."""
    reasons: dict[str, list[str]] = {}
    for row, _ in store.lines(f"{planned.name}/predictions.jsonl"):
        if row.get("text") is None:
            reasons.setdefault(f"failed: {row.get('error')}", []).append(str(row.get("sample_id")))
    for row, _ in store.lines(f"{planned.name}/verdicts.jsonl"):
        if row.get("reply") is None:
            address = f"{row.get('sample_id')} question {row.get('question_index')}"
            reasons.setdefault(f"judge failed: {row.get('error')}", []).append(address)
    commonest = sorted(reasons.items(), key=lambda item: -len(item[1]))
    lines = [f"{len(ids)} x {reason} ({some(ids)})" for reason, ids in commonest[:most]]
    if len(commonest) > most:
        lines.append(f"and {len(commonest) - most} other reasons in {store.root / planned.name}")
    return lines


COUNTED = ("prompt_tokens", "completion_tokens", "attempts", "cost")


def usage(planned: PlannedTask, store: RunStore) -> dict[str, float]:
    """What asking took, over answers and verdicts: tokens, tries, cost; {} if nobody told."""
    total: dict[str, float] = {}
    for name in ("predictions", "verdicts"):
        for row, _ in store.lines(f"{planned.name}/{name}.jsonl"):
            info = row.get("info")
            if not isinstance(info, dict):
                if name == "predictions":
                    break  # an adapter that does not count; spare the reading
                continue
            for key in COUNTED:
                if isinstance(info.get(key), int | float):
                    total[key] = total.get(key, 0) + info[key]
    return {key: round(value, 9) for key, value in total.items()}


def some(ids: Sequence[str], most: int = 3) -> str:
    """The first few ids, and how many more there are."""
    more = f" and {len(ids) - most} more" if len(ids) > most else ""
    return f"{', '.join(ids[:most])}{more}"
