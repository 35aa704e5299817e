"""Results as tables for people. Every number there is multiplied by 100; the JSON is not."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

WIDE = 5
"""More groups than this stand below each other."""

QUOTE = '"'
ALL = {"mean of groups": "mean", "all samples": "all", "one group": "all"}


def render(result: Mapping[str, Any], failures: Mapping[str, Sequence[str]]) -> str:
    """The tables of a run, one block a task."""
    blocks = [one_line(f"{result['model']['name']}    run folder: {result['run']}")]
    if "shard" in result:
        for name, task in result["tasks"].items():
            blocks.append(f"{name}, shard {result['shard']}: {_counts(task)}")
        blocks.append("When all shards are answered: harness merge RUN [RUN ...] --run DIR")
        return "\n".join(map(one_line, blocks))
    for name, task in result["tasks"].items():
        blocks.append(_task(name, task, failures.get(name, ())))
    blocks += [one_line(f"note: {note}") for note in result["notes"]]
    return "\n\n".join(blocks)


def render_brief(result: Mapping[str, Any]) -> str:
    """One line a task: the headline metric and the counts."""
    rows = [
        [result["model"]["name"], name, task.get("primary", ""), _headline(task), _counts(task)]
        for name, task in result["tasks"].items()
    ]
    lines = table(rows)
    lines += [
        f"{name}: {_no_numbers(task)}"
        for name, task in result["tasks"].items()
        if task.get("above_max_errors")
    ]
    return "\n".join(map(one_line, lines))


def _no_numbers(task: Mapping[str, Any]) -> str:
    """Why there is no number, and what to do."""
    parts = []
    for count, total, what in (
        (task["errors"], task["n"], "requests"),
        (task["judge_errors"], task["questions"], "verdicts"),
    ):
        if count > task["max_errors"] * total:
            parts.append(f"{count} of {total} {what} failed ({100 * count / total:.1f} %)")
    limit = 100 * task["max_errors"]
    return (
        f"NO NUMBERS: {' and '.join(parts)}, more than --max-errors {task['max_errors']:g} "
        f"({limit:g} %). Mend the cause and run the same command again (for failed requests with "
        "--retry-failed), or accept it with a larger --max-errors"
    )


def _headline(task: Mapping[str, Any]) -> str:
    return cell(task["metrics"][task["primary"]]) if "metrics" in task else "-"


def _task(name: str, task: Mapping[str, Any], failures: Sequence[str]) -> str:
    columns = {ALL[task["overall"]]: task["metrics"], **task["groups"]}
    if len(task["groups"]) == 1 or (task["groups"] and task["overall"] == "one group"):
        columns = dict(task["groups"])
    rows = [["", *columns]]
    for metric in task["metrics"]:
        star = "*" if metric == task["primary"] else " "
        rows.append([f"{star}{metric}", *(cell(column[metric]) for column in columns.values())])
    if len(columns) > 1:
        primary = task["primary"]
        rows.append([" samples", *(str(column[primary]["n"]) for column in columns.values())])
    if len(columns) > WIDE:
        rows = [list(row) for row in zip(*rows, strict=True)]
    lines = [f"{name} v{task['version']}    {_counts(task)}", *table(rows)]
    lines.append("95 % bootstrap intervals, resampled by picture; values x100; * headline")
    if task["protocol"]:
        stamp = (f"{k}={json.dumps(v).strip(QUOTE)}" for k, v in task["protocol"].items())
        lines.append("protocol: " + ", ".join(stamp))
    if task["flags"]:
        lines.append(
            "replies: " + ", ".join(f"{count} {flag}" for flag, count in task["flags"].items())
        )
    if task["usage"]:
        counts = (f"{value:,} {key.replace('_', ' ')}" for key, value in task["usage"].items())
        lines.append("asking took " + ", ".join(counts))
    lines += [f"{metric} is not available: {why}" for metric, why in task["unavailable"].items()]
    if task["above_max_errors"]:
        lines.append(_no_numbers(task))
    lines += failures
    return "\n".join(map(one_line, lines))


def _counts(task: Mapping[str, Any]) -> str:
    if "errors" not in task:
        return f"{task['n']} of {task['of']} samples answered"
    n, errors, skipped = task["n"], task["errors"], task["skipped"]
    limit = task["protocol"].get("limit")
    parts = [f"{n} samples" + (f" (only the first {limit})" if limit is not None else "")]
    parts.append(f"{errors} failed ({100 * errors / max(1, n):.1f} %)")
    if task["judge"]:
        parts.append(f"{task['questions']} verdicts by {task['judge']['name']}")
        parts.append(f"{task['judge_errors']} judge errors, {task['judge_unreadable']} unreadable")
    if skipped:
        more = ", ..." if len(skipped) > 3 else ""
        parts.append(f"{len(skipped)} skipped: {', '.join(skipped[:3])}{more}")
    return ", ".join(parts)


def cell(estimate: Mapping[str, Any]) -> str:
    """``57.18 [46.9, 67.1]``; a dash where there is no number."""
    if estimate["value"] is None:
        return "-"
    value = f"{100 * estimate['value']:.2f}"
    if estimate["low"] is None:
        return value
    return f"{value} [{100 * estimate['low']:.1f}, {100 * estimate['high']:.1f}]"


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Aligned lines; the first column to the left, the others to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(
            text.ljust(w) if i == 0 else text.rjust(w)
            for i, (text, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def render_comparison(comparison: Mapping[str, Any]) -> str:
    """The table of a paired comparison."""
    lines = [
        f"A: {comparison['a']['model']['name']}  ({comparison['a']['run']})",
        f"B: {comparison['b']['model']['name']}  ({comparison['b']['run']})",
    ]
    if comparison["allowed"]:
        lines.append(f"compared although these may differ: {', '.join(comparison['allowed'])}")
    for name, groups in comparison["tasks"].items():
        rows = [[name, "metric", "A", "B", "A - B", "95 % interval", "p"]]
        for group, metrics in groups.items():
            rows += [
                [group or "overall", metric, *_difference(row)] for metric, row in metrics.items()
            ]
        lines += ["", *table(rows)]
    lines += [
        "",
        "values x100; paired bootstrap by picture; p: permutation test, two-sided, not corrected "
        "for the number of rows",
    ]
    return "\n".join(map(one_line, lines))


def render_agreement(result: Mapping[str, Any]) -> str:
    """How two judges agree, with the first questions on which they do not."""
    lines = []
    for name, task in result["tasks"].items():
        alpha = "undefined" if task["alpha"] is None else f"{task['alpha']:.3f}"
        if "judge" in task:
            lines += [
                f"{name}: {task['judge']['name']} on {task['questions']} questions, of which "
                f"{len(task['disagreements'])} not unanimous; Krippendorff's alpha {alpha}",
                *(
                    f"  {r['sample_id']} question {r['question_index']}: {r['votes']}"
                    for r in task["disagreements"][:10]
                ),
            ]
            continue
        lines += [
            f"{name}: {task['a']['name']} and {task['b']['name']} on {task['questions']} questions",
            f"  {task['agree']} of {task['both_readable']} readable by both agree; "
            f"Krippendorff's alpha {alpha}",
        ]
        rows = task["disagreements"]
        lines += [
            f"  {r['sample_id']} question {r['question_index']}: {r['a']!r} / {r['b']!r}"
            for r in rows[:10]
        ]
        lines += [f"  and {len(rows) - 10} more (see --json)"] if len(rows) > 10 else []
    return "\n".join(map(one_line, lines))


def _difference(row: Mapping[str, Any]) -> list[str]:
    if row["difference"] is None:
        return [_percent(row["a"]), _percent(row["b"]), "-", "-", "-"]
    bounds = f"[{100 * row['low']:+.1f}, {100 * row['high']:+.1f}]"
    return [
        _percent(row["a"]),
        _percent(row["b"]),
        f"{100 * row['difference']:+.2f}",
        bounds,
        f"{row['p']:.4f}",
    ]


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.2f}"


def printable(text: str) -> str:
    """The text without characters that could steer a terminal (ids and errors are untrusted)."""
    return _STEERING.sub("?", text)


def one_line(text: str) -> str:
    """The same for a text that must stay in its line: no line break and no tab."""
    return re.sub(r"[\n\t]", "?", printable(text))


_STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
