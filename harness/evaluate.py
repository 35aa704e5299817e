"""The verbs that make results: evaluate, merge, rescore."""

import dataclasses
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from harness import registry
from harness.errors import ConfigError, StorageError
from harness.judging import NO_LIMIT, Budget, Cache, Verdicts, judge_all
from harness.plan import Plan, PlannedTask, RunSpec, default_folder
from harness.progress import Progress
from harness.provenance import environment, without_credentials
from harness.results import run_result, task_result, unreadable_notes
from harness.runner import ask, failures, score, unanswered, usage
from harness.shards import ask_in_processes
from harness.store import RunStore, Shard, first_difference, identity


@dataclass(frozen=True)
class EvalOptions:
    """What stands under ``[eval]`` in a file of options; the command line has a flag for each."""

    model: str = ""
    tasks: tuple[str, ...] = ()
    limit: Annotated[int, Field(gt=0)] | None = None
    shards: Annotated[int, Field(gt=0, le=4096)] = 1
    shard: str = ""
    run: Path | None = None
    max_errors: Annotated[float, Field(ge=0, le=1)] = 0.01
    judge: str = ""
    max_judge_calls: Annotated[int, Field(ge=0)] | None = None
    max_judge_cost: Annotated[float, Field(ge=0)] | None = None
    judge_cache: Path | None = None


@dataclass(frozen=True)
class Settings:
    """How to work on a run; none of it changes an answer."""

    folder: Path | None = None
    shards: int = 1
    shard: Shard | None = None
    max_errors: float = 0.01
    retry_failed: bool = False
    predict_only: bool = False
    budget: Budget = NO_LIMIT
    judge_cache: Path | None = None
    quiet: bool = False


@dataclass(frozen=True)
class Outcome:
    """What a verb did: the result object, and the failed requests worth showing."""

    result: Mapping[str, Any]
    failures: Mapping[str, Sequence[str]]

    @property
    def too_many_errors(self) -> bool:
        """Whether some task has no numbers because too many requests failed."""
        return any(task.get("above_max_errors") for task in self.result["tasks"].values())


def evaluate(spec: RunSpec, settings: Settings) -> Outcome:
    """Answers and scores a run, or takes it up where it was; a finished one is scored again.

    With ``settings.shard`` it only answers that shard; ``merge`` makes the result.
    """
    plan = Plan.build(spec)
    record = plan.record()
    store = RunStore(settings.folder or default_folder(record))
    _notes(plan)
    if not settings.predict_only and settings.shard is None:
        require_judges(plan)
    with store.locked(settings.shard):
        store.begin(record)
        _log_session(store, settings)
        if settings.shard is not None:
            return _ask_shard(plan, store, settings.shard, settings)
        for planned in plan.tasks:
            store.settle(planned.name, planned.ids, drop_failed=settings.retry_failed)
        progress = _progress(plan, store, Shard(), settings)
        if progress.done < progress.total:
            store.discard("result.json")  # of answers that are asked again, if it is there
        processes = min(settings.shards, progress.total - progress.done)
        if processes > 1:
            ask_in_processes(spec, store.root, processes, progress)
        else:
            ask(plan, store, Shard(), progress)
        progress.close()
        if settings.predict_only:
            return _predicted(plan, store, Shard())
        return finish(plan, store, settings)


def finish(plan: Plan, store: RunStore, settings: Settings) -> Outcome:
    """Scores a run whose samples are all answered, and writes its result.

    Raises StorageError if samples are missing or foreign: no number is made of a part.
    """
    results, failed = {}, {}
    for planned in plan.tasks:
        missing = store.settle(planned.name, planned.ids)
        if missing:
            raise StorageError(
                f"{store.root}: {len(missing)} of {len(planned.samples)} samples of "
                f"{planned.name} have no answer yet, {missing[0]!r} first; run the missing "
                "shards, then merge"
            )
        verdicts = _judge(planned, store, settings)
        scores = score(planned, store, verdicts)
        results[planned.name] = task_result(plan, planned, scores, verdicts, settings.max_errors)
        results[planned.name]["usage"] = usage(planned, store)
        if results[planned.name]["errors"] or results[planned.name]["judge_errors"]:
            failed[planned.name] = failures(planned, store)
    result = run_result(store, results, [*_notes(plan), *unreadable_notes(results)])
    store.write_json("result.json", result)
    return Outcome(result, failed)


