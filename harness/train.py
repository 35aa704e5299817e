"""`harness train`: runs a trainer stage by stage, and scores each checkpoint against the registry.

    train.json          what was asked: trainer, options, fingerprints, what is scored
    events.jsonl        one line an event: steps, checkpoints, scores, what went wrong
    scores.jsonl        one line a checkpoint, task and metric
    <stage>/            the trainer's own files; stage.json once it is finished
    evals/<stage>-<step>/   the run folder of each evaluation
    best.json, best     the best checkpoint so far by the metric that was named

A killed run goes on where it was: finished stages are not run again, steps are logged once, and
what was scored is not scored again. The loop knows nothing of any algorithm.
"""

import contextlib
import dataclasses
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from harness import registry
from harness.errors import ConfigError, ModelError, StorageError
from harness.files import storage_error
from harness.plan import expand_tasks, resolved
from harness.progress import Progress
from harness.provenance import environment, short_hash
from harness.stage_scores import Best, Scored, Scoring, broken_gate, check_metrics, score
from harness.store import RunStore
from harness.trackers import Tracker, open_trackers
from harness.training import Checkpoint, CheckpointSaved, Stage, StepLogged, Trainer

SCHEMA = 1


@dataclass(frozen=True)
class TrainOptions:
    """What stands under ``[train]`` in a file of options."""

    run: Path | None = None
    """The run folder."""
    score_on: tuple[str, ...] = ()
    """Tasks (or groups of them) that the checkpoint of each stage is scored on."""
    best: str = ""
    """``task.metric`` that picks the best checkpoint; larger is better."""
    stop_below: Mapping[str, float] = field(default_factory=dict)
    """Bounds by ``task.metric``: a checkpoint below one stops the run (exit code 3)."""
    limit: Annotated[int, Field(gt=0)] | None = None
    """Only so many samples of each task."""
    max_errors: Annotated[float, Field(ge=0, le=1)] = 0.01
    """As for ``harness eval``."""
    trackers: tuple[str, ...] = ()
    """``tensorboard``, ``trackio``, ``wandb``: where numbers go beside events.jsonl."""


@dataclass(frozen=True)
class TrainSpec:
    """What the user asked for: plain values only."""

    trainer: str
    options: Mapping[str, Any]
    train: TrainOptions
    scoring: Scoring


@dataclass(frozen=True)
class Trained:
    """What `harness train` prints: the result object, and the last checkpoint's evaluation."""

    result: Mapping[str, Any]
    evaluation: Mapping[str, Any] | None

    @property
    def stopped(self) -> str:
        return str(self.result["stopped"] or "")


class TrainStore(RunStore):
    """The folder of a training run."""

    record_file = "train.json"

    def record(self) -> dict[str, Any]:
        record = self.read_json(self.record_file)
        if record.get("schema") != SCHEMA or not isinstance(record.get("trainer"), str):
            raise StorageError(
                f"{self.root / self.record_file} is damaged; restore it or choose another --run"
            )
        return record

    def identity(self, record: Mapping[str, Any]) -> dict[str, Any]:
        return {key: record.get(key) for key in ("schema", "trainer", "options", "fingerprint")}


def prepare(spec: TrainSpec) -> tuple[Trainer, TrainSpec, dict[str, Any]]:
    """The trainer, the spec with its tasks expanded, and the record; checks all that is cheap.

    Raises ConfigError or DataError if the run cannot start, or its checkpoints not be scored.
    """
    trainer = registry.trainers.build(spec.trainer, spec.options, where="trainer")
    tasks = tuple(expand_tasks(spec.train.score_on))
    of_stages = [name for stage in trainer.stages() for name in expand_tasks(stage.score_on)]
    check_metrics([*filter(None, [spec.train.best]), *spec.train.stop_below], [*tasks, *of_stages])
    trainer.check()
    spec = dataclasses.replace(spec, scoring=dataclasses.replace(spec.scoring, tasks=tasks))
    options, circumstances = resolved(trainer)
    record = {
        "schema": SCHEMA,
        "trainer": registry.canonical(spec.trainer),
        "options": options,
        "fingerprint": dict(trainer.fingerprint()),
        "circumstances": circumstances,
        "scored_on": list(tasks),
        "made_by": environment(),
    }
    return trainer, spec, record


def default_folder(record: Mapping[str, Any], parent: Path = Path("runs")) -> Path:
    """``runs/<trainer>-<hash>``: the same command finds it again."""
    decides = {key: record[key] for key in ("trainer", "options", "fingerprint")}
    return parent / f"{record['trainer']}-{short_hash(decides)}"


