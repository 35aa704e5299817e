"""One function a verb: call the library, print what it returns, return the exit code."""

import argparse
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from harness.cli import options
from harness.errors import ConfigError

if TYPE_CHECKING:
    from harness.evaluate import Outcome


def evaluate(arguments: argparse.Namespace) -> int:
    from harness.evaluate import evaluate

    tree = options.read_tree(arguments)
    chosen = options.eval_options(tree, arguments)
    spec = options.run_spec(tree, chosen)
    return _print_outcome(evaluate(spec, options.settings(chosen, arguments)), arguments)


def show_list(arguments: argparse.Namespace) -> int:
    from harness.catalogue import listing

    kinds = listing()
    if arguments.json:
        return _print_json(kinds)
    for kind, plugins in kinds.items():
        print(f"{kind}:{'' if plugins else ' none installed'}")
        for name, summary in plugins.items():
            print(f"  {name:16} {summary}")
    return 0


def show(arguments: argparse.Namespace) -> int:
    from harness.catalogue import page

    shown = page(arguments.name)
    print(f"{shown.kind} {shown.name}\n\n{shown.doc}\n")
    for fact, text in shown.facts.items():
        print(f"{fact}: {text}")
    path = f"tasks.{shown.name}" if shown.kind == "task" else shown.kind
    print(f"\noptions (--set {path}.<option>=...):" if shown.options else "\nno options")
    for option in shown.options:
        print(f"  {option.name}: {option.type} = {option.default}")
        if option.meaning:
            print(f"      {' '.join(option.meaning.split())}")
    return 0


def check(arguments: argparse.Namespace) -> int:
    from harness.catalogue import check_task
    from harness.registry import canonical
    from harness.report import printable

    name = canonical(arguments.task)
    tree = options.read_tree(arguments)
    failed = False
    for finding in check_task(name, options.task_options(tree, [name])[name]):
        print(f"{finding.state:5} {printable(finding.text)}")
        failed = failed or finding.state == "fail"
    return 2 if failed else 0


def merge(arguments: argparse.Namespace) -> int:
    from harness.evaluate import merge

    tree = options.read_tree(arguments)
    chosen = options.eval_options(tree, arguments)
    return _print_outcome(merge(arguments.runs, options.settings(chosen, arguments)), arguments)


def rescore(arguments: argparse.Namespace) -> int:
    from harness.evaluate import rescore, tasks_of

    tree = options.read_tree(arguments)
    if tree["model"]:
        raise ConfigError("rescore uses stored answers: only tasks.* and judge.* can be set")
    chosen = options.eval_options(tree, arguments)
    names = tasks_of(arguments.run_folder)
    outcome = rescore(
        arguments.run_folder,
        options.task_options(tree, list(tree["tasks"])),
        options.judges(tree, chosen, names),
        options.settings(chosen, arguments),
    )
    return _print_outcome(outcome, arguments)


def compare(arguments: argparse.Namespace) -> int:
    from harness.compare import compare
    from harness.report import render_comparison

    allow = {key.strip() for key in arguments.allow.split(",") if key.strip()}
    comparison = compare(arguments.a, arguments.b, rounds=arguments.rounds, allow=allow)
    if arguments.json:
        return _print_json(comparison)
    print(render_comparison(comparison))
    return 0


def _print_outcome(outcome: "Outcome", arguments: argparse.Namespace) -> int:
    from harness.report import render, render_brief

    if arguments.json:
        _print_json(outcome.result)
    elif arguments.brief:
        print(render_brief(outcome.result))
    else:
        print(render(outcome.result, outcome.failures))
    return 3 if outcome.too_many_errors else 0


def _print_json(value: Mapping[str, Any]) -> int:
    from harness.files import pretty_json

    sys.stdout.write(pretty_json(value).decode())
    return 0
