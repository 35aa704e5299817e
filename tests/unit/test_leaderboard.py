"""Leaderboards: which rows share a block, digits, order, ties, impossible cells, hostile names."""

import csv
import io
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import harness
from harness.errors import ConfigError, DataError
from harness.leaderboard import (
    Block,
    Board,
    Row,
    attainable,
    build,
    check_comparable,
    one_block,
    publish,
    published_rows,
    read_entry,
    read_spec,
    run_rows,
)  # fmt: skip
from harness.leaderboard.render import as_csv, as_json, as_markdown, block_frame, frame
from harness.leaderboard.text import markdown, one_line, spreadsheet

ROOT = Path(__file__).parents[2]
SPEC = ROOT / "leaderboards" / "region.toml"
PUBLISHED = SPEC.parent / "published"
README = "CycleGRPO README results table (devinxzhang/CycleGRPO; arXiv 2607.11581)"

TOML = """
[[tables]]
name = "t"
task = "toy"
may_differ = ["codec"]
columns = [{ name = "acc", metric = "acc" }, { name = "other", metric = "other", group = "g" }]
"""


def task(value: float | None = 0.5, **other: Any) -> dict[str, Any]:
    """One task of a result, with the hashes that run.json has."""
    spread = None if value is None else (value - 0.1, value + 0.1)
    estimate = {
        "value": value, "n": 10,
        "low": spread and spread[0], "high": spread and spread[1],
    }  # fmt: skip
    return {
        "version": 1, "protocol": {"parse": "span", "codec": "boxes"}, "judge": None,
        "data": {"a.json": "0" * 64}, "samples": "1" * 64, "prompts": "2" * 64,
        "n": 10, "errors": 1, "metrics": {"acc": estimate}, "groups": {}, **other,
    }  # fmt: skip


def entry_file(folder: Path, name: str, tasks: Mapping[str, Any], model: str = "") -> Path:
    """A file as the results folder of a leaderboard keeps it."""
    raw = {"schema": 1, "run": name, "model": {"name": model or name, "fingerprint": {}}}
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(json.dumps({**raw, "tasks": tasks}))
    return path


def board(folder: Path, runs: Mapping[str, Mapping[str, Any]], toml: str = TOML) -> Board:
    """The leaderboard ``toml`` of some runs, each given by its task ``toy``."""
    (folder / "t.toml").write_text(toml)
    files = [entry_file(folder / "in", name, {"toy": toy}) for name, toy in runs.items()]
    return build(read_spec(folder / "t.toml"), [read_entry(file) for file in files])


def blocks_of(made: Board, table: str) -> Sequence[Block]:
    return next(filled.blocks for filled in made.tables if filled.table.name == table)


def models(block: Block) -> list[str]:
    return [ranked.row.model for ranked in block.rows]


@pytest.fixture(scope="module")
def region() -> Board:
    """The shipped leaderboard, without runs."""
    return build(read_spec(SPEC), [])


# Blocks

UNEQUAL: list[tuple[str, dict[str, Any], str]] = [
    ("version", {"version": 2}, "version is 1 and 2"),
    ("data", {"data": {"a.json": "f" * 64}}, "data.a.json is '000"),
    ("data: another file", {"data": {"b.json": "0" * 64}}, "data.a.json is '000"),
    ("samples", {"samples": "f" * 64}, "samples is '111"),
    ("judge: none", {"judge": {"name": "j", "fingerprint": {}}}, "judge is None and {'name': 'j'"),
    ("protocol", {"protocol": {"parse": "strict"}}, "protocol.parse is 'span' and 'strict'"),
    ("protocol: a key more", {"protocol": {"parse": "span", "limit": 5}}, "protocol.limit is None"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "said"), [u[1:] for u in UNEQUAL], ids=[u[0] for u in UNEQUAL])
