"""Polygons in text: outlines of masks, and whatever a model may answer."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from harness.codec import Canvas
from harness.codecs.polygons import MAX_CHARS, Coords, Polygons, find_shapes, outlines, thin_out
from harness.errors import ConfigError
from harness.types import Mask, Region

COORDS: tuple[Coords, ...] = ("relative1000", "relative1", "absolute")
CANVAS = Canvas((480, 640), Path("none.png"))
SQUARE = [0, 0, 500, 0, 500, 500, 0, 500]

small_masks = arrays(np.bool_, st.tuples(st.integers(1, 9), st.integers(1, 9)))


def canvas_of(mask_HW: NDArray[np.bool_]) -> Canvas:
    height, width = mask_HW.shape
    return Canvas((height, width), Path("none.png"))


def there_and_back(mask_HW: NDArray[np.bool_], codec: Polygons) -> NDArray[np.bool_]:
    text = codec.write(Region(mask=Mask.from_array(mask_HW)), canvas_of(mask_HW))
    assert text is not None
    reading = codec.read(f"Here it is: {text}.", canvas_of(mask_HW))
    assert reading.flags == ()
    (region,) = reading.regions
    assert region.mask is not None
    return region.mask.to_array()


def iou(a_HW: NDArray[np.bool_], b_HW: NDArray[np.bool_]) -> float:
    return float((a_HW & b_HW).sum() / (a_HW | b_HW).sum())


def without_holes(mask_HW: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """All but what a chess king can reach from outside on empty pixels; slow, for small masks."""
    empty_HW = np.pad(~mask_HW, 1, constant_values=True)
    reached_HW = np.zeros_like(empty_HW)
    reached_HW[0, 0] = True
    for _ in range(empty_HW.size):
        wide_HW = np.pad(reached_HW, 1)
        for axis in (0, 1):
            wide_HW = wide_HW | np.roll(wide_HW, 1, axis) | np.roll(wide_HW, -1, axis)
        reached_HW = wide_HW[1:-1, 1:-1] & empty_HW
    return ~reached_HW[1:-1, 1:-1]


def blob(height: int, width: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """A few ellipses at any angle, partly one on another."""
    y_HW, x_HW = np.mgrid[:height, :width]
    mask_HW = np.zeros((height, width), np.bool_)
    for _ in range(rng.integers(1, 5)):
        centre_y, centre_x = rng.uniform(0.2, 0.8, 2) * (height, width)
        radius_y, radius_x = rng.uniform(0.04, 0.25, 2) * (height, width)
        turn = rng.uniform(0, np.pi)
        along = (x_HW - centre_x) * np.cos(turn) + (y_HW - centre_y) * np.sin(turn)
        across = (y_HW - centre_y) * np.cos(turn) - (x_HW - centre_x) * np.sin(turn)
        mask_HW |= (along / radius_x) ** 2 + (across / radius_y) ** 2 <= 1
    return mask_HW


def test_outline_of_one_pixel_is_its_square() -> None:
    mask_HW = np.zeros((3, 4), np.bool_)
    mask_HW[1, 2] = True
    (ring,) = outlines(mask_HW)
    assert ring.tolist() == [[2, 1], [3, 1], [3, 2], [2, 2]]


def test_pixels_that_touch_by_a_corner_have_an_outline_each() -> None:
    assert len(outlines(np.eye(3, dtype=np.bool_))) == 3
    assert len(outlines(np.fliplr(np.eye(3, dtype=np.bool_)))) == 3


def test_a_hole_has_no_outline_but_a_part_within_it_has() -> None:
    mask_HW = np.ones((7, 7), np.bool_)
    mask_HW[1:6, 1:6] = False
    assert len(outlines(mask_HW)) == 1
    mask_HW[3, 3] = True
    assert len(outlines(mask_HW)) == 2


def test_thinning_keeps_corners_and_drops_steps() -> None:
    stairs = np.array([[x // 2, (x + 1) // 2] for x in range(40)] + [[0, 19]], np.float64)
    thin = thin_out(stairs, 1.0)
    assert len(thin) < 8
    square = np.array([[0, 0], [9, 0], [9, 9], [0, 9]], np.float64)
    assert thin_out(square, 1.0).tolist() == square.tolist()


@given(mask_HW=small_masks.filter(np.any))
def test_without_tolerance_pixels_come_back_exactly_and_holes_filled(
    mask_HW: NDArray[np.bool_],
) -> None:
    back_HW = there_and_back(mask_HW, Polygons(coords="absolute", tolerance=0))
    assert np.array_equal(back_HW, without_holes(mask_HW))


@pytest.mark.parametrize("coords", COORDS)
@pytest.mark.parametrize("size", [(480, 640), (97, 131)])
def test_ordinary_blobs_survive_a_tolerance_of_one_pixel(
    size: tuple[int, int], coords: Coords
) -> None:
    rng = np.random.default_rng(7)
    blobs = [blob(*size, rng) for _ in range(10)]
    kept = [iou(mask_HW, there_and_back(mask_HW, Polygons(coords=coords))) for mask_HW in blobs]
    assert np.mean(kept) > 0.95
    assert min(kept) > 0.9


@pytest.mark.parametrize("coords", COORDS)
@given(mask_HW=small_masks.filter(np.any))
def test_every_mask_can_be_written_and_keeps_some_pixel(
    coords: Coords, mask_HW: NDArray[np.bool_]
) -> None:
    assert there_and_back(mask_HW, Polygons(coords=coords)).any()


@pytest.mark.parametrize("coords", COORDS)
@given(x=st.integers(0, 639), y=st.integers(0, 479))
def test_one_pixel_comes_back(coords: Coords, x: int, y: int) -> None:
    mask_HW = np.zeros((480, 640), np.bool_)
    mask_HW[y, x] = True
    assert there_and_back(mask_HW, Polygons(coords=coords))[y, x]


def test_a_mask_below_the_grid_of_the_text_keeps_its_place() -> None:
    # 4000 pixels in thousandths: one step is 4 x 3 pixels, and the pixel becomes one step.
    mask_HW = np.zeros((3000, 4000), np.bool_)
    mask_HW[1501, 2002] = True
    back_HW = there_and_back(mask_HW, Polygons())
    assert back_HW[1501, 2002]
    assert back_HW.sum() == 12


@pytest.mark.parametrize(
    ("coords", "text"),
    [
        ("relative1000", "[[0, 0, 1000, 0, 1000, 1000, 0, 1000]]"),
        ("relative1", "[[0.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0]]"),
        ("absolute", "[[0, 0, 640, 0, 640, 480, 0, 480]]"),
    ],
)
def test_the_whole_picture_is_one_rectangle(coords: Coords, text: str) -> None:
    codec = Polygons(coords=coords)
    assert codec.write(Region(mask=Mask.full(480, 640)), CANVAS) == text
    assert [r.mask for r in codec.read(text, CANVAS).regions] == [Mask.full(480, 640)]


def test_write_gives_none_for_an_empty_mask_and_fills_a_box() -> None:
    codec = Polygons(coords="absolute")
    assert codec.write(Region(mask=Mask.empty(480, 640)), CANVAS) is None
    text = codec.write(Region(box=(2.0, 3.0, 5.0, 7.0)), CANVAS)
    assert text == "[[2, 3, 5, 3, 5, 7, 2, 7]]"


def test_parts_are_one_region_and_one_text() -> None:
    mask_HW = np.zeros((20, 20), np.bool_)
    mask_HW[2:5, 2:5] = mask_HW[10:18, 9:15] = True
    text = Polygons(coords="absolute").write(
        Region(mask=Mask.from_array(mask_HW)), canvas_of(mask_HW)
    )
    assert text == "[[2, 2, 5, 2, 5, 5, 2, 5], [9, 10, 15, 10, 15, 18, 9, 18]]"
    assert np.array_equal(there_and_back(mask_HW, Polygons(coords="absolute")), mask_HW)


SHAPES: list[tuple[object, int]] = [
    (SQUARE, 1),
    ([SQUARE, SQUARE], 1),
    ([[0, 0], [500, 0], [500, 500], [0, 500]], 1),
    ([[[0, 0], [500, 0], [500, 500], [0, 500]]], 1),
    ({"polygon": SQUARE}, 1),
    ([[{"polygon": SQUARE}, {"polygon": SQUARE}]], 2),
    ({"polygon": [{"points": SQUARE}, SQUARE]}, 1),
    ([{"polygon": SQUARE}, SQUARE], 2),
    ([{"points": [[0, 0], [500, 0], [500, 500], [0, 500]]}], 1),
    ([{"label": "dog", "segmentation": [SQUARE]}, {"label": "cat", "segmentation": [SQUARE]}], 2),
]


@pytest.mark.parametrize(("value", "regions"), SHAPES)
def test_read_takes_each_usual_shape(value: object, regions: int) -> None:
    reading = Polygons().read(f"```json\n{json.dumps(value)}\n```", CANVAS)
    quarter = Mask.from_box((0, 0, 320, 240), 480, 640)
    assert [r.mask for r in reading.regions] == [quarter] * regions
    assert reading.flags == ()


def test_read_finds_several_lists_among_words_and_takes_the_first_if_asked() -> None:
    text = f"[sic] The dog {SQUARE} and the cat {SQUARE}"
    assert len(Polygons().read(text, CANVAS).regions) == 2
    assert len(Polygons(take="first").read(text, CANVAS).regions) == 1


def test_the_whole_polygons_of_a_reply_that_was_cut_off_still_count() -> None:
    assert len(Polygons().read(f"[{SQUARE}, [100, 200, 30", CANVAS).regions) == 1


def test_coordinates_outside_the_picture_are_flagged() -> None:
    reading = Polygons().read("[0, 0, 2000, 0, 2000, 2000, 0, 2000]", CANVAS)
    assert [r.mask for r in reading.regions] == [Mask.full(480, 640)]
    assert reading.flags == ("outside_picture",)


UNPARSED = [
    "",
    "null",
    "[]",
    "[10, 20, 30, 40]",
    "[1, 2, 3, 4, 5, 6, 7]",
    "[true, true, false, true, false, false]",
    '["1", "2", "3", "4", "5", "6"]',
    "[NaN, 0, 5, 0, 5, 5]",
    "[Infinity, 0, 5, 0, 5, 5]",
    "[1e999, 0, 5, 0, 5, 5]",
    "[1" + "0" * 5000 + ", 0, 5, 0, 5, 5]",
    "[" * 50_000,
    '{"a":' * 50_000,
    "[" * 500 + "]" * 500,
    "[" * 9 + str(SQUARE)[1:-1] + "]" * 9,
    "[" * 20 + "1," * 200_000,
    str(SQUARE) + " " * MAX_CHARS,
    str([0, 0, 1000, 1000, 0, 1000] * 20_000),  # 60,000 long edges
    str([[0, 0, 1, 0, 1, 1]] * 6_000),
]


@pytest.mark.parametrize("text", UNPARSED, ids=lambda text: text[:20] or "empty")
def test_what_states_no_polygon_or_absurdly_much_is_unparsed(text: str) -> None:
    reading = Polygons().read(text, CANVAS)
    assert reading.regions == ()
    assert reading.flags == ("unparsed",)


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=8)
        | st.dictionaries(st.sampled_from(["polygon", "points", "segmentation", "x"]), inner)
    ),
    max_leaves=30,
)
numbers = st.lists(st.floats(-2e9, 2e9) | st.integers(-1500, 1500), min_size=6, max_size=12)


@given(
    text=st.text() | st.text(alphabet="[]{},:. -0123456789e\"") | json_values.map(json.dumps)
    | numbers.map(json.dumps),
    coords=st.sampled_from(COORDS),
)  # fmt: skip
def test_no_text_raises(text: str, coords: Coords) -> None:
    reading = Polygons(coords=coords).read(text, Canvas((6, 8), Path("none.png")))
    assert all(r.mask is not None and r.mask.size == (6, 8) for r in reading.regions)
    assert bool(reading.regions) != ("unparsed" in reading.flags)


def test_find_shapes_keeps_the_numbers_as_stated() -> None:
    assert find_shapes('{"polygon": [[1, 2.5], [3, 4], [5, -6]]}') == [[[1, 2.5, 3, 4, 5, -6]]]


def test_options_are_checked_and_stamped() -> None:
    for tolerance in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ConfigError, match="tolerance"):
            Polygons(tolerance=tolerance)
    codec = Polygons(coords="relative1", tolerance=2, take="first")
    assert codec.protocol() == {"coords": "relative1", "tolerance": 2, "take": "first"}


@pytest.mark.parametrize("coords", COORDS)
def test_the_instruction_says_what_the_numbers_mean(coords: Coords) -> None:
    words = {"relative1000": "[0, 1000]", "relative1": "fractions", "absolute": "pixels"}
    assert words[coords] in Polygons(coords=coords).instruction
