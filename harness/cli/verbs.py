"""One function a verb: call the library, print what it returns, return the exit code."""

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from harness.cli import options
from harness.errors import ConfigError, StorageError

if TYPE_CHECKING:
    from harness.catalogue import Page
    from harness.evaluate import Outcome


def evaluate(arguments: argparse.Namespace) -> int:
    from harness.evaluate import evaluate

    tree = options.read_tree(arguments)
    chosen = options.eval_options(tree, arguments)
    spec = options.run_spec(tree, chosen)
    settings = options.settings(chosen, arguments)
    if arguments.dry_run:
        from harness import dryrun

        plan = dryrun.dry_run(spec, settings)
        return _print_json(plan) if arguments.json else _print(dryrun.render(plan))
    return _print_outcome(evaluate(spec, settings), arguments)


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
    from harness.catalogue import pages

    return _print("\n\n".join(map(_page, pages(arguments.name))))


def _page(page: "Page") -> str:
    lines = [f"{page.kind} {page.name}", "", page.doc, ""]
    lines += [f"{fact}: {text}" for fact, text in page.facts.items()]
    path = f"tasks.{page.name}" if page.kind == "task" else page.kind
    lines.append(f"options (--set {path}.<option>=...):" if page.options else "no options")
    for option in page.options:
        lines.append(f"  {option.name}: {option.type} = {option.default}")
        if option.meaning:
            lines.append(f"      {' '.join(option.meaning.split())}")
    return "\n".join(lines)


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
    return _print(render_comparison(comparison))


def agreement(arguments: argparse.Namespace) -> int:
    from harness.agreement import compare_judges, panel_agreement
    from harness.report import render_agreement

    if arguments.b is None:
        result = panel_agreement(arguments.a)
    else:
        result = compare_judges(arguments.a, arguments.b)
    return _print_json(result) if arguments.json else _print(render_agreement(result))


def leaderboard(arguments: argparse.Namespace) -> int:
    from harness.leaderboard import publish
    from harness.leaderboard.render import jsonable, summary
    from harness.report import printable

    made = publish(arguments.spec, arguments.runs, out=arguments.out, check=arguments.check)
    for warning in [*made.board.warnings, *made.board.unused]:
        print(f"warning: {printable(warning)}", file=sys.stderr)
    if arguments.json:
        return _print_json(jsonable(made.board))
    print(summary(made.board), end="\n\n")
    for file, changed in made.files.items():
        print(f"{'wrote    ' if changed else 'unchanged'} {printable(str(file))}")
    return 0


def train(arguments: argparse.Namespace) -> int:
    from harness.report import printable, render
    from harness.train import planned, train

    spec = options.train_spec(arguments)
    if arguments.check:
        return _print("\n".join(planned(spec)))
    trained = train(spec, quiet=arguments.quiet)
    if arguments.json:
        _print_json(trained.result)
    else:
        if trained.evaluation is not None:
            _print(render(trained.evaluation, {}))
        for stage in trained.result["stages"]:
            _print(printable(f"{stage['name']}: step {stage['step']}, {stage['checkpoint']}"))
    if trained.stopped:
        print(f"stopped: {printable(trained.stopped)}", file=sys.stderr)
    return 3 if trained.stopped else 0


def build(arguments: argparse.Namespace) -> int:
    from harness import config
    from harness.building import build
    from harness.report import printable

    tree: dict[str, Any] = {}
    for assignment in arguments.assignments:
        config.set_path(tree, assignment)
    if set(tree) - {"builder"}:
        raise ConfigError("--set of `harness build` takes builder.<option>=VALUE only")
    roots = build(arguments.builder, tree.get("builder", {}), arguments.out)
    lines = [f"--set tasks.{name}.root={root}" for name, root in roots.items()]
    return _print(printable("\n".join(lines or [f"wrote {arguments.out}"])))


def serve(arguments: argparse.Namespace) -> int:
    from harness.serving import vllm_server

    if arguments.command and shutil.which(arguments.command[0]) is None:
        raise ConfigError(
            f"there is no command {arguments.command[0]!r} to run; check what follows --"
        )
    print(f"starting vLLM; its output goes to {arguments.log}", file=sys.stderr)
    with vllm_server(
        arguments.model, arguments.log, name=arguments.name, port=arguments.port,
        arguments=arguments.vllm,
    ) as server:  # fmt: skip
        print(f"{arguments.name} is ready at {server.base_url}", file=sys.stderr)
        if not arguments.command:
            return server.process.wait()
        environment = {**os.environ, "OPENAI_BASE_URL": server.base_url}
        return subprocess.run(arguments.command, env=environment, check=False).returncode


def _print_outcome(outcome: "Outcome", arguments: argparse.Namespace) -> int:
    from harness.report import render, render_brief

    if arguments.json:
        _print_json(outcome.result)
    elif arguments.brief:
        _print(render_brief(outcome.result))
    else:
        _print(render(outcome.result, outcome.failures))
    return 3 if outcome.too_many_errors else 0


def _print(text: str) -> int:
    """Prints to stdout; raises StorageError if that is a full disk. BrokenPipeError passes."""
    if sys.stdout is not None:
        try:
            print(text, flush=True)
        except BrokenPipeError:
            raise
        except OSError as error:
            # Nothing more can be said there, not even by Python at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise StorageError(
                f"stdout cannot be written ({error.strerror}); results are in the run folder"
            ) from None
    return 0


def _print_json(value: Mapping[str, Any]) -> int:
    from harness.files import pretty_json

    return _print(pretty_json(value).decode().removesuffix("\n"))
