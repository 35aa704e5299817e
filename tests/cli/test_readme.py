"""The README does what it says: its package is built from its text, installed, and used."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BLOCK = re.compile(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```", re.DOTALL)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the README's package installed in it, from a wheel."""
    source, site = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("site")
    files = dict(BLOCK.findall(README))
    assert set(files) == {
        "pyproject.toml", "acme_regions/tasks/region_colour.py", "acme_regions/models/always.py",
    }  # fmt: skip
    for name, text in files.items():
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", site, source],
        check=True, timeout=300,
    )  # fmt: skip
    return site


def run(site: Path, *arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "harness", *map(str, arguments)],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(site)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def data(tmp_path: Path) -> Path:
    mask = {"size": [4, 4], "counts": [0, 16]}
    rows = [
        {"id": str(i), "image": f"{i}.png", "mask": mask, "colour": colour}
        for i, colour in enumerate(["blue", "red", "blue", "green"])
    ]
    (tmp_path / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def test_the_plugins_are_listed_beside_the_built_in_ones(site: Path) -> None:
    listed = json.loads(run(site, "list", "--json"))
    assert listed["tasks"]["region-colour"].startswith("Region colour: name the main colour")
    assert "always" in listed["models"]
    assert "gres" in listed["tasks"]
    assert "word: str = 'red'" in run(site, "show", "always")


def test_they_run_with_all_that_built_in_ones_have(site: Path, data: Path) -> None:
    root = f"tasks.region-colour.root={data}"
    command = ("eval", "--model", "always", "--set", "model.word=blue", "--tasks", "region-colour",
               "--set", root, "--run", data / "run", "--json")  # fmt: skip
    result = json.loads(run(site, *command))
    task = result["tasks"]["region-colour"]
    assert task["metrics"]["accuracy"]["value"] == 0.5
    assert task["n"] == 4
    assert json.loads(run(site, *command, "--shards", 2)) == result
    assert "full marks" in run(site, "check", "region-colour", "--set", root)


def test_the_table_is_the_one_that_the_demo_prints() -> None:
    printed = subprocess.run(
        [sys.executable, "tools/demo.py"], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout
    shown = README.partition("<!-- demo -->\n```\n")[2].partition("```")[0]
    assert shown.strip() in printed


def test_every_command_of_the_table_exists() -> None:
    verbs = re.findall(r"`harness (\w+)", README)
    for verb in set(verbs):
        done = subprocess.run(
            [sys.executable, "-m", "harness", verb, "--help"], capture_output=True, check=False
        )
        assert done.returncode == 0, verb
