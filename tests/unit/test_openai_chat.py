"""The adapter for chat endpoints, through the real SDK, against a server that misbehaves."""

import base64
import contextlib
import dataclasses
import io
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from harness import config
from harness.chat import pictures as _pictures
from harness.chat.pace import GaveUp, Pace, TryFailed, fan_out, persist, retry_after
from harness.chat.pictures import Pictures, encode
from harness.codec import Canvas, Codec, Reading
from harness.errors import ConfigError, DataError, ModelError
from harness.types import Mask, Prediction, Region, Request
from harness_models.openai_chat import OpenAIChat
from tests.chat_server import (
    HANG,
    HANG_UP,
    Act,
    ChatServer,
    Sent,
    answer,
    error,
    raw,
)

KEY = "sk-very/secret+key"
SIZE = (48, 64)  # height, width


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    return save(tmp_path / "picture.jpg")


def save(path: Path, mode: str = "RGB", **options: Any) -> Path:
    """A picture that is black above and lighter below, so that a turn shows."""
    image = Image.linear_gradient("L").crop((0, 0, SIZE[1], SIZE[0])).convert(mode)
    image.save(path, **options)
    return path


def adapter(server: ChatServer, **options: Any) -> OpenAIChat:
    """An adapter with short waits."""
    waits = {"timeout": 5.0, "retries": 2, "backoff": 0.01}
    return OpenAIChat(model="m", base_url=server.base_url, **(waits | options))


def ask(picture: Path, sample_id: str = "0", **fields: Any) -> Request:
    return Request(
        sample_id=sample_id, image=picture, **({"prompt": "Where?", "wants": "regions"} | fields)
    )


def many(picture: Path, count: int) -> list[Request]:
    return [ask(picture, str(i), prompt=f"Number {i}") for i in range(count)]


def only(predictions: Any) -> Prediction:
    [prediction] = predictions
    assert isinstance(prediction, Prediction)
    return prediction


def decoded(url: str) -> tuple[str, bytes]:
    head, _, data = url.partition(";base64,")
    return head, base64.b64decode(data)


# What is sent


def test_a_request_holds_picture_text_and_sampling_options(picture: Path) -> None:
    with ChatServer([answer()]) as server:
        model = adapter(server, system="Be brief.", temperature=0.5, top_p=0.9, seed=7)
        list(model.predict([ask(picture, wants="text", prompt="What is it?", max_new_tokens=9)]))
    [sent] = server.sent
    assert sent.path == "/v1/chat/completions"
    assert [m["role"] for m in sent.body["messages"]] == ["system", "user"]
    assert sent.body["messages"][0]["content"] == "Be brief."
    assert [part["type"] for part in sent.body["messages"][1]["content"]] == ["image_url", "text"]
    assert sent.text == "What is it?"
    assert decoded(sent.picture) == ("data:image/jpeg", picture.read_bytes())
    rest = {key: value for key, value in sent.body.items() if key != "messages"}
    assert rest == {"model": "m", "temperature": 0.5, "top_p": 0.9, "seed": 7, "max_tokens": 9}


def test_options_of_the_server_are_passed_on(picture: Path) -> None:
    options = {
        "keep_special_tokens": True,
        "max_new_tokens": 5,
        "limit_field": "max_completion_tokens",
        "extra_body": {
            "top_k": "1",
            "chat_template_kwargs": {"enable_thinking": "false"},
            "s": "a",
        },
    }
    with ChatServer([answer()]) as server:
        list(adapter(server, **options).predict([ask(picture)]))
    body = server.sent[0].body
    assert body["skip_special_tokens"] is False
    assert body["max_completion_tokens"] == 5
    assert "max_tokens" not in body
    assert body["top_k"] == 1
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
    assert body["s"] == "a"


