"""The command line as its users meet it: results, errors of use, and the other verbs."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

FIXTURES = Path(__file__).parents[1] / "fixtures"
GRES = ("--tasks", "gres", "--set", f"tasks.gres.root={FIXTURES / 'gres'}")
ANSWERS = FIXTURES / "gres" / "predictions.jsonl"
RECORDED = ("--model", "recorded", "--set", f"model.path={ANSWERS}", "--max-errors", "0.1")


def test_the_fixed_form_of_the_result(harness: Any, tmp_path: Path) -> None:
    result = harness("eval", *RECORDED, *GRES, "--run", tmp_path / "r", "--json")
    assert result["schema"] == 1
    assert result["run"] == str(tmp_path / "r")
    assert set(result["model"]) == {"name", "fingerprint"}
    gres = result["tasks"]["gres"]
    assert {"version", "protocol", "judge", "n", "errors", "judge_errors", "judge_unreadable",
            "skipped", "metrics", "groups"} <= set(gres)  # fmt: skip
    assert (gres["n"], gres["errors"], gres["judge"]) == (34, 1, None)
    for metrics in (gres["metrics"], *gres["groups"].values()):
        for estimate in metrics.values():
            assert set(estimate) == {"value", "low", "high", "n"}
            assert estimate["low"] <= estimate["value"] + 0.35
    assert json.loads((tmp_path / "r" / "result.json").read_text()) == result


def test_the_record_says_what_made_the_number(harness: Any, tmp_path: Path) -> None:
    harness("eval", *RECORDED, *GRES, "--run", tmp_path / "r")
    record = json.loads((tmp_path / "r" / "run.json").read_text())
    assert record["spec"]["tasks"]["gres"]["max_new_tokens"] == 128
    assert record["circumstances"]["tasks"]["gres"]["root"] == str(FIXTURES / "gres")
    data = record["tasks"]["gres"]["data"]
    assert set(data) == {"grefs(unc).json", "instances.json"}
    assert all(re.fullmatch(r"[0-9a-f]{64}", digest) for digest in data.values())
    assert record["made_by"]["packages"]["numpy"]
    assert record["made_by"]["harness"]["version"] == "0.1.0"


def test_the_same_command_finds_its_folder_and_other_weights_get_another(
    harness: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "answers.jsonl"
    file.write_bytes(ANSWERS.read_bytes())
    command = ("eval", "--model", "recorded", "--set", f"model.path={file}", *GRES,
               "--max-errors", "1", "--json")  # fmt: skip
    first = harness(*command)
    assert harness(*command) == first
    row = json.loads(file.read_text().splitlines()[0])
    changed = json.dumps({**row, "masks": []})
    file.write_text("\n".join([changed, *file.read_text().splitlines()[1:]]))
    second = harness(*command)
    assert second["run"] != first["run"]
    values = [r["tasks"]["gres"]["groups"]["val"]["gIoU"]["value"] for r in (first, second)]
    assert values[1] < values[0]


def test_moved_data_is_the_same_run(harness: Any, tmp_path: Path) -> None:
    harness("eval", *RECORDED, *GRES, "--run", tmp_path / "r")
    copy = tmp_path / "copy" / "grefcoco"
    copy.mkdir(parents=True)
    for file in (FIXTURES / "gres" / "grefcoco").iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    moved = ("--tasks", "gres", "--set", f"tasks.gres.root={tmp_path / 'copy'}")
    harness("eval", *RECORDED, *moved, "--run", tmp_path / "r")
    file = copy / "grefs(unc).json"
    file.write_text(file.read_text().replace("man on the left", "man on the right"))
    error = harness("eval", *RECORDED, *moved, "--run", tmp_path / "r", code=2)
    assert "holds another run: tasks.gres.data.grefs(unc).json was" in error


def test_too_many_failures_give_no_number(harness: Any, tmp_path: Path) -> None:
    command = ("eval", "--model", "recorded", "--set", f"model.path={ANSWERS}", *GRES)
    result = harness(*command, "--run", tmp_path / "r", "--json", code=3)
    gres = result["tasks"]["gres"]
    assert gres["errors"] == 1
    assert all(e["value"] is None and e["low"] is None for e in gres["metrics"].values())
    text = harness(*command, "--run", tmp_path / "r", code=3)
    assert "NO NUMBERS" in text
    assert "262_0" in text


def test_limit_is_said_and_stamped(harness: Any, tmp_path: Path) -> None:
    command = ("eval", "--model", "oracle", *GRES, "--limit", 5, "--run", tmp_path / "r")
    assert "5 samples (only the first 5)" in harness(*command)
    assert harness(*command, "--json")["tasks"]["gres"]["protocol"]["limit"] == 5


def test_oracle_and_empty_bound_every_task(harness: Any, tmp_path: Path) -> None:
    empty = harness("eval", "--model", "empty", *GRES, "--run", tmp_path / "e", "--json")
    for metrics in empty["tasks"]["gres"]["groups"].values():
        assert metrics["N_acc"]["value"] == 1
        assert metrics["T_acc"]["value"] == 0
        assert metrics["cIoU"]["value"] == 0
    oracle = harness("eval", "--model", "oracle", *GRES, "--run", tmp_path / "o", "--json")
    values = oracle["tasks"]["gres"]["groups"]["testA"]
    assert all(estimate["value"] == 1 for estimate in values.values())
    boxes = harness("eval", "--model", "oracle", "--set", "model.codec=boxes", *GRES,
                    "--run", tmp_path / "b", "--json")  # fmt: skip
    assert 0.3 < boxes["tasks"]["gres"]["metrics"]["gIoU"]["value"] < 1
    assert boxes["tasks"]["gres"]["flags"]["box_as_mask"] > 0
    assert boxes["tasks"]["gres"]["protocol"]["box_as_mask"] is True


def test_a_run_folder_can_be_replayed(harness: Any, tmp_path: Path) -> None:
    first = harness("eval", "--model", "random-box", *GRES, "--run", tmp_path / "a", "--json")
    file = tmp_path / "a" / "gres" / "predictions.jsonl"
    again = harness("eval", "--model", "recorded", "--set", f"model.path={file}", *GRES,
                    "--run", tmp_path / "b", "--json")  # fmt: skip
    assert again["tasks"]["gres"]["metrics"] == first["tasks"]["gres"]["metrics"]


def test_unknown_and_missing_ids_are_counted_and_named(harness: Any, tmp_path: Path) -> None:
    lines = ANSWERS.read_text().splitlines()
    file = tmp_path / "a.jsonl"
    file.write_text("\n".join([*lines[3:], json.dumps({"sample_id": "zzz", "text": ""})]))
    result = harness("eval", "--model", "recorded", "--set", f"model.path={file}", *GRES,
                     "--max-errors", "1", "--run", tmp_path / "r", "--json")  # fmt: skip
    assert result["tasks"]["gres"]["errors"] == 4
    assert result["notes"] == [
        "1 recorded answers are for no sample of this run: zzz",
        "3 samples have no recorded answer (failed): 129_0, 129_1, 129_2",
    ]


def test_options_from_a_file_and_from_the_command_line(harness: Any, tmp_path: Path) -> None:
    config = tmp_path / "c.toml"
    config.write_text(f"""
        [eval]
        model = "recorded"
        tasks = ["gres"]
        max_errors = 0.5
        [model]
        path = ["{ANSWERS}"]
        [tasks.gres]
        root = "{FIXTURES / "gres"}"
        split = ["testA"]
    """)
    command = ("eval", "--config", config, "--json")
    result = harness(*command, "--run", tmp_path / "a")
    assert list(result["tasks"]["gres"]["groups"]) == ["testA"]
    result = harness(*command, "--run", tmp_path / "b", "--set", "tasks.gres.split=testB,val")
    assert list(result["tasks"]["gres"]["groups"]) == ["testB", "val"]


EMPTY = ("eval", "--model", "empty", *GRES)
ERRORS_OF_USE = [
    (("eval", "--tasks", "gres"), "needs --model"),
    (("eval", "--model", "empty"), "needs --tasks"),
    (("eval", "--model", "emtpy", *GRES), "no model named 'emtpy'. Did you mean 'empty'?"),
    (("eval", "--model", "empty", "--tasks", "grse"), "named 'grse'. Did you mean 'gres'?"),
    (("eval", "--model", "empty", "--tasks", "gres"), "tasks.gres.root=DIR"),
    ((*EMPTY, "--set", "tasks.gres.root=/no"), "there is no file /no/grefcoco/"),
    ((*EMPTY, "--set", "tasks.gres.spilt=val"), "Did you mean 'split'?"),
    ((*EMPTY, "--set", "tasks.gres.split=tset"), "has no split 'tset'; it has val, testA"),
    ((*EMPTY, "--set", "task.gres.split=val"), "Did you mean 'tasks'?"),
    ((*EMPTY, "--set", "tasks.grse.split=val"), "'grse' that nobody"),
    ((*EMPTY, "--set", "model.x=1"), "model has no option 'x'"),
    ((*EMPTY, "--set", "nonsense"), "path.to.option=value"),
    ((*EMPTY, "--set", "tasks.gres.parse=sloppy"), "tasks.gres.parse = 'sloppy' does not fit"),
    ((*EMPTY, "--shard", "4/4"), "must be i/N"),
    ((*EMPTY, "--shard", "0/4", "--shards", "2"), "not both"),
    ((*EMPTY, "--config", "no.toml"), "there is no file no.toml"),
    (("eval", "--model", "oracle", "--set", "model.codec=bxes", *GRES), "Did you mean 'boxes'?"),
    (("eval", "--model", "recorded", *GRES), "model.path must be given"),
    (("eval", "--model", "recorded", "--set", "model.path=no.jsonl", *GRES), "no file no.jsonl"),
    (("show", "grse"), "Did you mean 'gres'?"),
    (("check", "gres"), "tasks.gres.root=DIR"),
    (("merge", "no-such-run"), "is not a run folder"),
    (("rescore", "no-such-run"), "is not a run folder"),
    (("compare", "no-such-run", "nor-this"), "is not a run folder"),
]


@pytest.mark.parametrize(("arguments", "message"), ERRORS_OF_USE)
def test_an_error_of_use_is_one_clear_sentence(
    harness: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: Any, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    error = harness(*arguments, code=2)
    assert message in error
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())  # nothing was begun


@pytest.mark.parametrize(
    "arguments",
    [
        ("eval", "--limit", "0"),
        ("eval", "--shards", "x"),
        ("eval", "--max-errors", "2"),
        ("evil",),
        (),
    ],
)
def test_argparse_errors_end_with_2(harness: Any, arguments: Any) -> None:
    with pytest.raises(SystemExit) as ended:
        harness(*arguments)
    assert ended.value.code == 2


def test_list_show_and_check(harness: Any) -> None:
    assert "groundingsuite" in harness("list")
    assert "split: tuple[str, ...] = ()" in harness("show", "gres")
    assert "answers.jsonl" not in harness("show", "recorded")
    checked = harness("check", *GRES[1:])
    assert "ok    34 samples: val 25, testA 5, testB 4" in checked
    assert "warn  1 left out by the protocol: 213_0" in checked
    assert "ok    the truth earns full marks (gIoU 100) on 33 samples" in checked
    assert "ok    6 pictures are there and of the right size" in checked


def test_rescore_in_place_and_with_other_options(harness: Any, tmp_path: Path) -> None:
    root = FIXTURES / "groundingsuite"
    task = ("--tasks", "groundingsuite", "--set", f"tasks.groundingsuite.root={root}")
    file = root / "predictions_bbox.jsonl"
    box = ("--set", "tasks.groundingsuite.mode=box")
    first = harness("eval", "--model", "recorded", "--set", f"model.path={file}", *task, *box,
                    "--run", tmp_path / "r", "--json")  # fmt: skip
    before = (tmp_path / "r" / "result.json").read_bytes()
    assert harness("rescore", tmp_path / "r", "--json") == first
    assert (tmp_path / "r" / "result.json").read_bytes() == before
    tolerant = ("--set", "tasks.groundingsuite.box_parser=tolerant")
    other = harness("rescore", tmp_path / "r", *tolerant, "--json")
    assert other["run"] != first["run"]
    assert other["model"] == first["model"]
    unparsed = [r["tasks"]["groundingsuite"]["flags"]["unparsed"] for r in (first, other)]
    assert unparsed[1] < unparsed[0]
    assert (tmp_path / "r" / "result.json").read_bytes() == before
    prompt = ("--set", "tasks.groundingsuite.prompt=qwen25vl")
    assert "asks other prompts" in harness("rescore", tmp_path / "r", *prompt, code=2)


def test_compare(harness: Any, tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    harness("eval", "--model", "oracle", *GRES, "--run", a)
    harness("eval", "--model", "whole-image", *GRES, "--run", b)
    result = harness("compare", a, b, "--rounds", 500, "--json")
    val = result["tasks"]["gres"]["val"]["gIoU"]
    assert val["difference"] == pytest.approx(val["a"] - val["b"])
    assert val["low"] <= val["difference"] <= val["high"]
    assert 0 < val["p"] <= 0.2
    same = harness("compare", a, a, "--rounds", 100, "--json")["tasks"]["gres"]["val"]["gIoU"]
    assert (same["difference"], same["low"], same["high"], same["p"]) == (0, 0, 0, 1)
    assert "A: oracle" in harness("compare", a, b, "--rounds", 100)


def test_compare_refuses_what_is_not_comparable(harness: Any, tmp_path: Path) -> None:
    a, b, c = (tmp_path / name for name in "abc")
    harness("eval", "--model", "oracle", *GRES, "--run", a)
    harness("eval", "--model", "oracle", *GRES, "--set", "tasks.gres.text=raw", "--run", b)
    error = harness("compare", a, b, code=2)
    assert "protocol.text is 'sent'" in error
    assert "--allow text" in error
    harness("compare", a, b, "--allow", "text", "--rounds", 50)
    harness("eval", "--model", "oracle", *GRES, "--set", "tasks.gres.split=val", "--run", c)
    assert "samples is" in harness("compare", a, c, code=2)


def test_messages_cannot_steer_the_terminal(harness: Any, tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text(ANSWERS.read_text() + json.dumps({"sample_id": "\x1b[2Jx", "text": ""}) + "\n")
    text = harness("eval", "--model", "recorded", "--set", f"model.path={file}", *GRES,
                   "--max-errors", "1", "--run", tmp_path / "r")  # fmt: skip
    assert "\x1b" not in text
    assert "?[2Jx" in text


@pytest.mark.parametrize("name", ["gres", "groundingsuite"])
def test_real_photos(harness: Any, tmp_path: Path, shared: Path, name: str) -> None:
    pack = shared / "data" / "realpack"
    task: tuple[str, ...] = ("--tasks", name, "--set", f"tasks.{name}.root={pack}")
    if name == "gres":
        task += ("--set", f"tasks.gres.images={pack / 'images'}")
    assert "pictures are there and of the right size" in harness("check", *task[1:])
    oracle = harness("eval", "--model", "oracle", *task, "--run", tmp_path / "o", "--json")
    values = [e["value"] for e in oracle["tasks"][name]["metrics"].values()]
    assert set(values) == {1.0}
    boxes = harness("eval", "--model", "oracle", "--set", "model.codec=boxes", *task,
                    "--run", tmp_path / "b", "--json")  # fmt: skip
    assert 0.3 < boxes["tasks"][name]["metrics"]["gIoU"]["value"] < 1
    empty = harness("eval", "--model", "empty", *task, "--run", tmp_path / "e", "--json")
    metrics = empty["tasks"][name]["metrics"]
    assert metrics["gIoU"]["value"] < 1
    if name == "gres":
        assert (metrics["N_acc"]["value"], metrics["T_acc"]["value"]) == (1, 0)


def test_rescore_and_merge_need_no_model(harness: Any, tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    file.write_bytes(ANSWERS.read_bytes())
    command = ("eval", "--model", "recorded", "--set", f"model.path={file}", *GRES,
               "--max-errors", "1")  # fmt: skip
    whole = harness(*command, "--run", tmp_path / "whole", "--json")
    for i in range(2):
        harness(*command, "--run", tmp_path / f"part{i}", "--shard", f"{i}/2")
    file.unlink()
    more = ("--max-errors", "1", "--json")
    assert harness("rescore", tmp_path / "whole", *more)["tasks"] == whole["tasks"]
    parts = (tmp_path / "part0", tmp_path / "part1")
    merged = harness("merge", *parts, "--run", tmp_path / "merged", *more)
    assert merged["tasks"] == whole["tasks"]
    assert merged["model"] == whole["model"]


def test_addresses_are_kept_without_credentials(harness: Any, tmp_path: Path) -> None:
    secrets = ("hunter2secret", "q9secretkey")
    url = f"http://user:{secrets[0]}@127.0.0.1:9/v1?key={secrets[1]}"
    harness("eval", "--model", "openai-chat", "--set", "model.model=m", "--set",
            f"model.base_url={url}", "--set", "model.retries=0", *GRES, "--limit", "2",
            "--run", tmp_path / "r", code=3)  # fmt: skip
    everything = b"".join(p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())
    assert b"127.0.0.1:9/v1" in everything
    assert not any(secret.encode() in everything for secret in secrets)


def test_a_metric_that_cannot_be_had_is_null_with_its_reason(
    harness: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # no java there
    root = FIXTURES / "gcg"
    command = ("eval", "--model", "recorded", "--set", f"model.path={root / 'predictions.jsonl'}",
               "--tasks", "gcg", "--set", f"tasks.gcg.root={root}", "--set", "tasks.gcg.cache=off",
               "--run", tmp_path / "r")  # fmt: skip
    assert "METEOR is not available: there is no java on the PATH" in harness(*command)
    result = harness(*command, "--json")["tasks"]["gcg"]
    assert "no java on the PATH" in result["unavailable"]["METEOR"]
    assert result["groups"]["val"]["METEOR"]["value"] is None
    assert result["groups"]["val"]["AP50"]["value"] > 0
