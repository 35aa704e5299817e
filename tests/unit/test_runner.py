"""The runner with an adapter that fails: what is asked again, recorded, or ends the run."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness import registry
from harness.errors import StorageError
from harness.plan import plan_task
from harness.registry import Found
from harness.runner import answers
from harness.store import RunStore
from tests.run_folders import FIXTURES, PLUGINS, SUITE, TASK, faulty

N = 26  # samples of the golden GroundingSuite, "0" to "25"
ALONE = "the adapter gave no prediction for it"

Run = Callable[..., Any]


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model ``faulty``, as if its package were installed."""
    monkeypatch.syspath_prepend(str(PLUGINS))
    found = {**registry.models.found, "faulty": Found("faulty", PLUGINS / "faulty.py")}
    monkeypatch.setitem(vars(registry.models), "found", found)


@pytest.fixture
def run(harness: Any, tmp_path: Path) -> Run:
    """``run({"3": "raises"})`` evaluates the model ``faulty``: what it printed, what it asked."""
    faults = tmp_path / "faults.json"

    def evaluate(chosen: dict[str, str], *more: str, code: int = 0) -> dict[str, Any]:
        faults.write_text(json.dumps(chosen))
        asked = faults.with_suffix(".asked")
        asked.unlink(missing_ok=True)
        printed = harness(*faulty(faults, tmp_path / "run"), "--json", *more, code=code)
        store = RunStore(tmp_path / "run")
        calls = asked.read_text().splitlines() if asked.exists() else []
        return {
            "printed": printed,
            "calls": [json.loads(call) for call in calls],
            "rows": {str(row["sample_id"]): row for name in store.prediction_files(TASK)
                     for row, _ in store.lines(name)},
            "closed": faults.with_suffix(".closed").exists(),
        }  # fmt: skip

    return evaluate


def _errors(rows: dict[str, Any]) -> dict[str, str]:
    return {i: row["error"] for i, row in rows.items() if row["text"] is None}


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("raises", "RuntimeError: no luck with 9"),
        ("silent", ALONE),
        ("wrong size", "mask 0 is 3x2 (width x height), but the picture is 160x120"),
        (
            "far box",
            "its box 0 must be four numbers [x0, y0, x1, y1], not [0.0, 0.0, 1000000000000.0, 1.0]",
        ),
        ("box of nan", "its box 0 must be four numbers [x0, y0, x1, y1], not [0.0, 0.0, nan, 1.0]"),
        ("no text", "its text is of type NoneType"),
        ("error with regions", "gave up"),
        ("lone surrogate", "RuntimeError: \ud800\n\0"),
        ("no prediction", "AttributeError: 'str' object has no attribute 'sample_id'"),
        ("regions are masks", "AttributeError: 'Mask' object has no attribute 'mask'"),
    ],
)
def test_a_failed_request_costs_one_sample(run: Run, fault: str, error: str) -> None:
    done = run({"9": fault}, "--max-errors=1")
    got = _errors(done["rows"])
    if fault == "wrong size":
        got = {i: text.replace(_size("9"), "160x120") for i, text in got.items()}
    assert got == {"9": error}
    assert list(done["rows"]) == [str(i) for i in range(N)]
    assert done["printed"]["tasks"][TASK]["errors"] == 1
    assert "masks" not in done["rows"]["9"]


def _size(sample_id: str) -> str:
    """Width x height of a picture of the golden set."""
    lines = (SUITE / "GroundingSuite-Eval.jsonl").read_text().splitlines()
    height, width = json.loads(lines[int(sample_id)])["segmentation"]["size"]
    return f"{width}x{height}"


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("info is no JSON", "Object of type object is not JSON serializable"),
        ("info is not finite", "Out of range float values are not JSON compliant"),
    ],
)
def test_a_prediction_that_cannot_be_written_is_a_failed_one(
    run: Run, fault: str, says: str
) -> None:
    done = run({"9": fault}, "--max-errors=1")
    assert list(_errors(done["rows"])) == ["9"]
    assert says in done["rows"]["9"]["error"]
    assert len(done["rows"]) == N


def test_what_a_batch_leaves_over_is_asked_again_one_by_one(run: Run) -> None:
    done = run({"10": "raises"}, "--max-errors=1")
    first, second = ([str(i) for i in range(a, a + 8)] for a in (0, 8))
    alone = [[str(i)] for i in range(10, 16)]  # 8 and 9 were answered before the exception
    assert done["calls"][:8] == [first, second, *alone]
    assert len(done["calls"]) == 2 + 6 + 2
    assert list(_errors(done["rows"])) == ["10"]


@pytest.mark.parametrize("fault", ["raises in company", "silent in company"])
def test_what_fails_only_in_a_batch_is_answered_alone(run: Run, fault: str) -> None:
    done = run({str(i): fault for i in range(N)})
    assert _errors(done["rows"]) == {}
    assert done["printed"]["tasks"][TASK]["errors"] == 0


def test_an_answer_in_place_of_another_sample_is_a_fault_of_the_adapter(run: Run) -> None:
    """Asked alone for 0, the adapter answers 7, which waits to be asked alone as well."""
    done = run({"0": "foreign alone"}, code=2)
    assert "answered sample '7', which it was not asked" in done["printed"]
    assert done["rows"] == {}


