"""What `make demo` runs: a recorded file and the baselines, scored on the shipped example data."""

import os
import sys
from pathlib import Path

from harness.cli import main

ROOT = Path(__file__).resolve().parent.parent
DATA = (ROOT / "tests" / "fixtures").relative_to(ROOT)
TASKS = ("gres", "groundingsuite")


def evaluate(model: str, folder: Path, *more: str) -> int:
    """One `harness eval` on both tasks; returns its exit code."""
    roots = [f"--set=tasks.{name}.root={DATA / name}" for name in TASKS]
    command = ["eval", "--model", model, "--tasks", ",".join(TASKS), *more]
    print(f"\n$ harness {' '.join(command)} ...", flush=True)
    return main([*command, *roots, "--run", str(folder / model), "--quiet"])


def demo() -> int:
    """The example predictions with all numbers, then one line for each baseline."""
    os.chdir(ROOT)
    runs = Path("runs", "demo")
    files = ",".join(str(DATA / name / "predictions.jsonl") for name in TASKS)
    # The file records three failed requests on purpose; 1 % is the default limit.
    code = evaluate("recorded", runs, "--max-errors=0.1", f"--set=model.path={files}")
    for baseline in ("empty", "whole-image", "random-box", "oracle"):
        code = code or evaluate(baseline, runs, "--brief")
    return code or evaluate("oracle", runs / "boxes", "--brief", "--set=model.codec=boxes")


if __name__ == "__main__":
    sys.exit(demo())
