"""Judges through the command line, over real sockets: numbers, cache, budget, and every fault."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.chat_server import HANG, HANG_UP, Act, ChatServer, Sent, answer, error, raw

ROOT = Path(__file__).parents[1] / "fixtures" / "dlc"
QUESTIONS = 116
Judged = Callable[..., Any]


def caption_file(folder: Path, **changed: str) -> Path:
    """The recorded captions, with some replaced."""
    file = folder / "captions.jsonl"
    rows = [json.loads(line) for line in (ROOT / "predictions.jsonl").read_text().splitlines()]
    rows = [{**row, "text": changed.get(row["sample_id"], row["text"])} for row in rows]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def first_id() -> str:
    row = json.loads((ROOT / "predictions.jsonl").read_text().splitlines()[0])
    return str(row["sample_id"])


@pytest.fixture
def judged(harness: Any, tmp_path: Path) -> Judged:
    """``judged(server, folder, ...)`` runs dlc with that server as the judge."""

    def run(server: ChatServer, folder: str, *more: object, code: int = 0, **changed: str) -> Any:
        return harness(
            "eval", "--model", "recorded",
            "--set", f"model.path={caption_file(tmp_path, **changed)}",
            "--tasks", "dlc", "--set", f"tasks.dlc.root={ROOT}", "--judge", "openai-chat",
            "--set", "judge.model=m", "--set", f"judge.base_url={server.base_url}",
            "--set", "judge.backoff=0.01", "--set", "judge.retries=2",
            "--judge-cache", tmp_path / "cache.sqlite", "--run", tmp_path / folder, "--json", *more,
            code=code,
        )  # fmt: skip

    return run


def verdicts(folder: Path) -> list[Any]:
    text = (folder / "dlc" / "verdicts.jsonl").read_bytes().decode()
    return [json.loads(line) for line in text.split("\n") if line]


def test_what_is_sent_is_the_protocol(judged: Judged, tmp_path: Path) -> None:
    with ChatServer([answer("A")]) as server:
        result = judged(server, "a")["tasks"]["dlc"]
        body = server.sent[0].body
    assert result["questions"] == QUESTIONS
    assert result["judge"]["name"] == "openai-chat:m"
    assert (body["temperature"], body["top_p"], body["max_tokens"]) == (0.0, 1.0, 300)
    assert [message["role"] for message in body["messages"]] == ["user"]
    prompts = {row["prompt"] for row in verdicts(tmp_path / "a")}
    assert {sent.text for sent in server.sent} == prompts
    row = verdicts(tmp_path / "a")[0]
    assert row["reply"] == "A"
    assert row["judge"]["model"] == "m"
    assert row["info"]["prompt_tokens"] == 100


def test_the_wire_gives_the_numbers_of_the_same_replies_on_record(
    judged: Judged, harness: Any, tmp_path: Path
) -> None:
    replies = ["Yes", "B", "A. something", "no idea", "", "C"]

    def by_prompt(sent: Sent) -> Act:
        return answer(replies[len(sent.text) % len(replies)])

    with ChatServer(by_prompt) as server:
        live = judged(server, "a")
    file = tmp_path / "a" / "dlc" / "verdicts.jsonl"
    replay = harness("rescore", tmp_path / "a", "--judge", "recorded", "--run", tmp_path / "b",
                     "--set", f"judge.path={file}", "--json")  # fmt: skip
    assert replay["tasks"]["dlc"]["metrics"] == live["tasks"]["dlc"]["metrics"]
    assert (
        replay["tasks"]["dlc"]["judge_unreadable"] == live["tasks"]["dlc"]["judge_unreadable"] > 0
    )
    assert replay["tasks"]["dlc"]["judge"] != live["tasks"]["dlc"]["judge"]


def test_an_edited_caption_is_judged_anew_and_no_other_twice(judged: Judged) -> None:
    with ChatServer([answer("A")]) as server:
        first = judged(server, "a")
        asked = len(server.sent)
        assert judged(server, "b")["tasks"]["dlc"]["metrics"] == first["tasks"]["dlc"]["metrics"]
        assert len(server.sent) == asked <= QUESTIONS
        judged(server, "c", **{first_id(): "An edited caption."})
        new = server.sent[asked:]
    assert 0 < len(new) < 15
    assert all("An edited caption." in sent.text for sent in new)


def test_another_model_or_temperature_is_another_judge(judged: Judged) -> None:
    with ChatServer([answer("A")]) as server:
        judged(server, "a")
        asked = len(server.sent)
        judged(server, "b", "--set", "judge.temperature=0.5")
        assert len(server.sent) == 2 * asked


def test_a_budget_is_checked_before_the_first_call(judged: Judged, tmp_path: Path) -> None:
    with ChatServer([answer("A")]) as server:
        message = judged(server, "a", "--max-judge-calls", 10, code=2)
        assert "calls, more than --max-judge-calls 10; nothing was asked" in message
        prices = ("--set", "judge.price_in=1000", "--set", "judge.price_out=1000")
        assert "estimated to cost" in judged(server, "b", *prices, "--max-judge-cost", 0.5, code=2)
        assert not server.sent
        plan = judged(server, "a", "--dry-run", *prices)["tasks"]["dlc"]["judge"]
        assert not server.sent
        assert plan["questions"] == QUESTIONS
        assert plan["cost"] > 0.5
        assert judged(server, "a", "--max-judge-calls", QUESTIONS)["tasks"]["dlc"]["n"] == 12
        assert judged(server, "a", "--dry-run")["tasks"]["dlc"]["judge"]["calls"] == 0


def _storm(fault: Act, every: int) -> Callable[[Sent], Act]:
    """A fault for every n-th request; what is asked again is answered."""
    count = 0

    def script(sent: Sent) -> Act:
        nonlocal count
        count += 1
        return fault if count % every == 0 else answer("A")

    return script


@pytest.mark.parametrize(
    "fault",
    [error(429), error(429, retry_after="0.01"), error(500), error(503), HANG_UP],
    ids=["429", "retry-after", "500", "503", "hang-up"],
)
def test_a_passing_fault_costs_nothing(judged: Judged, fault: Act) -> None:
    with ChatServer(_storm(fault, 5)) as server:
        result = judged(server, "a", "--set", "judge.retries=8")["tasks"]["dlc"]
    assert result["judge_errors"] == 0
    assert result["metrics"]["Avg"]["value"] is not None


@pytest.mark.parametrize(
    "fault",
    [
        raw("<html>busy</html>", "text/html"),
        raw('{"choices": [{"mess'),
        raw("{}"),
        answer(None),
        answer("no", refusal="I will not judge this."),
        answer("A", finish="content_filter"),
        HANG,
    ],
    ids=["html", "truncated", "empty object", "null", "refusal", "filter", "hang"],
)
def test_a_verdict_that_cannot_be_had_is_the_judges_error(
    judged: Judged, tmp_path: Path, fault: Act
) -> None:
    marked = "An exceptional caption."

    def script(sent: Sent) -> Act:
        return fault if marked in sent.text else answer("A")

    changed = {first_id(): marked}
    options = ("--set", "judge.timeout=0.5")
    with ChatServer(script) as server:
        none = judged(server, "a", *options, code=3, **changed)["tasks"]["dlc"]
        assert none["judge_errors"] == none["questions"] - QUESTIONS + none["judge_errors"] > 0
        assert all(estimate["value"] is None for estimate in none["metrics"].values())
        some = judged(server, "a", *options, "--max-errors", 0.2, **changed)["tasks"]["dlc"]
    assert some["metrics"]["Avg"]["value"] is not None
    assert some["metrics"]["Pos"]["n"] == 11  # the object without verdicts is in no mean
    broken = [row for row in verdicts(tmp_path / "a") if row["reply"] is None]
    assert len(broken) == some["judge_errors"]
    assert all(row["sample_id"] == first_id() and row["error"] for row in broken)
    with ChatServer([answer("A")], port=server.port) as healed:
        well = judged(healed, "a", **changed)["tasks"]["dlc"]
        assert len(healed.sent) == some["judge_errors"]  # the others are known
    assert well["judge_errors"] == 0


@pytest.mark.parametrize("reply", ["", "E", "e.", "(A)", "I cannot answer.", "\u2028", "💥" * 50])
def test_a_reply_that_nobody_can_read_scores_as_officially_and_is_counted(
    judged: Judged, reply: str
) -> None:
    with ChatServer([answer(reply)]) as server:
        result = judged(server, "a")["tasks"]["dlc"]
    assert result["judge_errors"] == 0
    assert result["judge_unreadable"] > QUESTIONS // 2
    assert result["metrics"]["Avg"]["value"] is not None


@pytest.mark.parametrize(
    "caption",
    ["{pred_caption} {0} {question_text_str}", "a\x00b\x1b[2J\x7f", "one\u2028two\u2029three\x85",
     "a 🦊 and an é", "x" * 100_000, "", "lone \ud800 half"],
    ids=["braces", "control", "separators", "emoji", "long", "empty", "surrogate"],
)  # fmt: skip
def test_any_caption_reaches_the_judge(judged: Judged, tmp_path: Path, caption: str) -> None:
    with ChatServer([answer("A")]) as server:
        result = judged(server, "a", "--max-errors", 0.2, **{first_id(): caption})["tasks"]["dlc"]
    assert result["n"] == 12
    rows = [row for row in verdicts(tmp_path / "a") if row["sample_id"] == first_id()]
    assert all(caption in row["prompt"] for row in rows)
    if "\ud800" not in caption:
        assert result["judge_errors"] == 0
        assert {row["prompt"] for row in rows} <= {sent.text for sent in server.sent}


def test_a_judge_that_dies_half_way(judged: Judged, tmp_path: Path) -> None:
    with ChatServer([answer("A")]) as whole:
        expected = judged(whole, "whole", "--judge-cache", tmp_path / "other.sqlite")
    with ChatServer([answer("A")], dies_after=40) as server:
        dead = judged(server, "a", "--set", "judge.max_concurrency=4", code=3)["tasks"]["dlc"]
    assert 0 < dead["judge_errors"] <= QUESTIONS - 40
    kept = [row for row in verdicts(tmp_path / "a") if row["reply"] is not None]
    with ChatServer([answer("A")], port=server.port) as server:
        healed = judged(server, "a", "--set", "judge.max_concurrency=4")["tasks"]["dlc"]
        assert len(server.sent) <= QUESTIONS - len({row["prompt"] for row in kept})
    assert healed["judge_errors"] == 0
    assert healed["metrics"] == expected["tasks"]["dlc"]["metrics"]


def test_a_wrong_key_ends_the_run_with_one_sentence(
    judged: Judged, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-key")
    with ChatServer([error(401, "Incorrect API key provided: sk-very-secret-key")]) as server:
        message = judged(server, "a", code=2)
    assert "check the key in the environment variable OPENAI_API_KEY" in message
    assert "sk-very-secret-key" not in message
    everything = b"".join(p.read_bytes() for p in (tmp_path / "a").rglob("*") if p.is_file())
    assert b"sk-very-secret-key" not in everything


def test_a_task_with_a_judge_says_so_before_anything_is_asked(harness: Any, tmp_path: Path) -> None:
    command = ("eval", "--model", "empty", "--tasks", "dlc", "--set", f"tasks.dlc.root={ROOT}",
               "--run", tmp_path / "r")  # fmt: skip
    assert "dlc needs a judge: name one with --judge" in harness(*command, code=2)
    assert not (tmp_path / "r").exists()
    assert "12 of 12 samples answered" in harness(*command, "--predict-only")
    with ChatServer([answer("B")]) as server:
        later = harness(
            "rescore", tmp_path / "r", "--judge", "openai-chat", "--set", "judge.model=m",
            "--set", f"judge.base_url={server.base_url}", "--run", tmp_path / "s", "--json",
        )  # fmt: skip
    assert later["tasks"]["dlc"]["questions"] == QUESTIONS


def test_a_panel_decides_by_majority_and_keeps_every_vote(harness: Any, tmp_path: Path) -> None:
    replies = {"one": "A", "two": "B", "three": "b."}

    def script(sent: Sent) -> Act:
        if sent.body["model"] == "three" and "Question" in sent.text:
            return error(400)
        return answer(replies[str(sent.body["model"])])

    with ChatServer(script) as server:
        members = "\n".join(
            f'[[judge.members]]\nname = "openai-chat"\nmodel = "{name}"\n'
            f'base_url = "{server.base_url}"\nretries = 0\n'
            for name in replies
        )
        config = tmp_path / "panel.toml"
        config.write_text(f'[judge]\nname = "panel"\n{members}')
        result = harness(
            "eval", "--config", config, "--model", "recorded", "--tasks", "dlc",
            "--set", f"model.path={ROOT / 'predictions.jsonl'}",
            "--set", f"tasks.dlc.root={ROOT}", "--run", tmp_path / "r", "--json",
        )  # fmt: skip
    assert result["tasks"]["dlc"]["judge"]["name"].startswith("panel(openai-chat:one, ")
    for row in verdicts(tmp_path / "r"):
        assert [vote["reply"] for vote in row["info"]["votes"]] == ["A", "B", "b."]
        assert row["reply"] == "B"
    agreement = harness("judge", "agreement", tmp_path / "r", "--json")["tasks"]["dlc"]
    assert agreement["questions"] == QUESTIONS
    assert agreement["alpha"] < 0.5
    assert "not unanimous" in harness("judge", "agreement", tmp_path / "r")


def test_what_asking_took_is_summed(judged: Judged) -> None:
    prices = ("--set", "judge.price_in=1", "--set", "judge.price_out=2")
    with ChatServer([answer("A")]) as server:
        usage = judged(server, "a", *prices)["tasks"]["dlc"]["usage"]
    assert usage["prompt_tokens"] == 100 * QUESTIONS
    assert usage["completion_tokens"] == 20 * QUESTIONS
    assert usage["cost"] == pytest.approx(QUESTIONS * (100 + 2 * 20) / 1e6)