def test_regions_are_written_once_and_other_braces_stay(picture: Path) -> None:
    class Echo(Codec):
        def write(self, region: Region, canvas: Canvas) -> str:
            return "<{region_1} of " + f"{canvas.size[1]}x{canvas.size[0]}>"

        def read(self, text: str, canvas: Canvas, mode: str = "") -> Reading:
            return Reading()

    region = Region(box=(0, 0, 32, 24))
    with ChatServer([answer()]) as server:
        model = adapter(server, instruction="")
        list(model.predict([ask(picture, prompt="{region_0} {a} {} {{x}}", regions=(region,))]))
        model = with_codec(adapter(server, instruction=""), Echo())
        list(model.predict([ask(picture, prompt="{region_0}!", regions=(region,))]))
    assert server.sent[0].text == "[0, 0, 500, 500] {a} {} {{x}}"
    assert server.sent[1].text == "<{region_1} of 64x48>!"


@pytest.mark.parametrize(
    ("regions", "why"),
    [
        ((), "marks {region_0} of 0 region"),
        ((Region(mask=Mask.empty(*SIZE)),), "cannot write {region_0}"),
    ],
)
def test_a_region_that_cannot_be_written_is_an_error(
    picture: Path, regions: tuple[Region, ...], why: str
) -> None:
    with ChatServer([answer()]) as server:
        model = adapter(server)
        prediction = only(model.predict([ask(picture, prompt="{region_0}", regions=regions)]))
    assert why in (prediction.error or "")
    assert not server.sent


@pytest.mark.parametrize(
    ("wants", "instruction", "end"),
    [
        ("regions", None, "output null."),
        ("grounded_text", None, "Where?"),
        ("boxes", None, "Where?"),
        ("text", "Use boxes.", "Where?"),
        ("regions", "", "Where?"),
        ("regions", "Use boxes.", "Where?\nUse boxes."),
        ("grounded_text", "Use boxes.", "Where?\nUse boxes."),
    ],
)
def test_the_instruction_comes_where_regions_are_read(
    picture: Path, wants: str, instruction: str | None, end: str
) -> None:
    with ChatServer([answer()]) as server:
        list(adapter(server, instruction=instruction).predict([ask(picture, wants=wants)]))
    assert server.sent[0].text.endswith(end)


# What comes back


def test_a_reply_becomes_regions_and_keeps_its_text(picture: Path) -> None:
    with ChatServer([answer(" [0, 0, 500, 1000]\n")]) as server:
        prediction = only(adapter(server).predict([ask(picture, size=SIZE)]))
    assert prediction.text == " [0, 0, 500, 1000]\n"
    assert [region.box for region in prediction.regions] == [(0, 0, 32, 48)]
    assert prediction.error is None
    assert prediction.info == {
        "finish_reason": "stop",
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "attempts": 1,
    }


def test_costs_are_recorded_if_prices_are_known(picture: Path) -> None:
    with ChatServer([answer()]) as server:
        prediction = only(adapter(server, price_in=2.0, price_out=10.0).predict([ask(picture)]))
    assert prediction.info["cost"] == pytest.approx(0.0004)  # 100 * 2e-6 + 20 * 10e-6


def test_a_reply_that_ran_into_the_limit_is_flagged(picture: Path) -> None:
    with ChatServer([answer("[0, 0, 5", finish="length")]) as server:
        prediction = only(adapter(server).predict([ask(picture)]))
    assert prediction.flags == ("unparsed", "truncated")
    assert prediction.error is None


def test_text_that_no_file_can_hold_is_mended(picture: Path) -> None:
    with ChatServer([raw('{"choices": [{"message": {"content": "a\\ud800b"}}]}')]) as server:
        prediction = only(adapter(server).predict([ask(picture)]))
    assert prediction.text == "a\ufffdb"
    assert prediction.info["prompt_tokens"] is None


GARBAGE = {
    "html": (raw("<html>busy</html>", "text/html"), "not JSON: <html>busy"),
    "empty": (raw(""), "not JSON: (empty)"),
    "torn": (raw('{"choices": [{"mess'), "not JSON"),
    "deep": (raw("[" * 200_000), "not JSON"),
    "bare": (raw("{}"), "no choices[0].message.content"),
    "list": (raw("[1]"), "no choices[0].message.content"),
    "number": (raw("3"), "no choices[0].message.content"),
    "no choice": (raw('{"choices": []}'), "no choices[0].message.content"),
    "odd choices": (raw('{"choices": "abc"}'), "no choices[0].message.content"),
    "odd message": (raw('{"choices": [{"message": "abc"}]}'), "no choices[0].message.content"),
    "null": (answer(None), "content is null"),
    "odd content": (answer([1, 2]), "content is a list"),
    "error inside": (raw('{"error": {"message": "out of memory"}}'), "out of memory"),
    "filtered": (answer("partly", finish="content_filter"), "content_filter"),
    "refusal": (answer(None, refusal="I must not."), "refused: I must not."),
}


