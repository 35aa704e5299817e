"""How the world's benchmark files come to be: options, whole folders, kinds in proportion."""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from harness import building
from harness.errors import ConfigError, StorageError
from harness.files import read_json
from harness.plan import plan_task
from harness.types import Mask
from harness_toyworld import _files
from harness_toyworld._supply import World, shares, supply
from harness_toyworld.builders.toyworld import Toyworld
from harness_toyworld.scene import Scene


def sizes(roots: Mapping[str, Path]) -> dict[str, int]:
    """How many samples each task finds."""
    return {name: len(plan_task(name, {"root": root}).samples) for name, root in roots.items()}


def hashes(root: Path) -> dict[str, str]:
    """Every file below a folder with the hash of its content."""
    files = sorted(path for path in root.rglob("*") if path.is_file())
    return {
        str(p.relative_to(root)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files
    }  # fmt: skip


def test_the_same_options_give_the_same_bytes(tmp_path: Path) -> None:
    options = Toyworld(splits=("val", "test"), samples=5)
    options.build(tmp_path / "a")
    options.build(tmp_path / "deep" / "b")
    first = hashes(tmp_path / "a")
    assert first == hashes(tmp_path / "deep" / "b")
    assert {name.split("/")[0] for name in first} == {"val", "test", "manifest.json"}
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_splits_differ(tmp_path: Path) -> None:
    roots = Toyworld(splits=("val", "test"), samples=5).build(tmp_path / "a")
    assert roots["gres"] == tmp_path / "a" / "test" / "gres"
    pictures = [hashes(tmp_path / "a" / split / "dlc" / "images") for split in ("val", "test")]
    assert set(pictures[0].values()).isdisjoint(pictures[1].values())


def test_a_built_folder_is_left_alone_and_its_roots_come_back(tmp_path: Path) -> None:
    options = Toyworld(splits=("demo",), samples=3)
    first = options.build(tmp_path / "a")
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")}
    assert options.build(tmp_path / "a") == first
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")} == before
    assert first["gar-vqa"] == first["gar-caption"] == tmp_path / "a" / "demo" / "gar"


def test_other_options_or_files_in_the_folder_are_refused(tmp_path: Path) -> None:
    Toyworld(splits=("demo",), samples=3).build(tmp_path / "a")
    with pytest.raises(ConfigError, match="was built with options"):
        Toyworld(splits=("demo",), samples=4).build(tmp_path / "a")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("do not touch")
    with pytest.raises(ConfigError, match="is not empty and holds no manifest"):
        Toyworld(splits=("demo",), samples=3).build(tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "do not touch"


def test_an_empty_folder_will_do(tmp_path: Path) -> None:
    Toyworld(splits=("demo",), samples=3).build(tmp_path)
    assert (tmp_path / "manifest.json").exists()


def test_the_manifest_counts_what_was_written(tmp_path: Path) -> None:
    Toyworld(splits=("demo",), samples=42).build(tmp_path / "a")
    manifest = read_json(tmp_path / "a" / "manifest.json")
    counts = manifest["counts"]["demo"]
    assert counts["gres"] == {"single": 19, "multi": 13, "none": 10}
    assert counts["dlc"]["objects"] == 42
    assert sum(counts["gcg"].values()) == 42
    assert counts["gar-vqa"] == {
        "color": 6, "shape": 6, "texture/pattern": 6, "material": 6, "ordering": 6, "mirror": 6,
        "relation": 6,
    }  # fmt: skip
    assert manifest["options"]["profile"] == "std"


def test_a_build_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(StorageError, match="a could not be written \\(No space left on device\\)"):
        building.build("toyworld", {"samples": "3", "splits": "demo"}, tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_of_two_builds_at_once_one_wins_and_both_are_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = Toyworld(splits=("demo",), samples=3)
    write = Toyworld._write
    raced: list[Path] = []

    def slow(self: Toyworld, root: Path, split: Any) -> dict[str, Any]:
        if not raced:
            raced.append(root)
            options.build(tmp_path / "a")  # another process, meanwhile
        return write(self, root, split)

    monkeypatch.setattr(Toyworld, "_write", slow)
    roots = options.build(tmp_path / "a")
    assert len(raced) == 1
    assert plan_task("toy", {"root": roots["toy"]}).samples
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_scale_and_samples_set_the_sizes(tmp_path: Path) -> None:
    roots = building.build(
        "toyworld", {"scale": "0.05", "samples": "20", "splits": "test,val"}, tmp_path / "a"
    )
    assert sizes(roots) == {
        "gres": 20, "groundingsuite": 20, "gcg": 10, "gar-vqa": 20, "gar-caption": 5, "dlc": 5,
        "toy": 10,
    }  # fmt: skip
    # val: 500, 400, 200, 420, 100, 100, 200 by 0.05, at most 20


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"profile": "nowhere"}, "nowhere"),
        ({"splits": "sft"}, "builder.splits"),
        ({"splits": "val,val"}, "each once"),
        ({"splits": ""}, "must name splits"),
        ({"scale": "0"}, "builder.scale"),
        ({"scale": "nan"}, "builder.scale"),
        ({"samples": "0"}, "builder.samples"),
        ({"size": "3"}, "no option 'size'"),
    ],
)
def test_wrong_options_say_what_is_wrong(
    tmp_path: Path, options: Mapping[str, str], what: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        building.build("toyworld", options, tmp_path / "a")
    assert what in str(caught.value)
    assert not (tmp_path / "a").exists()


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    with pytest.raises(ConfigError, match="is a file; name a folder"):
        building.build("toyworld", {}, tmp_path / "a")


@pytest.mark.parametrize("profile", ["ci", "tiny", "hard", "large"])
def test_every_profile_has_files(profile: str, tmp_path: Path) -> None:
    roots = Toyworld(profile=profile, splits=("demo",), samples=14).build(tmp_path / "a")
    assert sizes(roots) == dict.fromkeys(roots, 14)


# Their pieces.


@given(weights=st.lists(st.integers(1, 9), min_size=1, max_size=7), count=st.integers(1, 200))
def test_shares_are_kept_from_the_beginning(weights: list[int], count: int) -> None:
    named = {str(n): weight for n, weight in enumerate(weights)}
    given_out: Counter[str] = Counter()
    for done, kind in enumerate(shares(named, count), 1):
        given_out[kind] += 1
        for name, weight in named.items():
            assert abs(given_out[name] - done * weight / sum(weights)) < 2
    assert given_out.total() == count


def test_scenes_serve_rare_kinds_without_being_wasted() -> None:
    world = World("std", "demo", 99)

    asked: Counter[tuple[str, int]] = Counter()

    def make(kind: str, scene: Scene, rng: np.random.Generator) -> str | None:
        asked[kind, scene.index] += 1
        return kind if kind == "any" or scene.index % 5 == 0 else None

    kinds = ["rare", "any", "any", "rare", "any"]
    got = [(scene.index % 100_000, item) for scene, item in supply(world, kinds, make)]
    assert got == [(5, "rare"), (1, "any"), (2, "any"), (10, "rare"), (3, "any")]
    assert max(asked.values()) == 1  # nothing is asked of a scene again in vain
    shared = [scene.index % 100_000 for scene, _ in supply(world, ["any"] * 4, make, uses=3)]
    assert shared == [1, 1, 1, 2]


def test_a_kind_that_is_nowhere_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness_toyworld._supply.PATIENCE", 3)
    with pytest.raises(ConfigError, match=r"3 scenes of the profile 'std' have nothing .* unicorn"):
        list(supply(World("std", "demo", 99), ["unicorn"], lambda kind, scene, rng: None))


MASKS = arrays(np.bool_, st.tuples(st.integers(1, 12), st.integers(1, 12)))


@given(mask_HW=MASKS)
def test_polygons_are_exact_or_not_given(mask_HW: NDArray[np.bool_]) -> None:
    mask = Mask.from_array(mask_HW)
    outline = _files.polygons(mask)
    if outline is not None:
        assert Mask.from_polygons(outline, *mask.size) == mask


def test_only_a_hole_needs_runs() -> None:
    square = np.zeros((9, 9), np.bool_)
    square[1:8, 2:7] = True
    assert _files.polygons(Mask.from_array(square)) is not None
    square[4, 4] = False
    assert _files.polygons(Mask.from_array(square)) is None


@given(mask_HW=MASKS)
def test_run_lengths_say_the_mask(mask_HW: NDArray[np.bool_]) -> None:
    mask = Mask.from_array(mask_HW)
    runs = json.loads(json.dumps(_files.run_lengths(mask)))
    assert isinstance(runs["counts"], list)
    assert Mask.from_coco(runs) == mask
