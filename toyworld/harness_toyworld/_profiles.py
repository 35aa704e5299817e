"""How large and how rich scenes are, by the name of a profile."""

from dataclasses import dataclass

from harness.errors import ConfigError, did_you_mean

from .scene import COLORS, SHAPES, TEXTURES


@dataclass(frozen=True, slots=True)
class Profile:
    """The choices behind a scene. Lengths elsewhere are for a picture of 96 pixels and scaled."""

    name: str
    number: int
    """Part of each scene's seed."""
    side: int
    """Pixels."""
    objects: tuple[int, int] = (3, 6)
    """Fewest and most."""
    bands: tuple[int, int] = (1, 3)
    shapes: tuple[str, ...] = SHAPES
    colors: tuple[str, ...] = COLORS
    textures: tuple[str, ...] = TEXTURES
    materials: bool = True
    parts: bool = True
    mirrors: int = 15
    """Percent of the scenes that have one."""
    occlusion: bool = False
    """Whether one object may hide a part of another."""

    def scaled(self, length: float) -> int:
        """A length of the 96-pixel world in pixels of this one, at least 1."""
        return max(1, int(length * self.side / 96 + 0.5))

    @property
    def smallest(self) -> int:
        """The fewest visible pixels of a region."""
        return int(40 * (self.side / 96) ** 2 + 0.5)


PROFILES = {
    profile.name: profile
    for profile in (
        Profile("std", 1, 128),
        Profile("tiny", 2, 96, bands=(1, 2), materials=False, mirrors=0),
        Profile("hard", 3, 128, objects=(5, 9), occlusion=True),
        Profile("large", 4, 224),
        Profile(
            "ci", 5, 64, objects=(3, 4), bands=(1, 2), shapes=SHAPES[:3], colors=COLORS[:4],
            textures=TEXTURES[:1], materials=False, parts=False, mirrors=0,
        ),
    )
}  # fmt: skip


def profile(name: str) -> Profile:
    """The profile of that name; raises ConfigError if there is none."""
    if name not in PROFILES:
        raise ConfigError(f"the toy world has no profile {name!r}.{did_you_mean(name, PROFILES)}")
    return PROFILES[name]
