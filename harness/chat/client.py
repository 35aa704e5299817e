"""What every user of a chat endpoint shares: its options, one persistent request, many at once.

A dataclass that derives from ``ChatClient`` (an adapter, a judge) gets these as options of its own.
"""

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import Any, ClassVar, Literal, TypeVar

from harness.chat.pace import GaveUp, Pace, fan_out, persist
from harness.chat.wire import Answer, BadReply, Connection, Endpoint, read_answer
from harness.errors import ConfigError, HarnessError, ModelError

Item = TypeVar("Item")
Result = TypeVar("Result")

_RESERVED = {"messages", "model", "n", "stream"}


class NoAnswer(Exception):
    """A request that got no usable answer; the message holds no secret and fits a line."""

    def __init__(self, message: str, tries: int) -> None:
        super().__init__(message)
        self.tries = tries


@dataclass(frozen=True)
class ChatClient:
    model: str
    """The name of the model at the server."""
    base_url: str = ""
    """The endpoint up to ``/v1``. Empty: ``OPENAI_BASE_URL``, or else OpenAI itself."""
    api_key_env: str = "OPENAI_API_KEY"
    """The environment variable that holds the key; a server on this machine needs none."""
    system: str = ""
    """The system prompt."""
    temperature: float = 0.0
    """0 asks for the likeliest token each time."""
    top_p: float | None = None
    """The share of probability to sample from; by default the server's."""
    seed: int | None = None
    """The seed, for servers that take one."""
    limit_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """What the server calls the longest reply; OpenAI's newer models take only the second name."""
    extra_body: dict[str, Any] = field(default_factory=dict)
    """More fields of the request. A text that is a JSON number, true, false or null is sent so."""
    timeout: float = 120.0
    """Seconds without a byte after which a try has failed."""
    retries: int = 5
    """How often a request is tried again, if that can help."""
    backoff: float = 0.5
    """Seconds before the first retry; doubles each time."""
    max_concurrency: int = 16
    """The most requests at a time; fewer while the server says that it is busy."""
    price_in: float | None = None
    """The price of a million prompt tokens, to record what each request cost."""
    price_out: float | None = None
    """The price of a million reply tokens."""

    operational: ClassVar[tuple[str, ...]] = (
        "api_key_env", "timeout", "retries", "backoff", "max_concurrency", "price_in", "price_out",
    )  # fmt: skip

    def __post_init__(self) -> None:
        at_least = {
            "temperature": 0, "top_p": 0, "retries": 0, "backoff": 0, "timeout": 0.001,
            "max_concurrency": 1, "price_in": 0, "price_out": 0,
        }  # fmt: skip
        for option, least in at_least.items():
            value = getattr(self, option)
            if value is not None and not least <= value < inf:
                raise ConfigError(f"{self._where}.{option} must be at least {least}, not {value}")
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", self.api_key_env):
            # Not echoed: it may well be the key itself.
            raise ConfigError(
                f"{self._where}.api_key_env must name an environment variable, not hold the key"
            )
        if not self.model.strip():
            raise ConfigError(f"{self._where}.model must be the name of the model at the server")
        if taken := _RESERVED & self.extra_body.keys():
            raise ConfigError(f"{self._where}.extra_body must not set {min(taken)!r}")

    def chat_fingerprint(self) -> dict[str, str]:
        """What of these options can change an answer; no key, no credentials in the address."""
        sampling = {o: getattr(self, o) for o in ("temperature", "top_p", "seed", "limit_field")}
        return {
            "endpoint": Endpoint.of(self.base_url).shown,
            "model": self.model,
            "sampling": json.dumps(sampling),
            "extra_body": json.dumps(self._extra_body(), sort_keys=True, default=str),
            "system": self.system,
        }

    def body(self, content: str | Sequence[Mapping[str, Any]], max_tokens: int) -> dict[str, Any]:
        """The fields of a request with one user message: a text, or parts in order."""
        system = [{"role": "system", "content": self.system}] if self.system else []
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [*system, {"role": "user", "content": content}],
            "temperature": self.temperature,
            self.limit_field: max_tokens,
            "extra_body": self._extra_body(),
        }
        for option in ("top_p", "seed"):
            if (value := getattr(self, option)) is not None:
                body[option] = value
        return body

    def send(self, body: Mapping[str, Any], key: str, stop: threading.Event) -> tuple[Answer, int]:
        """The answer to a request and how many tries it took; raises NoAnswer.

        Raises ``_refused`` if the server refuses every request (a wrong key, no such model) and has
        answered none before.
        """
        tries = 0
        try:
            reply, tries = persist(
                lambda: self._connection.ask(body), self._pace, retries=self.retries,
                backoff=self.backoff, key=key, stop=stop,
            )  # fmt: skip
            return read_answer(reply), tries
        except GaveUp as end:
            if end.failure.advice and not self._pace.answered:
                raise self._refused(end.failure.message, end.failure.advice) from None
            times = f" ({end.tries} tries)" if end.tries > 1 else ""
            message = f"{end.failure.message}{times}"
            raise NoAnswer(self._connection.clean(message), end.tries) from None
        except BadReply as error:
            raise NoAnswer(self._connection.clean(str(error)), tries) from None

    def send_all(
        self, items: Sequence[Item], work: Callable[[Item, threading.Event], Result]
    ) -> Iterator[Result]:
        """What ``work`` makes of each item, as soon as it is known, many at a time."""
        stop = threading.Event()
        _ = self._connection.client  # what it lacks must show before threads start
        try:
            yield from fan_out(
                items, lambda item: work(item, stop), threads=self.max_concurrency, stop=stop
            )
        finally:
            stop.set()
            self._pace.wake()

    def usage(self, answer: Answer, tries: int) -> dict[str, Any]:
        """What is recorded of an answer: finish reason, tokens, tries, and the cost if priced."""
        info: dict[str, Any] = {
            "finish_reason": answer.finish_reason,
            "prompt_tokens": answer.prompt_tokens,
            "completion_tokens": answer.completion_tokens,
            "attempts": tries,
        }
        cost = self.cost(answer.prompt_tokens or 0, answer.completion_tokens or 0)
        return info if cost is None else info | {"cost": cost}

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float | None:
        """The price of so many tokens; None if no price is given."""
        if self.price_in is None and self.price_out is None:
            return None
        spent = prompt_tokens * (self.price_in or 0) + completion_tokens * (self.price_out or 0)
        return round(spent / 1e6, 9)

    def close(self) -> None:
        if "_connection" in self.__dict__:
            self.__dict__.pop("_connection").close()

    @property
    def _where(self) -> str:
        """The path of these options, for messages."""
        return "model"

    def _refused(self, message: str, advice: str) -> HarnessError:
        return ModelError(self._refusal(message, advice))

    def _refusal(self, message: str, advice: str) -> str:
        where = self._connection.endpoint.shown
        return self._connection.clean(f"{where} refuses model {self.model!r}: {advice} ({message})")

    def _extra_body(self) -> dict[str, Any]:
        return {key: _typed(value) for key, value in self.extra_body.items()}

    @cached_property
    def _connection(self) -> Connection:
        return Connection(Endpoint.of(self.base_url), self.api_key_env, self.timeout)

    @cached_property
    def _pace(self) -> Pace:
        return Pace(self.max_concurrency)


def _typed(value: Any) -> Any:
    """A value whose texts that are JSON numbers or words are read (``--set`` knows only text)."""
    if isinstance(value, Mapping):
        return {key: _typed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_typed(item) for item in value]
    if isinstance(value, str) and re.fullmatch(r"true|false|null|-?[0-9]+(\.[0-9]+)?", value):
        return json.loads(value)
    return value