def train(spec: TrainSpec, *, quiet: bool = False) -> Trained:
    """Runs all stages (or what is left of them) and returns what came out."""
    trainer, spec, record = prepare(spec)
    store = TrainStore(spec.train.run or default_folder(record))
    with store.locked():
        store.begin(record)
        trackers = open_trackers(spec.train.trackers, store.root, record)
        try:
            return _Run(trainer, spec, store, trackers, quiet).all_stages()
        finally:
            for tracker in trackers:
                tracker.close()


class _Run:
    """One session of work on a training run."""

    def __init__(
        self,
        trainer: Trainer,
        spec: TrainSpec,
        store: TrainStore,
        trackers: Sequence[Tracker],
        quiet: bool,
    ) -> None:
        self.trainer, self.spec, self.store = trainer, spec, store
        self.trackers, self.quiet = trackers, quiet
        self.logged = _last_steps(store)
        self.scored = {(row["stage"], row["step"]) for row, _ in store.lines("scores.jsonl")}
        self.stages: list[dict[str, Any]] = []
        self.last: Scored | None = None
        self.stopped = ""

    def all_stages(self) -> Trained:
        checkpoint: Checkpoint | None = None
        for stage in self.trainer.stages():
            checkpoint = self._stage(stage, checkpoint)
            if self.stopped:
                break
        best = self.store.read_json("best.json") if self._path("best.json").exists() else None
        result = {
            "schema": SCHEMA, "run": str(self.store.root), "trainer": self.spec.trainer,
            "stages": self.stages, "best": best, "stopped": self.stopped or None,
        }  # fmt: skip
        self.store.write_json("result.json", result)
        return Trained(result, self.last.result if self.last else None)

    def _stage(self, stage: Stage, start: Checkpoint | None) -> Checkpoint:
        """The checkpoint of a stage, trained and scored unless that is done already."""
        checkpoint = self._finished(stage)
        if checkpoint is None:
            checkpoint = self._train(stage, start)
            if self.stopped:
                return checkpoint
            self.store.write_json(f"{stage.name}/stage.json", _as_json(checkpoint, self.store.root))
        tasks = list(dict.fromkeys([*self.spec.scoring.tasks, *expand_tasks(stage.score_on)]))
        scored = self._score(checkpoint, tasks)
        self.stages.append(
            {"name": stage.name, "step": checkpoint.step, "checkpoint": str(checkpoint.path),
             "scores": _numbers(scored)}
        )  # fmt: skip
        return checkpoint

    def _train(self, stage: Stage, start: Checkpoint | None) -> Checkpoint:
        """Runs a stage to its end and returns its last checkpoint."""
        latest: Checkpoint | None = None
        folder = self._path(stage.name)
        folder.mkdir(parents=True, exist_ok=True)
        progress: Progress | None = None
        with contextlib.closing(self.trainer.run(stage, start, folder)) as events:
            for event in events:
                if isinstance(event, StepLogged):
                    progress = progress or Progress(stage.name, event.of, quiet=self.quiet)
                    self._log_step(stage, event, progress)
                else:
                    latest = event.checkpoint
                    self._saved(event)
                if self.stopped:
                    break
        if progress is not None:
            progress.close()
        if latest is None:
            raise ModelError(
                f"the trainer {self.spec.trainer} ended its stage {stage.name} without a checkpoint"
            )
        return latest

    def _log_step(self, stage: Stage, event: StepLogged, progress: Progress) -> None:
        loss = event.values.get("loss")
        progress.label = stage.name if loss is None else f"{stage.name}, loss {loss:.4g}"
        if not progress.done:  # a run that goes on: the rate counts from here
            progress.started_with = progress.done = event.step
        progress.add(event.step - progress.done)
        if event.step <= self.logged.get(stage.name, -1):
            return  # a step since the last saved state, taken a second time
        self.logged[stage.name] = event.step
        self._event("step", stage=stage.name, step=event.step, values=dict(event.values))
        for tracker in self.trackers:
            tracker.log(event.step, {f"{stage.name}/{k}": v for k, v in event.values.items()})

    def _saved(self, event: CheckpointSaved) -> None:
        checkpoint = event.checkpoint
        self._event(
            "checkpoint", stage=checkpoint.stage, step=checkpoint.step, path=str(checkpoint.path)
        )
        if event.score_on:
            self._score(checkpoint, expand_tasks(event.score_on))

    def _score(self, checkpoint: Checkpoint, tasks: Sequence[str]) -> Scored | None:
        """Evaluates a checkpoint, keeps its numbers, and does what follows from them."""
        if not tasks or not checkpoint.model:
            return None
        folder = self._path(f"evals/{checkpoint.stage}-{checkpoint.step:06d}")
        if not self.quiet:
            Progress(f"scoring {checkpoint.path} on {', '.join(tasks)}", 1).close()
        scored = self.last = score(checkpoint, tasks, self.spec.scoring, folder)
        if scored.result is None:
            self._event(
                "not_scored", stage=checkpoint.stage, step=checkpoint.step, problem=scored.problem
            )
        elif (checkpoint.stage, checkpoint.step) not in self.scored:
            self.scored.add((checkpoint.stage, checkpoint.step))
            self._keep(checkpoint, scored)
        gate = broken_gate(scored, self.spec.train.stop_below)
        if gate:
            self.stopped = f"{gate} after step {checkpoint.step} of {checkpoint.stage}"
            self._event("stopped", stage=checkpoint.stage, step=checkpoint.step, why=self.stopped)
        return scored

    def _keep(self, checkpoint: Checkpoint, scored: Scored) -> None:
        """Writes the numbers of a checkpoint, next to it and for all of the run."""
        assert scored.result is not None
        beside = checkpoint.path.with_name(f"{checkpoint.path.name}.scores.json")
        self.store.write_json(os.path.relpath(beside, self.store.root), scored.result)
        with self.store.appender("scores.jsonl") as append:
            for row in scored.rows(checkpoint):
                append(row)
        for tracker in self.trackers:
            tracker.log(
                checkpoint.step,
                {f"{row['task']}/{row['metric']}": row["value"]
                 for row in scored.rows(checkpoint) if row["value"] is not None},
            )  # fmt: skip
        self._promote(checkpoint, scored)

    def _promote(self, checkpoint: Checkpoint, scored: Scored) -> None:
        """Makes a checkpoint the best one if it is."""
        metric = self.spec.train.best
        value = scored.value(metric) if metric else None
        held = self.store.read_json("best.json") if self._path("best.json").exists() else None
        if value is None or not Best(metric).better(value, held):
            return
        self.store.write_json(
            "best.json", {"metric": metric, "value": value, **_as_json(checkpoint, self.store.root)}
        )
        link = self._path("best.new")
        try:
            link.unlink(missing_ok=True)
            link.symlink_to(os.path.relpath(checkpoint.path, self.store.root))
            link.replace(self._path("best"))
        except OSError as error:
            raise storage_error(link, error) from error

    def _finished(self, stage: Stage) -> Checkpoint | None:
        if not self._path(f"{stage.name}/stage.json").exists():
            return None
        held = self.store.read_json(f"{stage.name}/stage.json")
        path = self.store.root / str(held.pop("path"))
        if not path.is_dir():
            raise StorageError(
                f"{path}, the checkpoint of the finished stage {stage.name}, is gone; restore it, "
                f"or remove {stage.name}/stage.json to train the stage again"
            )
        return Checkpoint(path=path, **held)

    def _event(self, kind: str, **values: Any) -> None:
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        with self.store.appender("events.jsonl") as append:
            append({"event": kind, "at": now, **values})

    def _path(self, name: str) -> Path:
        return self.store.root / name


