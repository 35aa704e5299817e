"""``harness leaderboard`` and ``harness.load`` on real runs of the example data."""

import csv
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import harness as package
from harness.errors import ConfigError
from tests.conftest import sub

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "fixtures"
SPEC = ROOT / "leaderboards" / "region.toml"
GRES = ("--tasks", "gres", "--set", f"tasks.gres.root={FIXTURES / 'gres'}")
NAMES = ("region.md", "region.csv", "region.json")


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    """A copy of the shipped leaderboard."""
    return shutil.copytree(SPEC.parent, tmp_path / "boards") / "region.toml"


@pytest.fixture
def runs(harness: Any, tmp_path: Path) -> dict[str, Path]:
    """Three runs on the example data that may be compared, and two that may not."""
    wanted: dict[str, tuple[object, ...]] = {
        "oracle": (), "empty": (), "random-box": (), "first": ("--limit", 20),
        "strict": ("--set", "tasks.gres.parse=exact"),
    }  # fmt: skip
    made = {}
    for name, more in wanted.items():
        model = name if name not in ("first", "strict") else "oracle"
        made[name] = tmp_path / "runs" / name
        harness("eval", "--model", model, *GRES, *more, "--run", made[name], "--quiet")
    return made


def block_of(board: dict[str, Any], table: str, run: str) -> dict[str, Any]:
    (found,) = [
        block
        for t in board["tables"]
        if t["name"] == table
        for block in t["blocks"]
        if run in [row["run"] for row in block["rows"]]
    ]
    return dict(found)


def test_the_committed_tables_come_out_byte_for_byte(harness: Any, tmp_path: Path) -> None:
    assert "stale" not in harness("leaderboard", SPEC, "--check")
    harness("leaderboard", SPEC, "--out", tmp_path / "out")
    for name in NAMES:
        assert (tmp_path / "out" / name).read_bytes() == (SPEC.parent / name).read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_check_names_the_stale_file(harness: Any, spec: Path, name: str) -> None:
    file = spec.parent / name
    file.write_bytes(file.read_bytes().replace(b"71.3", b"71.4", 1))
    before = file.read_bytes()
    error = harness("leaderboard", spec, "--check", code=2)
    assert f"stale: {file} is not what {spec} gives now" in error
    assert [n for n in NAMES if f"{spec.parent / n}" in error] == [name]
    assert file.read_bytes() == before
    file.unlink()
    assert str(file) in harness("leaderboard", spec, "--check", code=2)
    assert f"wrote     {file}" in harness("leaderboard", spec)
    harness("leaderboard", spec, "--check")


def test_a_published_number_that_changes_makes_the_tables_stale(harness: Any, spec: Path) -> None:
    file = spec.parent / "published" / "gres.csv"
    file.write_text(file.read_text().replace("82.2", "82.3"))
    error = harness("leaderboard", spec, "--check", code=2)
    assert all(name in error for name in NAMES)


def test_runs_join_in_blocks_of_what_may_be_compared(
    harness: Any, spec: Path, runs: dict[str, Path]
) -> None:
    board = harness("leaderboard", spec, *runs.values(), "--json")
    block = block_of(board, "gres", "oracle")
    assert [row["run"] for row in block["rows"]] == ["oracle", "empty", "random-box"]
    first, strict = block_of(board, "gres", "first"), block_of(board, "gres", "strict")
    assert [len(other["rows"]) for other in (first, strict)] == [1, 1]
    assert "protocol.parse exact" in strict["heading"]
    assert "samples" in first["heading"]
    assert "protocol.limit 20" in first["heading"]
    oracle = json.loads((runs["oracle"] / "result.json").read_text())["tasks"]["gres"]
    cell = block["rows"][0]["cells"]["avg gIoU"]
    assert {k: cell[k] for k in ("value", "low", "high", "n")} == oracle["metrics"]["gIoU"]
    assert block["rows"][0]["counts"] == {"n": 34, "errors": 0}
    rows = csv.DictReader((spec.parent / "region.csv").read_text().splitlines())
    line = next(r for r in rows if (r["run"], r["column"]) == ("oracle", "val gIoU"))
    assert line["value"] == f"{100 * oracle['groups']['val']['gIoU']['value']:.1f}"


