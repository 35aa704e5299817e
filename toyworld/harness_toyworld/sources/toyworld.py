"""The toy world as training data: scenes made on the fly, with all that there is to say of them.

Four examples a picture and visit (``examples``): half of them expressions to find, a fifth *vague*
captions of a region (their usual level is one attribute), the rest detailed captions, questions and
grounded descriptions, in the wording of the benchmark tasks. What an expression means is **all**
that it matches, so a vague caption costs its writer who has to find the region again.
"""

import io
import multiprocessing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from harness.errors import ConfigError
from harness.source import Example, Picture, Source

from .. import _files, _lessons
from ..make import make_scene, profile
from ..scene import SPLIT_IDS, WORLD_VERSION, Scene, Split


@dataclass(frozen=True)
class ToyWorld(Source):
    profile: str = "std"
    split: Split = "sft"
    pictures: int = 24_000
    per_picture: int = 4
    """Examples of a picture at each visit."""
    no_target: float = 0.03
    """Share of the expressions to find that match nothing."""
    first: int = 0
    """The number of its first scene."""
    _kept: dict[int, Scene] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        profile(self.profile)
        if self.pictures < 1 or self.per_picture < 1:
            raise ConfigError("source.pictures and source.per_picture must be at least 1")
        if not 0 <= self.no_target <= 1:
            raise ConfigError(f"source.no_target = {self.no_target} must be a share from 0 to 1")

    def __len__(self) -> int:
        return self.pictures

    def load(self, processes: int) -> None:
        """Makes all scenes, in so many processes."""
        missing = [i for i in range(self.pictures) if i not in self._kept]
        if processes <= 1 or len(missing) < 100:
            self._kept.update(zip(missing, map(self._make, missing), strict=True))
            return
        with multiprocessing.get_context("fork").Pool(processes) as pool:
            self._kept.update(zip(missing, pool.imap(self._make, missing, 64), strict=True))

    def picture(self, index: int) -> Picture:
        scene = self.scene(index)
        return Picture(scene.pixels, tuple(entity.mask for entity in scene.entities))

    def examples(self, index: int, visit: int) -> Sequence[Example]:
        seed = [WORLD_VERSION, SPLIT_IDS[self.split], self.first + index, 1 + visit]
        rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed)))
        return list(self._drawn(self.scene(index), rng))

    def _drawn(self, scene: Scene, rng: np.random.Generator) -> Iterator[Example]:
        for _ in range(self.per_picture):
            yield _lessons.draw(rng, scene, self.no_target)

    def scene(self, index: int) -> Scene:
        """The scene with this number, its pixels as its JPEG file holds them."""
        return self._kept.get(index) or self._make(index)

    def _make(self, index: int) -> Scene:
        if not 0 <= index < self.pictures:
            raise IndexError(index)
        scene = make_scene(self.profile, self.split, self.first + index)
        return replace(scene, pixels=as_filed(scene.pixels))

    def fingerprint(self) -> Mapping[str, str]:
        return {"world": str(WORLD_VERSION), "lessons": str(_lessons.VERSION)}


def as_filed(pixels_HWC: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Pixels after they were written as JPEG and read again, as an evaluation sees them."""
    from PIL import Image

    with Image.open(io.BytesIO(_files.jpeg(pixels_HWC))) as picture:
        return np.asarray(picture.convert("RGB"))


source = ToyWorld
