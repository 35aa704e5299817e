"""GCG against the official scorer's numbers (see README.md in the golden set)."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.codecs.mask_tokens import parse
from harness.types import Score
from harness_tasks import _caption_scores, _gcg_parse
from harness_tasks._caption_cache import OFF
from harness_tasks._caption_text import CaptionTools
from harness_tasks._java import Unavailable
from harness_tasks._meteor import Meteor

Golden = Callable[..., Path]
TOLERANCE = {"METEOR": 1e-7}
EXACT = 1e-9
METRICS = ("METEOR", "CIDEr", "AP50", "mIoU", "Recall")


@pytest.fixture(scope="module")
def tools() -> CaptionTools:
    try:
        return CaptionTools.find(120, OFF)
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture
def expected(golden: Golden) -> Any:
    return json.loads(golden("gcg", "expected.json").read_text())


@pytest.fixture
def score(golden: Golden, harness: Any, tmp_path: Path) -> Callable[..., Any]:
    """Scores the recorded answers: (result of the task, lines of its scores by sample)."""

    def run(similarity: str, root: Path | None = None, *more: str) -> tuple[Any, dict[str, Any]]:
        folder = tmp_path / f"run-{similarity}"
        result = harness(
            "eval", "--model", "recorded", "--tasks", "gcg", "--run", folder, "--json",
            "--set", f"model.path={golden('gcg', 'predictions.jsonl')}",
            "--set", f"tasks.gcg.root={root or golden('gcg')}",
            "--set", f"tasks.gcg.similarity={similarity}",
            "--set", f"tasks.gcg.cache={tmp_path / 'captions.sqlite'}", *more, "--max-errors=1",
        )  # fmt: skip
        lines = (folder / "gcg" / "scores.jsonl").read_text().splitlines()
        return result["tasks"]["gcg"], {row["sample_id"]: row for row in map(json.loads, lines)}

    return run


def _options(golden: Golden, similarity: str) -> list[str]:
    if similarity != "table":
        return []
    return ["--set", f"tasks.gcg.similarity_path={golden('gcg', 'text_similarity.jsonl')}"]


@pytest.mark.parametrize("similarity", ["bow", "table"])
def test_every_number(
    golden: Golden, score: Any, expected: Any, similarity: str, tools: CaptionTools
) -> None:
    result, lines = score(similarity, None, *_options(golden, similarity))
    assert set(result["groups"]) == set(expected["splits"])
    assert result["protocol"]["similarity"] == similarity
    assert result["unavailable"] == {}
    for split, numbers in expected["splits"].items():
        theirs = {**numbers["metrics"], "Recall": numbers["metrics"][f"Recall_{similarity}"]}
        for metric in METRICS:
            ours = result["groups"][split][metric]
            within = TOLERANCE.get(metric, EXACT)
            assert ours["value"] == pytest.approx(theirs[metric], abs=within), (split, metric)
            assert ours["n"] == numbers["n"]
        for sample_id, row in numbers["per_sample"].items():
            values = lines[sample_id]["values"]
            assert values["METEOR"] == pytest.approx(row["METEOR"], abs=TOLERANCE["METEOR"])
            assert values["CIDEr"] == pytest.approx(row["CIDEr"], abs=EXACT)
            assert values["mIoU"] == pytest.approx(row["miou"], abs=EXACT)
            assert values["labels"] == row["gt_labels"]
            assert values["matched"] == row[f"recall_tp_{similarity}"]
            lost = row[f"recall_error_{similarity}"] is not None
            assert ("recall_lost" in lines[sample_id].get("flags", ())) == lost, sample_id
    assert len(lines) == sum(numbers["n"] for numbers in expected["splits"].values())


def test_no_number_stands_for_two_splits(score: Any, expected: Any) -> None:
    if len(expected["splits"]) == 1:
        pytest.skip("this golden set has one split")
    result, _ = score("bow")
    values = {metric: estimate["value"] for metric, estimate in result["metrics"].items()}
    assert values == dict.fromkeys(METRICS)


def test_one_split_is_the_whole(score: Any, expected: Any) -> None:
    split = next(iter(expected["splits"]))
    result, _ = score("bow", None, "--set", f"tasks.gcg.split={split}")
    assert result["metrics"] == result["groups"][split]
    assert result["metrics"]["mIoU"]["value"] is not None


def test_annotation_id_0_is_never_found(
    golden: Golden, score: Any, expected: Any, tmp_path: Path
) -> None:
    root = tmp_path / "from-0"
    shutil.copytree(golden("gcg", "annotations"), root / "annotations")
    for path in (root / "annotations").glob("*_mask_gt.json"):
        content = json.loads(path.read_text())
        first = min(row["id"] for row in content["annotations"])
        for row in content["annotations"]:
            row["id"] -= first
        path.write_text(json.dumps(content))
    result, _ = score("bow", root)
    for split, numbers in expected["splits"].items():
        theirs = numbers.get("metrics_variants", {}).get("AP50_if_gt_ids_start_at_0")
        if theirs is not None:
            ours = result["groups"][split]["AP50"]["value"]
            assert ours == pytest.approx(theirs, abs=EXACT), split


def test_parses_of_predictions(golden: Golden) -> None:
    texts = {
        row["sample_id"]: row["text"]
        for row in map(json.loads, golden("gcg", "predictions.jsonl").read_text().splitlines())
    }
    for line in golden("gcg", "expected_parse.jsonl").read_text().splitlines():
        row = json.loads(line)
        reply = _gcg_parse.read(texts[row["sample_id"]] or "")
        assert (reply.caption, list(reply.phrases)) == (row["caption"], row["phrases"]), row


def test_parse_cases(golden: Golden) -> None:
    for line in golden("gcg", "parse_cases.jsonl").read_text().splitlines():
        case = json.loads(line)
        reply = _gcg_parse.read(case["text"])
        assert (reply.caption, list(reply.phrases)) == (case["caption"], case["phrases"]), case
        if "code_groups" not in case and "error" not in case:
            continue
        parsed = parse(case["text"], "reference:gcg")
        if case.get("error"):
            assert parsed.outcome == "assertion_error", case
            continue
        groups = [[-1 if i is None else i for i in found.code or ()] for found in parsed.found]
        assert groups == case["code_groups"], case
        assert _gcg_parse.inspect_tokens(case["text"]).odd == case["repaired"], case


def test_caption_metrics(golden: Golden, tools: CaptionTools) -> None:
    for case in json.loads(golden("gcg", "text_metric_cases.json").read_text())["cases"]:
        names = list(case["references"])
        said = [case["candidates"][name] for name in names]
        true = [case["references"][name] for name in names]
        numbers = case.get("official_after_line_separator_cleanup", case["official_raw"])
        (values,), reasons = _caption_scores.official(tools, [said], [true])
        assert reasons == {}
        for metric in ("METEOR", "CIDEr"):
            within = TOLERANCE.get(metric, EXACT)
            ours = [value[metric] for value in values]
            assert ours == pytest.approx(numbers[f"{metric}_per"], abs=within), case["name"]
        scores = [Score(sample_id=n, values=v) for n, v in zip(names, values, strict=True)]
        assert Meteor()(scores) == pytest.approx(numbers["METEOR"], abs=1e-7), case["name"]
        mean = sum(value["CIDEr"] for value in values) / len(values)
        assert mean == pytest.approx(numbers["CIDEr"], abs=EXACT), case["name"]


def test_tokens(golden: Golden, tools: CaptionTools) -> None:
    for case in json.loads(golden("gcg", "text_metric_cases.json").read_text())["cases"]:
        names = list(case["references"])
        wanted = case.get("tokens_candidate_cleaned", case["tokens_candidate"])
        said, *true = tools.tokenize(
            [[case["candidates"][n] for n in names], *(case["references"][n] for n in names)]
        )
        assert said == [wanted[name][0] for name in names], case["name"]
        assert true == [case["tokens_reference"][name] for name in names], case["name"]