def test_runs_of_unequal_class_are_never_in_one_block(
    tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    made = board(tmp_path, {"a": task(0.5), "b": task(0.6), "c": task(0.7, **change)})
    first, second = blocks_of(made, "t")
    assert models(first) == ["b", "a"]
    assert models(second) == ["c"]
    assert first.heading != second.heading
    field = said.split()[0].split(".")[0]
    assert field in first.heading
    assert field in second.heading
    rows = [ranked.row for block in (first, second) for ranked in block.rows]
    with pytest.raises(ConfigError) as error:
        one_block(rows, ["acc"])
    assert said in str(error.value)
    assert "b (b) and c (c) cannot stand in one block" in str(error.value)


def test_judges_of_one_name_differ_by_their_fingerprint(tmp_path: Path) -> None:
    judges = {d: {"name": "llama", "fingerprint": {"sha256/0": d * 64}} for d in "ab"}
    made = board(tmp_path, {name: task(judge=judge) for name, judge in judges.items()})
    one, other = blocks_of(made, "t")
    assert "judge.fingerprint.sha256/0 aaaaaaaaaaaa" in one.heading
    with pytest.raises(ConfigError, match=r"judge\.fingerprint\.sha256/0 is 'aaa"):
        check_comparable(one.rows[0].row, other.rows[0].row)


def test_a_choice_that_may_differ_is_shown_and_does_not_separate(tmp_path: Path) -> None:
    other = {"protocol": {"parse": "span", "codec": "polygons"}}
    (block,) = blocks_of(board(tmp_path, {"a": task(), "b": task(0.6, **other)}), "t")
    shown = block_frame(read_spec(tmp_path / "t.toml").tables[0], block)
    assert list(shown["codec"]) == ["polygons", "boxes"]
    assert "codec" not in block.comparable_by["protocol"]


def test_unknown_data_agrees_with_nothing(tmp_path: Path) -> None:
    bare = {k: v for k, v in task().items() if k not in ("data", "samples", "prompts")}
    made = board(tmp_path, {"a": bare, "b": bare, "c": task()})
    blocks = blocks_of(made, "t")
    assert [models(block) for block in blocks] == [["a"], ["b"], ["c"]]
    with pytest.raises(ConfigError, match=r"data is unknown for a \(a\)"):
        one_block([block.rows[0].row for block in blocks[:2]], ["acc"])


def test_published_rows_never_stand_beside_runs_or_another_judge(region: Board) -> None:
    dlc = blocks_of(region, "dlc")
    by_judge = {block.comparable_by["judge"] for block in dlc}
    assert by_judge == {"Llama-3.1-8B, no image", "GPT-4o with image", ""}
    for block in dlc:
        assert {r.row.judge for r in block.rows} == {block.comparable_by["judge"]}
        assert len({r.row.source for r in block.rows}) == 1
    llama, gpt = (next(b for b in dlc if word in b.heading) for word in ("judge Llama", "GPT-4o "))
    with pytest.raises(ConfigError, match=r"judge is 'Llama-3\.1-8B, no image' and 'GPT-4o with"):
        check_comparable(llama.rows[0].row, gpt.rows[0].row)
    run = Row("run", "m", {"data": {}, "samples": ""}, {})
    with pytest.raises(ConfigError, match="evaluator of published rows are unknown"):
        check_comparable(llama.rows[0].row, run)


def test_the_judge_separates_whatever_the_file_says(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("model,acc,judge,source\na,1,x,s\nb,2,y,s\nc,3,x,s\n")
    toml = TOML.replace('task = "toy"', 'task = "toy"\npublished = "p.csv"\nseparate = []').replace(
        'name = "acc",', 'name = "acc", published = "acc",'
    )
    assert [models(b) for b in blocks_of(board(tmp_path, {}, toml), "t")] == [["c", "a"], ["b"]]


# Digits


def committed(name: str) -> list[dict[str, str]]:
    with (PUBLISHED / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


FILES = {
    "gres": ("gres.csv", {}), "gcg": ("gcg.csv", {}), "dlc": ("dlc.csv", {}),
    "groundingsuite-mask": ("groundingsuite.csv", {"output": "mask"}),
    "groundingsuite-box": ("groundingsuite.csv", {"output": "box"}),
    "gar-vqa": ("gar.csv", {"split": "vqa"}),
    "gar-caption-detailed": ("gar.csv", {"split": "caption_detailed"}),
    "gar-caption-simple": ("gar.csv", {"split": "caption_simple"}),
    "gar-caption-overall": ("gar.csv", {"split": "caption_overall"}),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_every_published_number_comes_out_digit_for_digit(region: Board, name: str) -> None:
    file, where = FILES[name]
    filled = next(f for f in region.tables if f.table.name == name)
    numbers = {c.name: c.published for c in filled.table.columns}
    lines = [x for x in committed(file) if all(x[k] == v for k, v in where.items())]
    wanted = sorted(
        (x["model"], x["source"], *(x[published] for published in numbers.values())) for x in lines
    )
    rows = [ranked.row for block in filled.blocks for ranked in block.rows]
    printed = [
        (r.model, r.source, *(r.cells[c].printed if c in r.cells else "" for c in numbers))
        for r in rows
    ]
    assert sorted(printed) == wanted
    for row in rows:
        for cell in row.cells.values():
            assert cell.value == float(Fraction(cell.printed) / 100)


def test_no_published_column_is_left_out(region: Board) -> None:
    texts = {
        "model",
        "params",
        "region_input",
        "judge",
        "source",
        "note",
        "split",
        "output",
        "metric",
    }
    for file in ("gres.csv", "gcg.csv", "dlc.csv", "groundingsuite.csv", "gar.csv"):
        shown = {
            c.published for f in region.tables if f.table.published.endswith(file)
            for c in f.table.columns
        }  # fmt: skip
        assert shown == set(committed(file)[0]) - texts


@pytest.mark.parametrize("name", ["gres", "groundingsuite-mask", "gcg", "gar-vqa", "dlc"])
def test_the_readme_tables_of_samtok_and_cyclegrpo(region: Board, name: str) -> None:
    filled = next(f for f in region.tables if f.table.name == name)
    block = next(b for b in filled.blocks if b.comparable_by.get("source") == README)
    shown = block_frame(filled.table, block)
    numbers = {c.name: c.published for c in filled.table.columns}
    lines = {x["model"]: x for x in committed(FILES[name][0]) if x["source"] == README}
    assert set(lines) == {"SAMTok (Qwen3-VL-4B)", "CycleGRPO (paper)", "CycleGRPO (release)"}
    assert len(shown) == 3
    for _, row in shown.iterrows():
        for column, published in numbers.items():
            assert row[column] == lines[row["model"]][published]


def test_the_published_files_are_those_of_the_shared_folder() -> None:
    shared = ROOT.parent / "shared" / "leaderboards"
    if not shared.is_dir():
        pytest.skip("no published tables to compare with here (HARNESS_SHARED)")
    for file in shared.glob("*.csv"):
        assert (PUBLISHED / file.name).read_bytes() == file.read_bytes()


def test_runs_are_rounded_for_people_and_whole_for_machines(tmp_path: Path) -> None:
    made = board(tmp_path, {"a": task(0.98765), "b": task(-0.0001), "c": task(None)})
    (block,) = blocks_of(made, "t")
    assert list(block_frame(made.tables[0].table, block)["acc"]) == [
        "98.8 [88.8, 108.8]", "0.0 [-10.0, 10.0]", "",
    ]  # fmt: skip
    rows = json.loads(as_json(made))["tables"][0]["blocks"][0]["rows"]
    assert [row["cells"].get("acc", {}).get("value") for row in rows] == [0.98765, -0.0001, None]
    assert [row["rank"] for row in rows] == [1, 2, None]


# Order and ties


def test_sorted_by_the_headline_equal_values_share_a_rank(tmp_path: Path) -> None:
    runs = {"d": task(0.5), "b": task(0.7), "a": task(0.5), "c": task(0.1)}
    (block,) = blocks_of(board(tmp_path, runs), "t")
    assert models(block) == ["b", "a", "d", "c"]
    assert [ranked.rank for ranked in block.rows] == [1, 2, 2, 4]


def test_without_the_first_headline_the_next_sorts(region: Board) -> None:
    block = next(b for b in blocks_of(region, "gres") if "MLLMSeg" in b.heading)
    assert block.headline == "val gIoU"
    values = [ranked.row.cells["val gIoU"].value for ranked in block.rows]
    assert values == sorted(values, reverse=True)


def test_overlap_with_the_first_row_is_marked_where_nothing_better_is_at_hand(
    tmp_path: Path,
) -> None:
    # Intervals are +-0.1: 0.9 and 0.75 overlap (0.8 to 0.85), 0.9 and 0.65 do not (0.75 < 0.8).
    made = board(tmp_path, {"a": task(0.9), "b": task(0.75), "c": task(0.65), "d": task(None)})
    (block,) = blocks_of(made, "t")
    assert [ranked.tied for ranked in block.rows] == [False, True, False, False]
    assert "harness compare RUN_A RUN_B" in as_markdown(made).decode()
    rows = [ranked.row for ranked in block.rows]
    paired = [Row(**{f: getattr(r, f) for f in Row.__dataclass_fields__} | {"paired": True})
              for r in rows]  # fmt: skip
    assert not any(ranked.tied for ranked in one_block(paired, ["acc"]).rows)


def test_a_mean_over_groups_needs_them_all(tmp_path: Path) -> None:
    toml = TOML.replace('metric = "acc"', 'metric = "acc", needs = ["x", "y"]')
    estimate = task()["metrics"]
    empty = {"acc": {"value": None, "low": None, "high": None, "n": 0}}
    runs = {
        "all": task(groups={"x": estimate, "y": estimate}),
        "hollow": task(groups={"x": estimate, "y": empty}),
        "one": task(groups={"x": estimate}),
    }
    (block,) = blocks_of(board(tmp_path, runs, toml), "t")
    assert ["acc" in ranked.row.cells for ranked in block.rows] == [True, False, False]


# Impossible cells


def test_attainable_is_what_counting_says() -> None:
    for n in (1, 7, 29, 61, 101, 424):
        possible = {f"{100 * k / n:.1f}" for k in range(n + 1)}
        for tenths in range(1001):
            printed = f"{tenths / 10:.1f}"
            if printed in possible:
                assert attainable(printed, n), (printed, n)
            elif all(abs(Fraction(printed) - Fraction(100 * k, n)) > Fraction(1, 20)
                     for k in range(n + 1)):  # fmt: skip
                assert not attainable(printed, n), (printed, n)
    # 1 of 16 is 6.25: printed 6.2 or 6.3, as one rounds; 100.1 is beyond 16 of 16
    assert attainable("6.2", 16)
    assert attainable("6.3", 16)
    assert not attainable("100.1", 16)


def test_impossible_cells_are_named_and_left_as_they_are(region: Board) -> None:
    # 36/61 = 59.0, 37/61 = 60.7; 66/101 = 65.3, 67/101 = 66.3; 214/424 = 50.5, 215/424 = 50.7;
    # 50/97 = 51.5, 51/97 = 52.6
    assert [w.partition(" is not possible")[0] for w in region.warnings] == [
        "gar-vqa: Relation = 65.4 of GAR-8B",
        "gar-vqa: Non-Entity = 60.2 of GPT-4o",
        "gar-vqa: Overall = 50.6 of GAR-1B (paper)",
        "gar-caption-simple: accuracy = 51.6 of Gemini-2.5-Pro",
    ]
    assert "no k of 61 gives it" in as_markdown(region).decode()


# Hostile text

HOSTILE = '=HYPERLINK("http://x")|<script>alert(1)</script>**b**_c_[d](e)`f`\x1b[2J\u202e\nz\ud800'


def test_hostile_names_are_only_text(tmp_path: Path) -> None:
    entry_file(tmp_path / "in", "r", {"toy": task()}, model=HOSTILE)
    (tmp_path / "t.toml").write_text(TOML)
    made = build(read_spec(tmp_path / "t.toml"), [read_entry(tmp_path / "in" / "r.json")])
    page = as_markdown(made).decode()
    (line,) = [line for line in page.splitlines() if "HYPERLINK" in line]
    assert "<script>" not in page
    assert line.replace("\\|", "").count("|") == line.count(" | ") + 2
    for bad in ("**b", "](e", "`f`", "\x1b", "\u202e", "http://"):
        assert bad not in line.replace("\\*", "").replace("\\`", "").replace("\\]", "")
    (row, _) = csv.DictReader(io.StringIO(as_csv(made).decode()))
    assert row["model"].startswith("'=HYPERLINK")
    assert "\n" not in row["model"]
    assert json.loads(as_json(made))["tables"][0]["blocks"][0]["rows"][0]["model"][0] == "="


@pytest.mark.parametrize("text", ["=1", "+1", "-1", "@a", "\uff1d1", " =1", "|=1"])
def test_formulas_are_quoted(text: str) -> None:
    assert spreadsheet(text) == (text if text.startswith("|") else f"'{text}")


def test_plain_names_stay_readable() -> None:
    for name in ("CycleGRPO (paper)", "Qwen2.5-VL-7B", "N_acc", "57.2 [43.5, 69.1]", "acc@0.5"):
        assert markdown(name) == name
    assert markdown("_a_ #b") == "\\_a\\_ #b"
    assert one_line("a\r\nb\t c\x00") == "a b c?"
    assert len(one_line("x" * 100_000)) == 200


# Files that do not fit

BROKEN = [
    ("", "must have at least one"),
    ("x = 1\n" + TOML, "there is no 'x'"),
    (TOML.replace('"codec"', '"judge"'), "runs with unequal judge are never put in one block"),
    (TOML.replace('"codec"', '"version"'), "runs with unequal version are never put"),
    (TOML.replace('"codec"', '"data"'), "runs with unequal data are never put"),
    (TOML.replace("may_differ", "headline"), "no column 'codec'"),
    (TOML.replace("may_differ", "may_difer"), "no option 'may_difer'"),
    (TOML.replace('name = "t"', 'name = ""'), "must have a name"),
    (TOML.replace('"other", metric', '"acc", metric'), "'acc' occurs twice"),
    (TOML + TOML, "'t' occurs twice"),
    (TOML.replace('task = "toy"', ""), "needs a task"),
    (TOML.replace('task = "toy"', 'published = "../p.csv"'), "leads outside"),
    (TOML.replace('task = "toy"', 'published = "p.csv"'), "cannot be read"),
    (TOML.replace('metric = "acc"', 'metric = "acc", decimals = 9'), "decimals = 9 does not fit"),
]


@pytest.mark.parametrize(("toml", "said"), BROKEN, ids=[said for _, said in BROKEN])
def test_a_broken_file_is_named(tmp_path: Path, toml: str, said: str) -> None:
    with pytest.raises((ConfigError, DataError)) as error:
        board(tmp_path, {}, toml)
    assert said in str(error.value)


CSV_FAULTS = [
    ("model,acc,source\na,x1,s\n", "line 2: acc must be a number, not 'x1'"),
    ("model,acc,source\na,nan,s\n", "must be a number"),
    ("model,acc,source\na,1\n", "line 2: it needs 3 cells"),
    ("model,acc,source\na,1,s,t\n", "line 2: it needs 3 cells"),
    ("model,acc,source\n ,1,s\n", "a model's name"),
    ("model,source\na,s\n", "has no column 'acc'"),
    ("model,acc\na,1\n", "has no column 'source'"),
    ('model,acc,source\n"a,1,s\n', "is no CSV file"),
    ("", "has no column"),
]


@pytest.mark.parametrize(("text", "said"), CSV_FAULTS, ids=[said for _, said in CSV_FAULTS])
def test_a_broken_published_file_is_named(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "p.csv").write_text(text)
    toml = TOML.replace('name = "acc",', 'name = "acc", published = "acc",')
    (tmp_path / "t.toml").write_text(toml.replace('"toy"', '"toy"\npublished = "p.csv"'))
    with pytest.raises((ConfigError, DataError)) as error:
        published_rows(read_spec(tmp_path / "t.toml").tables[0], tmp_path)
    assert said in str(error.value)


RESULT_FAULTS: list[tuple[Any, str]] = [
    ([], "no result of a run"),
    ({"run": "r", "model": {"name": 1}, "tasks": {}}, "no result of a run"),
    ({"run": "r", "model": {"name": "m"}, "tasks": {"toy": {"n": 1, "of": 2}}},
     "no result of a finished run: tasks.toy.version"),
    ({"run": "r", "model": {"name": "m"}, "tasks": {"toy": {**task(), "metrics": {"acc": 1}}}},
     "tasks.toy.metrics.acc"),
]  # fmt: skip


@pytest.mark.parametrize(("raw", "said"), RESULT_FAULTS)
def test_a_broken_result_is_named(tmp_path: Path, raw: Any, said: str) -> None:
    (tmp_path / "r.json").write_text(json.dumps(raw))
    with pytest.raises(DataError) as error:
        read_entry(tmp_path / "r.json")
    assert said in str(error.value)


# Frames


def test_the_long_frame_has_every_row_and_column(region: Board) -> None:
    whole = frame(region)
    cells = sum(len(f.table.columns) * sum(len(b.rows) for b in f.blocks) for f in region.tables)
    assert len(whole) == cells
    (line,) = whole[
        (whole.table == "gres")
        & (whole.model == "CycleGRPO (release)")
        & (whole.column == "avg gIoU")
    ].to_dict("records")
    assert (line["value"], line["rank"], line["headline"]) == ("78.7", "1", "yes")


def test_runs_of_other_tasks_are_not_shown_but_named(tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text(TOML)
    entry = read_entry(entry_file(tmp_path / "in", "r", {"other": task()}))
    spec = read_spec(tmp_path / "t.toml")
    assert run_rows(spec.tables[0], [entry]) == []
    assert build(spec, [entry]).unused == ["r: no table shows its results of other"]


def test_the_committed_tables_are_fresh() -> None:
    publish(SPEC, check=True)


def test_importing_the_harness_loads_nothing_heavy() -> None:
    code = "import sys, harness; print({'numpy', 'pandas', 'pydantic'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
    with pytest.raises(AttributeError, match="no attribute 'lode'"):
        harness.lode  # noqa: B018


def test_without_pandas_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    for call in (lambda: harness.load(tmp_path), lambda: publish(SPEC, out=tmp_path)):
        with pytest.raises(ConfigError, match=r"pip install 'region-harness\[tables\]'"):
            call()
