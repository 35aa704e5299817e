"""The base install: light, quick to import, and enough to score a recorded file."""

import json
import subprocess
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FIXTURES = Path(__file__).parents[1] / "fixtures"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a new environment with `pip install .` and nothing more."""
    folder = tmp_path_factory.mktemp("base")
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", ROOT], check=True, timeout=600)
    return python


def test_it_brings_nothing_heavy(python: Path) -> None:
    listed = subprocess.run(
        [python, "-m", "pip", "list", "--format=json"], capture_output=True, check=True
    )
    names = {package["name"].lower() for package in json.loads(listed.stdout)}
    assert {"numpy", "pydantic", "pillow", "pycocotools"} <= names
    assert not names & {"torch", "transformers", "openai", "vllm", "ray", "deepspeed"}
    assert len(names) < 15


def test_the_wheel_scores_a_recorded_file_outside_the_checkout(
    python: Path, tmp_path: Path
) -> None:
    done = subprocess.run(
        [
            python.parent / "harness", "eval", "--model", "recorded",
            "--set", f"model.path={FIXTURES / 'gres' / 'predictions.jsonl'}",
            "--tasks", "gres", "--set", f"tasks.gres.root={FIXTURES / 'gres'}",
            "--max-errors", "0.1", "--json",
        ],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    expected = json.loads((FIXTURES / "gres" / "expected.json").read_text())
    gres = json.loads(done.stdout)["tasks"]["gres"]
    value = gres["groups"]["val"]["gIoU"]["value"]
    assert value == pytest.approx(expected["splits"]["val"]["harness_expected"]["gIoU"] / 100)


def test_openai_chat_says_what_to_install(python: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [
            python.parent / "harness", "eval", "--model", "openai-chat", "--set", "model.model=x",
            "--set", "model.base_url=http://127.0.0.1:9/v1",
            "--tasks", "gres", "--set", f"tasks.gres.root={FIXTURES / 'gres'}",
        ],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 2
    assert "region-harness[openai]" in done.stderr
