"""The run: ask the model what is not answered yet, then score everything that is.

Asking and scoring are two stages with files between them, so a killed run goes on where it was and
a finished one can be scored again without the model.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from harness.errors import ConfigError, ModelError, StorageError
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
    cannot be asked at all.
    """
    for planned in plan.tasks:
        todo = unanswered(planned, store, shard)
        if not todo:
            continue
        name = f"{planned.name}/predictions.jsonl"
        if not shard.whole:
            name = f"{planned.name}/predictions.{shard.index}-of-{shard.count}.jsonl"
        with store.appender(name) as append:

            def accept(prediction: Prediction, append: Callable[..., None] = append) -> None:
                append(prediction_row(prediction))
                if progress:
                    progress.add(failed=prediction.error is not None)

            for samples in batched(todo, plan.model.chunk_size):
                requests = planned.requests(samples, gold=plan.model.needs_gold)
                ask_chunk(plan.model, requests, accept)


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
    _ask(model, requests, pending, accept)
    for request in list(pending.values()):
        reason = _ask(model, [request], pending, accept)
        if request.sample_id in pending:
            del pending[request.sample_id]
            accept(Prediction(sample_id=request.sample_id, error=reason))


def _ask(
    model: ModelAdapter, requests: Sequence[Request], pending: dict[str, Request], accept: Accept
) -> str:
    """Why requests were left over, if any were."""
    try:
        for prediction in model.predict(requests):
            request = pending.pop(prediction.sample_id, None)
            if request is None:
                raise ModelError(
                    f"the adapter {model.name} answered sample {prediction.sample_id!r}, which "
                    "it was "
                    "not asked (or answered twice); this is a fault of the adapter"
                )
            accept(_checked(prediction, request))
    except (ConfigError, ModelError, StorageError):
        raise
    except Exception as error:
        # The one place of the project that catches everything: a request may fail in any way, and
        # its error is recorded with the sample.
        log.info("%d requests of %s failed: %r", len(pending), model.name, error, exc_info=True)
        return f"{type(error).__name__}: {error}"
    return "the adapter gave no prediction for it"


def _checked(prediction: Prediction, request: Request) -> Prediction:
    """The prediction, or an error in its place if a mask is not of the picture's size."""
    if request.size is None:
        return prediction
    height, width = request.size
    for i, region in enumerate(prediction.regions):
        if region.mask is not None and region.mask.size != request.size:
            return Prediction(
                sample_id=prediction.sample_id,
                error=f"mask {i} is {region.mask.width}x{region.mask.height} (width x height), "
                "but the "
                f"picture is {width}x{height}",
                info={**prediction.info, "reply": prediction.text},
            )
    return prediction


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
        yield sample, parse_prediction(row)


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
    """The first few failed samples with their errors, for the report."""
    found: list[str] = []
    for row, _ in store.lines(f"{planned.name}/predictions.jsonl"):
        if row.get("text") is None and len(found) < most:
            found.append(f"{row.get('sample_id')}: {row.get('error')}")
    return found