def cache_for(store: RunStore, settings: Settings) -> Cache:
    """The verdict cache of a run: the one named, or the one that runs in one folder share."""
    return Cache(settings.judge_cache or store.root.parent / ".verdicts.sqlite")


def require_judges(plan: Plan) -> None:
    """Raises ConfigError for a task whose judge is missing or cannot be asked, before all else."""
    for planned in plan.tasks:
        if planned.judge is not None:
            planned.judge.check()
        if planned.task.needs_judge and planned.judge is None:
            raise ConfigError(
                f"{planned.name} needs a judge: name one with --judge (known: "
                f"{', '.join(registry.judges.names()) or 'none'}), or answer now with "
                "--predict-only and judge later with `harness rescore RUN --judge J`"
            )


def _judge(planned: PlannedTask, store: RunStore, settings: Settings) -> Verdicts:
    """The verdicts of a task's judge; none for a task that needs none."""
    if planned.judge is None:
        return {}
    cache = cache_for(store, settings)
    label = f"{planned.name} judged by {planned.judge.name}"
    progress = Progress(label, 0, quiet=settings.quiet)
    try:
        return judge_all(planned, store, planned.judge, cache, settings.budget, progress)
    finally:
        progress.close()
        cache.close()
        planned.judge.close()


def merge(folders: Sequence[Path], settings: Settings) -> Outcome:
    """Joins shards, each in a folder of its own or all in one, and scores the whole.

    Refuses folders of different runs, and missing, duplicate or foreign samples.
    """
    stores = [RunStore.existing(folder) for folder in folders]
    record = stores[0].record()
    for store in stores[1:]:
        difference = first_difference(identity(record), identity(store.record()))
        if difference:
            path, one, other = difference
            raise ConfigError(
                f"{store.root} is not a shard of the run in {stores[0].root}: {path} is "
                f"{other!r:.200}, there {one!r:.200}; merge shards of one run only"
            )
    if len(stores) > 1 and settings.folder is None:
        raise ConfigError("merging several folders needs a new one for the whole: --run DIR")
    plan = Plan.build(RunSpec.from_record(record), record)
    _same(record, plan.record(), stores[0].root)
    require_judges(plan)
    target = RunStore(settings.folder or folders[0])
    with target.locked():
        target.begin(record)
        _log_session(target, settings)
        if settings.folder is not None:
            _join(plan, stores, target)
        return finish(plan, target, settings)


def _join(plan: Plan, stores: Sequence[RunStore], target: RunStore) -> None:
    """Copies the predictions of several folders into one; a second answer is a StorageError."""
    for planned in plan.tasks:
        origin: dict[str, Path] = {}
        lines: list[bytes] = []
        for store in stores:
            for sample_id, line in store.predictions(planned.name).items():
                if sample_id in origin:
                    raise StorageError(
                        f"sample {sample_id!r} of {planned.name} is answered in "
                        f"{origin[sample_id]} and in {store.root}; merge each shard once"
                    )
                origin[sample_id] = store.root
                lines.append(line)
        target.put_predictions(planned.name, lines)


