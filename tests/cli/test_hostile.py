"""Input that means harm or is merely strange: one clear sentence, and nothing believed or lost."""

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.chat_server import ChatServer, answer

FIXTURES = Path(__file__).parents[1] / "fixtures"
GRES = ("--tasks", "gres", "--set", f"tasks.gres.root={FIXTURES / 'gres'}")
ANSWERS = FIXTURES / "gres" / "predictions.jsonl"


def answers(folder: Path, *more: dict[str, Any]) -> Path:
    file = folder / "answers.jsonl"
    file.write_text(ANSWERS.read_text() + "".join(json.dumps(row) + "\n" for row in more))
    return file


def recorded(file: Path, run: Path) -> tuple[str, ...]:
    return ("eval", "--model", "recorded", "--set", f"model.path={file}", *GRES,
            "--max-errors", "1", "--run", str(run))  # fmt: skip


@pytest.mark.parametrize("kind", ["fifo", "folder", "device"])
def test_only_regular_files_are_read(harness: Any, tmp_path: Path, kind: str) -> None:
    file = tmp_path / "x.jsonl"
    if kind == "fifo":
        os.mkfifo(file)
    elif kind == "folder":
        file.mkdir()
    else:
        file.symlink_to("/dev/zero")
    assert "is not a regular file" in harness(*recorded(file, tmp_path / "r"), code=2)


def test_an_id_cannot_forge_a_line_of_the_table(harness: Any, tmp_path: Path) -> None:
    forged = "evil\n\ngres v1    34 samples\n*gIoU 99.99\u200b\u202e"
    text = harness(*recorded(answers(tmp_path, {"sample_id": forged, "text": ""}), tmp_path / "r"))
    assert "*gIoU 99.99" not in text.splitlines()
    assert not any(line.startswith("*gIoU 99") for line in text.splitlines())
    assert "\u202e" not in text


