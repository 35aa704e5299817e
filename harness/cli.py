"""The command line: parse, call, print. Results go to stdout, everything else to stderr.

Exit codes: 0 fine, 1 a bug, 2 an error of use (one sentence), 3 too many failed requests,
130 interrupted.
"""

import argparse
import logging
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness import config
from harness.errors import ConfigError, HarnessError, did_you_mean
from harness.store import Shard

SECTIONS = ("eval", "model", "tasks")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one verb and returns the exit code."""
    arguments = _parser().parse_args(argv)
    logging.basicConfig(
        level=logging.INFO if arguments.verbose else logging.WARNING,
        format="%(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    try:
        code: int = arguments.verb(arguments)
        sys.stdout.flush()
        return code
    except HarnessError as error:
        from harness.report import printable

        print(f"error: {printable(str(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        command = shlex.join(["harness", *(sys.argv[1:] if argv is None else argv)])
        print(
            f"\nInterrupted. Every answer so far is saved; go on with:\n  {command}",
            file=sys.stderr,
        )
        return 130
    except BrokenPipeError:
        # Somebody downstream (head, less) has seen enough; keep Python from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="harness", description="Evaluate region-level vision-language models."
    )
    parser.add_argument("--version", action="version", version=_version())
    verbs = parser.add_subparsers(required=True, metavar="VERB")

    evaluate = _verb(verbs, "eval", _eval, "ask a model, score its answers, print the table")
    evaluate.add_argument("--model", help="name of a model adapter (see `harness list`)")
    evaluate.add_argument("--tasks", help="names of tasks or groups of tasks, separated by commas")
    evaluate.add_argument("--config", type=Path, help="TOML file with options")
    evaluate.add_argument(
        "--limit", type=_positive, metavar="N", help="only the first N samples of each task"
    )
    evaluate.add_argument(
        "--shards", type=_positive, metavar="N", help="work in N processes on this machine"
    )
    evaluate.add_argument(
        "--shard", metavar="I/N", help="answer only part I of N; join with `harness merge`"
    )
    evaluate.add_argument(
        "--retry-failed", action="store_true", help="ask failed requests of this run again"
    )
    _options(evaluate)
    _result_flags(evaluate)

    show = _verb(verbs, "list", _list, "what is installed: tasks, models, codecs, judges, trainers")
    show.add_argument("--json", action="store_true", help="print JSON")
    show = _verb(verbs, "show", _show, "the page of one of them: options, data, metrics")
    show.add_argument("name")
    check = _verb(verbs, "check", _check, "is your copy of a benchmark sound?")
    check.add_argument("task")
    check.add_argument("--config", type=Path, help="TOML file with options")
    _options(check)

    merge = _verb(verbs, "merge", _merge, "join the shards of a run and score the whole")
    merge.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    _result_flags(merge)
    rescore = _verb(verbs, "rescore", _rescore, "score stored answers again, without the model")
    rescore.add_argument("run_folder", type=Path, metavar="RUN")
    _options(rescore)
    _result_flags(rescore)
    compare = _verb(verbs, "compare", _compare, "paired difference of two runs")
    compare.add_argument("a", type=Path, metavar="RUN_A")
    compare.add_argument("b", type=Path, metavar="RUN_B")
    compare.add_argument(
        "--allow", default="", metavar="KEY,...", help="protocol choices that may differ"
    )
    compare.add_argument(
        "--rounds", type=_positive, default=10_000, help="resamples (default %(default)s)"
    )
    compare.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _verb(verbs: Any, name: str, call: Any, summary: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = verbs.add_parser(name, help=summary, description=summary)
    parser.set_defaults(verb=call)
    parser.add_argument("--verbose", action="store_true", help="show log messages")
    return parser


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="PATH=VALUE",
        dest="assignments",
        help="an option, e.g. tasks.gres.root=DIR or model.path=FILE",
    )


def _result_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--run", type=Path, metavar="DIR", help="the run folder")
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    parser.add_argument("--brief", action="store_true", help="print one line a task")
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")
    parser.add_argument(
        "--max-errors",
        type=_fraction,
        metavar="F",
        help="share of failed requests above which no number is shown (default 0.01)",
    )


def _eval(arguments: argparse.Namespace) -> int:
    from harness.evaluate import Settings, evaluate
    from harness.plan import RunSpec, expand_tasks

    tree = _tree(arguments)
    chosen = _eval_options(tree, arguments)
    if not chosen.model or not chosen.tasks:
        missing = "model" if not chosen.model else "tasks"
        raise ConfigError(f"harness eval needs --{missing} (or {missing} under [eval] in --config)")
    names = expand_tasks(chosen.tasks)
    spec = RunSpec(
        chosen.model,
        {name: tree["tasks"].get(name, {}) for name in names},
        tree["model"],
        chosen.limit,
    )
    if chosen.shards > 1 and chosen.shard:
        raise ConfigError(
            "give --shards N (all parts here) or --shard I/N (one part here), not both"
        )
    settings = Settings(
        chosen.run,
        chosen.shards,
        Shard.parse(chosen.shard) if chosen.shard else None,
        chosen.max_errors,
        arguments.retry_failed,
        arguments.quiet,
    )
    return _print_outcome(evaluate(spec, settings), arguments)


def _list(arguments: argparse.Namespace) -> int:
    from harness.catalogue import listing

    kinds = listing()
    if arguments.json:
        return _print_json(kinds)
    for kind, plugins in kinds.items():
        print(f"{kind}:{'' if plugins else ' none installed'}")
        for name, summary in plugins.items():
            print(f"  {name:16} {summary}")
    return 0


def _show(arguments: argparse.Namespace) -> int:
    from harness.catalogue import page

    shown = page(arguments.name)
    print(f"{shown.kind} {shown.name}\n\n{shown.doc}\n")
    for fact, text in shown.facts.items():
        print(f"{fact}: {text}")
    path = f"tasks.{shown.name}" if shown.kind == "task" else shown.kind
    print(f"\noptions (--set {path}.<option>=...):")
    for option in shown.options:
        print(f"  {option.name}: {option.type} = {option.default}")
        if option.meaning:
            print(f"      {' '.join(option.meaning.split())}")
    return 0


def _check(arguments: argparse.Namespace) -> int:
    from harness.catalogue import check_task
    from harness.registry import canonical
    from harness.report import printable

    name = canonical(arguments.task)
    failed = False
    for finding in check_task(name, _tree(arguments)["tasks"].get(name, {})):
        print(f"{finding.state:5} {printable(finding.text)}")
        failed = failed or finding.state == "fail"
    return 2 if failed else 0


def _merge(arguments: argparse.Namespace) -> int:
    from harness.evaluate import merge

    return _print_outcome(merge(arguments.runs, _settings(arguments)), arguments)


def _rescore(arguments: argparse.Namespace) -> int:
    from harness.evaluate import rescore

    tree = _tree(arguments)
    if tree["model"]:
        raise ConfigError("rescore uses stored answers: only tasks.* can be set")
    return _print_outcome(
        rescore(arguments.run_folder, tree["tasks"], _settings(arguments)), arguments
    )


def _compare(arguments: argparse.Namespace) -> int:
    from harness.compare import compare
    from harness.report import render_comparison

    allow = {key.strip() for key in arguments.allow.split(",") if key.strip()}
    comparison = compare(arguments.a, arguments.b, rounds=arguments.rounds, allow=allow)
    if arguments.json:
        return _print_json(comparison)
    print(render_comparison(comparison))
    return 0


def _settings(arguments: argparse.Namespace) -> Any:
    from harness.evaluate import Settings

    errors = Settings.max_errors if arguments.max_errors is None else arguments.max_errors
    return Settings(folder=arguments.run, max_errors=errors, quiet=arguments.quiet)


def _print_outcome(outcome: Any, arguments: argparse.Namespace) -> int:
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


def _tree(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options of the file and of --set as one tree; raises ConfigError for what is unknown."""
    from harness.registry import canonical, tasks

    path = getattr(arguments, "config", None)
    tree = config.read_toml(path) if path else {}
    for assignment in arguments.assignments:
        config.set_path(tree, assignment)
    for section in tree:
        if section not in SECTIONS:
            raise ConfigError(
                f"there are no options under {section!r}.{did_you_mean(section, SECTIONS)}"
            )
    for section in SECTIONS:
        if not isinstance(tree.setdefault(section, {}), dict):
            raise ConfigError(f"{section} must be a group of options, e.g. {section}.<option>=...")
    named = {canonical(name): options for name, options in tree["tasks"].items()}
    for name, options in named.items():
        if name not in tasks.found:
            raise ConfigError(
                f"options for a task {name!r} that nobody knows.{did_you_mean(name, tasks.found)}"
            )
        if not isinstance(options, dict):
            raise ConfigError(
                f"tasks.{name} must be a group of options, e.g. tasks.{name}.root=DIR"
            )
    return {**tree, "tasks": named}


def _eval_options(tree: Mapping[str, Any], arguments: argparse.Namespace) -> Any:
    """The options under [eval], with those of the command line on top."""
    from harness.evaluate import EvalOptions

    flags = {
        "model": arguments.model,
        "tasks": arguments.tasks,
        "limit": arguments.limit,
        "shards": arguments.shards,
        "shard": arguments.shard,
        "run": arguments.run,
        "max_errors": arguments.max_errors,
    }
    given = {key: value for key, value in flags.items() if value is not None}
    return config.build(EvalOptions, {**tree["eval"], **given}, where="eval")


def _positive(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number from 1 to 1000000")
    return int(text)


def _fraction(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} must be a fraction from 0 to 1")
    return value


def _version() -> str:
    from importlib.metadata import version

    return version("region-harness")


if __name__ == "__main__":
    sys.exit(main())
