"""Scenes for benchmark files: which kinds of items are wanted, and a scene for each of them."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from harness.errors import ConfigError

from .make import make_scene
from .scene import SPLIT_IDS, WORLD_VERSION, Scene, Split

T = TypeVar("T")

APART = 100_000
"""Each benchmark has its own scenes: those numbered from a multiple of this on."""
LOOK = 100
"""A kind that none of so many scenes has is one that the profile does not have."""
PATIENCE = 1000
"""The most new scenes that are made for one item."""


@dataclass(frozen=True)
class World:
    """The scenes of one benchmark (by its number) in one split, and the luck that goes with each.

    The same fields give the same scenes and the same draws.
    """

    profile: str
    split: Split
    benchmark: int

    def scenes(self) -> Iterator[Scene]:
        """Scenes without end. A scene's index is also the number of its picture file."""
        for index in itertools.count(self.benchmark * APART + 1):
            yield make_scene(self.profile, self.split, index)

    def rng(self, scene: Scene) -> np.random.Generator:
        """The generator of all that is drawn about a scene."""
        seed = [WORLD_VERSION, SPLIT_IDS[self.split], self.benchmark, scene.index]
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed)))


Make = Callable[[str, Scene, np.random.Generator], T | None]
"""Says the item of a kind that a scene has, or None."""


@dataclass
class _Open:
    """A scene that may still give items, and the kinds it was found not to have."""

    scene: Scene
    rng: np.random.Generator
    left: int
    without: set[str] = field(default_factory=set)


def shares(weights: Mapping[str, int], count: int) -> list[str]:
    """``count`` kinds in proportion to their weights, evenly mixed: so is every beginning of it."""
    total = sum(weights.values())
    given = dict.fromkeys(weights, 0)
    mixed = []
    for number in range(1, count + 1):
        kind = max(weights, key=lambda k: weights[k] * number - given[k] * total)
        given[kind] += 1
        mixed.append(kind)
    return mixed


def plan(world: World, weights: Mapping[str, int], make: Make[T], count: int) -> list[str]:
    """``count`` kinds in proportion, those left out that the profile's scenes do not have.

    Raises ConfigError if it has none of them.
    """
    missing = dict(weights)
    for scene in itertools.islice(world.scenes(), LOOK):
        rng = world.rng(scene)
        missing = {kind: w for kind, w in missing.items() if make(kind, scene, rng) is None}
        if not missing:
            break
    if len(missing) == len(weights):
        raise ConfigError(_nothing(world, LOOK, ", ".join(weights)))
    return shares({kind: w for kind, w in weights.items() if kind not in missing}, count)


def supply(
    world: World,
    kinds: Sequence[str],
    make: Make[T],
    uses: int = 1,
) -> Iterator[tuple[Scene, T]]:
    """An item of each kind in turn, with its scene: the first that has one and is not used up.

    ``make`` says None if a scene has no such item; a scene gives at most ``uses`` items. Scenes
    that are skipped wait for a kind that they do have. Raises ConfigError if a kind is nowhere.
    """
    fresh = world.scenes()
    opened: list[_Open] = []
    for kind in kinds:
        waiting = [entry for entry in opened if kind not in entry.without]
        for entry in itertools.chain(waiting, _open(world, fresh, uses, opened)):
            item = make(kind, entry.scene, entry.rng)
            if item is not None:
                break
            entry.without.add(kind)
        else:
            raise ConfigError(_nothing(world, PATIENCE, kind))
        entry.left -= 1
        if not entry.left:
            opened.remove(entry)
        yield entry.scene, item


def _nothing(world: World, scenes: int, kind: str) -> str:
    return (
        f"{scenes} scenes of the profile {world.profile!r} have nothing to ask of the kind {kind}; "
        "choose another profile"
    )


def _open(world: World, fresh: Iterator[Scene], uses: int, opened: list[_Open]) -> Iterator[_Open]:
    """New scenes, at most ``PATIENCE`` of them, each added to those that may give items."""
    for scene in itertools.islice(fresh, PATIENCE):
        entry = _Open(scene, world.rng(scene), uses)
        opened.append(entry)
        yield entry
