"""What a run is: the options, turned into a model and tasks, and the record that names them.

The record (run.json) holds all that decides the answers, by content: options, task versions,
protocol, hashes of data, prompts and weights. Two runs with one record have the same answers.
"""

import dataclasses
import gc
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness import config, registry
from harness.errors import ConfigError, DataError, ModelError, UnknownPlugin, did_you_mean
from harness.files import sha256
from harness.judge import Judge
from harness.model import ModelAdapter
from harness.provenance import digest, environment, short_hash, without_credentials
from harness.store import identity
from harness.task import Task
from harness.types import Prediction, Request, Sample

SCHEMA = 1


@dataclass(frozen=True)
class RunSpec:
    """What the user asked for, before anything is loaded: plain values only."""

    model: str
    tasks: Mapping[str, Mapping[str, Any]]
    """Options of each task to run, by its name, in order."""
    model_options: Mapping[str, Any] = field(default_factory=dict)
    judges: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The judge of each task that has one: its options, and its name under ``name``."""
    limit: int | None = None
    """Only the first so many samples of each task."""

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "RunSpec":
        """The spec that a run.json holds, with the circumstances of its first session."""
        spec, places = record["spec"], record["circumstances"]
        tasks = {
            name: {**options, **places["tasks"][name]} for name, options in spec["tasks"].items()
        }
        model_options = {**spec["model_options"], **places["model"]}
        judges = {
            name: {**options, **places["judges"][name]} for name, options in spec["judges"].items()
        }
        return cls(spec["model"], tasks, model_options, judges, spec["limit"])


@dataclass(frozen=True)
class PlannedTask:
    """A task with its samples in order."""

    name: str
    task: Task[Any]
    samples: Sequence[Sample]
    judge: Judge | None = None

    @property
    def ids(self) -> list[str]:
        return [sample.id for sample in self.samples]

    def requests(self, samples: Sequence[Sample], *, gold: bool = False) -> list[Request]:
        """The request for each sample; with the truth in it only if ``gold``."""
        if not gold:
            return [self.task.request(s) for s in samples]
        return [dataclasses.replace(self.task.request(s), gold=self.task.gold(s)) for s in samples]


class StoredAnswers(ModelAdapter):
    """Stands for a model whose answers are on disk: who it was, and no way to ask it."""

    def __init__(self, record: Mapping[str, Any]) -> None:
        self.record = record

    @property
    def name(self) -> str:
        return str(self.record["model"]["name"])

    def fingerprint(self) -> Mapping[str, str]:
        fingerprint: Mapping[str, str] = self.record["model"]["fingerprint"]
        return fingerprint

    def predict(self, requests: Sequence[Request]) -> Iterable[Prediction]:
        raise ModelError(f"the answers of {self.name} are on disk; it cannot be asked here")


@dataclass(frozen=True)
class Plan:
    """A run that is ready to start."""

    spec: RunSpec
    model: ModelAdapter
    tasks: Sequence[PlannedTask]

    @classmethod
    def build(cls, spec: RunSpec, answered: Mapping[str, Any] | None = None) -> "Plan":
        """Builds model and tasks and reads all samples. Loads no weights, opens no picture.

        With ``answered``, the record of a run, that run's answers are used and its model need not
        be there. Raises ConfigError for options that do not fit, DataError for such files.
        """
        if answered is not None:
            model: ModelAdapter = StoredAnswers(answered)
        else:
            model = registry.models.build(spec.model, spec.model_options, where="model")
        with _collector_at_rest():
            tasks = [
                dataclasses.replace(
                    plan_task(name, options, spec.limit), judge=_judge(name, spec.judges.get(name))
                )
                for name, options in spec.tasks.items()
            ]
        return cls(spec, model, tasks)

    def record(self) -> dict[str, Any]:
        """The content of run.json.

        Kept apart is what does not decide: where files lie, and options such as time-outs.
        """
        model_options, model_places = self._model_options()
        tasks = {planned.name: resolved(planned.task) for planned in self.tasks}
        judges = {p.name: resolved(p.judge) for p in self.tasks if p.judge is not None}
        return {
            "schema": SCHEMA,
            "spec": {
                "model": registry.canonical(self.spec.model),
                "model_options": model_options,
                "tasks": {name: options for name, (options, _) in tasks.items()},
                "judges": {
                    name: {"name": self.spec.judges[name]["name"], **options}
                    for name, (options, _) in judges.items()
                },
                "limit": self.spec.limit,
            },
            "circumstances": {
                "model": model_places,
                "judges": {name: places for name, (_, places) in judges.items()},
                "tasks": {name: places for name, (_, places) in tasks.items()},
            },
            "model": {"name": self.model.name, "fingerprint": dict(self.model.fingerprint())},
            "tasks": {planned.name: self._task_record(planned) for planned in self.tasks},
            "made_by": environment(),
        }

    def _model_options(self) -> tuple[dict[str, Any], dict[str, Any]]:
        if isinstance(self.model, StoredAnswers):
            record = self.model.record
            return record["spec"]["model_options"], record["circumstances"]["model"]
        return resolved(self.model)

    def _task_record(self, planned: PlannedTask) -> dict[str, Any]:
        task, requests = planned.task, planned.requests(planned.samples)
        return {
            "version": task.version,
            "protocol": self.protocol(planned),
            "model_protocol": self._model_protocol(planned),
            "judge": judge_stamp(planned.judge),
            "data": {path.name: sha256(path) for path in task.files()},
            "samples": digest(planned.ids),
            "prompts": digest(f"{r.sample_id}\0{r.prompt}\0{r.max_new_tokens}" for r in requests),
            "n": len(planned.samples),
        }

    def protocol(self, planned: PlannedTask) -> dict[str, Any]:
        """The protocol stamp: the choices of task and model that change numbers."""
        stamp = {**planned.task.protocol(), **self._model_protocol(planned)}
        if self.spec.limit is not None:
            stamp["limit"] = self.spec.limit
        return stamp

    def _model_protocol(self, planned: PlannedTask) -> dict[str, Any]:
        if isinstance(self.model, StoredAnswers):
            return dict(self.model.record["tasks"][planned.name]["model_protocol"])
        return dict(self.model.protocol(planned.task.masks_expected))


@contextmanager
def _collector_at_rest() -> Iterator[None]:
    """What is made inside lives as long as the run: the garbage collector need not look at it."""
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        gc.enable()


def plan_task(name: str, options: Mapping[str, Any], limit: int | None = None) -> PlannedTask:
    """A task with its samples; raises DataError if ids repeat or there is no sample."""
    cls = registry.tasks.find(name)
    name = registry.canonical(name)
    fields = getattr(cls, "__dataclass_fields__", {})
    if "root" in fields and "root" not in options and fields.keys() >= options.keys():
        raise ConfigError(
            f"{name} needs the benchmark's files: give their folder with --set "
            f"tasks.{name}.root=DIR. {cls.recipe}"
        )
    task = config.build(cls, options, where=f"tasks.{name}")
    samples = list(task.samples())
    seen: set[str] = set()
    for sample in samples:
        if sample.id in seen:
            raise DataError(
                f"{name}: sample id {sample.id!r} occurs twice in its files; mend the data"
            )
        seen.add(sample.id)
    if not samples:
        raise DataError(
            f"{name}: its files hold no sample of the chosen split; check tasks.{name}.*"
        )
    return PlannedTask(name, task, samples[:limit])


def _judge(task: str, options: Mapping[str, Any] | None) -> Judge | None:
    """The judge of a task, if it needs one and one is named."""
    if options is None or not registry.tasks.find(task).needs_judge:
        return None
    rest = {key: value for key, value in options.items() if key != "name"}
    return registry.judges.build(str(options["name"]), rest, where="judge")


def judge_choices(
    tasks: Sequence[str],
    named: str,
    common: Mapping[str, Any],
    own: Mapping[str, Mapping[str, Any]],
) -> dict[str, dict[str, Any]]:
    """The judge of each task: its options, and its name under ``name``; no name, no judge.

    ``named`` is ``J`` for all tasks, or ``task=J,task=J``. Options of a task (``own``) win over
    ``common`` ones. Raises ConfigError for a task that is not run.
    """
    chosen: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in named.split(","))):
        task, equals, judge = part.rpartition("=")
        for name in expand_tasks([task]) if equals else tasks:
            if name not in tasks:
                raise ConfigError(f"--judge {part!r}: the task {name} is not run here")
            chosen[name] = judge
    choices = {}
    for name in tasks:
        options = {**common, **own.get(name, {})}
        options["name"] = chosen.get(name) or options.get("name") or ""
        if options["name"]:
            choices[name] = options
    return choices


def judge_stamp(judge: Judge | None) -> dict[str, Any] | None:
    """Who judges, for records and results; None where nobody does."""
    return None if judge is None else {"name": judge.name, "fingerprint": dict(judge.fingerprint())}


def resolved(plugin: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """(options, circumstances) of a plug-in, defaults included, as JSON.

    Circumstances cannot change an answer: file paths (content is hashed), and what the plug-in
    declares as ``operational``.
    """
    options: dict[str, Any] = {}
    places: dict[str, Any] = {}
    for f in dataclasses.fields(plugin):
        if f.init:
            value = getattr(plugin, f.name)
            parts = value if isinstance(value, tuple) and value else (value,)
            is_place = all(isinstance(part, Path) for part in parts)
            if is_place:  # absolute, so that the run can be scored again from anywhere
                value = tuple(map(Path.absolute, parts)) if value is parts else value.absolute()
            is_place = is_place or f.name in getattr(plugin, "operational", ())
            (places if is_place else options)[f.name] = without_credentials(config.jsonable(value))
    return options, places


def expand_tasks(names: Sequence[str]) -> list[str]:
    """Task names with groups expanded: ``all``, or a tag that tasks carry (``gar``).

    Raises UnknownPlugin for a word that is neither.
    """
    chosen: dict[str, None] = {}
    for name in map(registry.canonical, names):
        if name == "all":
            members = registry.tasks.names()
        elif name in registry.tasks.found:
            members = [name]
        else:
            members = _tagged(name)
        chosen |= dict.fromkeys(members)
    return list(chosen)


def _tagged(tag: str) -> list[str]:
    tags: dict[str, list[str]] = {}
    for name in registry.tasks.names():
        for word in registry.tasks.find(name).tags:
            tags.setdefault(word, []).append(name)
    if tag not in tags:
        known = [*registry.tasks.names(), *tags, "all"]
        raise UnknownPlugin(f"no task named {tag!r}.{did_you_mean(tag, known)}")
    return tags[tag]


def default_folder(record: Mapping[str, Any], parent: Path = Path("runs")) -> Path:
    """``runs/<model>-<hash>``: the same command finds it again, other weights get another."""
    name = re.sub(r"[^A-Za-z0-9.]+", "-", record["model"]["name"]).strip("-.")[:60] or "model"
    return parent / f"{name}-{short_hash(identity(record))}"
