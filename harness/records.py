"""How predictions and scores look as lines of JSON, in run folders and in files to replay.

One format for both, so that ``predictions.jsonl`` of a run can be scored again as a recorded file:

    {"sample_id": "7_0", "text": "...", "masks": [RLE, ...], "boxes": [...], "phrases": [...]}

``text: null`` is a failed request. ``masks``, ``boxes`` and ``phrases`` are lists over the regions.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from harness.errors import DataError
from harness.types import Box, Mask, Prediction, Region, Score

FIELDS = (
    "sample_id", "text", "masks", "boxes", "phrases", "spans", "flags", "info", "error",
)  # fmt: skip
"""What a line of predictions may hold."""


def prediction_row(prediction: Prediction) -> dict[str, Any]:
    """The line of a prediction. Fields that are empty or follow from others are left out."""
    regions = prediction.regions
    row: dict[str, Any] = {"sample_id": prediction.sample_id}
    if prediction.error is not None:
        row |= {"text": None, "error": prediction.error}
    else:
        row["text"] = prediction.text
        row["masks"] = [None if r.mask is None else r.mask.to_coco() for r in regions]
    if any(r.box is not None for r in regions):
        row["boxes"] = [None if r.box is None else list(r.box) for r in regions]
    if any(r.phrase for r in regions):
        row["phrases"] = [r.phrase for r in regions]
    if any(r.span for r in regions):
        row["spans"] = [None if r.span is None else list(r.span) for r in regions]
    if prediction.flags:
        row["flags"] = list(prediction.flags)
    if prediction.info:
        row["info"] = dict(prediction.info)
    return row


def parse_prediction(row: Mapping[str, Any]) -> Prediction:
    """The prediction of a line; raises DataError that starts with "its ..." if a field is broken.

    A line without ``masks`` and ``boxes`` has no regions here: reading its text is a codec's work.
    """
    sample_id = row.get("sample_id")
    text, error = row.get("text", ""), row.get("error")
    if not isinstance(sample_id, str):
        raise DataError(f"its sample_id must be text, not {sample_id!r:.80}")
    if text is None or error is not None:
        reason = str(error) if error is not None else "the file records no reply (text is null)"
        return Prediction(sample_id=sample_id, error=reason, info=_info(row))
    if not isinstance(text, str):
        raise DataError(f"its text must be text or null, not {type(text).__name__}")
    regions, info, phrases = _regions(row), _info(row), _items(row, "phrases")
    if row.get("phrases") is not None and len(phrases) != len(regions):
        # A list of its own, which some benchmarks score.
        info = {**info, "phrases": [p if isinstance(p, str) else "" for p in phrases]}
    return Prediction(
        sample_id=sample_id,
        text=text,
        regions=regions,
        flags=tuple(str(f) for f in _items(row, "flags")),
        info=info,
    )


def _regions(row: Mapping[str, Any]) -> tuple[Region, ...]:
    masks, boxes = _items(row, "masks"), _items(row, "boxes")
    phrases, spans = _items(row, "phrases"), _items(row, "spans")
    if masks and boxes and len(masks) != len(boxes):
        raise DataError(f"its {len(masks)} masks and {len(boxes)} boxes must be equally many")
    regions = []
    for i in range(max(len(masks), len(boxes))):
        try:
            mask = Mask.from_coco(masks[i]) if i < len(masks) and masks[i] is not None else None
        except DataError as error:
            raise DataError(f"its mask {i} is broken: {error}") from None
        box = _box(boxes[i], i) if i < len(boxes) and boxes[i] is not None else None
        if mask is None and box is None:
            raise DataError(f"its region {i} has neither a mask nor a box")
        span = _span(spans[i], i) if i < len(spans) and spans[i] is not None else None
        phrase = phrases[i] if i < len(phrases) and isinstance(phrases[i], str) else ""
        regions.append(Region(mask, box, phrase, span))
    return tuple(regions)


def _items(row: Mapping[str, Any], key: str) -> Sequence[Any]:
    items = row.get(key)
    if items is None:
        return ()
    if not isinstance(items, list):
        raise DataError(f"its {key} must be a list, not {type(items).__name__}")
    return items


def _info(row: Mapping[str, Any]) -> Mapping[str, Any]:
    info = row.get("info", {})
    if not isinstance(info, dict):
        raise DataError(f"its info must be an object, not {type(info).__name__}")
    return info


def _box(value: Any, index: int) -> Box:
    if not (
        isinstance(value, list)
        and len(value) == 4
        and all(type(v) in (int, float) and abs(v) < 1e9 for v in value)
    ):
        raise DataError(f"its box {index} must be four numbers [x0, y0, x1, y1], not {value!r:.80}")
    return float(value[0]), float(value[1]), float(value[2]), float(value[3])


def _span(value: Any, index: int) -> tuple[int, int]:
    if not (isinstance(value, list) and len(value) == 2 and all(type(v) is int for v in value)):
        raise DataError(f"its span {index} must be [start, end], not {value!r:.80}")
    return value[0], value[1]


def score_row(score: Score) -> dict[str, Any]:
    """The line of a score."""
    row: dict[str, Any] = {
        "sample_id": score.sample_id,
        "group": score.group,
        "cluster": score.cluster,
        "values": dict(score.values),
    }
    if score.detail:
        row["detail"] = dict(score.detail)
    if score.flags:
        row["flags"] = list(score.flags)
    if score.unreadable:
        row["unreadable"] = score.unreadable
    if score.failed:
        row["failed"] = True
    return row


def parse_score(row: Mapping[str, Any]) -> Score:
    """The score of a line that the harness wrote; raises DataError if it was damaged since."""
    values = row.get("values")
    if not (
        isinstance(row.get("sample_id"), str)
        and isinstance(row.get("group"), str)
        and isinstance(row.get("cluster"), str)
        and isinstance(values, dict)
        and all(type(v) in (int, float) for v in values.values())
    ):
        raise DataError("it is not a line of scores")
    return Score(
        sample_id=row["sample_id"],
        values=values,
        detail=row.get("detail", {}),
        flags=tuple(row.get("flags", ())),
        unreadable=row.get("unreadable", 0),
        group=row["group"],
        cluster=row["cluster"],
        failed=row.get("failed", False),
    )