def _last_steps(store: TrainStore) -> dict[str, int]:
    """The last step of each stage that is logged already."""
    last: dict[str, int] = {}
    for row, _ in store.lines("events.jsonl"):
        if row.get("event") == "step":
            last[row["stage"]] = max(last.get(row["stage"], -1), row["step"])
    return last


def _as_json(checkpoint: Checkpoint, root: Path) -> dict[str, Any]:
    return {
        "path": os.path.relpath(checkpoint.path, root), "stage": checkpoint.stage,
        "step": checkpoint.step, "model": checkpoint.model, "options": dict(checkpoint.options),
    }  # fmt: skip


def _numbers(scored: Scored | None) -> dict[str, Any] | None:
    """{task: its metrics} of an evaluation; None if there is none."""
    if scored is None or scored.result is None:
        return None
    return {name: task.get("metrics") for name, task in scored.result["tasks"].items()}


def planned(spec: TrainSpec) -> Iterator[str]:
    """What a run would do, line by line (``--check``); raises as ``train`` would at its start."""
    trainer, spec, record = prepare(spec)
    yield f"run folder: {spec.train.run or default_folder(record)}"
    for stage in trainer.stages():
        tasks = [*spec.scoring.tasks, *expand_tasks(stage.score_on)]
        yield f"stage {stage.name}: scored on {', '.join(dict.fromkeys(tasks)) or 'nothing'}"
    if not spec.train.score_on and spec.train.best:
        raise ConfigError("train.best needs tasks to score on: set train.score_on")