def test_what_joined_stays_without_its_folder(
    harness: Any, spec: Path, runs: dict[str, Path]
) -> None:
    harness("leaderboard", spec, runs["oracle"], runs["empty"])
    before = [(spec.parent / name).read_bytes() for name in NAMES]
    assert str(spec.parent).encode() not in b"".join(before)
    assert b"are at hand" not in before[0]
    kept = (spec.parent / "results" / "oracle.json").read_text()
    assert str(runs["oracle"].parent) not in kept
    harness("leaderboard", spec, runs["oracle"], "--check")
    shutil.rmtree(runs["oracle"].parent)
    harness("leaderboard", spec, "--check")
    assert [(spec.parent / name).read_bytes() for name in NAMES] == before
    (spec.parent / "results" / "oracle.json").unlink()
    harness("leaderboard", spec, "--check", code=2)


def test_out_keeps_nothing_and_check_writes_nothing(
    harness: Any, spec: Path, runs: dict[str, Path], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    printed = harness("leaderboard", spec, runs["oracle"], runs["empty"], "--out", out)
    assert "1 of 2" in printed
    assert sorted(p.name for p in out.iterdir()) == sorted(NAMES)
    assert not list((spec.parent / "results").glob("*.json"))
    page = (out / "region.md").read_text()
    assert "The samples of runs in this block are at hand" in page
    error = harness("leaderboard", spec, runs["oracle"], "--check", code=2)
    assert "results/oracle.json" in error
    assert not list((spec.parent / "results").glob("*.json"))
    harness("leaderboard", spec, "--check")


def test_the_order_of_runs_does_not_matter(
    harness: Any, spec: Path, runs: dict[str, Path], tmp_path: Path
) -> None:
    given = [runs["empty"], runs["oracle"], runs["strict"] / "result.json"]
    harness("leaderboard", spec, *given, "--out", tmp_path / "a")
    harness("leaderboard", spec, *given[::-1], "--out", tmp_path / "b")
    for name in NAMES:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_unequal_data_and_version_are_separated_on_real_runs(
    harness: Any, spec: Path, runs: dict[str, Path], tmp_path: Path
) -> None:
    root = shutil.copytree(FIXTURES / "gres", tmp_path / "gres")
    file = root / "grefcoco" / "instances.json"
    file.write_bytes(file.read_bytes() + b"\n")
    harness("eval", "--model", "oracle", "--tasks", "gres", "--set", f"tasks.gres.root={root}",
            "--run", tmp_path / "runs" / "other-data", "--quiet")  # fmt: skip
    newer = shutil.copytree(runs["oracle"], tmp_path / "runs" / "newer")
    for name in ("run.json", "result.json"):
        content = json.loads((newer / name).read_text())
        content["tasks"]["gres"]["version"] = 2
        (newer / name).write_text(json.dumps(content))
    board = harness("leaderboard", spec, runs["oracle"], tmp_path / "runs" / "other-data", newer,
                    "--json")  # fmt: skip
    assert "data.instances.json" in block_of(board, "gres", "other-data")["heading"]
    assert "version 2" in block_of(board, "gres", "newer")["heading"]
    assert len(block_of(board, "gres", "oracle")["rows"]) == 1


def test_a_run_with_too_many_failures_has_no_number_and_stands_last(
    harness: Any, spec: Path, runs: dict[str, Path], tmp_path: Path
) -> None:
    answers = f"model.path={FIXTURES / 'gres' / 'predictions.jsonl'}"
    folder = tmp_path / "runs" / "failed"
    harness("eval", "--model", "recorded", "--set", answers, *GRES, "--run", folder, code=3)
    board = harness("leaderboard", spec, folder, runs["empty"], "--json")
    rows = block_of(board, "gres", "failed")["rows"]
    assert [(row["run"], row["rank"]) for row in rows] == [("empty", 1), ("failed", None)]
    assert rows[1]["cells"] == {}
    assert rows[1]["counts"]["errors"] == 1
    assert "no number" in rows[1]["note"]


def test_two_runs_of_one_name_are_refused(
    harness: Any, spec: Path, runs: dict[str, Path], tmp_path: Path
) -> None:
    twin = shutil.copytree(runs["empty"], tmp_path / "elsewhere" / "oracle")
    assert "are called 'oracle'" in harness("leaderboard", spec, runs["oracle"], twin, code=2)
    harness("leaderboard", spec, runs["oracle"])
    assert "are called 'oracle'" in harness("leaderboard", spec, twin, code=2)
    harness("leaderboard", spec, runs["oracle"])


@pytest.mark.parametrize("what", ["missing", "unfinished", "damaged", "other"])
def test_a_folder_that_is_no_finished_run_is_named(
    harness: Any, spec: Path, runs: dict[str, Path], tmp_path: Path, what: str
) -> None:
    folder, result = runs["oracle"], runs["oracle"] / "result.json"
    if what == "missing":
        said, folder = "is not a run folder", tmp_path / "nothing"
    elif what == "unfinished":
        result.unlink()
        said = "has no result yet"
    elif what == "damaged":
        result.write_text("{")
        said = "is damaged"
    else:
        result.write_text(result.read_text().replace('"span"', '"strict"'))
        said = "protocol.parse is 'span' in run.json and 'strict' in result.json"
    before = sorted(spec.parent.rglob("*"))
    assert said in harness("leaderboard", spec, folder, code=2)
    assert sorted(spec.parent.rglob("*")) == before
    assert "there is no leaderboard" in harness("leaderboard", tmp_path / "x.toml", code=2)


def dlc(harness: Any, run: Path, transcript: Path, label: str) -> Path:
    harness(
        "eval", "--model", "recorded", "--tasks", "dlc", "--run", run, "--quiet",
        "--set", f"model.path={FIXTURES / 'dlc' / 'predictions.jsonl'}",
        "--set", f"tasks.dlc.root={FIXTURES / 'dlc'}", "--max-errors", 1,
        "--judge", "recorded", "--set", f"judge.path={transcript}", "--set", f"judge.label={label}",
    )  # fmt: skip
    return run


def test_unequal_judges_stand_in_different_blocks(harness: Any, spec: Path, tmp_path: Path) -> None:
    transcript = FIXTURES / "dlc" / "judge_transcript.jsonl"
    other = tmp_path / "other.jsonl"
    other.write_bytes(transcript.read_bytes() + b"\n")
    made = [
        dlc(harness, tmp_path / "runs" / "a", transcript, "judge-a"),
        dlc(harness, tmp_path / "runs" / "b", transcript, "judge-a"),
        dlc(harness, tmp_path / "runs" / "c", other, "judge-a"),
    ]
    board = harness("leaderboard", spec, *made, "--json")
    both, alone = block_of(board, "dlc", "a"), block_of(board, "dlc", "c")
    assert [row["run"] for row in both["rows"]] == ["a", "b"]
    assert [row["run"] for row in alone["rows"]] == ["c"]
    assert "judge.fingerprint" in alone["heading"]
    row = both["rows"][0]
    assert row["judge"] == "judge-a"
    assert {"questions", "judge_errors", "judge_unreadable"} <= set(row["counts"])
    page = (spec.parent / "region.md").read_text()
    assert "judge.name judge-a" in page
    assert "| judge errors | unreadable |" in page
    run = package.load(made[0])
    assert len(run.verdicts) == row["counts"]["questions"]
    assert set(run.verdicts.judge) == {"judge-a"}
    assert list(run.verdicts.columns) == [
        "task", "sample_id", "question_index", "prompt", "reply", "error", "judge", "info",
    ]  # fmt: skip


def test_load_gives_frames_that_add_up(runs: dict[str, Path]) -> None:
    run = package.load(str(runs["random-box"]))
    assert run.result is not None
    assert run.result["run"] == str(runs["random-box"])
    gres = run.result["tasks"]["gres"]
    assert len(run.samples) == len(run.scores) == gres["n"]
    assert list(run.samples.sample_id) == list(run.scores.sample_id)
    by_group = run.scores.groupby("group").iou.mean()
    for name, metrics in gres["groups"].items():
        assert by_group[name] == pytest.approx(metrics["gIoU"]["value"], abs=1e-12)
    assert len(run.verdicts) == 0
    assert "prompt" in run.verdicts
    (runs["random-box"] / "result.json").unlink()
    assert package.load(runs["random-box"]).result is None
    with pytest.raises(ConfigError, match="is not a run folder"):
        package.load(runs["random-box"] / "gres")


def test_in_a_process_of_its_own_stdout_is_only_the_object(tmp_path: Path) -> None:
    done = sub(["leaderboard", SPEC, "--out", tmp_path, "--json"])
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == json.loads((tmp_path / "region.json").read_text())
    assert done.stderr.count("warning: ") == 4


def test_without_pandas_exit_2_and_how_to_get_it(tmp_path: Path) -> None:
    (tmp_path / "pandas.py").write_text("raise ImportError('hidden by a test')")
    env = {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    done = sub(["leaderboard", SPEC, "--check"], env=env)
    assert done.returncode == 2
    assert done.stderr.strip().endswith("pip install 'region-harness[tables]'")
    assert sub(["list"], env=env).returncode == 0