@pytest.mark.parametrize(("act", "why"), GARBAGE.values(), ids=GARBAGE)
def test_garbage_costs_one_sample_and_is_not_asked_for_again(
    picture: Path, act: Act, why: str
) -> None:
    def script(sent: Sent) -> Act:
        return act if sent.text.startswith("Number 1\n") else answer()

    with ChatServer(script) as server:
        predictions = by_id(adapter(server).predict(many(picture, 3)))
    assert why in (predictions["1"].error or "")
    assert predictions["1"].text == ""
    assert [predictions[i].error for i in ("0", "2")] == [None, None]
    assert len(server.sent) == 3


def by_id(predictions: Any) -> dict[str, Prediction]:
    found = list(predictions)
    assert len({p.sample_id for p in found}) == len(found)
    return {p.sample_id: p for p in found}


def with_codec(model: OpenAIChat, codec: Codec) -> OpenAIChat:
    """The adapter with a codec of the test's own, which no registry knows."""
    model.__dict__["_codec"] = codec
    return model


@dataclasses.dataclass(frozen=True)
class Breaking(Codec):
    """Cannot read the text "bad"."""

    how: Exception

    def write(self, region: Region, canvas: Canvas) -> str:
        return ""

    def read(self, text: str, canvas: Canvas, mode: str = "") -> Reading:
        if text == "bad":
            raise self.how
        return Reading()


def bad_first(sent: Sent) -> Act:
    return answer("bad" if sent.text.startswith("Number 0") else "good")


def test_a_reply_that_the_codec_cannot_decode_is_an_error(picture: Path) -> None:
    with ChatServer(bad_first) as server:
        model = with_codec(adapter(server), Breaking(DataError("no such code")))
        predictions = by_id(model.predict(many(picture, 3)))
    assert predictions["0"].error == "no such code"
    assert predictions["2"].text == "good"


def test_a_bug_in_one_request_loses_no_other_answer(picture: Path) -> None:
    got: list[str] = []
    with ChatServer(bad_first) as server:
        model = with_codec(adapter(server, max_concurrency=1), Breaking(RuntimeError("a bug")))
        with pytest.raises(RuntimeError, match="a bug"):
            got.extend(p.sample_id for p in model.predict(many(picture, 5)))
    assert got == ["1", "2", "3", "4"]


# Retries and pace


def test_what_can_succeed_is_tried_again(picture: Path) -> None:
    script = [error(500), error(429), HANG_UP, answer(missing=9), error(408), answer("done")]
    with ChatServer(script) as server:
        prediction = only(adapter(server, retries=5).predict([ask(picture)]))
    assert prediction.text == "done"
    assert prediction.info["attempts"] == 6


def test_a_request_whose_retries_are_used_up_is_an_error(picture: Path) -> None:
    with ChatServer([error(500, "out of memory")]) as server:
        prediction = only(adapter(server, retries=2).predict([ask(picture)]))
    assert prediction.error == "HTTP 500: out of memory (3 tries)"
    assert prediction.info == {"attempts": 3}
    assert len(server.sent) == 3


@pytest.mark.parametrize("status", [400, 413, 422])
def test_what_cannot_succeed_is_not_tried_again(picture: Path, status: int) -> None:
    with ChatServer([error(status, "too long")]) as server:
        prediction = only(adapter(server).predict([ask(picture)]))
    assert prediction.error == f"HTTP {status}: too long"
    assert len(server.sent) == 1


@pytest.mark.parametrize(
    ("refusal", "wait"),
    [(error(429, retry_after="1"), 1.0), (error(500, retry_after_ms="300"), 0.3)],
)
def test_the_server_says_how_long_to_wait(picture: Path, refusal: Act, wait: float) -> None:
    with ChatServer([refusal, answer()]) as server:
        list(adapter(server).predict([ask(picture)]))
    first, second = server.sent
    assert wait <= second.when - first.when < wait + 1


