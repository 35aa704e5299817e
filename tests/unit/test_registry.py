"""Plug-ins: found by entry point and file name, imported only when used."""

import importlib.util
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness import registry
from harness.errors import ConfigError, UnknownPlugin
from harness.plan import expand_tasks
from harness.registry import Found, Registry
from harness.task import Task


def test_built_in_names() -> None:
    assert {"gres", "groundingsuite"} <= set(registry.tasks.names())
    assert {"recorded", "empty", "oracle", "openai-chat"} <= set(registry.models.names())
    assert {"boxes", "polygons", "mask-tokens"} <= set(registry.codecs.names())


def test_hyphen_and_underscore_are_equal() -> None:
    assert registry.codecs.find("mask_tokens") is registry.codecs.find("mask-tokens")


def test_a_mistyped_name_gets_the_nearest_right_word() -> None:
    with pytest.raises(
        UnknownPlugin, match=r"no task named 'grse'\. Did you mean 'gres'\? Known: "
    ):
        registry.tasks.find("grse")


def test_groups_of_tasks() -> None:
    assert expand_tasks(["all"]) == registry.tasks.names()
    assert expand_tasks(["gres", "gres", "groundingsuite"]) == ["gres", "groundingsuite"]
    with pytest.raises(UnknownPlugin, match=r"'al'.*Did you mean 'all'"):
        expand_tasks(["al"])


def test_listing_imports_no_plugin() -> None:
    code = (
        "import sys; from harness.catalogue import listing; listing();"
        "shelves = ('harness_tasks.', 'harness_models.', 'harness.codecs.');"
        "bad = [m for m in sys.modules if m.startswith(shelves) or m == 'torch'];"
        "assert not bad, bad"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_core_imports_without_anything_heavy() -> None:
    code = (
        "import sys, harness, harness.cli, harness.types;"
        "bad = sorted({'torch', 'openai', 'transformers', 'PIL', 'pycocotools'} & "
        "set(sys.modules));"
        "assert not bad, bad"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def _shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str) -> Registry[object]:
    """A registry whose one task is this module."""
    (tmp_path / "my_odd_task.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_odd_task", raising=False)
    shelf: Registry[object] = Registry("task", object)
    shelf.__dict__["found"] = {"odd": Found("my_odd_task", tmp_path / "my_odd_task.py")}
    return shelf


def test_a_plugin_that_lacks_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf = _shelf(tmp_path, monkeypatch, "import no_such_package")
    with pytest.raises(ConfigError, match=r"'odd' needs a package .*no_such_package"):
        shelf.find("odd")


def test_a_plugin_without_its_last_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf = _shelf(tmp_path, monkeypatch, '"""Odd."""')
    assert shelf.found["odd"].summary == "Odd."
    with pytest.raises(ConfigError, match="must end in `task = ItsClass`"):
        shelf.find("odd")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import sys; sys.exit(0)", "cannot be imported .SystemExit"),
        ("def broken(:", "cannot be imported .SyntaxError"),
        ("class Task: ...\ntask = Task", "must end in `task = ItsClass`, a Task"),
    ],
)
def test_a_broken_plugin_harms_only_its_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, message: str
) -> None:
    shelf = _shelf(tmp_path, monkeypatch, source)
    shelf.base = Task
    assert isinstance(shelf.found["odd"].summary, str)
    with pytest.raises(ConfigError, match=message):
        shelf.find("odd")


def test_two_of_one_name_are_refused_when_one_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    values = ("harness_models.empty", "harness_models.oracle")
    points = [SimpleNamespace(name="x", value=value) for value in values]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    shelf: Registry[object] = Registry("model", object)
    assert shelf.names() == ["x"]
    with pytest.raises(ConfigError, match="two packages bring a model named 'x'"):
        shelf.find("x")


def test_a_folder_that_an_editable_install_lists_twice_counts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "odd.py").write_text('"""Odd."""')
    spec = ModuleSpec("shelf", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path), str(tmp_path)]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    monkeypatch.setattr(
        registry, "entry_points", lambda group: [SimpleNamespace(name="x", value="shelf")]
    )
    shelf: Registry[object] = Registry("task", object)
    assert list(shelf.found) == ["odd"]
    assert not shelf._clashes