@pytest.mark.parametrize(
    ("fault", "says", "kept"),
    [
        ("foreign", "answered sample 'nobody', which it was not asked (or answered twice)", 10),
        ("twice", "answered sample '9', which it was not asked (or answered twice)", 10),
        ("config error", "error: the adapter wants another option\n", 9),
        ("model error", "error: the weights are gone\n", 9),
    ],
)
def test_what_ends_the_run_keeps_the_answers_so_far(
    run: Run, tmp_path: Path, fault: str, says: str, kept: int
) -> None:
    done = run({"9": fault}, code=2)
    assert says in done["printed"]
    assert list(done["rows"]) == [str(i) for i in range(kept)]
    assert done["closed"]
    assert not (tmp_path / "run" / "result.json").exists()

    done = run({})
    assert [i for call in done["calls"] for i in call] == [str(i) for i in range(kept, N)]
    assert _errors(done["rows"]) == {}


def test_too_many_errors_hide_the_numbers_but_not_the_result(
    run: Run, harness: Any, tmp_path: Path
) -> None:
    faults = tmp_path / "faults.json"
    done = run({"3": "raises", "9": "raises"}, "--max-errors", "0.1")  # 2/26 = 0.077
    metric = done["printed"]["tasks"][TASK]["metrics"]["gIoU"]
    assert metric["value"] is not None

    words = [*faulty(faults, tmp_path / "run"), "--json", "--max-errors", "0.05"]
    result = harness(*words, code=3)
    task = result["tasks"][TASK]
    assert (task["errors"], task["n"]) == (2, N)
    shown = [task["metrics"]["gIoU"], *(group["gIoU"] for group in task["groups"].values())]
    assert [m[k] for m in shown for k in ("value", "low", "high")] == [None] * 3 * len(shown)
    assert json.loads((tmp_path / "run" / "result.json").read_text()) == result


def test_errors_just_at_the_limit_are_allowed(run: Run) -> None:
    assert run({"3": "raises"}, "--max-errors", str(1 / N))["printed"]["tasks"][TASK]["errors"] == 1


def test_failed_requests_are_asked_again_only_on_request(run: Run) -> None:
    chosen = {"3": "raises", "9": "silent", "17": "wrong size"}
    run(chosen, "--max-errors=1")
    again = run({"9": "silent"}, "--max-errors=1")
    assert again["calls"] == []
    assert list(_errors(again["rows"])) == ["3", "9", "17"]

    retried = run({"9": "silent"}, "--max-errors=1", "--retry-failed")
    assert retried["calls"] == [["3", "9", "17"], ["9"]]
    assert list(_errors(retried["rows"])) == ["9"]
    assert list(retried["rows"]) == [str(i) for i in range(N)]
    assert retried["printed"]["tasks"][TASK]["errors"] == 1


def test_failed_requests_of_one_shard_are_asked_again(run: Run) -> None:
    shard = ("--shard", "1/2", "--max-errors=1")
    run({"3": "raises", "9": "raises"}, *shard)
    assert run({}, *shard)["calls"] == []
    retried = run({"9": "raises"}, *shard, "--retry-failed")
    assert retried["calls"] == [["3", "9"], ["9"]]
    assert list(_errors(retried["rows"])) == ["9"]
    assert sorted(retried["rows"], key=int) == [str(i) for i in range(1, N, 2)]


@pytest.mark.parametrize(("fault", "n_acc"), [("raises", 0.0), ("says nothing", 1.0)])
def test_a_failed_request_on_a_no_target_sample_earns_nothing(
    harness: Any, tmp_path: Path, fault: str, n_acc: float
) -> None:
    (tmp_path / "faults.json").write_text("{}")
    result = harness(
        "eval", "--model", "faulty", "--set", f"model.faults={tmp_path / 'faults.json'}",
        "--set", f"model.fault_for_all={fault}", "--run", tmp_path / "run", "--max-errors=1",
        "--tasks", "gres", "--set", f"tasks.gres.root={FIXTURES / 'gres'}", "--quiet", "--json",
    )["tasks"]["gres"]  # fmt: skip
    assert result["metrics"]["N_acc"]["value"] == n_acc
    assert result["metrics"]["gIoU"]["value"] == pytest.approx(_share_of_no_target(result) * n_acc)
    assert result["errors"] == (result["n"] if fault == "raises" else 0)


def _share_of_no_target(result: Any) -> float:
    """The mean over splits of the share of samples without a target."""
    groups = result["groups"].values()
    shares: list[float] = [g["N_acc"]["n"] / g["gIoU"]["n"] for g in groups]
    return sum(shares) / len(shares)


def test_an_answer_that_was_damaged_later_is_named(run: Run, harness: Any, tmp_path: Path) -> None:
    run({})
    store = RunStore(tmp_path / "run")
    path = store.root / TASK / "predictions.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    lines[4] = b'{"sample_id": "4", "text": "", "masks": [{"size": [2, 2], "counts": "6"}]}\n'
    path.write_bytes(b"".join(lines))
    message = harness(*faulty(tmp_path / "faults.json", tmp_path / "run"), code=2)
    assert f"{path} is damaged at sample '4': its mask 0 is broken" in message
    assert "remove the line" in message

    del lines[4]
    path.write_bytes(b"".join(lines))
    assert run({})["calls"] == [["4"]]


def test_answers_out_of_order_are_refused(run: Run, tmp_path: Path) -> None:
    run({})
    store = RunStore(tmp_path / "run")
    planned = plan_task(TASK, {"root": str(SUITE)})
    assert [sample.id for sample, _ in answers(planned, store)] == planned.ids
    store.put_predictions(TASK, [line for _, line in store.lines(f"{TASK}/predictions.jsonl")][1:])
    with pytest.raises(StorageError, match="no answer for sample '0' where it belongs"):
        list(answers(planned, store))