def test_nobody_is_asked_while_the_server_wants_a_pause(picture: Path) -> None:
    script = [error(429, retry_after_ms="400"), answer(delay=0.1), answer()]
    with ChatServer(script) as server:
        list(adapter(server, max_concurrency=2).predict(many(picture, 4)))
    assert server.sent[2].when - server.sent[0].when >= 0.4  # whichever request it is
    assert len(server.sent) == 5


@pytest.mark.parametrize(
    ("headers", "low", "high"),
    [
        ({}, 0, 0),
        ({"retry-after": "2.5"}, 2.5, 2.5),
        ({"retry-after": "9999"}, 60, 60),
        ({"retry-after": "-3"}, 0, 0),
        ({"retry-after": "soon"}, 0, 0),
        ({"retry-after": "nan"}, 0, 0),
        ({"retry-after": "Wed, 21 Oct 2099 07:28:00 GMT"}, 60, 60),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0, 0),
        ({"retry-after": "some GMT"}, 0, 0),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25, 0.25),
    ],
)
def test_retry_after(headers: dict[str, str], low: float, high: float) -> None:
    assert low <= retry_after(headers) <= high


def test_a_busy_server_is_asked_half_as_much_at_a_time_and_no_answer_is_lost(
    picture: Path,
) -> None:
    all_here = threading.Event()

    def script(sent: Sent) -> Act:
        if all_here.is_set():
            return answer(delay=0.02)
        if sent.at_once == 12:
            all_here.set()
        all_here.wait(5)
        return error(429)

    with ChatServer(script) as server:
        model = adapter(server, max_concurrency=12)
        predictions = by_id(model.predict(many(picture, 40)))
    assert len(predictions) == 40
    assert [p.error for p in predictions.values() if p.error] == []
    assert len(server.sent) == 12 + 40
    # Twelve refusals at a time halve once, and growing by one takes six successes.
    assert max(sent.at_once for sent in server.sent[12:18]) <= 6


def test_a_server_that_bears_two_at_a_time_answers_all(picture: Path) -> None:
    def script(sent: Sent) -> Act:
        return answer(delay=0.02) if sent.at_once <= 2 else error(429)

    with ChatServer(script) as server:
        model = adapter(server, max_concurrency=12, retries=20)
        predictions = by_id(model.predict(many(picture, 60)))
    assert len(predictions) == 60
    assert [p.error for p in predictions.values() if p.error] == []
    assert len(server.sent) < 2 * 60  # it learns: most requests are not turned away


def test_never_more_than_the_most_at_a_time(picture: Path) -> None:
    with ChatServer([answer(delay=0.02)]) as server:
        list(adapter(server, max_concurrency=3).predict(many(picture, 20)))
    assert server.most_at_once == 3


BUSY = TryFailed("HTTP 429", again=True, busy=True)
GONE = TryFailed("nobody there", again=True, unreachable=True)


def limit_after(pace: Pace, *outcomes: TryFailed | None) -> int:
    """The limit after requests one by one, None being a success."""
    for outcome in outcomes:
        with pace.slot(threading.Event()) as halvings:
            pace.succeeded() if outcome is None else pace.failed(outcome, halvings)
    return pace.limit


def test_the_limit_halves_and_grows_by_one() -> None:
    pace = Pace(8)
    assert limit_after(pace, BUSY) == 4
    assert limit_after(pace, None, None, None) == 4
    assert limit_after(pace, None) == 5  # four in a row at a limit of four
    assert limit_after(pace, BUSY, BUSY, BUSY, BUSY) == 1
    assert limit_after(pace, *[None] * 100) == 8  # never above the most


def test_requests_under_way_halve_the_limit_once() -> None:
    pace, stop = Pace(8), threading.Event()
    with pace.slot(stop) as first, pace.slot(stop) as second, pace.slot(stop) as third:
        for halvings in (first, second, third):
            pace.failed(BUSY, halvings)
    assert pace.limit == 4


# Servers that are gone


