"""From flags and a TOML file to one tree of options, and from there to what a run needs."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from harness import config
from harness.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from harness.evaluate import EvalOptions, Settings
    from harness.plan import RunSpec
    from harness.train import TrainSpec

SECTIONS = ("eval", "model", "tasks", "judge")
TRAIN_SECTIONS = ("train", "trainer", *SECTIONS[1:])


def read_tree(arguments: argparse.Namespace, sections: Sequence[str] = SECTIONS) -> dict[str, Any]:
    """The options of the file with those of --set on top; raises ConfigError for what is unknown.

    All sections are there, the keys of ``tasks`` are names of tasks.
    """
    from harness.option_files import find
    from harness.registry import canonical, tasks

    tree = config.read_file(find(arguments.config)) if arguments.config else {}
    for assignment in arguments.assignments:
        config.set_path(tree, assignment)
    for section in tree:
        if section not in sections:
            known = did_you_mean(section, sections)
            raise ConfigError(f"there are no options under {section!r}.{known}")
    for section in sections:
        if isinstance(tree.setdefault(section, {}), str) and section in ("model", "judge"):
            tree[section] = {"name": tree[section]}
        if not isinstance(tree[section], dict):
            raise ConfigError(f"{section} must be a group of options, e.g. {section}.<option>=...")
    named = {canonical(name): options for name, options in tree["tasks"].items()}
    for name, options in named.items():
        if name not in tasks.found:
            known = did_you_mean(name, tasks.found)
            raise ConfigError(f"options for a task {name!r} that nobody knows.{known}")
        if not isinstance(options, dict):
            raise ConfigError(
                f"tasks.{name} must be a group of options, e.g. tasks.{name}.root=DIR"
            )
    return {**tree, "tasks": named}


def eval_options(tree: Mapping[str, Any], arguments: argparse.Namespace) -> "EvalOptions":
    """The options under [eval], with those of the command line on top."""
    import dataclasses

    from harness.evaluate import EvalOptions

    flags = {f.name: getattr(arguments, f.name, None) for f in dataclasses.fields(EvalOptions)}
    given = {key: value for key, value in flags.items() if value is not None}
    return config.build(EvalOptions, {**tree["eval"], **given}, where="eval")


def run_spec(tree: Mapping[str, Any], chosen: "EvalOptions") -> "RunSpec":
    """What to run; raises ConfigError if no model or no task is named."""
    from harness.defaults import with_defaults
    from harness.plan import RunSpec, expand_tasks

    model_options = dict(tree["model"])
    model = chosen.model or str(model_options.get("name", ""))
    model_options.pop("name", None)
    if not model or not chosen.tasks:
        missing = "tasks" if model else "model"
        raise ConfigError(f"harness eval needs --{missing} (or {missing} under [eval] in --config)")
    names = expand_tasks(chosen.tasks)
    spec, taken = with_defaults(
        RunSpec(
            model,
            task_options(tree, names),
            model_options,
            judges(tree, chosen, names),
            chosen.limit,
        )
    )
    if taken:
        print(f"{model} brings {', '.join(taken)}", file=sys.stderr)
    return spec


def task_options(tree: Mapping[str, Any], names: "list[str]") -> dict[str, dict[str, Any]]:
    """The options of each task, without those of its judge."""
    options = {name: tree["tasks"].get(name, {}) for name in names}
    return {name: {k: v for k, v in o.items() if k != "judge"} for name, o in options.items()}


def judges(
    tree: Mapping[str, Any], chosen: "EvalOptions", names: "list[str]"
) -> dict[str, dict[str, Any]]:
    """The judge of each task that has one, by --judge, tasks.<task>.judge and judge."""
    from harness.plan import judge_choices

    own = {}
    for name in names:
        options = tree["tasks"].get(name, {}).get("judge", {})
        if not isinstance(options, str | dict):
            raise ConfigError(f"tasks.{name}.judge must be a judge's name or a group of options")
        own[name] = {"name": options} if isinstance(options, str) else dict(options)
    return judge_choices(names, chosen.judge, tree["judge"], own)


def settings(chosen: "EvalOptions", arguments: argparse.Namespace) -> "Settings":
    """How to work on the run."""
    from harness.evaluate import Settings
    from harness.judging import Budget
    from harness.store import Shard

    if chosen.shards > 1 and chosen.shard:
        raise ConfigError("give --shards N (all parts here) or --shard I/N (one part), not both")
    return Settings(
        folder=chosen.run,
        shards=chosen.shards,
        shard=Shard.parse(chosen.shard) if chosen.shard else None,
        max_errors=chosen.max_errors,
        retry_failed=getattr(arguments, "retry_failed", False),
        predict_only=getattr(arguments, "predict_only", False),
        budget=Budget(chosen.max_judge_calls, chosen.max_judge_cost),
        judge_cache=chosen.judge_cache,
        quiet=arguments.quiet,
    )


def train_spec(arguments: argparse.Namespace) -> "TrainSpec":
    """What to train, and how its checkpoints are scored."""
    from harness.stage_scores import Scoring
    from harness.train import TrainOptions, TrainSpec

    tree = read_tree(arguments, TRAIN_SECTIONS)
    given = {**tree["train"]} | ({"run": arguments.run} if arguments.run else {})
    chosen = config.build(TrainOptions, given, where="train")
    evaluation = {"max_errors": chosen.max_errors}
    if chosen.limit is not None:
        evaluation["limit"] = chosen.limit
    scoring = Scoring((), evaluation, tree["model"], tree["tasks"], tree["judge"])
    return TrainSpec(arguments.trainer, tree["trainer"], chosen, scoring)
