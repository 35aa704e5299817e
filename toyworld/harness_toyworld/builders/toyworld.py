"""The toy world's benchmarks: GRES, GroundingSuite, GCG, GAR-Bench, DLC-Bench in their own files.

Scenes are made, so every mask and every answer is exact. ``DIR/<split>/<benchmark>/`` has the
layout of the real benchmark, and the ordinary tasks read it. Captions are judged by ``--judge
rules``: the files hold a key for each question. ``toy`` is a sixth one, of the world's own, which
says whether a caption is true and whether it fits one object alone.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from harness.builder import Builder
from harness.config import jsonable
from harness.errors import ConfigError
from harness.files import pretty_json, read_json

from .. import (
    _files_dlc,
    _files_gar,
    _files_gcg,
    _files_gres,
    _files_groundingsuite,
    _files_toy,
)
from .._supply import World
from ..make import profile as profile_named
from ..scene import WORLD_VERSION

FILES_VERSION = 1
"""Raise it whenever the same options would write other files."""

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class _Part:
    """Files that are written together: in which folder, by whom, from which scenes, how many."""

    folder: str
    write: Callable[[Path, World, int], Mapping[str, int]]
    benchmark: int
    val: int
    test: int


PARTS = {
    "gres": _Part("gres", _files_gres.write, _files_gres.BENCHMARK, 500, 1000),
    "groundingsuite": _Part(
        "groundingsuite", _files_groundingsuite.write, _files_groundingsuite.BENCHMARK, 400, 800
    ),
    "gcg": _Part("gcg", _files_gcg.write, _files_gcg.BENCHMARK, 200, 200),
    "gar-vqa": _Part("gar", _files_gar.write_vqa, _files_gar.VQA, 420, 420),
    "gar-caption": _Part("gar", _files_gar.write_detailed, _files_gar.DETAILED, 100, 100),
    "gar-caption-simple": _Part("gar", _files_gar.write_simple, _files_gar.SIMPLE, 100, 100),
    "dlc": _Part("dlc", _files_dlc.write, _files_dlc.BENCHMARK, 100, 200),
    "toy": _Part("toy", _files_toy.write, _files_toy.BENCHMARK, 200, 400),
}
TASKS = ("gres", "groundingsuite", "gcg", "gar-vqa", "gar-caption", "dlc", "toy")
"""The tasks that read them."""


@dataclass(frozen=True)
class Toyworld(Builder):
    profile: str = "std"
    """Which scenes: ``std``, ``hard``, ``large``, ``tiny``, ``ci``."""
    splits: tuple[Literal["val", "test", "demo"], ...] = ("val", "test")
    """Splits to write; the roots that come out are those of the last."""
    scale: Annotated[float, Field(gt=0, le=100)] = 1.0
    """Share of the usual sizes (500 sentences of GRES in val, 1000 in test, ...)."""
    samples: Annotated[int, Field(gt=0)] | None = None
    """The most samples of a file; kinds stay in proportion."""

    def build(self, out: Path) -> Mapping[str, Path]:
        """Writes all splits below ``out``; what the same options wrote before is left alone.

        The folder appears as a whole or not at all. Raises ConfigError if it holds anything else.
        """
        profile_named(self.profile)
        if not self.splits or len(set(self.splits)) < len(self.splits):
            raise ConfigError("builder.splits must name splits, each once, e.g. val,test")
        if not self._is_built(out):
            with _temporary(out.resolve()) as folder:
                counts = {split: self._write(folder / split, split) for split in self.splits}
                manifest = pretty_json({**self._stamp, "counts": counts})
                (folder / MANIFEST).write_bytes(manifest)
                self._move(folder, out.resolve())
        root = out / self.splits[-1]
        return {task: root / PARTS[task].folder for task in TASKS}

    @property
    def _stamp(self) -> Mapping[str, Any]:
        """What decides the content of all files."""
        options = jsonable(self)
        return {"world_version": WORLD_VERSION, "files_version": FILES_VERSION, "options": options}

    def _is_built(self, out: Path) -> bool:
        """Whether the folder holds just what would be written; ConfigError if anything else."""
        if not out.exists() or not any(out.iterdir()):
            return False
        manifest = read_json(out / MANIFEST) if (out / MANIFEST).exists() else None
        if not isinstance(manifest, dict):
            raise ConfigError(f"{out} is not empty and holds no {MANIFEST}; name a new folder")
        for key, value in self._stamp.items():
            if manifest.get(key) != value:
                raise ConfigError(
                    f"{out} was built with {key} = {manifest.get(key)}, not {value}; name a new "
                    "folder, or remove this one"
                )
        return True

    def _write(self, root: Path, split: Literal["val", "test", "demo"]) -> dict[str, Any]:
        """Writes the files of a split; how many samples of which kind each has."""
        counts = {}
        for name, part in PARTS.items():
            usual = part.test if split == "test" else part.val
            count = max(1, round(usual * self.scale))
            count = min(count, self.samples or count)
            world = World(self.profile, split, part.benchmark)
            counts[name] = dict(part.write(root / part.folder, world, count))
        return counts

    def _move(self, folder: Path, out: Path) -> None:
        """Puts the finished folder in its place, unless another process was faster."""
        try:
            os.replace(folder, out)
        except OSError:
            if not self._is_built(out):
                raise


@contextmanager
def _temporary(out: Path) -> Iterator[Path]:
    """A new folder beside ``out``; gone at the end, unless it was moved."""
    out.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


builder = Toyworld
