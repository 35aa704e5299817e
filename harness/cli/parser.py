"""The verbs and their flags."""

import argparse
from importlib.metadata import version
from pathlib import Path
from tempfile import gettempdir
from typing import Any

from harness.cli import verbs


def build_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line; ``arguments.verb`` is the function to call."""
    parser = argparse.ArgumentParser(
        prog="harness", description="Evaluate and train region-level vision-language models."
    )
    parser.add_argument("--version", action="version", version=version("region-harness"))
    group = parser.add_subparsers(required=True, metavar="VERB")
    _eval(group)
    _look(group)
    _again(group)
    _compare(group)
    _leaderboard(group)
    _judge(group)
    _train(group)
    return parser


def _verb(group: Any, name: str, call: Any, summary: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = group.add_parser(name, help=summary, description=summary)
    parser.set_defaults(verb=call)
    parser.add_argument("--verbose", action="store_true", help="show log messages")
    return parser


def _eval(group: Any) -> None:
    parser = _verb(group, "eval", verbs.evaluate, "ask a model, score its answers, print the table")
    add = parser.add_argument
    add("--model", help="name of a model adapter (see `harness list`)")
    add("--tasks", help="names of tasks or groups of tasks, separated by commas")
    add("--limit", type=_positive, metavar="N", help="only the first N samples of each task")
    add("--shards", type=_positive, metavar="N", help="work in N processes on this machine")
    add("--shard", metavar="I/N", help="answer only part I of N; join with `harness merge`")
    add("--predict-only", action="store_true", help="ask and store; judge and score with rescore")
    add("--dry-run", action="store_true", help="say what it would take, and ask nobody")
    add("--retry-failed", action="store_true", help="ask failed requests of this run again")
    _options(parser)
    _results(parser)


def _look(group: Any) -> None:
    parser = _verb(
        group, "list", verbs.show_list, "what is installed: tasks, models, codecs, judges"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser = _verb(group, "show", verbs.show, "the page of one of them: options, data, metrics")
    parser.add_argument("name", help="e.g. gres, openai-chat, judge/openai-chat")
    parser = _verb(group, "check", verbs.check, "is your copy of a benchmark sound?")
    parser.add_argument("task")
    _options(parser)


def _again(group: Any) -> None:
    parser = _verb(group, "merge", verbs.merge, "join the shards of a run and score the whole")
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    _options(parser)
    _results(parser)
    parser = _verb(group, "rescore", verbs.rescore, "score stored answers again, without the model")
    parser.add_argument("run_folder", type=Path, metavar="RUN")
    _options(parser)
    _results(parser)


def _compare(group: Any) -> None:
    parser = _verb(group, "compare", verbs.compare, "paired difference of two runs")
    add = parser.add_argument
    add("a", type=Path, metavar="RUN_A")
    add("b", type=Path, metavar="RUN_B")
    add("--allow", default="", metavar="KEY,...", help="protocol choices that may differ")
    add("--rounds", type=_positive, default=10_000, help="resamples (default %(default)s)")
    add("--json", action="store_true", help="print JSON")


def _judge(group: Any) -> None:
    judge = _verb(group, "judge", None, "look after judges").add_subparsers(
        required=True, metavar="WHAT"
    )
    parser = _verb(judge, "agreement", verbs.agreement, "do the judges of two runs agree?")
    parser.add_argument("a", type=Path, metavar="RUN_A")
    parser.add_argument("b", type=Path, metavar="RUN_B", nargs="?", help="none: a panel's members")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser = _verb(judge, "serve", verbs.serve, "serve a model with vLLM while a command runs")
    add = parser.add_argument
    add("--model", required=True, metavar="DIR", help="folder of the model, or a name vLLM knows")
    add("--name", default="judge", help="what the endpoint calls it (default %(default)s)")
    add("--port", type=_positive, default=8000, help="loopback port (default %(default)s)")
    add("--log", type=Path, default=Path(gettempdir(), "harness-vllm.log"), metavar="FILE",
        help="the server's output (default %(default)s)")  # fmt: skip
    add("--vllm", action="append", default=[], metavar="ARGUMENT", help="passed on to vLLM")
    add("command", nargs="*",
        help="what to run (after --) with OPENAI_BASE_URL set; none: until Ctrl-C")  # fmt: skip


def _train(group: Any) -> None:
    parser = _verb(group, "train", verbs.train, "train a model, and score each checkpoint")
    add = parser.add_argument
    add("trainer", help="name of a trainer (see `harness list`)")
    _options(parser)
    add("--run", type=Path, metavar="DIR", help="the run folder")
    add("--check", action="store_true", help="say what would be done, and do nothing")
    add("--json", action="store_true", help="print the result as one JSON object")
    add("--quiet", action="store_true", help="no progress on stderr")
    parser = _verb(group, "build", verbs.build, "write the files of a benchmark or a model")
    add = parser.add_argument
    add("builder", help="name of a builder (see `harness list`)")
    add("--out", type=Path, required=True, metavar="DIR", help="the folder to write")
    add("--set", action="append", default=[], metavar="PATH=VALUE", dest="assignments",
        help="an option, e.g. builder.profile=std")  # fmt: skip


def _leaderboard(group: Any) -> None:
    parser = _verb(
        group,
        "leaderboard",
        verbs.leaderboard,
        "tables of runs and published rows, made or checked",
    )
    add = parser.add_argument
    add(
        "spec",
        type=Path,
        metavar="SPEC.toml",
        help="the leaderboard, e.g. leaderboards/region.toml",
    )
    add("runs", nargs="*", type=Path, metavar="RUN",
        help="run folders that join it; a copy of their results is kept")  # fmt: skip
    add("--check", action="store_true", help="write nothing; exit 2 if a table is stale")
    add("--out", type=Path, metavar="DIR", help="write the tables there and keep no results")
    add("--json", action="store_true", help="print the leaderboard as one JSON object")


def _options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--config", metavar="FILE", help="TOML file with options, or the name of a shipped one")
    add("--set", action="append", default=[], metavar="PATH=VALUE", dest="assignments",
        help="an option, e.g. tasks.gres.root=DIR or model.path=FILE")  # fmt: skip


def _results(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--run", type=Path, metavar="DIR", help="the run folder")
    add("--max-errors", type=_fraction, metavar="F",
        help="share of failed requests or judge errors above which no number is shown "
        "(default 0.01)")  # fmt: skip
    add("--judge", metavar="J", help="the judge, or task=J,task=J")
    add("--max-judge-calls", type=int, metavar="N", help="refuse to start if it takes more")
    add("--max-judge-cost", type=float, metavar="C", help="refuse to start, or stop, above this")
    add("--judge-cache", type=Path, metavar="FILE",
        help="verdicts kept across runs (default: .verdicts.sqlite beside the run)")  # fmt: skip
    add("--json", action="store_true", help="print the result as one JSON object")
    add("--brief", action="store_true", help="print one line a task")
    add("--quiet", action="store_true", help="no progress on stderr")


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
