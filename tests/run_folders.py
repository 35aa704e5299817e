"""What the tests of run folders share: data, commands, processes, and the bytes that must agree."""

import json
import os
import random
import select
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from harness.types import Mask

FIXTURES = Path(__file__).parent / "fixtures"
PLUGINS = Path(__file__).parent / "plugins"
SUITE = FIXTURES / "groundingsuite"
TASK = "groundingsuite"
SECONDS = 60.0  # how long any process here may take before its test fails


def evaluation(
    data: Path = SUITE, run: str | Path = "run", predictions: Path | None = None
) -> list[str]:
    """The words of ``harness eval --model recorded`` on a set in GroundingSuite's format."""
    return [
        "eval", "--model", "recorded", "--tasks", TASK, "--run", str(run), "--max-errors=1",
        "--set", f"model.path={predictions or data / 'predictions.jsonl'}",
        "--set", f"tasks.{TASK}.root={data}", "--quiet",
    ]  # fmt: skip


def faulty(faults: Path, run: str | Path = "run") -> list[str]:
    """The words of ``harness eval --model faulty``, which fails as the file ``faults`` says."""
    return [
        "eval", "--model", "faulty", "--set", f"model.faults={faults}", "--run", str(run),
        "--tasks", TASK, "--set", f"tasks.{TASK}.root={SUITE}", "--quiet",
    ]  # fmt: skip


def outputs(run: Path, task: str = TASK) -> Mapping[str, bytes]:
    """The files of a finished run that must not depend on how it was worked on."""
    names = (f"{task}/predictions.jsonl", f"{task}/scores.jsonl", "result.json")
    return {name: (run / name).read_bytes() for name in names}


def number_of_lines(run: Path) -> int:
    """How many predictions a run folder holds, in all its files, also while they are joined."""
    lines: set[bytes] = set()
    for path in (run / TASK).glob("predictions*.jsonl"):
        with suppress(FileNotFoundError):
            lines.update(path.read_bytes().split(b"\n")[:-1])
    return len(lines)


def write_synthetic(folder: Path, n: int) -> Path:
    """Writes ``n`` made-up samples with answers: good, bad, failed and missing ones."""
    folder.mkdir(parents=True)
    dice = random.Random(0)
    samples: list[dict[str, Any]] = []
    answers: list[dict[str, Any]] = []
    for i in range(n):
        x, y = dice.randrange(40), dice.randrange(30)
        target = Mask.from_box((x, y, x + 20, y + 15), 48, 64)
        found = Mask.from_box((x + dice.randrange(8), y, x + 20, y + 15), 48, 64)
        samples.append(
            {
                "idx": i, "image_path": f"unlabeled2017/{i // 3}.jpg", "class_id": 1 + i % 4,
                "caption": f"thing {i}", "box": [x, y, x + 20, y + 15],
                "segmentation": target.to_coco(),
            }
        )  # fmt: skip
        text, masks = ("Wörter" * dice.randrange(30), [found.to_coco()])
        if i % 97 == 5:
            answers.append({"sample_id": str(i), "text": None})
        elif i % 101 != 7:
            answers.append({"sample_id": str(i), "text": text, "masks": masks})
    _write_lines(folder / "GroundingSuite-Eval.jsonl", samples)
    _write_lines(folder / "predictions.jsonl", answers)
    return folder


def _write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")


# Processes


@contextmanager
def start(
    words: Sequence[object], cwd: Path, *, group: bool = False
) -> Iterator[subprocess.Popen[str]]:
    """The command line in a process of its own (and a process group, on request).

    What still runs at the end of the block, since the test failed there, is killed.
    """
    path = (str(PLUGINS), os.environ.get("PYTHONPATH"))
    with subprocess.Popen(
        [sys.executable, "-m", "harness", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))},
        start_new_session=group,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """(exit code, stdout, stderr) of a process that must end by itself."""
    out, err = process.communicate(timeout=SECONDS)
    return process.returncode, out, err


def run_to_end(words: Sequence[object], cwd: Path, code: int = 0) -> str:
    """Runs a command in a process of its own; returns its stderr if it ends with ``code``."""
    with start(words, cwd) as process:
        got, out, err = finish(process)
    assert got == code, f"{words} ended with {got}:\n{out}\n{err}"
    return err


def wait_until_waiting(process: subprocess.Popen[str]) -> None:
    """Returns when the model ``faulty`` in a process (or a worker of it) met the fault "waits"."""
    assert process.stderr is not None
    seen = ""
    while not seen.endswith("waiting\n"):
        line = process.stderr.readline()
        assert line, f"the process ended before it waited:\n{seen}"
        seen += line


def children(pid: int) -> list[int]:
    """The processes that a process has started and that still run."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


def workers(pid: int) -> list[int]:
    """Those children that are workers of a sharded run, in the order they were started."""
    return [
        child
        for child in children(pid)
        if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]


class Watched:
    """Processes, not children of ours, whose end can be waited for."""

    def __init__(self, pids: Iterable[int]) -> None:
        self.handles: dict[int, int] = {}
        for pid in pids:
            try:
                self.handles[pid] = os.pidfd_open(pid)
            except ProcessLookupError:
                continue  # over already

    def wait(self) -> None:
        """Returns when all of them have ended; fails if one does not."""
        for pid, handle in self.handles.items():
            ended, _, _ = select.select([handle], [], [], SECONDS)
            os.close(handle)
            assert ended, f"process {pid} works on though its parent is gone"
