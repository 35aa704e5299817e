"""GRES against the official scorer's numbers (see README.md in the golden set)."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.codecs.mask_tokens import parse
from harness.types import Mask
from harness_tasks.gres import Gres

Golden = Callable[..., Path]
TOLERANCE = 1e-8
METRICS = ("gIoU", "cIoU", "N_acc", "T_acc", "Pr@0.7", "Pr@0.8", "Pr@0.9")


@pytest.fixture
def expected(golden: Golden) -> Any:
    return json.loads(golden("gres", "expected.json").read_text())


@pytest.fixture
def result(golden: Golden, harness: Any, tmp_path: Path) -> Any:
    run = harness(
        "eval", "--model", "recorded", "--set", f"model.path={golden('gres', 'predictions.jsonl')}",
        "--tasks", "gres", "--set", f"tasks.gres.root={golden('gres')}", "--run", tmp_path / "run",
        "--max-errors", "1", "--json",
    )  # fmt: skip
    return run["tasks"]["gres"]


def test_every_number_of_every_split(expected: Any, result: Any) -> None:
    assert set(result["groups"]) == set(expected["splits"])
    for split, numbers in expected["splits"].items():
        for metric in METRICS:
            ours = result["groups"][split][metric]["value"]
            theirs = numbers["harness_expected"][metric]
            wanted = None if theirs is None else pytest.approx(theirs / 100, abs=TOLERANCE)
            assert ours == wanted, (split, metric)


def test_top_level_is_the_plain_mean_over_the_splits_that_have_it(
    expected: Any, result: Any
) -> None:
    for metric in METRICS:
        values = [numbers["harness_expected"][metric] for numbers in expected["splits"].values()]
        values = [value for value in values if value is not None]
        mean = sum(values) / len(values) / 100 if values else None
        ours = result["metrics"][metric]["value"]
        assert ours == (None if mean is None else pytest.approx(mean, abs=TOLERANCE))


def test_counts_and_skipped_samples(expected: Any, result: Any) -> None:
    splits = expected["splits"].values()
    assert result["n"] == sum(numbers["n_samples"] for numbers in splits)
    skipped = [i for numbers in splits for i in numbers["skipped_no_usable_gt"]]
    assert sorted(result["skipped"]) == sorted(skipped)
    n_acc = {name: result["groups"][name]["N_acc"]["n"] for name in expected["splits"]}
    assert n_acc == {name: numbers["n_no_target"] for name, numbers in expected["splits"].items()}


def test_every_sample(golden: Golden, expected: Any, result: Any, tmp_path: Path) -> None:
    samples = {s.id: s for s in Gres(root=golden("gres")).samples()}
    assert list(samples) == [row["sample_id"] for row in expected["per_sample"]]
    lines = (tmp_path / "run" / "gres" / "scores.jsonl").read_text().splitlines()
    for row, line in zip(expected["per_sample"], lines, strict=True):
        sample, values = samples[row["sample_id"]], json.loads(line)["values"]
        assert (sample.phrase, sample.no_target) == (row["phrase"], row["no_target"])
        assert sample.image.name == row["file_name"]
        assert sample.target.area == row["gt_area"]
        assert (values["intersection"], values["union"]) == (row["inter"], row["union"])
        if "gt_mask" in row:
            assert sample.target == Mask.from_coco(row["gt_mask"])


@pytest.mark.parametrize("benchmark", ["gres", "groundingsuite"])
def test_mask_token_parsers(golden: Golden, benchmark: str) -> None:
    cases = json.loads(golden(benchmark, "parser_cases.json").read_text())["cases"]
    for case in cases:
        for mode, codes in (
            ("span", case["harness_codes"]),
            ("reference:gres", case["reference_gres"]["codes"]),
            ("reference:groundingsuite", case["reference_groundingsuite"]["codes"]),
        ):
            found = [list(code) for code in parse(case["text"], mode).codes]
            assert found == codes, (case["note"], mode)