def test_a_terminal_that_cannot_show_a_character(tmp_path: Path) -> None:
    file = answers(tmp_path, {"sample_id": "\ud800é", "text": ""})
    done = subprocess.run(
        [sys.executable, "-m", "harness", *recorded(file, tmp_path / "r")],
        capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "note: 1 recorded answers are for no sample" in done.stdout


def test_a_full_disk_behind_stdout(tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "harness", *recorded(ANSWERS, tmp_path / "r")],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 2
    assert "stdout cannot be written (No space left on device)" in done.stderr
    assert (tmp_path / "r" / "result.json").exists()


def test_more_shards_than_samples_start_no_idle_process(harness: Any, tmp_path: Path) -> None:
    result = harness(
        *recorded(ANSWERS, tmp_path / "r"), "--limit", "2", "--shards", "4096", "--json"
    )
    assert result["tasks"]["gres"]["n"] == 2


@pytest.mark.parametrize(
    ("file", "edit", "message"),
    [
        ("instances", lambda c: c["images"][0].update(height=2**31), "more than"),
        ("instances", lambda c: c["images"][0].update(height=10**400), "more than"),
        ("instances", lambda c: c["images"][0].update(width=1e20), "positive whole numbers"),
        ("grefs(unc)", lambda c: c[0].update(image_id=[1]), "has no image [1]"),
        ("grefs(unc)", lambda c: c[0].update(ann_id=[[1]]), "has no annotation [1]"),
        ("grefs(unc)", lambda c: c[0].update(ann_id={}), "has no annotation {}"),
    ],
)
def test_data_that_would_harm(
    harness: Any, tmp_path: Path, file: str, edit: Any, message: str
) -> None:
    folder = tmp_path / "data" / "grefcoco"
    folder.mkdir(parents=True)
    for name in ("grefs(unc)", "instances"):
        content = json.loads((FIXTURES / "gres" / "grefcoco" / f"{name}.json").read_text())
        if name == file:
            edit(content)
        sys.set_int_max_str_digits(0)
        (folder / f"{name}.json").write_text(json.dumps(content))
        sys.set_int_max_str_digits(4300)
    root = f"tasks.gres.root={tmp_path / 'data'}"
    command = ("eval", "--model", "empty", "--tasks", "gres", "--set", root)
    error = harness(*command, "--run", tmp_path / "r", code=2)
    assert message in error


def judged(server: ChatServer, tmp_path: Path, run: str) -> tuple[object, ...]:
    root = FIXTURES / "dlc"
    return (
        "eval", "--model", "recorded", "--set", f"model.path={root / 'predictions.jsonl'}",
        "--tasks", "dlc", "--set", f"tasks.dlc.root={root}", "--judge", "openai-chat",
        "--set", "judge.model=m", "--set", f"judge.base_url={server.base_url}",
        "--judge-cache", tmp_path / "cache.sqlite", "--run", tmp_path / run, "--json",
    )  # fmt: skip


def test_a_cache_that_is_no_database(harness: Any, tmp_path: Path) -> None:
    (tmp_path / "cache.sqlite").write_text("hello")
    with ChatServer([answer("A")]) as server:
        error = harness(*judged(server, tmp_path, "a"), code=2)
        assert not server.sent
    assert "cache.sqlite cannot be used" in error


@pytest.mark.parametrize(
    "line",
    ['{"reply": null}', "[1]", "5", "{}", '{"key": "k", "reply": 7, "prompt": "p"}', None, 7],
)
def test_a_cache_whose_rows_are_not_ours_is_not_believed(
    harness: Any, tmp_path: Path, line: object
) -> None:
    with ChatServer([answer("A")]) as server:
        first = harness(*judged(server, tmp_path, "a"))["tasks"]["dlc"]
        asked = len(server.sent)
        with sqlite3.connect(tmp_path / "cache.sqlite") as cache:
            cache.execute("UPDATE verdicts SET line = ?", (line,))
        again = harness(*judged(server, tmp_path, "b"))["tasks"]["dlc"]
        assert len(server.sent) == 2 * asked
    assert (again["metrics"], again["judge_errors"]) == (first["metrics"], 0)


def test_a_verdict_moved_under_another_question_is_not_believed(
    harness: Any, tmp_path: Path
) -> None:
    with ChatServer([answer("A")]) as server:
        first = harness(*judged(server, tmp_path, "a"))["tasks"]["dlc"]
        asked = len(server.sent)
        file = tmp_path / "a" / "dlc" / "verdicts.jsonl"
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        rows[0] |= {"prompt": "another question", "reply": "B"}
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        (tmp_path / "cache.sqlite").unlink()
        again = harness(*judged(server, tmp_path, "a"))["tasks"]["dlc"]
        assert len(server.sent) == asked + 1
    assert again["metrics"] == first["metrics"]


def test_a_judge_that_nobody_can_read_is_remarked_on(harness: Any, tmp_path: Path) -> None:
    with ChatServer([answer("Well, hm.")]) as server:
        result = harness(*judged(server, tmp_path, "a"))
    assert "100 % of the replies of dlc's judge could not be read" in " ".join(result["notes"])


def test_fields_that_nobody_reads_are_named(harness: Any, tmp_path: Path) -> None:
    rows = [json.loads(line) for line in ANSWERS.read_text().splitlines()]
    file = tmp_path / "a.jsonl"
    file.write_text("".join(json.dumps({**r, "segmentation": r.pop("masks")}) + "\n" for r in rows))
    text = harness(*recorded(file, tmp_path / "r"))
    assert "note: fields that are not read: segmentation" in text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "there is no answer in it"),
        ('{"129_0": {"text": ""}}\n', "line 1 has no sample_id (it has: 129_0)"),
        ("[1]\n", "line 1: it must be a JSON object"),
        ('{\n "sample_id": "1"\n}\n', "one JSON object a line"),
    ],
)
def test_a_file_of_another_form(harness: Any, tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text(content)
    assert message in harness(*recorded(file, tmp_path / "r"), code=2)


def test_a_run_can_be_scored_again_from_anywhere(
    harness: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(FIXTURES)
    run = tmp_path / "r"
    first = harness("eval", "--model", "empty", "--tasks", "gres", "--set", "tasks.gres.root=gres",
                    "--run", run, "--json")  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert harness("rescore", "r", "--json")["tasks"] == first["tasks"]


def test_nothing_is_left_in_a_folder_that_is_refused(harness: Any, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    harness(*recorded(ANSWERS, tmp_path / "mine"), code=2)
    assert [p.name for p in (tmp_path / "mine").iterdir()] == ["thesis.tex"]
    file = tmp_path / "file"
    file.touch()
    assert "is a file; --run needs a folder" in harness(*recorded(ANSWERS, file), code=2)
