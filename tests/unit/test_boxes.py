"""Boxes in text: the arithmetic of the box protocol, and whatever a model may answer."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.codec import Canvas
from harness.codecs.boxes import Boxes, Coords, Parser, find_boxes, to_pixels
from harness.errors import ConfigError
from harness.types import Box, Mask, Region
from tests.growth import growth

COORDS: tuple[Coords, ...] = ("relative1000", "relative1", "absolute", "resized")
PARSERS: tuple[Parser, ...] = ("strict", "tolerant")
CANVAS = Canvas((480, 640), Path("none.png"))


def read(text: str, codec: Boxes | None = None, canvas: Canvas = CANVAS) -> list[Box | None]:
    return [region.box for region in (codec or Boxes()).read(text, canvas).regions]


def test_numbers_are_divided_first_multiplied_after_and_truncated() -> None:
    # 290 / 1000 * 100 is 28.999999999999996 in floating point, so 28.
    assert to_pixels((290, 290, 1000, 1000), (100, 100)) == (28, 28, 100, 100)


def test_halves_of_a_picture() -> None:
    # 500 / 1000 * 640 = 320, 500 / 1000 * 480 = 240
    assert read("[500, 500, 1000, 1000]") == [(320, 240, 640, 480)]


def test_corners_are_clamped_to_the_last_pixel_and_the_side_and_not_put_in_order() -> None:
    assert to_pixels((1000, 1000, 1000, 1000), (480, 640)) == (639, 479, 640, 480)
    assert to_pixels((900, 900, 100, 100), (100, 100)) == (90, 90, 10, 10)
    assert to_pixels((-5, -5, 2000, 2000), (100, 100)) == (0, 0, 100, 100)


def test_resized_coordinates_are_those_of_the_processor() -> None:
    # 480 x 640 in steps of 28: 480 / 28 = 17.1 -> 476, 640 / 28 = 22.9 -> 644.
    codec = Boxes(coords="resized")
    assert read("[322, 238, 644, 476]", codec) == [(320, 240, 640, 480)]
    assert codec.protocol()["resize"] == "smart/28/3136-12845056"


def test_absolute_and_fractional_coordinates() -> None:
    assert read("[1, 2, 30, 40]", Boxes(coords="absolute")) == [(1, 2, 30, 40)]
    assert read("[0.5, 0.25, 1, 1.0]", Boxes(coords="relative1")) == [(320, 120, 640, 480)]


STATED = [
    ("[1, 2, 3, 4]", 1, 1),
    ("[ 1 ,2,\n3 , 4 ]", 1, 1),
    ('```json\n[{"bbox_2d": [1, 2, 3, 4], "label": "dog"}, {"bbox_2d": [5, 6, 7, 8]}]\n```', 2, 2),
    ("(1, 2, 3, 4)", 0, 1),
    ("(1, 2), (3, 4)", 0, 1),
    ("[[1, 2], [3, 4]]", 0, 1),
    ("[1.5, 2, 3, 4.]", 0, 1),
    ("[-1, 2, 3, 4]", 0, 1),
    ("[1, 2, 3]", 0, 0),
    ("[1, 2, 3, 4, 5]", 0, 0),
    ("null", 0, 0),
    ("", 0, 0),
]


@pytest.mark.parametrize(("text", "strict", "tolerant"), STATED)
def test_what_each_parser_takes(text: str, strict: int, tolerant: int) -> None:
    assert len(find_boxes(text)) == strict
    assert len(find_boxes(text, "tolerant")) == tolerant


def test_tolerant_numbers_keep_sign_and_fraction() -> None:
    assert find_boxes("(-1.5, +2, .5, 4.)", "tolerant") == [(-1.5, 2.0, 0.5, 4.0)]


@pytest.mark.parametrize("digits", ["9" * 400, "9" * 5000])
def test_huge_numbers_are_clamped(digits: str) -> None:
    assert read(f"[0, 0, {digits}, {digits}]") == [(0, 0, 640, 480)]
    tolerant = Boxes(parser="tolerant")
    assert read(f"[-{digits}, -{digits}, {digits}.5, {digits}]", tolerant) == [(0, 0, 640, 480)]
    assert tolerant.read(f"[0, 0, {digits}, 1]", CANVAS).flags == ("outside_picture",)


def test_take_first_and_flags() -> None:
    text = "[0, 0, 10, 10] or [500, 500, 1000, 1000]"
    assert len(read(text)) == 2
    assert read(text, Boxes(take="first")) == [(0, 0, 6, 4)]
    assert Boxes().read(text, CANVAS).flags == ()
    assert Boxes().read("null", CANVAS).flags == ("unparsed",)
    assert Boxes().read("[0, 0, 1001, 5]", CANVAS).flags == ("outside_picture",)


replies = st.one_of(
    st.text(),
    st.text(alphabet="[]() ,.+-0123456789"),
    st.lists(st.floats() | st.integers(), min_size=4, max_size=4).map(str),
)


@given(text=replies, coords=st.sampled_from(COORDS), parser=st.sampled_from(PARSERS))
def test_no_text_raises_and_boxes_lie_in_the_picture(
    text: str, coords: Coords, parser: Parser
) -> None:
    reading = Boxes(coords=coords, parser=parser).read(text, CANVAS)
    assert bool(reading.regions) != ("unparsed" in reading.flags)
    for region in reading.regions:
        assert region.box is not None
        x0, y0, x1, y1 = region.box
        assert 0 <= x0 <= 639
        assert 0 <= y0 <= 479
        assert 0 <= x1 <= 640
        assert 0 <= y1 <= 480


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize("unit", ["1", "[", "[1,", "[ ", "1.", "[1, 2, 3, "])
def test_time_is_linear_in_the_text(unit: str, parser: Parser) -> None:
    assert growth(lambda n: find_boxes(("[" + unit * n)[:n], parser, fractions=True), 10_000) < 24


@pytest.mark.parametrize("coords", COORDS)
@given(data=st.data())
def test_read_gives_a_written_box_back(coords: Coords, data: st.DataObject) -> None:
    x0, y0 = data.draw(st.integers(0, 639)), data.draw(st.integers(0, 479))
    x1, y1 = data.draw(st.integers(x0, 640)), data.draw(st.integers(y0, 480))
    codec = Boxes(coords=coords)
    text = codec.write(Region(box=(x0, y0, x1, y1)), CANVAS)
    assert text is not None
    (box,) = read(text, codec)
    assert box is not None
    # Truncated once when written and once when read.
    off = np.subtract((x0, y0, x1, y1), box)
    assert off.min() >= (-1 if coords == "relative1" else 0)
    assert off.max() <= 2


def test_a_mask_is_written_as_the_box_of_its_pixels() -> None:
    codec = Boxes(coords="absolute")
    mask = Mask.from_box((10, 20, 31, 41), 480, 640)
    assert codec.write(Region(mask=mask, box=(0, 0, 1, 1)), CANVAS) == "[10, 20, 30, 40]"
    assert codec.write(Region(mask=Mask.empty(480, 640)), CANVAS) is None


def test_written_numbers_are_truncated_thousandths() -> None:
    # 320 / 640 * 1000 = 500; 479 / 480 * 1000 = 997.9
    assert Boxes().write(Region(box=(320, 240, 639, 479)), CANVAS) == "[500, 500, 998, 997]"
    fractions = Boxes(coords="relative1").write(Region(box=(320, 240, 640, 480)), CANVAS)
    assert fractions == "[0.5000, 0.5000, 1.0000, 1.0000]"


def test_options_are_checked_and_stamped() -> None:
    with pytest.raises(ConfigError, match="resize_factor"):
        Boxes(resize_factor=0)
    with pytest.raises(ConfigError, match="min_pixels"):
        Boxes(min_pixels=10, max_pixels=5)
    stamp = {"coords": "relative1000", "parser": "strict", "take": "all"}
    assert Boxes().protocol() == stamp


@pytest.mark.parametrize("coords", COORDS)
def test_the_instruction_says_what_the_numbers_mean(coords: Coords) -> None:
    assert ("[0, 1000]" in Boxes(coords=coords).instruction) == (coords == "relative1000")
