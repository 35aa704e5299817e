"""Runs in shards: the same bytes however they are cut, and nothing but the whole is merged."""

import json
import os
import shutil
import signal
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.run_folders import (
    SUITE,
    TASK,
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

N = 26  # samples of the golden GroundingSuite

Bytes = Mapping[str, bytes]


@pytest.fixture
def whole(harness: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bytes:
    """The outputs of an undisturbed run in ``run``; the test then stands in another folder."""
    for name in ("alone", "here"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "alone")
    harness(*evaluation())
    monkeypatch.chdir(tmp_path / "here")
    return outputs(tmp_path / "alone" / "run")


def test_any_number_of_shards_gives_the_same_bytes(
    harness: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also more shards than samples: with 5 samples, three of eight have nothing to do."""
    data = write_synthetic(tmp_path / "data", 5)
    found: dict[tuple[int, str], Bytes] = {}
    for shards in (1, 2, 3, 8):
        for name, root in (("golden", SUITE), ("tiny", data)):
            if (shards, name) in ((2, "tiny"), (3, "tiny")):
                continue  # enough with one and eight
            folder = tmp_path / f"{name}-{shards}"
            folder.mkdir()
            monkeypatch.chdir(folder)
            harness(*evaluation(root), "--shards", shards)
            found[shards, name] = outputs(Path("run"))
            assert [p.name for p in Path("run", TASK).iterdir() if "-of-" in p.name] == []
    assert len(found) == 6
    for (_, name), bytes_of_run in found.items():
        assert bytes_of_run == found[1, name]


def test_a_finished_run_starts_no_worker(harness: Any, whole: Bytes) -> None:
    harness(*evaluation())
    harness(*evaluation(), "--shards", 2)
    assert not list(Path("run").glob(".lock-*"))
    assert outputs(Path("run")) == whole


def test_shards_in_folders_of_their_own(harness: Any, whole: Bytes) -> None:
    for i in range(3):
        result = harness(*evaluation(run=f"part{i}"), "--shard", f"{i}/3", "--json")
        assert result["shard"] == f"{i}/3"
        assert result["tasks"][TASK] == {"n": len(range(i, N, 3)), "of": N}
        assert not Path(f"part{i}", "result.json").exists()
    harness("merge", "part2", "part0", "part1", "--run", "run", "--max-errors=1")
    assert outputs(Path("run")) == whole


def test_shards_in_one_folder(harness: Any, whole: Bytes) -> None:
    for i in (1, 0, 2):
        harness(*evaluation(), "--shard", f"{i}/3")
    harness("merge", "run", "--max-errors=1")
    assert outputs(Path("run")) == whole
    harness("merge", "run", "--max-errors=1")
    assert outputs(Path("run")) == whole


def test_shards_of_one_folder_at_the_same_time(whole: Bytes) -> None:
    here = Path.cwd()
    with ExitStack() as stack:
        parts = [[*evaluation(), "--shard", f"{i}/3"] for i in range(3)]
        for process in [stack.enter_context(start(words, here)) for words in parts]:
            code, _, err = finish(process)
            assert code == 0, err
    run_to_end(["merge", "run", "--max-errors=1"], here)
    assert outputs(here / "run") == whole
    lines = (here / "run" / "sessions.jsonl").read_text().splitlines()
    assert sorted(json.loads(line)["shard"] for line in lines) == ["0/1", "0/3", "1/3", "2/3"]


def test_one_folder_is_merged_into_a_new_one(harness: Any, whole: Bytes) -> None:
    for i in range(2):
        harness(*evaluation(run="parts"), "--shard", f"{i}/2")
    harness("merge", "parts", "--run", "run", "--max-errors=1")
    assert outputs(Path("run")) == whole
    assert not Path("parts", "result.json").exists()


def test_a_run_goes_on_with_another_number_of_shards(harness: Any, whole: Bytes) -> None:
    harness(*evaluation(), "--shard", "1/3")
    harness(*evaluation(), "--shard", "0/2")  # half of those of 1/3 are answered
    assert number_of_lines(Path("run")) == len({*range(1, N, 3), *range(0, N, 2)})
    harness(*evaluation(), "--shards", 4)
    assert outputs(Path("run")) == whole


# Merge refuses


def _parts(harness: Any, change: Callable[[list[str]], list[str]] = lambda words: words) -> None:
    """Shard 0/2 in ``part0``, and 1/2 of the command that ``change`` makes in ``part1``."""
    harness(*evaluation(run="part0"), "--shard", "0/2")
    harness(*change(evaluation(run="part1")), "--shard", "1/2")


def _refused(harness: Any, *folders: str) -> str:
    message: str = harness("merge", *folders, "--run", "run", "--max-errors=1", code=2)
    assert message.startswith("error: ")
    assert message.count("\n") == 1
    assert not Path("run", "result.json").exists()
    return message


def test_merge_refuses_missing_samples(harness: Any, whole: Bytes) -> None:
    _parts(harness)
    message = _refused(harness, "part0")
    assert f"13 of {N} samples of {TASK} have no answer yet, '1' first" in message
    assert "run the missing shards, then merge" in message
    harness("merge", "part0", "part1", "--run", "run", "--max-errors=1")
    assert outputs(Path("run")) == whole


def test_merge_in_place_refuses_missing_samples(harness: Any, whole: Bytes) -> None:
    _parts(harness)
    message = harness("merge", "part1", code=2)
    assert "13 of 26 samples of groundingsuite have no answer yet, '0' first" in message


def test_merge_refuses_duplicates(harness: Any, whole: Bytes) -> None:
    _parts(harness)
    shutil.copytree("part0", "copy")
    message = _refused(harness, "part0", "copy", "part1")
    assert (
        f"sample '0' of {TASK} is answered in part0 and in copy; merge each shard once" in message
    )
    assert "is answered in part1 and in part1" in _refused(harness, "part1", "part1")


def test_merge_refuses_a_foreign_sample(harness: Any, whole: Bytes) -> None:
    _parts(harness)
    with Path("part1", TASK, "predictions.1-of-2.jsonl").open("a") as file:
        file.write('{"sample_id": "99", "text": ""}\n')
    message = _refused(harness, "part0", "part1")
    assert "answers sample '99', which is not part of this run" in message


def test_merge_refuses_another_model_file(harness: Any, whole: Bytes, tmp_path: Path) -> None:
    other = tmp_path / "predictions.jsonl"  # the name is the same, so only the content tells
    other.write_bytes((SUITE / "predictions.jsonl").read_bytes() + b"\n")
    _parts(harness, lambda words: [*words, "--set", f"model.path={other}"])
    message = _refused(harness, "part0", "part1")
    assert "part1 is not a shard of the run in part0: model.fingerprint.sha256/0 is '" in message


def test_merge_refuses_other_data(harness: Any, whole: Bytes, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    data = (SUITE / "GroundingSuite-Eval.jsonl").read_bytes()
    (other / "GroundingSuite-Eval.jsonl").write_bytes(data + b"\n")
    _parts(harness, lambda words: [*words, "--set", f"tasks.{TASK}.root={other}"])
    message = _refused(harness, "part0", "part1")
    assert "part1 is not a shard of the run in part0: " in message
    assert f"tasks.{TASK}.data.GroundingSuite-Eval.jsonl is '" in message


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--limit", "20"], "spec.limit is 20, there None"),
        (["--set", f"tasks.{TASK}.parse=exact"], f"{TASK}.parse is 'exact', there 'span'"),
        (["--set", "model.codec=boxes"], "model_options.codec is 'boxes', there 'mask_tokens'"),
    ],
)
def test_merge_refuses_other_options(
    harness: Any, whole: Bytes, more: list[str], says: str
) -> None:
    _parts(harness, lambda words: [*words, *more])
    message = _refused(harness, "part0", "part1")
    assert "part1 is not a shard of the run in part0: " in message
    assert f"{says}; merge shards of one run only" in message


def test_merge_refuses_data_that_changed_since(harness: Any, tmp_path: Path) -> None:
    data = write_synthetic(tmp_path / "data", 10)
    run = tmp_path / "run"
    harness(*evaluation(data, run), "--shard", "0/1")
    file = data / "GroundingSuite-Eval.jsonl"
    file.write_bytes(file.read_bytes() + b"\n")
    message = harness("merge", run, code=2)
    assert "the files have changed since, so the answers do not fit them" in message


def test_merge_wants_run_folders_and_a_place(harness: Any, whole: Bytes) -> None:
    assert "nowhere is not a run folder: it has no run.json" in harness("merge", "nowhere", code=2)
    _parts(harness)
    assert "needs a new one for the whole: --run DIR" in harness("merge", "part0", "part1", code=2)


# A shard that dies


@pytest.mark.parametrize("again", ["the same command", "the shard alone", "fewer shards"])
def test_a_shard_that_is_killed_is_named_and_can_be_run_again(tmp_path: Path, again: str) -> None:
    alone, here, faults = tmp_path / "alone", tmp_path / "here", tmp_path / "faults.json"
    alone.mkdir()
    here.mkdir()
    words = faulty(faults)
    faults.write_text("{}")
    run_to_end(words, alone)

    faults.write_text('{"13": "waits"}')  # the seventh of the 13 samples of shard 1/2
    with start([*words, "--shards", 2], here) as process:
        wait_until_waiting(process)
        os.kill(workers(process.pid)[-1], signal.SIGKILL)
        code, out, err = finish(process)
    assert (code, out) == (1, "")
    assert "error: shard 1/2 was killed by signal 9 (SIGKILL). All answers so far" in err
    assert "one shard alone with --run run --shard I/2" in err
    assert "shard 0/2" not in err
    assert "Traceback" not in err
    assert number_of_lines(here / "run") == 13 + 6

    faults.write_text("{}")
    asked = faults.with_suffix(".asked")
    asked.unlink()
    if again == "the shard alone":
        run_to_end([*words, "--shard", "1/2"], here)
        run_to_end(["merge", "run"], here)
    else:
        run_to_end([*words, "--shards", 2 if again == "the same command" else 1], here)
    assert outputs(here / "run") == outputs(alone / "run")
    ids = [i for line in asked.read_text().splitlines() for i in json.loads(line)]
    assert sorted(ids, key=int) == [str(i) for i in range(13, N, 2)]  # only what was missing


def test_a_shard_that_died_and_one_that_stopped_are_told_apart(tmp_path: Path) -> None:
    """Exit 1 if one of them died; exit 2 if all met an error that the user can mend."""
    faults = tmp_path / "faults.json"
    faults.write_text('{"4": "config error", "5": "dies"}')
    err = run_to_end([*faulty(faults), "--shards", 2], tmp_path, code=1)
    assert "error: shard 0/2 stopped: the adapter wants another option; shard 1/2 was killed" in err
    faults.write_text('{"4": "config error"}')
    err = run_to_end([*faulty(faults), "--shards", 2], tmp_path, code=2)
    assert "error: shard 0/2 stopped: the adapter wants another option. All answers" in err
    assert "Traceback" not in err
    faults.write_text("{}")
    run_to_end([*faulty(faults), "--shards", 2], tmp_path)
    assert number_of_lines(tmp_path / "run") == N


def test_an_interrupted_start_leaves_no_worker_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C between the start of two workers: the first must not go on to work."""
    import multiprocessing.context

    from harness.plan import RunSpec
    from harness.progress import Progress
    from harness.shards import ask_in_processes

    real = multiprocessing.context.SpawnProcess.start
    started: list[Any] = []

    def start_one(process: Any) -> None:
        if started:
            raise KeyboardInterrupt
        real(process)
        started.append(process)

    monkeypatch.setattr(multiprocessing.context.SpawnProcess, "start", start_one)
    spec = RunSpec("empty", {TASK: {"root": str(SUITE)}})
    with pytest.raises(KeyboardInterrupt):
        ask_in_processes(spec, tmp_path / "run", 2, Progress("", 0, quiet=True))
    assert started[0].exitcode == -signal.SIGTERM
    assert started[0].pid not in children(os.getpid())


def test_a_worker_whose_parent_is_gone_does_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it could begin to write just after the next run looked whether anybody is there."""
    from multiprocessing import Pipe

    from harness import shards
    from harness.plan import RunSpec
    from harness.store import Shard

    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(shards, "_end_with_parent", lambda: None)
    spec = RunSpec("empty", {TASK: {"root": str(SUITE)}})
    for gone, answered in ((True, 0), (False, 13)):
        monkeypatch.setattr(shards, "_parent_is_gone", lambda gone=gone: gone)
        ours, theirs = Pipe(duplex=False)
        shards._work(spec, tmp_path / "run", Shard(0, 2), theirs)
        assert number_of_lines(tmp_path / "run") == answered
        ours.close()
        theirs.close()
