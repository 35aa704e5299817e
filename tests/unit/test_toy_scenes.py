"""Scenes of the toy world: the same everywhere, and sound."""

import hashlib

import numpy as np
import pytest

from harness.errors import ConfigError
from harness.types import areas, intersection
from harness_toyworld.make import make_scene, profile
from harness_toyworld.scene import SPLIT_IDS, Scene, Split

PROFILES = ("std", "tiny", "hard", "large", "ci")
SPLITS: list[Split] = list(SPLIT_IDS)


def fingerprint(scene: Scene) -> str:
    digest = hashlib.sha256(scene.pixels.tobytes())
    for entity in scene.entities:
        digest.update(entity.mask.counts)
    return digest.hexdigest()[:16]


# Made on Linux x86-64; any machine must draw the same. Raise WORLD_VERSION if they change.
GOLDEN: dict[tuple[str, Split, int], str] = {
    ("std", "sft", 0): "4c551b0e182129b1",
    ("std", "val", 7): "f26fc5f49cd4f00e",
    ("std", "test", 100001): "f25961d7eaa8cf9d",
    ("tiny", "val", 0): "3994b0e15baa02ec",
    ("hard", "test", 3): "9ef15e3e384f0780",
    ("large", "demo", 1): "eba9e222a6e4edc0",
    ("ci", "sft", 5): "0c98cd6f361d1cd6",
    ("std", "codec", 2): "240dafe1526b9bdf",
}


@pytest.mark.parametrize("key", GOLDEN)
def test_the_same_bytes_on_every_machine(key: tuple[str, Split, int]) -> None:
    assert fingerprint(make_scene(*key)) == GOLDEN[key]


def test_a_scene_is_a_pure_function() -> None:
    np.random.seed(1)
    one = make_scene("std", "val", 3)
    np.random.seed(2)
    other = make_scene("std", "val", 3)
    assert one == other
    assert (one.pixels == other.pixels).all()


def test_splits_profiles_and_numbers_give_other_scenes() -> None:
    seen = {fingerprint(make_scene("std", split, i)) for split in SPLITS for i in range(20)}
    seen |= {fingerprint(make_scene("hard", "val", i)) for i in range(20)}
    assert len(seen) == 20 * (len(SPLITS) + 1)


@pytest.mark.parametrize("name", PROFILES)
def test_every_rule_is_kept(name: str) -> None:
    chosen = profile(name)
    for index in range(40):
        scene = make_scene(name, "demo", index)
        assert scene.pixels.shape == (chosen.side, chosen.side, 3)
        assert [entity.id for entity in scene.entities] == list(range(len(scene.entities)))
        assert chosen.objects[0] <= len(scene.objects) <= chosen.objects[1]
        assert min(areas([entity.mask for entity in scene.entities])) >= chosen.smallest
        check_sides(scene)
        check_parts(scene)
        check_apart(scene)


def check_sides(scene: Scene) -> None:
    middle = scene.pixels.shape[0] / 2
    for entity in scene.objects:
        far = 0.04 * scene.pixels.shape[0]
        assert entity.side == ("" if abs(entity.x - middle) < far else
                               "left" if entity.x < middle else "right")  # fmt: skip
        assert entity.vside == ("" if abs(entity.y - middle) < far else
                                "top" if entity.y < middle else "bottom")  # fmt: skip


def check_parts(scene: Scene) -> None:
    for part in scene.parts:
        assert part.owner is not None
        owner = scene.entities[part.owner]
        assert owner.kind == "object"
        assert owner.size == "large"
        assert intersection([part.mask, owner.mask]) == part.mask
        assert part.color != owner.color
    for image in scene.reflections:
        assert image.owner is not None
        shown = scene.entities[image.owner]
        assert (image.shape, image.color, image.texture) == (
            shown.shape,
            shown.color,
            shown.texture,
        )


def check_apart(scene: Scene) -> None:
    """Objects, bands and reflections cover the picture, each pixel once."""
    cover = np.sum([e.mask.to_array() for e in scene.entities if e.kind != "part"], axis=0)
    assert (cover == 1).all()
    looks = [
        (e.shape, e.color, e.texture, e.size, e.material, e.side, e.vside,
         tuple(sorted((p.name, p.color) for p in scene.parts_of(e))))
        for e in scene.objects
    ]  # fmt: skip
    if scene.profile != "hard":  # a part that is hidden is no region, but tells its owner apart
        assert len(set(looks)) == len(looks)


def test_distractors_share_attributes() -> None:
    scenes = [make_scene("std", "demo", i) for i in range(100)]
    alone = [
        sum(other.color == entity.color for other in scene.objects) == 1
        for scene in scenes
        for entity in scene.objects
    ]
    assert 0.2 < np.mean(alone) < 0.6


def test_reflections_are_as_frequent_as_told() -> None:
    share = np.mean([bool(make_scene("std", "sft", i).reflections) for i in range(400)])
    assert 0.08 < share < 0.25


@pytest.mark.parametrize(("name", "split"), [("nowhere", "val"), ("std", "train")])
def test_what_is_unknown_is_named(name: str, split: Split) -> None:
    with pytest.raises(ConfigError, match=r"nowhere|train"):
        make_scene(name, split, 0)
