"""Options: precedence, conversion, and messages that name the mend."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from harness import config
from harness.errors import ConfigError


@dataclass(frozen=True)
class Options:
    root: Path
    split: tuple[str, ...] = ()
    mode: Literal["mask", "box"] = "mask"
    size: int = 3
    rate: float = 0.5
    on: bool = False
    extra: str | dict[str, Any] = ""


def test_text_becomes_the_type_of_the_field() -> None:
    built = config.build(
        Options,
        {"root": "a/b", "split": "val, testA", "size": "7", "rate": "1e-3", "on": "true"},
        "tasks.x",
    )
    assert built == Options(Path("a/b"), ("val", "testA"), "mask", 7, 0.001, True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"tasks\.x\.root must be given"),
        ({"root": "r", "spilt": "val"}, r"no option 'spilt'\. Did you mean 'split'\?"),
        ({"root": "r", "mode": "boxes"}, r"tasks\.x\.mode = 'boxes' does not fit"),
        ({"root": "r", "size": "many"}, r"tasks\.x\.size = 'many' does not fit"),
        ({"root": 5}, r"tasks\.x\.root = 5 does not fit"),
    ],
)
def test_misfits_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config.build(Options, options, "tasks.x")


def test_set_paths_make_a_tree() -> None:
    tree: dict[str, Any] = {"tasks": {"gar-vqa": {"root": "old"}}}
    config.set_path(tree, "tasks.gar_vqa.root=new=1")
    config.set_path(tree, "model.codec=boxes")
    config.set_path(tree, "model.codec.coords=absolute")
    assert tree["tasks"]["gar-vqa"]["root"] == "new=1"
    assert tree["model"]["codec"] == {"name": "boxes", "coords": "absolute"}
    config.set_path(tree, "model.codec=polygons")
    assert tree["model"]["codec"] == {"name": "polygons", "coords": "absolute"}


@pytest.mark.parametrize("text", ["x", "=1", "a..b=1", ".=1"])
def test_a_set_that_is_no_assignment(text: str) -> None:
    with pytest.raises(ConfigError, match=r"path\.to\.option=value"):
        config.set_path({}, text)


def test_a_set_below_a_value() -> None:
    with pytest.raises(ConfigError, match="is a value"):
        config.set_path({"a": {"b": 5}}, "a.b.c=1")


def test_a_broken_toml_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text("a = [")
    with pytest.raises(ConfigError, match=r"x\.toml is not valid TOML"):
        config.read_file(file)
    with pytest.raises(ConfigError, match="there is no file"):
        config.read_file(tmp_path / "y.toml")
