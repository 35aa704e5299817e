"""Killed anywhere, the same command finishes, and every byte is that of an undisturbed run."""

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.run_folders import (
    SECONDS,
    Watched,
    children,
    evaluation,
    faulty,
    finish,
    number_of_lines,
    outputs,
    run_to_end,
    start,
    wait_until_waiting,
    workers,
    write_synthetic,
)

pytestmark = pytest.mark.slow

N = 1500


@dataclass(frozen=True)
class Moment:
    """When to kill: so many seconds after so many samples are answered."""

    answers: int
    seconds: float


@dataclass(frozen=True)
class Undisturbed:
    words: list[str]
    seconds: float
    outputs: Mapping[str, bytes]

    def moments(self, starting: int, working: int, ending: int, seed: int) -> list[Moment]:
        """Random moments, spread over the run's duration and, as that changes with what else the
        machine does, over its work and over what comes after the last answer (joining, scoring).
        """
        dice = random.Random(seed)
        return [
            *(Moment(0, at * self.seconds) for at in _spread(starting, dice)),
            *(Moment(1 + int(at * N), dice.random() * 0.01) for at in _spread(working, dice)),
            *(Moment(N, at * self.seconds / 4) for at in _spread(ending, dice)),
        ]


def _spread(n: int, dice: random.Random) -> Iterator[float]:
    """A random number in each of ``n`` equal parts of 0 to 1."""
    return ((i + dice.random()) / n for i in range(n))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    """A run in two shards that nobody disturbed, and how long it took."""
    folder = tmp_path_factory.mktemp("undisturbed")
    words = [*evaluation(write_synthetic(folder / "data", N)), "--shards", "2"]
    begun = time.monotonic()
    run_to_end(words, folder)
    return Undisturbed(words, time.monotonic() - begun, outputs(folder / "run"))


def _killed_at(
    moment: Moment, words: list[str], cwd: Path, *, group: bool = False
) -> tuple[Watched, int]:
    """(the processes left behind, how many samples were answered) when the parent was killed."""
    with start(words, cwd, group=group) as process:
        left = Watched([])
        try:
            while number_of_lines(cwd / "run") < moment.answers and process.poll() is None:
                time.sleep(0.002)
            process.wait(moment.seconds)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGSTOP)  # so that no child is started after this look
            left = Watched(children(process.pid))
            (os.killpg if group else os.kill)(process.pid, signal.SIGKILL)
        answered = number_of_lines(cwd / "run")
        finish(process)
    return left, answered


@pytest.mark.parametrize(("group", "moments"), [(False, (8, 11, 6)), (True, (1, 2, 1))])
def test_killed_at_random_moments(
    undisturbed: Undisturbed, tmp_path: Path, group: bool, moments: tuple[int, int, int]
) -> None:
    """Only the parent is killed, or all processes at once. The next run starts at once: it meets
    the workers of the first while they still die."""
    answered = []
    for i, moment in enumerate(undisturbed.moments(*moments, seed=0)):
        folder = tmp_path / str(i)
        folder.mkdir()
        left, number = _killed_at(moment, undisturbed.words, folder, group=group)
        answered.append(number)
        run_to_end(undisturbed.words, folder)
        assert outputs(folder / "run") == undisturbed.outputs, f"killed at {moment}"
        left.wait()
        names = {path.name for path in (folder / "run").rglob("*") if path.is_file()}
        assert {n for n in names if not n.startswith(".lock")} == {
            "run.json", "sessions.jsonl", "result.json", "predictions.jsonl", "scores.jsonl"
        }  # fmt: skip
    assert any(0 < n < N for n in answered), f"no kill hit the work itself: {answered}"


def test_killed_again_and_again(undisturbed: Undisturbed, tmp_path: Path) -> None:
    """One folder, killed each time with some more answers, until a run comes through."""
    left, answered = [], []
    for moment in undisturbed.moments(0, 4, 0, seed=1):
        still, number = _killed_at(moment, undisturbed.words, tmp_path)
        left.append(still)
        answered.append(number)
    assert answered == sorted(answered)  # nothing that was answered is lost
    run_to_end(undisturbed.words, tmp_path)
    assert outputs(tmp_path / "run") == undisturbed.outputs
    for still in left:
        still.wait()


def test_workers_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    """Also one whose model hangs."""
    faults = tmp_path / "faults.json"
    faults.write_text('{"13": "waits"}')
    with start([*faulty(faults), "--shards", "2"], tmp_path) as process:
        wait_until_waiting(process)
        left = workers(process.pid)
        assert left
        watched = Watched(left)
        process.kill()
        watched.wait()


@pytest.mark.parametrize("group", [False, True])
@pytest.mark.parametrize("shards", [1, 2])
def test_interrupted(tmp_path: Path, shards: int, group: bool) -> None:
    """Ctrl-C at a terminal reaches the whole group, ``kill -INT`` only the parent."""
    faults = tmp_path / "faults.json"
    faults.write_text('{"13": "waits"}')
    words = [*faulty(faults), "--shards", str(shards)]
    with start(words, tmp_path, group=True) as process:
        wait_until_waiting(process)
        left = Watched(children(process.pid))
        (os.killpg if group else os.kill)(process.pid, signal.SIGINT)
        code, out, err = finish(process)
    assert (code, out) == (130, "")
    assert "Interrupted; every answer so far is saved" in err
    assert "\n  harness eval --model faulty --set" in err  # the command to go on with
    assert "Traceback" not in err
    left.wait()
    assert (13 if shards == 1 else 6) <= number_of_lines(tmp_path / "run") < 26

    faults.write_text("{}")
    run_to_end(words, tmp_path)
    assert number_of_lines(tmp_path / "run") == 26
    assert (tmp_path / "run" / "result.json").exists()


def test_interrupted_at_random_moments(undisturbed: Undisturbed, tmp_path: Path) -> None:
    """Ctrl-C while workers start, work or end: one message, no traceback, and it goes on."""
    interrupted = 0
    for i, moment in enumerate(undisturbed.moments(5, 0, 0, seed=2)):
        folder = tmp_path / str(i)
        folder.mkdir()
        with start(undisturbed.words, folder, group=True) as process:
            try:
                # Before its folder is there, Python itself may still be starting.
                deadline = time.monotonic() + SECONDS
                while not (folder / "run" / "run.json").exists() and time.monotonic() < deadline:
                    time.sleep(0.005)
                process.wait(moment.seconds / 2)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGINT)
            code, out, err = finish(process)
        assert code in (0, 130), err
        assert "Traceback" not in err
        if code:
            interrupted += 1
            assert (out, err.count("Interrupted;")) == ("", 1)
            run_to_end(undisturbed.words, folder)
        assert outputs(folder / "run") == undisturbed.outputs
    assert interrupted
