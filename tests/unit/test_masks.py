"""Masks and run lengths, against pycocotools and plain numpy."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from pycocotools import mask as coco

from harness.errors import DataError
from harness.metrics import iou, overlap
from harness.rle import run_lengths
from harness.types import Mask, Region, intersection, union

Bits = NDArray[np.bool_]


@st.composite
def bitmaps(draw: st.DrawFn) -> Bits:
    height, width = draw(st.integers(1, 12)), draw(st.integers(1, 12))
    bits = draw(st.lists(st.booleans(), min_size=height * width, max_size=height * width))
    return np.array(bits).reshape(height, width)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Bits, Bits]:
    first = draw(bitmaps())
    bits = draw(st.lists(st.booleans(), min_size=first.size, max_size=first.size))
    return first, np.array(bits).reshape(first.shape)


@given(bitmaps())
def test_round_trip(bits: Bits) -> None:
    mask = Mask.from_array(bits)
    assert (mask.to_array() == bits).all()
    assert mask.area == bits.sum()
    assert Mask.from_coco(mask.to_coco()) == mask
    assert Mask(mask.height, mask.width, mask.counts) == mask


@given(bitmaps())
def test_run_lengths_are_those_of_the_columns(bits: Bits) -> None:
    flat = bits.T.ravel()
    edges = np.flatnonzero(np.diff(flat)) + 1
    runs = np.diff([0, *edges, flat.size]).tolist()
    expected = [0, *runs] if flat[0] else runs
    mask = Mask.from_array(bits)
    assert list(run_lengths(mask.counts)) == expected
    assert Mask.from_coco({"size": list(bits.shape), "counts": expected}) == mask


@given(pairs())
def test_overlap_is_that_of_dense_arrays(pair: tuple[Bits, Bits]) -> None:
    a, b = pair
    first, second = Mask.from_array(a), Mask.from_array(b)
    assert overlap(first, second) == ((a & b).sum(), (a | b).sum())
    assert overlap(first, second) == overlap(second, first)
    assert (union([first, second]).to_array() == (a | b)).all()
    assert (intersection([first, second]).to_array() == (a & b)).all()
    assert 0 <= iou(*overlap(first, second)) <= 1


@given(bitmaps())
def test_box_is_inclusive(bits: Bits) -> None:
    rows, columns = np.nonzero(bits)
    box = Mask.from_array(bits).box
    if not rows.size:
        assert box is None
    else:
        assert box == (columns.min(), rows.min(), columns.max(), rows.max())


def test_disjoint_masks_have_iou_zero_and_not_less() -> None:
    a, b = Mask.from_box((0, 0, 2, 2), 4, 4), Mask.from_box((2, 2, 4, 4), 4, 4)
    assert iou(*overlap(a, b)) == 0.0
    assert iou(0, 0) == 0.0


def test_runs_that_do_not_fill_the_picture_are_refused() -> None:
    full = Mask.full(4, 4).to_coco()["counts"]
    # pycocotools decodes this to uninitialised memory.
    with pytest.raises(DataError, match="runs cover 16 pixels, but 100x100 has 10000"):
        Mask.from_coco({"size": [100, 100], "counts": full})
    with pytest.raises(DataError, match="runs cover 16 pixels"):
        Mask.from_coco({"size": [2, 2], "counts": full})


@pytest.mark.parametrize(
    "rle",
    [
        None,
        [],
        "0000",
        {},
        {"size": [2], "counts": "4"},
        {"size": [0, 4], "counts": ""},
        {"size": [2.0, 2], "counts": "4"},
        {"size": [True, 4], "counts": "4"},
        {"size": "22", "counts": "4"},
        {"size": [2, 2], "counts": 4},
        {"size": [2, 2], "counts": [4.0]},
        {"size": [2, 2], "counts": [5]},
        {"size": [2, 2], "counts": [-1, 5]},
        {"size": [2, 2], "counts": ["4"]},
        {"size": [2, 2], "counts": ""},
        {"size": [2, 2], "counts": "é"},
        {"size": [2, 2], "counts": "P"},
        {"size": [2, 2], "counts": "\x7f"},
        {"size": [2, 2], "counts": "ooooooooooooooo0"},
        {"size": [70000, 70000], "counts": "0"},
    ],
)
def test_broken_rle_is_refused(rle: object) -> None:
    with pytest.raises(DataError):
        Mask.from_coco(rle)


@given(st.binary(max_size=40), st.integers(1, 30), st.integers(1, 30))
def test_no_counts_can_raise_anything_else(counts: bytes, height: int, width: int) -> None:
    try:
        mask = Mask(height, width, counts)
    except DataError:
        return
    assert mask.to_array().shape == (height, width)
    assert mask.area == mask.to_array().sum()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)


@given(st.fixed_dictionaries({"size": json_values, "counts": json_values}) | json_values)
def test_no_json_value_can_raise_anything_else(rle: object) -> None:
    try:
        Mask.from_coco(rle)
    except DataError:
        return


@given(st.lists(st.lists(st.floats(-20, 40), min_size=6, max_size=12), min_size=1, max_size=4))
def test_polygons_are_drawn_as_coco_draws_them(polygons: list[list[float]]) -> None:
    usable = [p for p in polygons if len(p) % 2 == 0]
    mask = Mask.from_polygons(polygons, 20, 30)
    expected = np.zeros((20, 30), bool)
    for polygon in usable:
        expected |= coco.decode(coco.frPyObjects([polygon], 20, 30))[:, :, 0].astype(bool)
    assert (mask.to_array() == expected).all()


@given(st.lists(json_values, max_size=4))
def test_no_polygon_can_raise(polygons: list[object]) -> None:
    Mask.from_polygons(polygons, 10, 10)  # type: ignore[arg-type]


def test_a_polygon_inside_another_is_no_hole() -> None:
    outer, inner = [1, 1, 9, 1, 9, 9, 1, 9], [3, 3, 6, 3, 6, 6, 3, 6]
    assert Mask.from_polygons([outer, inner], 10, 10) == Mask.from_polygons([outer], 10, 10)


def test_a_filled_box() -> None:
    mask = Mask.from_box((1, 2, 3, 5), 6, 7)
    assert mask.area == 2 * 3
    assert mask.to_array()[2:5, 1:3].all()
    assert Mask.from_box((3, 3, 1, 1), 6, 7).area == 0
    assert Mask.from_box((-5, -5, 1e12, 1e12), 6, 7) == Mask.full(6, 7)


def test_merging_needs_one_size() -> None:
    with pytest.raises(DataError, match="one size"):
        union([Mask.empty(2, 3), Mask.empty(3, 2)])
    with pytest.raises(DataError, match="none given"):
        union([])


def test_a_region_is_something() -> None:
    with pytest.raises(DataError):
        Region()


@st.composite
def loose_runs(draw: st.DrawFn) -> tuple[int, int, list[int]]:
    """Run lengths with runs of no pixel among them, as other tools write them."""
    height, width = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    cuts = sorted(draw(st.lists(st.integers(0, height * width), max_size=8)))
    runs = [b - a for a, b in itertools.pairwise([0, *cuts, height * width])]
    return height, width, runs


def dense(height: int, width: int, runs: list[int]) -> Bits:
    flat = np.repeat(np.arange(len(runs)) % 2 == 1, runs)
    return flat.reshape(width, height).T


@given(loose_runs())
def test_runs_of_no_pixel_are_harmless(first: tuple[int, int, list[int]]) -> None:
    # pycocotools merges such runs wrongly, and past the end of its buffer.
    height, width, runs = first
    other = [0, height * width // 2, 0, 0, height * width - height * width // 2]
    a = Mask.from_coco({"size": [height, width], "counts": runs})
    b = Mask.from_coco({"size": [height, width], "counts": other})
    bits_a, bits_b = dense(height, width, runs), dense(height, width, other)
    assert (a.to_array() == bits_a).all()
    assert a == Mask.from_array(bits_a)
    assert overlap(a, b) == ((bits_a & bits_b).sum(), (bits_a | bits_b).sum())


def test_a_compressed_run_of_no_pixel_is_joined_away() -> None:
    mask = Mask(4, 4, b"44004")  # runs 4 4 0 4 4
    assert mask == Mask.from_coco({"size": [4, 4], "counts": [4, 8, 4]})
    assert overlap(mask, mask) == (8, 8)
    many = Mask.from_coco({"size": [4, 4], "counts": [0] * 2000 + [4, 8, 4]})
    assert overlap(many, mask) == (8, 8)


@given(pairs())
def test_what_pycocotools_leaves_at_the_end_of_a_union_is_cut(pair: tuple[Bits, Bits]) -> None:
    rles = [coco.encode(np.asfortranarray(bits.astype(np.uint8))) for bits in pair]
    merged = Mask.from_coco(coco.merge(rles))
    assert merged == Mask.from_array(pair[0] | pair[1])
