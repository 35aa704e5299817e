"""What a model brings by itself: data and a judge, below everything that the user says."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from harness import registry
from harness.plan import RunSpec


def with_defaults(spec: RunSpec) -> tuple[RunSpec, list[str]]:
    """The spec with the model's defaults filled in, and what was taken ("judge=rules").

    A judge is brought only to tasks that need one and have none.
    """
    brought = registry.models.find(spec.model).defaults(list(spec.tasks))
    if not brought:
        return spec, []
    taken: list[str] = []
    tasks: dict[str, Mapping[str, Any]] = {}
    for name, options in spec.tasks.items():
        default = brought.get("tasks", {}).get(name, {})
        missing = {key: value for key, value in default.items() if key not in options}
        taken += [f"tasks.{name}.{key}={value}" for key, value in missing.items()]
        tasks[name] = {**missing, **options}
    judges = dict(spec.judges)
    judge: Mapping[str, Any] = brought.get("judge", {})
    for name in tasks:
        if judge and registry.tasks.find(name).needs_judge and name not in judges:
            judges[name] = dict(judge)
            taken.append(f"tasks.{name}.judge={judge['name']}")
    return dataclasses.replace(spec, tasks=tasks, judges=judges), taken
