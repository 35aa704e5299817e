"""A run folder that is damaged, full, shared or somebody else's."""

import fcntl
import io
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from harness import store as store_module
from harness.cli import main
from harness.errors import ConfigError, StorageError
from harness.files import write_atomic, write_new
from harness.store import RunStore, Shard
from tests.run_folders import (
    SECONDS,
    SUITE,
    TASK,
    evaluation,
    faulty,
    number_of_lines,
    outputs,
    run_to_end,
    start,
    wait_until_waiting,
    write_synthetic,
)

ROWS = [{"sample_id": "0", "text": "a"}, {"sample_id": "1", "text": "Wörter"}]
LINES = [json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in ROWS]
TASK_RECORD: dict[str, Any] = {
    "version": 1, "protocol": {}, "model_protocol": {}, "judge": None, "data": {}, "samples": "s",
    "prompts": "p", "n": 2,
}  # fmt: skip
RECORD: dict[str, Any] = {
    "schema": 1,
    "spec": {"model": "m", "model_options": {}, "tasks": {"t": {}}, "judges": {}, "limit": None},
    "circumstances": {"model": {}, "judges": {}, "tasks": {"t": {}}},
    "model": {"name": "m", "fingerprint": {}},
    "tasks": {"t": TASK_RECORD},
    "made_by": {},
}