def rescore(
    folder: Path,
    task_options: Mapping[str, Mapping[str, Any]],
    judges: Mapping[str, Mapping[str, Any]],
    settings: Settings,
) -> Outcome:
    """Scores the stored answers of a run again, without its model.

    With other task options or other judges (by task) the result goes to a new folder, ``--run`` or
    one beside the old, so that the old result stays.
    """
    old = RunStore.existing(folder)
    old_record = old.record()
    spec = RunSpec.from_record(old_record)
    for name in task_options:
        if name not in spec.tasks:
            raise ConfigError(f"{folder} has no task {name!r}; it has {', '.join(spec.tasks)}")
    tasks = {
        name: {**options, **task_options.get(name, {})} for name, options in spec.tasks.items()
    }
    spec = dataclasses.replace(spec, tasks=tasks, judges={**spec.judges, **judges})
    plan = Plan.build(spec, old_record)
    record = plan.record()
    require_judges(plan)
    for name, task in record["tasks"].items():
        _same_requests(name, old_record["tasks"][name], task, folder)
    changed = identity(record) != identity(old_record)
    target = RunStore(
        settings.folder or (default_folder(record, folder.parent) if changed else folder)
    )
    with target.locked():
        target.begin(record)
        _log_session(target, settings)
        if target.root.resolve() != old.root.resolve():
            for planned in plan.tasks:
                target.put_predictions(planned.name, old.predictions(planned.name).values())
        return finish(plan, target, settings)


def tasks_of(folder: Path) -> list[str]:
    """The tasks of a run folder."""
    return list(RunStore.existing(folder).record()["tasks"])


def _same_requests(name: str, old: Mapping[str, Any], new: Mapping[str, Any], folder: Path) -> None:
    for key, what in (("samples", "other samples"), ("prompts", "other prompts")):
        if old[key] != new[key]:
            raise ConfigError(
                f"{folder}: with these options {name} asks {what} than the stored answers are for; "
                "run `harness eval` instead"
            )


def _same(old: Mapping[str, Any], new: Mapping[str, Any], folder: Path) -> None:
    difference = first_difference(identity(old), identity(new))
    if difference:
        path, then, now = difference
        raise ConfigError(
            f"{folder} was made with {path} = {then!r:.200}, which is now {now!r:.200}; the files "
            "have changed since, so the answers do not fit them"
        )


def _ask_shard(plan: Plan, store: RunStore, shard: Shard, settings: Settings) -> Outcome:
    if settings.retry_failed:
        for planned in plan.tasks:
            store.forget_failed(store.shard_file(planned.name, shard))
    progress = _progress(plan, store, shard, settings)
    ask(plan, store, shard, progress)
    progress.close()
    return _predicted(plan, store, shard)


def _predicted(plan: Plan, store: RunStore, shard: Shard) -> Outcome:
    """What there is to say of answers that are not scored yet."""
    tasks = {
        p.name: {"n": len(p.samples[shard.index :: shard.count]), "of": len(p.samples)}
        for p in plan.tasks
    }
    result = {
        "schema": 1, "run": str(store.root), "model": store.record()["model"],
        "shard": str(shard), "tasks": tasks, "notes": [],
    }  # fmt: skip
    return Outcome(result, {})


def _progress(plan: Plan, store: RunStore, shard: Shard, settings: Settings) -> Progress:
    total = sum(len(p.samples[shard.index :: shard.count]) for p in plan.tasks)
    left = sum(len(unanswered(p, store, shard)) for p in plan.tasks)
    return Progress(plan.model.name, total, total - left, quiet=settings.quiet)


def _notes(plan: Plan) -> list[str]:
    wanted = {sample.id for planned in plan.tasks for sample in planned.samples}
    skipped = {i for planned in plan.tasks for i in planned.task.skipped()}
    return list(plan.model.notes(wanted, skipped))


def _log_session(store: RunStore, settings: Settings) -> None:
    """One line for each time that somebody works on a run: when, with what, how called."""
    with store.appender("sessions.jsonl") as append:
        append(
            {
                "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "command": without_credentials(sys.argv[1:]),
                "shard": str(settings.shard or Shard()),
                "made_by": environment(),
            }
        )
