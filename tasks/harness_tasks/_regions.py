"""How a question speaks of its regions: as mask tokens, as boxes, or by the colour of their paint.

The wordings of mask tokens and boxes are those of the SAMTok / CycleGRPO scripts; painting is our
own, for models that only see pictures.
"""

import re
from collections.abc import Sequence
from typing import Literal

from harness.types import Box, Mask, Region
from harness.views import colour

Form = Literal["mask_tokens", "boxes", "overlay"]

NOUNS = {
    "mask_tokens": "{region_%d}",
    "boxes": "the region at bounding box {region_%d}",
    "overlay": "the region painted %s",
}

_NO_BOX: Box = (0.0, 0.0, 0.0, 0.0)
_PLACE = re.compile(r"<Prompt(0|[1-9][0-9]{0,5})>")


def noun(index: int, form: Form) -> str:
    """What a prompt calls a region; ``{region_0}`` in it is the adapter's to write."""
    return NOUNS[form] % (colour(index) if form == "overlay" else index)


def fill(text: str, count: int, form: Form) -> str:
    """A text with ``<Prompt0>``, ``<Prompt1>`` ... put into words; one without a region stays."""

    def written(place: re.Match[str]) -> str:
        return noun(int(place[1]), form) if int(place[1]) < count else place[0]

    return _PLACE.sub(written, text)


def regions(masks: Sequence[Mask], form: Form) -> tuple[Region, ...]:
    """The regions of a request. As a box, an empty mask is [0, 0, 0, 0], as in the scripts."""
    return tuple(
        Region(box=_NO_BOX) if form == "boxes" and not mask.area else Region(mask=mask)
        for mask in masks
    )