@pytest.fixture
def finished(harness: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a finished run of the golden set; ``evaluation()`` is its command."""
    monkeypatch.chdir(tmp_path)
    harness(*evaluation())
    return tmp_path / "run"


# Lines


def test_a_torn_last_line_is_dropped_wherever_it_is_cut(tmp_path: Path) -> None:
    store, path = RunStore(tmp_path), tmp_path / "x.jsonl"
    for cut in range(len(LINES[1])):
        path.write_bytes(LINES[0] + LINES[1][:cut])
        assert [row for row, _ in store.lines("x.jsonl")] == ROWS[:1], cut
        with store.appender("x.jsonl") as append:
            assert path.read_bytes() == LINES[0], cut
            append(ROWS[1])
        assert path.read_bytes() == b"".join(LINES), cut


@pytest.mark.parametrize("last", [b"\0" * 40 + b"\n", b"[1]\n", b'{"a": \xff}\n', b'{"a": NaN}\n'])
def test_a_last_line_of_garbage_counts_as_torn(tmp_path: Path, last: bytes) -> None:
    (tmp_path / "x.jsonl").write_bytes(LINES[0] + last)
    with RunStore(tmp_path).appender("x.jsonl") as append:
        append(ROWS[1])
    assert (tmp_path / "x.jsonl").read_bytes() == b"".join(LINES)


def test_a_torn_last_line_of_a_run_is_asked_again(harness: Any, finished: Path) -> None:
    wanted = outputs(finished)
    path = finished / TASK / "predictions.jsonl"
    whole = path.read_bytes()
    last = whole.rstrip(b"\n").rindex(b"\n") + 1
    for cut in range(last, len(whole), 4):  # each byte: see the test of the store above
        path.write_bytes(whole[:cut])
        (finished / "result.json").unlink()
        harness(*evaluation())
        assert outputs(finished) == wanted, cut


@pytest.mark.parametrize("share", [0, 0.3, 0.7])
@pytest.mark.parametrize("name", ["predictions.jsonl", "scores.jsonl"])
def test_a_truncated_file_is_made_whole(
    harness: Any, finished: Path, name: str, share: float
) -> None:
    wanted = outputs(finished)
    path = finished / TASK / name
    os.truncate(path, int(path.stat().st_size * share))
    harness(*evaluation())
    assert outputs(finished) == wanted


@pytest.mark.parametrize("name", ["predictions.jsonl", "predictions.0-of-2.jsonl"])
@pytest.mark.parametrize("damage", [b"garbage\n", b'{"sample_id": "2", "te\n', b"\n", b"\0\0\n"])
def test_a_damaged_line_in_the_middle_is_named(
    harness: Any, finished: Path, damage: bytes, name: str
) -> None:
    wanted = outputs(finished)
    path = finished / TASK / name
    (finished / TASK / "predictions.jsonl").rename(path)
    lines = path.read_bytes().splitlines(keepends=True)
    damaged = b"".join([*lines[:2], damage, *lines[3:]])
    path.write_bytes(damaged)
    message = harness(*evaluation(), code=2)
    assert message.startswith(f"error: run/{TASK}/{name} line 3 is damaged (it is")
    assert "remove the line and run the same command again" in message
    assert message.count("\n") == 1
    assert path.read_bytes() == damaged  # nothing is repaired behind the user's back

    path.write_bytes(b"".join([*lines[:2], *lines[3:]]))
    harness(*evaluation())
    assert outputs(finished) == wanted


class _Growing(io.BytesIO):
    """A file whose last line is only begun when the reader comes there, and whole soon after."""

    def __iter__(self) -> "_Growing":
        self.parts = iter([LINES[0], LINES[1][:5], LINES[1][5:], LINES[0]])
        return self

    def __next__(self) -> bytes:
        return next(self.parts)


def test_a_reader_does_not_mind_a_line_that_is_being_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shards read each other's files when they start, while others write."""
    (tmp_path / "x.jsonl").touch()
    monkeypatch.setattr(Path, "open", lambda *_: _Growing())
    assert [row for row, _ in RunStore(tmp_path).lines("x.jsonl")] == ROWS[:1]


def test_one_answer_twice_is_kept_once_but_two_answers_are_refused(
    harness: Any, finished: Path
) -> None:
    """A run killed while it joins shards leaves the same line twice."""
    wanted = outputs(finished)
    path = finished / TASK / "predictions.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    shard = finished / TASK / "predictions.1-of-2.jsonl"
    shard.write_bytes(b"".join(lines[1::2]))
    harness(*evaluation())
    assert outputs(finished) == wanted
    assert not shard.exists()

    shard.write_bytes(b'{"sample_id": "5", "text": "another"}\n')
    message = harness(*evaluation(), code=2)
    assert f"run/{TASK}/predictions.1-of-2.jsonl answers sample '5' a second time" in message


def test_foreign_answers_are_refused(harness: Any, finished: Path) -> None:
    with (finished / TASK / "predictions.jsonl").open("a") as file:
        file.write('{"sample_id": "99", "text": ""}\n')
    message = harness(*evaluation(), code=2)
    assert "answers sample '99', which is not part of this run (1 such lines)" in message


def test_a_file_that_cannot_be_read_is_named(harness: Any, finished: Path) -> None:
    path = finished / TASK / "predictions.jsonl"
    path.unlink()
    path.mkdir()
    message = harness(*evaluation(), code=2)
    assert message == f"error: run/{TASK}/predictions.jsonl cannot be read (Is a directory)\n"


# Whole files


@pytest.mark.parametrize("content", [b"", b'{"schema": 1, "sp', b"[]", b"{}"])
def test_a_damaged_run_json_is_named(harness: Any, finished: Path, content: bytes) -> None:
    (finished / "run.json").write_bytes(content)
    message = harness(*evaluation(), code=2)
    assert message.startswith("error: run/run.json is damaged: ")
    assert message.count("\n") == 1


def test_write_atomic_replaces_and_write_new_does_not(tmp_path: Path) -> None:
    path = tmp_path / "x"
    assert write_new(path, b"old")
    assert not write_new(path, b"new")
    assert path.read_bytes() == b"old"
    write_atomic(path, b"new")
    assert path.read_bytes() == b"new"
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


def test_killed_between_writing_and_renaming_the_old_content_stays(
    harness: Any, finished: Path
) -> None:
    """A process that dies at the rename; what it leaves behind is swept by the next run."""
    wanted = outputs(finished)
    code = """
        import os, signal, sys
        os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        from pathlib import Path
        from harness.files import write_atomic
        write_atomic(Path(sys.argv[1]), b"half of it")
    """
    path = finished / TASK / "scores.jsonl"
    done = _python(code, path)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert outputs(finished) == wanted
    names = {p.name for p in path.parent.iterdir()}
    assert len(names) == 3, "the killed process wrote nothing: the test tests nothing"

    harness(*evaluation())
    assert {p.name for p in path.parent.iterdir()} == {"predictions.jsonl", "scores.jsonl"}
    assert outputs(finished) == wanted


def test_an_error_while_renaming_leaves_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x").mkdir()  # a folder cannot be replaced by a file
    with pytest.raises(StorageError, match=r"x could not be written \(Is a directory\)"):
        write_atomic(tmp_path / "x", b"content")
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


def _python(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


# A full disk


@pytest.fixture
def undisturbed(
    harness: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Path, dict[str, bytes]]:
    """A synthetic set and the outputs of its run in ``run``, made in another parent folder."""
    data = write_synthetic(tmp_path / "data", 60)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    harness(*evaluation(data))
    return data, dict(outputs(Path("run")))


@pytest.mark.parametrize("full_at", ["run.json", "predictions"])
@pytest.mark.parametrize("shards", [1, 2])
def test_a_file_that_may_not_grow_ends_the_run_and_loses_nothing(
    harness: Any,
    undisturbed: tuple[Path, dict[str, bytes]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    full_at: str,
    shards: int,
) -> None:
    data, wanted = undisturbed
    monkeypatch.chdir(tmp_path)
    limit = 100 if full_at == "run.json" else len(wanted[f"{TASK}/predictions.jsonl"]) // 4
    words = [*evaluation(data), "--shards", str(shards)]
    code = """
        import resource, sys
        from harness.cli import main
        limit = int(sys.argv[1])
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        if __name__ == "__main__":
            sys.exit(main(sys.argv[2:]))
    """
    done = _python(code, limit, *words)
    _check_full(done.returncode, done.stderr, full_at)
    files = list((tmp_path / "run").glob(f"{TASK}/predictions*.jsonl"))
    assert len(files) == (shards if full_at == "predictions" else 0)
    assert all(0 < path.stat().st_size <= limit for path in files)
    assert all(path.read_bytes().endswith(b"\n") for path in files)
    answered = number_of_lines(tmp_path / "run")

    harness(*words)
    assert answered < 60
    assert outputs(tmp_path / "run") == wanted


def _check_full(code: int, err: str, file: str) -> None:
    assert code == 2, err
    assert "Traceback" not in err
    assert f"{file}" in err
    assert "could not be written (" in err
    assert "run the same command again" in err


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """``small_disk(pages)`` is a real file system of so many pages of 4 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", str(folder)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
        problem = done.stderr if done.returncode else ""
    except OSError as error:
        problem = str(error)
    if problem:
        pytest.skip(f"a small file system cannot be mounted here: {problem.strip()}")

    def resize(pages: int) -> Path:
        subprocess.run(["mount", "-o", f"remount,size={4 * pages}k", str(folder)], check=True)
        return folder

    yield resize
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_at_any_moment(
    undisturbed: tuple[Path, dict[str, bytes]],
    small_disk: Callable[[int], Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The disk grows by a page each time, so that it is full at every stage of the run."""
    data, wanted = undisturbed
    (small_disk(1) / "something").write_bytes(bytes(4096))
    stages = []
    for pages in range(1, 100):
        monkeypatch.chdir(small_disk(pages))
        code = main(evaluation(data))
        err = capsys.readouterr().err
        if code == 0:
            break
        _check_full(code, err, "")
        stages.append(err.partition(" could not be written")[0].rpartition("/")[2])
        assert not list(Path("run").rglob("*.unfinished"))
    assert list(dict.fromkeys(stages)) == [
        "run.json", "sessions.jsonl", "predictions.jsonl", "scores.jsonl", "result.json"
    ]  # fmt: skip
    assert outputs(Path("run")) == wanted


def test_a_full_disk_stops_every_shard_and_the_same_command_goes_on(
    undisturbed: tuple[Path, dict[str, bytes]],
    small_disk: Callable[[int], Path],
    monkeypatch: pytest.MonkeyPatch,
    harness: Any,
) -> None:
    data, wanted = undisturbed
    monkeypatch.chdir(small_disk(6))
    words = [*evaluation(data), "--shards", "2"]
    err = harness(*words, code=2)
    _check_full(2, err, "predictions.")
    small_disk(100)
    harness(*words)
    assert outputs(Path("run")) == wanted


# Who may work in a folder


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        (["--limit", "5"], "spec.limit was None and is now 5"),
        (
            ["--set", f"tasks.{TASK}.mode=box"],
            f"spec.tasks.{TASK}.mode was 'mask' and is now 'box'",
        ),
        (["--set", "model.label=me"], "spec.model_options.label was '' and is now 'me'"),
        (["--model", "empty"], "spec.model was 'recorded' and is now 'empty'"),
    ],
)
def test_the_folder_of_another_run_is_refused(
    harness: Any, finished: Path, change: list[str], difference: str
) -> None:
    wanted = outputs(finished)
    words = [*evaluation(), *change]
    if "empty" in change:
        words.remove(f"model.path={SUITE / 'predictions.jsonl'}")
        words.remove("--set")
    message = harness(*words, code=2)
    assert message == (f"error: run holds another run: {difference}; choose another --run folder\n")
    assert outputs(finished) == wanted


def test_other_content_under_the_same_name_is_another_run(
    harness: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    answers = tmp_path / "predictions.jsonl"
    answers.write_bytes((SUITE / "predictions.jsonl").read_bytes())
    harness(*evaluation(predictions=answers))
    answers.write_bytes(answers.read_bytes() + b"\n")
    message = harness(*evaluation(predictions=answers), code=2)
    assert "run holds another run: model.fingerprint.sha256/0 was " in message


def test_a_folder_of_something_else_is_refused(
    harness: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.tex").touch()
    message = harness(*evaluation(), code=2)
    assert message == (
        "error: run is not a run folder but holds 'thesis.tex'; choose another --run folder\n"
    )


def test_two_processes_on_one_folder(
    harness: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one is told so; when the first is killed, nothing that it left is in the way."""
    monkeypatch.chdir(tmp_path)
    faults = tmp_path / "faults.json"
    faults.write_text('{"9": "waits"}')
    with start(faulty(faults), tmp_path) as first:
        wait_until_waiting(first)
        monkeypatch.setattr(store_module, "LOCK_PATIENCE", 0.0)
        assert harness(*evaluation(), code=2) == (
            "error: another process is working in run (.lock); wait for it to end, or choose "
            "another --run folder\n"
        )
        assert number_of_lines(tmp_path / "run") == 9
        first.kill()
    assert (tmp_path / "run" / ".lock").exists()
    faults.write_text("{}")
    run_to_end(faulty(faults), tmp_path)
    assert number_of_lines(tmp_path / "run") == 26


def test_left_over_lock_files_do_not_block(
    harness: Any, finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "LOCK_PATIENCE", 0.0)
    for name in (".lock", ".lock-0-of-2", ".lock-1-of-2"):
        (finished / name).write_text("1\n")
    harness(*evaluation())
    with RunStore(finished).locked(Shard(0, 3)):
        pass


@pytest.mark.parametrize(
    ("first", "second", "in_use"),
    [
        (None, None, ".lock"),
        (None, Shard(0, 2), ".lock"),
        (Shard(0, 2), None, ".lock"),
        (Shard(0, 2), Shard(0, 2), ".lock-0-of-2"),
        (Shard(0, 2), Shard(1, 2), None),
        (Shard(0, 2), Shard(1, 3), ".lock-0-of-2"),
        (Shard(1, 12), Shard(1, 2), ".lock-1-of-12"),
    ],
)
def test_who_may_work_beside_whom(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    first: Shard | None,
    second: Shard | None,
    in_use: str | None,
) -> None:
    monkeypatch.setattr(store_module, "LOCK_PATIENCE", 0.0)
    store = RunStore(tmp_path)
    with store.locked(first):
        if in_use is None:
            with store.locked(second):
                return
        with pytest.raises(StorageError) as error, store.locked(second):
            pass
    assert f"another process is working in {tmp_path} ({in_use});" in str(error.value)
    with store.locked(second):
        pass


def test_a_run_waits_for_the_dying_workers_of_its_predecessor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "LOCK_PATIENCE", 0.0)
    store = RunStore(tmp_path)
    with store.locked(Shard(1, 2), worker=True):
        with pytest.raises(StorageError, match=r"\(\.lock-1-of-2\)"), store.locked():
            pass
        with pytest.raises(StorageError, match=r"\(\.lock-1-of-2\)"), store.locked(Shard(0, 3)):
            pass
    with store.locked():
        pass


def test_many_shards_may_begin_a_run_at_once(tmp_path: Path) -> None:
    """One of them writes run.json; all agree on it, and none takes another's files for foreign."""
    start_together = threading.Barrier(8)

    def begin(folder: Path) -> None:
        store = RunStore(folder)
        index = start_together.wait(SECONDS)
        with store.locked(Shard(index, 8)):
            store.begin(RECORD)
            with store.appender("sessions.jsonl") as append:
                append({"who": threading.get_ident()})

    for i in range(25):
        folder = tmp_path / str(i)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(begin, [folder] * 8))
        assert RunStore(folder).record() == RECORD
        assert len(list(RunStore(folder).lines("sessions.jsonl"))) == 8


def test_run_json_that_comes_while_the_folder_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The race of the test above, forced: another shard begins between any two looks."""
    iterdir = Path.iterdir
    begun: list[bool] = []

    def slow(self: Path) -> Iterator[Path]:
        if self == tmp_path and not begun:
            begun.append(True)
            RunStore(tmp_path).begin(RECORD)
        return iterdir(self)

    monkeypatch.setattr(Path, "iterdir", slow)
    store = RunStore(tmp_path)
    with store.locked(Shard(0, 2)):
        store.begin(RECORD)
        assert begun
        with pytest.raises(ConfigError, match=r"tasks\.t\.n was 2 and is now 3"):
            store.begin({**RECORD, "tasks": {"t": {**TASK_RECORD, "n": 3}}})


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("spec",), 5),
        (("spec", "tasks"), {"other": {}}),
        (("spec", "model_options"), None),
        (("circumstances",), None),
        (("model", "fingerprint"), "x"),
        (("tasks", "t"), []),
        (("tasks", "t", "n"), "2"),
        (("tasks", "t", "protocol"), 1),
    ],
)
def test_an_edited_run_json_is_named(tmp_path: Path, path: tuple[str, ...], value: object) -> None:
    record = json.loads(json.dumps(RECORD))
    node = record
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    (tmp_path / "run.json").write_text(json.dumps(record))
    with pytest.raises(StorageError, match=r"run\.json is damaged: "):
        RunStore.existing(tmp_path).record()


def test_an_appender_waits_for_another(tmp_path: Path) -> None:
    """Two shards write sessions.jsonl: neither may cut off what the other has just written."""
    store = RunStore(tmp_path)

    def second() -> None:
        with store.appender("x.jsonl") as append:
            append({"n": 2})

    with store.appender("x.jsonl") as append:
        other = threading.Thread(target=second)
        other.start()
        append({"n": 1})
        with (tmp_path / "x.jsonl").open("rb") as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    other.join(SECONDS)
    assert [row for row, _ in store.lines("x.jsonl")] == [{"n": 1}, {"n": 2}]


@pytest.mark.parametrize(
    "text", ["", "1", "2/2", "-1/2", "0/0", "0/2 ", "a/b", "0/2/3", "\u0661/\u0662"]
)
def test_a_shard_is_i_of_n(text: str) -> None:
    with pytest.raises(ConfigError, match="must be i/N with i from 0 to N-1"):
        Shard.parse(text)


def test_a_shard_as_text() -> None:
    assert Shard.parse("0/4") == Shard(0, 4)
    assert str(Shard(3, 4)) == "3/4"
    assert Shard.parse("0/1").whole
