"""How fast and how small: the harness against the dense way of the public scorers, in one run.

    python benchmarks/scoring.py [--samples N] [--rounds K] [--write]

Both sides take turns within each round, so that a busy machine slows both. Whole runs count with
their best round (noise only adds), the scoring stage with the median of its many. Exits 1 if a
bound of ``BOUNDS`` is missed. See README.md here.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks import dense_scorer, synthetic

HERE = Path(__file__).resolve().parent
OUT = HERE / "out"
BASELINE = HERE / "baseline.json"
BOUNDS = {  # path in the results -> what it must be
    "scoring.masks.ratio": ("at least", 10.0),
    "whole_run.ratio": ("at least", 4.0),
    "whole_run.harness_mb": ("at most", 600.0),
    "growth.ratio": ("at most", 1.25),
}
IN_MEMORY = 500  # samples of the scoring stage
GROWTH_ROUNDS = 2  # how often the smaller and the larger set run; the large one takes longest
NOTABLE = 0.20  # smaller changes against the baseline are not reported
Results = dict[str, Any]


# Whole runs, as processes


@dataclass(frozen=True)
class Usage:
    """What one process took: wall and processor seconds, and its largest resident memory in MB."""

    seconds: float
    cpu: float
    megabytes: float


def run(command: Sequence[str | Path]) -> Usage:
    """Runs a process to its end; a failure ends the benchmark. Its Python caches byte code here."""
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    env["PYTHONPYCACHEPREFIX"] = str(OUT / "pycache")
    started = time.perf_counter()
    process = subprocess.Popen(command, env=env, cwd=OUT, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} ended with {process.returncode}")
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return Usage(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / unit)


def run_harness(files: synthetic.Files) -> tuple[Usage, float]:
    """`harness eval` from the files to the result, in a new run folder: (usage, gIoU)."""
    folder = OUT / "run"
    shutil.rmtree(folder, ignore_errors=True)
    command = [sys.executable, "-m", "harness", "eval", "--model", "recorded", "--quiet", "--brief"]
    command += ["--tasks", "groundingsuite", "--set", f"tasks.groundingsuite.root={files.root}"]
    command += ["--set", f"model.path={files.predictions}", "--run", str(folder)]
    usage = run(command)
    result = json.loads((folder / "result.json").read_bytes())
    return usage, result["tasks"]["groundingsuite"]["metrics"]["gIoU"]["value"]


def run_dense(files: synthetic.Files) -> tuple[Usage, float]:
    """The dense scorer from the same files to its result: (usage, gIoU)."""
    result = OUT / "dense.json"
    script = HERE / "dense_scorer.py"
    usage = run([sys.executable, script, files.truth, files.predictions, result])
    return usage, json.loads(result.read_bytes())["gIoU"]


def whole_runs(samples: int, rounds: int) -> Results:
    """Whole runs at a tenth of, at, and at five times ``samples``; dense at ``samples`` only."""
    sizes = [max(1, samples // 10), samples, 5 * samples]
    files = {size: synthetic.files(OUT, size) for size in sizes}
    run_harness(files[sizes[0]])  # the first of each only warms caches
    run_dense(files[sizes[0]])
    ours: dict[int, list[Usage]] = {size: [] for size in sizes}
    dense: list[Usage] = []
    for number in range(rounds):
        for size in sizes if number < GROWTH_ROUNDS else [samples]:
            note(f"whole runs, round {number + 1} of {rounds}: {size:,} samples")
            usage, value = run_harness(files[size])
            ours[size].append(usage)
            if size == samples:
                usage, expected = run_dense(files[size])
                dense.append(usage)
                if abs(value - expected) > 1e-9:
                    raise SystemExit(f"the two scorers disagree: gIoU {value} and {expected}")
    return {
        "whole_run": compared(ours[samples], dense),
        "sizes": {str(size): size_row(size, used) for size, used in ours.items()},
        "growth": growth({size: min(u.cpu for u in used) for size, used in ours.items()}),
    }


def compared(ours: Sequence[Usage], dense: Sequence[Usage]) -> Results:
    seconds = [min(u.seconds for u in used) for used in (ours, dense)]
    cpu = [min(u.cpu for u in used) for used in (ours, dense)]
    return {
        "harness_s": seconds[0],
        "dense_s": seconds[1],
        "ratio": seconds[1] / seconds[0],
        "harness_cpu_s": cpu[0],
        "dense_cpu_s": cpu[1],
        "cpu_ratio": cpu[1] / cpu[0],
        "harness_mb": max(u.megabytes for u in ours),
        "dense_mb": max(u.megabytes for u in dense),
    }


def size_row(size: int, used: Sequence[Usage]) -> Results:
    seconds, cpu = min(u.seconds for u in used), min(u.cpu for u in used)
    return {
        "s": seconds,
        "cpu_s": cpu,
        "s_per_1000": seconds / size * 1000,
        "cpu_s_per_1000": cpu / size * 1000,
        "mb": max(u.megabytes for u in used),
    }


def growth(cpu_s: Mapping[int, float]) -> Results:
    """What a sample of the largest set costs, in units of one of the middle set; 1 is linear."""
    _, middle, large = sorted(cpu_s)
    return {"ratio": (cpu_s[large] / large) / (cpu_s[middle] / middle)}


# The scoring stage alone, in this process


def scoring_stage(rounds: int) -> Results:
    """Microseconds per sample from masks in memory to a score, and from RLE objects densely."""
    note("the scoring stage")
    files = synthetic.files(OUT, IN_MEMORY)
    return {
        "masks": in_turns(*mask_scorers(files), rounds),
        "polygons": in_turns(*polygon_scorers(), rounds),
    }


def mask_scorers(files: synthetic.Files) -> tuple[Callable[[], float], Callable[[], float]]:
    """Two functions that score all samples of a set and return the sum of their IoUs."""
    from harness.records import parse_prediction
    from harness_tasks.groundingsuite import GroundingSuite

    lines = files.read(IN_MEMORY)
    task = GroundingSuite(root=files.root)
    pairs = [
        (sample, parse_prediction(said))
        for sample, (_, said) in zip(task.samples(), lines, strict=True)
    ]
    raw = [(truth["segmentation"], said["masks"]) for truth, said in lines]
    return (
        lambda: sum(task.score(sample, said).values["iou"] for sample, said in pairs),
        lambda: sum(dense_scorer.score(truth, masks) for truth, masks in raw),
    )


def polygon_scorers() -> tuple[Callable[[], float], Callable[[], float]]:
    """The same for ground truth that is polygons, as in gRefCOCO: drawn, then compared."""
    from pycocotools import mask as coco

    from harness.metrics import iou, overlap
    from harness.types import Mask

    size = synthetic.HEIGHT, synthetic.WIDTH
    raw = synthetic.polygons(IN_MEMORY)
    pairs = [(drawn, Mask.from_coco(said)) for drawn, said in raw]

    def dense(drawn: list[list[float]], said: Mapping[str, Any]) -> float:
        truth_HW = dense_scorer.decode(coco.merge(coco.frPyObjects(drawn, *size)))
        return dense_scorer.dense_iou(truth_HW, dense_scorer.decode(said))

    return (
        lambda: sum(iou(*overlap(said, Mask.from_polygons(drawn, *size))) for drawn, said in pairs),
        lambda: sum(dense(drawn, said) for drawn, said in raw),
    )


def in_turns(ours: Callable[[], float], dense: Callable[[], float], rounds: int) -> Results:
    """Both functions timed in turns, after one turn each that is checked instead."""
    if abs(ours() - dense()) > 1e-6:
        raise SystemExit(f"the two ways to score disagree: {ours()} and {dense()}")
    times = [(timed(ours), timed(dense)) for _ in range(3 * rounds)]
    return {
        "harness_us": median(a for a, _ in times) / IN_MEMORY * 1e6,
        "dense_us": median(b for _, b in times) / IN_MEMORY * 1e6,
        "ratio": median(b / a for a, b in times),
    }


def timed(function: Callable[[], object]) -> float:
    started = time.perf_counter()
    function()
    return time.perf_counter() - started


# The report


def flat(value: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, float]]:
    """(dotted path, number) for every number of nested results."""
    for key, item in value.items():
        if isinstance(item, Mapping):
            yield from flat(item, f"{path}{key}.")
        elif isinstance(item, int | float):
            yield path + key, item


def table(results: Results) -> str:
    """The results for people."""
    whole, stage, sizes = results["whole_run"], results["scoring"], results["sizes"]
    lines = [f"{'':34}{'harness':>12}{'dense':>12}{'ratio':>9}"]
    for name, row in stage.items():
        label = f"scoring, {name}, per sample"
        numbers = f"{row['harness_us']:9.1f} us{row['dense_us']:9.1f} us{row['ratio']:8.1f}x"
        lines.append(f"{label:34}{numbers}")
    label = f"whole run, {results['samples']:,} samples"
    for unit, ratio in (("s", "ratio"), ("cpu_s", "cpu_ratio")):
        ours, dense = whole[f"harness_{unit}"], whole[f"dense_{unit}"]
        lines.append(f"{label:34}{ours:10.2f} s{dense:10.2f} s{whole[ratio]:8.1f}x")
        label = "    processor time"
    lines.append(f"{'    peak memory':34}{whole['harness_mb']:9.0f} MB{whole['dense_mb']:9.0f} MB")
    lines += ["", f"{'samples':>10}{'seconds':>10}{'processor':>11}{'s / 1,000':>11}{'memory':>11}"]
    for size, row in sizes.items():
        numbers = f"{row['s']:10.2f}{row['cpu_s']:11.2f}{row['s_per_1000']:11.3f}"
        lines.append(f"{int(size):10,}{numbers}{row['mb']:8.0f} MB")
    grown = results["growth"]["ratio"]
    lines += [f"a sample of the largest set takes {grown:.2f} times one of the middle set", ""]
    return "\n".join(lines)


def verdicts(results: Results) -> tuple[list[str], bool]:
    """A line for each bound, and whether all hold."""
    numbers, lines, good = dict(flat(results)), [], True
    for path, (sense, bound) in BOUNDS.items():
        value = numbers[path]
        holds = value >= bound if sense == "at least" else value <= bound
        good &= holds
        lines.append(f"{'ok    ' if holds else 'MISSED'} {path} {value:.2f}, {sense} {bound:g}")
    return lines, good


def changes(results: Results, baseline: Results) -> list[str]:
    """What changed notably. Times are compared in units of the dense run's processor time, so that
    a baseline from another machine tells something too."""
    if results["samples"] != baseline["samples"]:
        return [f"no comparison: the baseline is for {baseline['samples']:,} samples"]
    new, old = dict(flat(results)), dict(flat(baseline))
    speed = new["whole_run.dense_cpu_s"] / old["whole_run.dense_cpu_s"]
    lines = []
    for path in sorted(new.keys() & old.keys()):
        is_time = re.search(r"[._]u?s(_per_1000)?$", path)
        change = new[path] / old[path] / (speed if is_time else 1) - 1
        if abs(change) > NOTABLE:
            lines.append(f"{path}: {old[path]:.3g} -> {new[path]:.3g} ({change:+.0%})")
    if not lines:
        return [f"no change of more than {NOTABLE:.0%} against baseline.json"]
    return [f"changed by more than {NOTABLE:.0%} against baseline.json (at equal speed):", *lines]


def median(values: Iterator[float]) -> float:
    return statistics.median(values)


def note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def rounded(value: Any) -> Any:
    """Numbers to four digits, for a file that people read."""
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return float(f"{value:.4g}") if isinstance(value, float) else value


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n")[0])
    parser.add_argument("--samples", type=int, default=10_000, help="of the compared runs")
    parser.add_argument("--rounds", type=int, default=5, help="how often the runs are compared")
    parser.add_argument("--write", action="store_true", help=f"write {BASELINE.name}")
    options = parser.parse_args()
    if options.samples < 100 or options.rounds < 1:
        parser.error("it takes at least 100 samples and one round")
    OUT.mkdir(exist_ok=True)
    packages = ("numpy", "pycocotools", "pydantic")
    results: Results = {
        "samples": options.samples,
        "rounds": options.rounds,
        "made_with": {name: version(name) for name in packages},
        **whole_runs(options.samples, options.rounds),  # first: memory counts what starts it
        "scoring": scoring_stage(options.rounds),
    }
    lines, good = verdicts(results)
    print(table(results), *lines, sep="\n")
    if BASELINE.exists():
        print("", *changes(results, json.loads(BASELINE.read_bytes())), sep="\n")
    if options.write:
        BASELINE.write_text(json.dumps(rounded(results), indent=2) + "\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
