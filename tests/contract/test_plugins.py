"""What every registered plug-in promises, whoever wrote it.

A task is picked up here as soon as ``tests/fixtures/<task>/`` exists (``gar`` for ``gar-*``).
"""

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import registry
from harness.codec import Canvas, Codec
from harness.errors import DataError
from harness.plan import PlannedTask, plan_task
from harness.runner import score_one
from harness.types import Mask, Prediction, Region, Sample

FIXTURES = Path(__file__).parents[1] / "fixtures"
TASKS = [name for name in registry.tasks.names() if (FIXTURES / name.split("-")[0]).is_dir()]
BASELINES = ("empty", "whole-image", "random-box", "oracle")


@pytest.fixture(params=TASKS)
def planned(request: pytest.FixtureRequest) -> PlannedTask:
    return plan_task(request.param, {"root": FIXTURES / request.param.split("-")[0]})


def primary(planned: PlannedTask, scores: Any) -> float:
    value: float = planned.task.metrics[planned.task.primary](scores)
    return value


def test_there_are_tasks() -> None:
    assert {"gres", "groundingsuite"} <= set(TASKS)


def test_ids_are_unique_and_stable(planned: PlannedTask) -> None:
    assert len(set(planned.ids)) == len(planned.ids) > 0
    again = plan_task(planned.name, {"root": FIXTURES / planned.name.split("-")[0]})
    assert again.ids == planned.ids


def test_requests_say_what_they_need(planned: PlannedTask) -> None:
    for sample, request in zip(planned.samples, planned.requests(planned.samples), strict=True):
        assert request.sample_id == sample.id
        assert request.gold is None
        assert request.prompt
        marked = {int(i) for i in re.findall(r"\{region_(\d+)\}", request.prompt)}
        assert marked <= set(range(len(request.regions)))


def test_files_exist_and_protocol_is_json(planned: PlannedTask) -> None:
    assert planned.task.files()
    assert all(path.is_file() for path in planned.task.files())
    json.dumps(dict(planned.task.protocol()))
    assert planned.task.primary in planned.task.metrics


def test_gold_earns_full_marks_where_no_judge_is_asked(planned: PlannedTask) -> None:
    if planned.task.needs_judge:
        pytest.skip(f"{planned.name} is scored by a judge")
    for sample in planned.samples:
        gold = planned.task.gold(sample)
        if gold is not None:
            value = primary(planned, [score_one(planned, sample, gold)])
            assert value != value or value == pytest.approx(1), sample.id


def test_failure_earns_no_more_than_silence_and_is_marked(planned: PlannedTask) -> None:
    for sample in planned.samples:
        failed = Prediction(sample_id=sample.id, error="no reply")
        score = score_one(planned, sample, failed)
        assert score.failed
        assert score.sample_id == sample.id
        if not planned.task.needs_judge:
            value = primary(planned, [score])
            assert value != value or value == 0, sample.id


def test_scores_are_finite_and_json(planned: PlannedTask) -> None:
    for sample in planned.samples:
        answer = Prediction(
            sample_id=sample.id, text="<|mt_start|> [1,2,3,4] {", regions=_junk(sample)
        )
        score = score_one(planned, sample, answer)
        json.dumps(dict(score.values), allow_nan=False)
        json.dumps(dict(score.detail), allow_nan=False)
        assert dataclasses.replace(score) == score


def _junk(sample: Sample) -> tuple[Region, ...]:
    if sample.size is None:
        return ()
    height, width = sample.size
    return (Region(Mask.full(height, width)), Region(box=(1.0, 1.0, 2.0, 2.0)))


@pytest.mark.parametrize("name", BASELINES)
def test_baselines_answer_every_request_once(planned: PlannedTask, name: str) -> None:
    model = registry.models.build(name)
    requests = planned.requests(planned.samples, gold=model.needs_gold)
    predictions = list(model.predict(requests))
    assert sorted(p.sample_id for p in predictions) == sorted(planned.ids)
    assert model.name == name
    assert all(isinstance(v, str) for v in model.fingerprint().values())
    model.close()


CODECS = sorted(registry.codecs.names())


@pytest.mark.parametrize("name", CODECS)
@given(
    text=st.text(max_size=80)
    | st.text(alphabet='[]{}(),.-+0123456789 "bx_2d<|mt_star>', max_size=80)
)
def test_no_reply_can_make_a_codec_raise(name: str, text: str) -> None:
    codec: Codec = registry.codecs.build(name)
    try:
        reading = codec.read(text, Canvas((48, 64), Path("no-picture")))
    except DataError:
        return  # it says that it cannot decode
    for region in reading.regions:
        assert region.as_mask(48, 64).size == (48, 64)


@pytest.mark.parametrize("name", ["boxes", "polygons"])
def test_what_a_codec_writes_it_reads(name: str) -> None:
    codec = registry.codecs.build(name)
    canvas = Canvas((100, 200), Path("no-picture"))
    text = codec.write(Region(Mask.from_box((40, 20, 120, 80), 100, 200)), canvas)
    assert text is not None
    (region,) = codec.read(f"It is {text}.", canvas).regions
    both = region.as_mask(100, 200)
    assert abs(both.area - 80 * 60) < 300
    assert codec.write(Region(Mask.empty(100, 200)), canvas) is None
    assert codec.read("null", canvas).regions == ()