def test_a_hang_is_bounded_by_the_timeout(picture: Path) -> None:
    def script(sent: Sent) -> Act:
        return HANG if sent.text.startswith("Number 1\n") else answer()

    with ChatServer(script) as server:
        predictions = by_id(adapter(server, timeout=0.3, retries=1).predict(many(picture, 4)))
    assert predictions["1"].error == (f"no answer from {server.base_url} within 0.3 s (2 tries)")
    assert sum(p.error is None for p in predictions.values()) == 3


def test_a_server_that_dies_half_way_keeps_what_it_answered(picture: Path) -> None:
    with ChatServer([answer()], dies_after=8) as server:
        model = adapter(server, max_concurrency=2, retries=3, backoff=0.05)
        predictions = by_id(model.predict(many(picture, 60)))
    failed = [p for p in predictions.values() if p.error]
    assert len(predictions) == 60
    assert 50 <= len(failed) <= 53  # those under way when it died may go either way
    assert all("no connection to http://" in (p.error or "") for p in failed)
    tries = sorted(p.info["attempts"] for p in failed)
    assert tries[-1] == 4  # the first ones were persistent
    assert tries[len(tries) // 2] == 1  # the breaker spared the others


def test_the_breaker_opens_after_a_few_and_closes_on_a_success(picture: Path) -> None:
    with ChatServer([answer()]) as server:
        port = server.port
    model = adapter(server, max_concurrency=1, retries=1)
    tries = [p.info["attempts"] for p in model.predict(many(picture, 6))]
    assert tries == [2, 2, 2, 1, 1, 1]
    assert model._pace.broken
    with ChatServer([answer(), error(500), answer()], port=port) as server:
        tries = [p.info["attempts"] for p in model.predict(many(picture, 2))]
    assert tries == [1, 2]
    assert not model._pace.broken


@pytest.mark.parametrize("sign_of_life", [None, TryFailed("HTTP 400")])
def test_the_breaker_counts_in_a_row(sign_of_life: TryFailed | None) -> None:
    pace = Pace(1)

    def end_with(outcome: TryFailed | None) -> None:
        def attempt() -> None:
            if outcome:
                raise outcome

        with contextlib.suppress(GaveUp):
            persist(attempt, pace, retries=0, backoff=0, key="", stop=threading.Event())

    for outcome in (GONE, GONE, sign_of_life, GONE, GONE):
        end_with(outcome)
    assert not pace.broken
    end_with(GONE)
    assert pace.broken


# Refusals and secrets


@pytest.mark.parametrize(
    ("act", "advice"),
    [
        (error(401, f"Incorrect API key provided: {KEY}"), "check the key in"),
        (error(403), "may use this model"),
        (error(404, "no such model"), "check model.base_url"),
        (error(429, code="insufficient_quota"), "check the quota"),
    ],
)
def test_a_server_that_refuses_the_first_request_ends_the_run(
    picture: Path, monkeypatch: pytest.MonkeyPatch, act: Act, advice: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with ChatServer([act]) as server, pytest.raises(ModelError) as raised:
        list(adapter(server, max_concurrency=1).predict(many(picture, 5)))
    message = str(raised.value)
    assert message.startswith(f"{server.base_url} refuses model 'm': ")
    assert advice in message
    assert KEY not in message
    assert len(server.sent) == 1


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_later_refusal_costs_one_sample(picture: Path, status: int) -> None:
    with ChatServer([answer(), error(status), answer()]) as server:
        predictions = by_id(adapter(server, max_concurrency=1).predict(many(picture, 3)))
    assert [p.error for p in predictions.values()] == [None, f"HTTP {status}: no", None]


@pytest.mark.parametrize("echo", [KEY, "sk-very/secret%2Bkey", r"sk-very\/secret+key"])
def test_no_error_holds_the_key(picture: Path, monkeypatch: pytest.MonkeyPatch, echo: str) -> None:
    monkeypatch.setenv("MY_KEY", f"{KEY}\n")
    for act in (error(400, f"{'x' * 495}{echo}"), raw(f"your key: {echo}"), error(500, echo)):
        with ChatServer([act]) as server:
            model = adapter(server, api_key_env="MY_KEY", retries=0)
            prediction = only(model.predict([ask(picture)]))
        assert server.sent[0].headers["authorization"] == f"Bearer {KEY}"
        assert "sk-v" not in (prediction.error or "")
        assert "secret" in (prediction.error or "") or len(prediction.error or "") > 500
        assert KEY not in repr(model)
        assert KEY not in str(model.fingerprint())
        assert KEY not in str(config.jsonable(model))


def test_the_fingerprint_holds_no_credentials() -> None:
    url = "https://user:password1@host:8443/v1/?token=abcdefgh"
    model = OpenAIChat(model="m", base_url=url)
    assert model.fingerprint()["endpoint"] == "https://host:8443/v1"


def test_credentials_in_the_address_are_scrubbed_and_its_query_is_sent(picture: Path) -> None:
    with ChatServer([error(400, "you sent abcdefgh and password1")]) as server:
        url = server.base_url.replace("//", "//user:password1@") + "?token=abcdefgh"
        model = OpenAIChat(model="m", base_url=url)
        prediction = only(model.predict([ask(picture)]))
    assert server.sent[0].path == "/v1/chat/completions?token=abcdefgh"
    assert prediction.error == "HTTP 400: you sent [secret] and [secret]"


@pytest.mark.parametrize(
    "change",
    [
        {"model": "other"},
        {"base_url": "http://localhost:2/v1"},
        {"system": "s"},
        {"instruction": ""},
        {"instruction": "x"},
        {"codec": "polygons"},
        {"codec": {"coords": "absolute"}},
        {"temperature": 1.0},
        {"top_p": 0.5},
        {"seed": 1},
        {"max_new_tokens": 3},
        {"limit_field": "max_completion_tokens"},
        {"keep_special_tokens": True},
        {"extra_body": {"a": 1}},
    ],
)
def test_whatever_changes_answers_changes_the_fingerprint(change: dict[str, Any]) -> None:
    plain = OpenAIChat(model="m", base_url="http://localhost:1/v1")
    assert dataclasses.replace(plain, **change).fingerprint() != plain.fingerprint()


def test_what_changes_no_answer_is_not_in_the_fingerprint() -> None:
    plain = OpenAIChat(model="m")
    other = OpenAIChat(
        model="m", timeout=1, retries=0, backoff=9, max_concurrency=1, price_in=1, api_key_env="K"
    )
    assert other.fingerprint() == plain.fingerprint()
    assert all(isinstance(value, str) for value in plain.fingerprint().values())


def test_the_protocol_names_the_codec_and_filled_boxes() -> None:
    model = OpenAIChat(model="m", codec={"coords": "absolute"})
    assert model.name == "openai-chat:m"
    assert dict(model.protocol(False)) == {
        "codec": "boxes",
        "coords": "absolute",
        "parser": "strict",
        "take": "all",
    }
    assert model.protocol(True)["box_as_mask"] is True


def test_removed_mask_tokens_are_warned_of() -> None:
    quiet: frozenset[str] = frozenset()
    [note] = OpenAIChat(model="m", codec="mask_tokens").notes(quiet, quiet)
    assert "keep_special_tokens" in note
    assert not OpenAIChat(model="m").notes(quiet, quiet)
    model = OpenAIChat(model="m", codec="mask_tokens", keep_special_tokens=True)
    assert not model.notes(quiet, quiet)


def test_only_a_server_on_this_machine_needs_no_key(picture: Path) -> None:
    with ChatServer([answer()]) as server:
        list(adapter(server).predict([ask(picture)]))
    assert server.sent[0].headers["authorization"] == "Bearer none"
    with pytest.raises(ConfigError, match="environment variable MY_KEY"):
        list(OpenAIChat(model="m", api_key_env="MY_KEY").predict([ask(picture)]))


def test_the_address_can_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert OpenAIChat(model="m").fingerprint()["endpoint"] == "https://api.openai.com/v1"
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:5/v1/")
    assert OpenAIChat(model="m").fingerprint()["endpoint"] == "http://localhost:5/v1"


def test_the_missing_package_is_named(picture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    model = OpenAIChat(model="m", base_url="http://localhost:1/v1")
    with pytest.raises(ConfigError, match=r"region-harness\[openai\]"):
        list(model.predict([ask(picture)]))


# Options


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({}, "model must be given"),
        ({"model": " "}, "must be the name of the model"),
        ({"model": "m", "timeout": "0"}, "timeout must be at least"),
        ({"model": "m", "retries": "-1"}, "retries must be at least 0"),
        ({"model": "m", "max_concurrency": "0"}, "max_concurrency must be at least 1"),
        ({"model": "m", "temperature": "nan"}, "temperature must be at least 0"),
        ({"model": "m", "limit_field": "tokens"}, "limit_field"),
        ({"model": "m", "api_key_env": "sk-123"}, "must name an environment variable"),
        ({"model": "m", "extra_body": {"stream": True}}, "must not set 'stream'"),
        ({"model": "m", "api_key": "sk-123"}, "no option 'api_key'"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why) as raised:
        config.build(OpenAIChat, options, "model")
    assert "sk-123" not in str(raised.value)


@pytest.mark.parametrize("url", ["localhost:8000/v1", "http://", "ftp://h/v1", "http://[::1/v1"])
def test_a_wrong_address_is_refused(url: str, picture: Path) -> None:
    with pytest.raises(ConfigError, match=r"OPENAI_BASE_URL must look like"):
        list(OpenAIChat(model="m", base_url=url).predict([ask(picture)]))


def test_options_come_as_text_from_the_command_line() -> None:
    options = {"model": "m", "temperature": "0.7", "seed": "3", "codec": {"take": "first"}}
    model = config.build(OpenAIChat, options, "model")
    assert (model.temperature, model.seed) == (0.7, 3)


# Pictures


def pixels(content: bytes) -> tuple[tuple[int, int], bytes]:
    with Image.open(io.BytesIO(content)) as image:
        return image.size, image.convert("RGB").tobytes()


@pytest.mark.parametrize(("ending", "mime"), [("jpg", "jpeg"), ("png", "png"), ("webp", "webp")])
def test_common_formats_go_out_untouched_whatever_their_name(
    tmp_path: Path, ending: str, mime: str
) -> None:
    path = save(tmp_path / f"a.{ending}").rename(tmp_path / "b.gif")
    assert decoded(encode(path).url) == (f"data:image/{mime}", path.read_bytes())
    assert encode(path).size == SIZE


@pytest.mark.parametrize(
    ("name", "mode"), [("a.bmp", "RGB"), ("a.tiff", "RGB"), ("a.tiff", "CMYK"), ("a.tiff", "I;16")]
)
def test_other_formats_go_out_as_png(tmp_path: Path, name: str, mode: str) -> None:
    path = save(tmp_path / name, mode)
    head, content = decoded(encode(path).url)
    assert head == "data:image/png"
    assert pixels(content) == pixels(path.read_bytes())


@pytest.mark.parametrize(("orientation", "mime"), [(1, "jpeg"), (3, "png"), (6, "png"), (0, "png")])
def test_a_server_sees_the_stored_pixels_whatever_the_exif_says(
    tmp_path: Path, orientation: int, mime: str
) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = save(tmp_path / "a.jpg", exif=exif)
    encoded = encode(path)
    head, content = decoded(encoded.url)
    assert head == f"data:image/{mime}"
    assert encoded.size == SIZE
    assert pixels(content) == pixels(path.read_bytes())
    with Image.open(io.BytesIO(content)) as image:
        assert image.getexif().get(0x0112, 1) == 1


@pytest.mark.parametrize("mode", ["L", "P"])
def test_a_turned_picture_keeps_its_transparency(tmp_path: Path, mode: str) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    path = save(tmp_path / "a.png", mode, transparency=0, exif=exif)
    _, content = decoded(encode(path).url)
    with Image.open(io.BytesIO(content)) as sent, Image.open(path) as stored:
        assert sent.convert("RGBA").tobytes() == stored.convert("RGBA").tobytes()
        assert sent.convert("RGBA").getchannel("A").getextrema() == (0, 255)


def test_pictures_that_cannot_be_sent_cost_their_samples(
    picture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(b"no picture")
    large = save(tmp_path / "large.bmp")
    monkeypatch.setattr(_pictures, "MAX_BYTES", picture.stat().st_size)
    noise = Image.effect_noise((64, 48), 90)
    noise.save(large)
    requests = [
        ask(picture, "fine", size=SIZE),
        ask(picture, "other size", size=(SIZE[1], SIZE[0])),
        ask(tmp_path / "nowhere.jpg", "missing"),
        ask(broken, "broken"),
        ask(large, "large"),
    ]
    with ChatServer([answer()]) as server:
        predictions = by_id(adapter(server).predict(requests))
    errors = {name: prediction.error for name, prediction in predictions.items()}
    assert errors.pop("fine") is None
    assert "is 64x48 (width x height), but the data says 48x64" in (errors["other size"] or "")
    assert "there is no picture" in (errors["missing"] or "")
    assert "cannot be read as a picture" in (errors["broken"] or "")
    assert "more than the limit" in (errors["large"] or "")
    assert len(server.sent) == 1


def test_neighbours_share_a_picture_within_a_bound(tmp_path: Path) -> None:
    paths = [save(tmp_path / f"{i}.png") for i in range(3)]
    each = len(encode(paths[0]).url)
    pictures = Pictures(max_bytes=2 * each)
    first = pictures.get(paths[0])
    assert pictures.get(paths[0]) is first
    pictures.get(paths[1])
    assert pictures.get(paths[0]) is first  # now the latest used
    pictures.get(paths[2])  # drops paths[1]
    assert pictures.get(paths[0]) is first
    assert list(pictures._kept) == [paths[2], paths[0]]
    assert Pictures(max_bytes=1).get(paths[0]).url == first.url


# Stopping


def test_answers_come_as_they_arrive_and_leaving_stops_the_rest(picture: Path) -> None:
    def script(sent: Sent) -> Act:
        return answer(delay=0.0 if sent.text.startswith("Number 2\n") else 0.2)

    with ChatServer(script) as server:
        stream = iter(adapter(server, max_concurrency=3).predict(many(picture, 50)))
        assert next(stream).sample_id == "2"
        stream.close()  # type: ignore[attr-defined]
        time.sleep(0.4)
    assert len(server.sent) <= 4


def test_threads_that_wait_for_the_server_end_when_the_caller_leaves(picture: Path) -> None:
    before = threading.active_count()
    with ChatServer([error(429, retry_after="60"), answer(delay=0.1)]) as server:
        stream = iter(adapter(server, max_concurrency=2).predict(many(picture, 9)))
        assert next(stream).error is None
        stream.close()  # type: ignore[attr-defined]
    wait_for(lambda: threading.active_count() <= before, seconds=5)


def test_a_closed_adapter_can_be_asked_again(picture: Path) -> None:
    with ChatServer([answer()]) as server:
        model = adapter(server)
        model.close()
        for _ in range(2):
            assert only(model.predict([ask(picture)])).text == "fine"
            model.close()


def test_ctrl_c_ends_the_process_while_the_server_hangs(picture: Path) -> None:
    script = textwrap.dedent("""
        import sys
        from pathlib import Path
        from harness.types import Request
        from harness_models.openai_chat import OpenAIChat
        model = OpenAIChat(model="m", base_url=sys.argv[1])
        image = Path(sys.argv[2])
        requests = [Request(sample_id=str(i), image=image, prompt="") for i in range(40)]
        try:
            list(model.predict(requests))
        except KeyboardInterrupt:
            model.close()
            print("interrupted")
    """)
    with ChatServer([HANG]) as server:
        words = [sys.executable, "-c", script, server.base_url, str(picture)]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        wait_for(lambda: len(server.sent) >= 16)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=20)
    assert out == "interrupted\n"
    assert process.returncode == 0


def wait_for(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_work_is_fanned_out_over_threads_and_fatal_errors_end_it() -> None:
    def work(number: int) -> int:
        if number == 3:
            raise ModelError("no")
        return number

    def results(numbers: Sequence[int]) -> list[int]:
        return sorted(fan_out(numbers, work, threads=1, stop=threading.Event()))

    assert results([1, 2]) == [1, 2]
    assert results([]) == []
    with pytest.raises(ModelError):
        results([1, 2, 3])
