"""What a checkpoint is worth: a child ``harness eval``, and what follows from its numbers.

The child is the command that a user would run, so training and evaluation share nothing but files,
and the devices are clean. Its run folder lies below the training's, so interrupted scoring goes on.
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.errors import ConfigError, DataError
from harness.files import parse_json, pretty_json, write_atomic
from harness.training import Checkpoint


@dataclass(frozen=True)
class Scoring:
    """How checkpoints are evaluated: the sections of an option file, as for ``harness eval``."""

    tasks: tuple[str, ...] = ()
    eval: Mapping[str, Any] = field(default_factory=dict)
    model: Mapping[str, Any] = field(default_factory=dict)
    task_options: Mapping[str, Any] = field(default_factory=dict)
    judge: Mapping[str, Any] = field(default_factory=dict)

    def tree(self, checkpoint: Checkpoint, tasks: Sequence[str]) -> dict[str, Any]:
        """The options of the child."""
        return {
            "eval": {**self.eval, "model": checkpoint.model, "tasks": list(tasks)},
            "model": {
                **checkpoint.options, **self.model, "path": str(checkpoint.path.absolute()),
            },
            "tasks": dict(self.task_options),
            "judge": dict(self.judge),
        }  # fmt: skip


@dataclass(frozen=True)
class Scored:
    """The result object of a checkpoint, or why there is none."""

    result: Mapping[str, Any] | None
    problem: str = ""

    def value(self, metric: str) -> float | None:
        """The number of ``task.metric``; None if it was not measured."""
        task, _, name = metric.partition(".")
        tasks = self.result["tasks"] if self.result else {}
        found = tasks.get(task, {}).get("metrics", {}).get(name, {}).get("value")
        return None if found is None else float(found)

    def rows(self, checkpoint: Checkpoint) -> list[dict[str, Any]]:
        """One line a task and metric, for scores.jsonl."""
        return [
            {"stage": checkpoint.stage, "step": checkpoint.step, "task": task, "metric": metric,
             **number, "run": self.result["run"]}
            for task, result in (self.result or {"tasks": {}})["tasks"].items()
            for metric, number in result.get("metrics", {}).items()
            if self.result is not None
        ]  # fmt: skip


def score(checkpoint: Checkpoint, tasks: Sequence[str], scoring: Scoring, folder: Path) -> Scored:
    """Evaluates a checkpoint in a child process whose run folder is ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    options = folder.with_name(f"{folder.name}.options.json")
    write_atomic(options, pretty_json(scoring.tree(checkpoint, tasks)))
    command = [sys.executable, "-m", "harness", "eval", "--json", "--quiet"]
    command += ["--config", str(options), "--run", str(folder)]
    child = subprocess.run(command, capture_output=True, check=False, env=os.environ)
    if child.returncode not in (0, 3):
        last = child.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        return Scored(None, last[0] if last else f"it ended with code {child.returncode}")
    try:
        result = parse_json(child.stdout)
    except DataError as error:
        return Scored(None, f"its result cannot be read ({error})")
    return Scored(result)


@dataclass(frozen=True)
class Best:
    """The metric that picks the best checkpoint: ``task.metric``, larger is better."""

    metric: str

    def better(self, value: float, held: Mapping[str, Any] | None) -> bool:
        """Whether a value beats the best so far (an equal one does not)."""
        return held is None or value > float(held["value"])


def check_metrics(names: Sequence[str], tasks: Sequence[str]) -> None:
    """Raises ConfigError for a name that is not ``task.metric`` of a task that is scored."""
    from harness import registry

    for name in names:
        task, dot, metric = name.partition(".")
        if not dot or registry.canonical(task) not in tasks:
            raise ConfigError(
                f"{name!r} must be task.metric of a task that is scored "
                f"({', '.join(tasks) or 'none is: set train.score_on'})"
            )
        known = getattr(registry.tasks.find(task), "metrics", {})
        if isinstance(known, Mapping) and metric not in known:
            raise ConfigError(f"the task {task} has no metric {metric!r}: {', '.join(known)}")


def broken_gate(scored: Scored, bounds: Mapping[str, float]) -> str:
    """The sentence that stops a run below a bound; "" if all bounds are kept."""
    for metric, bound in bounds.items():
        value = scored.value(metric)
        if value is None:
            why = scored.problem or "it is not among the results"
            return f"{metric} could not be measured ({why}), so its bound {bound:g} is not kept"
        if value < bound:
            return f"{metric} = {value:.4g} is below its bound {bound:g}"
    return ""
