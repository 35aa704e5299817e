"""The wire of a chat endpoint: one HTTP request out, one reply back, and no secret in any message.

The ``openai`` package does the talking; what fails comes back as ``TryFailed`` or ``BadReply``.
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from harness.chat.pace import TryFailed, retry_after
from harness.errors import ConfigError

if TYPE_CHECKING:
    import openai

OPENAI = "https://api.openai.com/v1"

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")  # JSON can spell it, no file can hold it
_LONGEST_CONNECT = 10.0  # seconds: a server that takes longer just to say hello is not there
_LONGEST_ERROR = 500  # characters
_SHORTEST_SECRET = 8  # characters: a query such as v=1 is no secret, and blanking it harms messages
_ADVICE = {
    401: "check the key in the environment variable {env}",
    402: "check the account of the key in the environment variable {env}",
    403: "check that the key in the environment variable {env} may use this model",
    404: "check model.base_url (most end in /v1) and model.model",
    429: "check the quota of the key in the environment variable {env}",
}


class BadReply(ValueError):
    """The server answered, but not with a chat completion."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a chat completion holds; the counts are None if the server does not tell."""

    text: str
    finish_reason: str | None
    prompt_tokens: int | None
    completion_tokens: int | None


def read_answer(body: str) -> Answer:
    """The answer in the body of a reply; raises BadReply if it is garbled, filtered or refused.

    The text is kept as it came, but for halves of UTF-16 pairs, which no file can hold.
    """
    try:
        reply = json.loads(body)
    except (ValueError, RecursionError):
        raise BadReply(f"the reply is not JSON: {body or '(empty)'}") from None
    try:
        choice = reply["choices"][0]
        message = choice["message"]
        text, refusal = message["content"], message.get("refusal")
        finish = choice.get("finish_reason")
    except (KeyError, IndexError, TypeError, AttributeError):
        raise BadReply(f"the reply has no choices[0].message.content: {body}") from None
    if finish == "content_filter":
        raise BadReply("the server filtered the reply (finish_reason content_filter)")
    if refusal:
        raise BadReply(f"the model refused: {refusal}")
    if not isinstance(text, str):
        kind = "null" if text is None else f"a {type(text).__name__}"
        raise BadReply(f"the reply's content is {kind}, not text (finish_reason {finish})")
    usage = reply.get("usage")
    return Answer(
        text=_LONE_SURROGATE.sub("\ufffd", text),
        finish_reason=finish if isinstance(finish, str) else None,
        prompt_tokens=_count(usage, "prompt_tokens"),
        completion_tokens=_count(usage, "completion_tokens"),
    )


def _count(usage: object, key: str) -> int | None:
    value = usage.get(key) if isinstance(usage, Mapping) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


@dataclass(frozen=True)
class Endpoint:
    """Where to ask. ``shown`` has neither credentials nor query, and is all that others may see."""

    url: str
    query: Mapping[str, str]
    shown: str
    local: bool
    secrets: tuple[str, ...]

    @classmethod
    def of(cls, base_url: str) -> "Endpoint":
        """The endpoint of an option (empty: ``OPENAI_BASE_URL``, or OpenAI); raises ConfigError."""
        url = base_url or os.environ.get("OPENAI_BASE_URL", "").strip() or OPENAI
        try:
            parts = urlsplit(url)
            host, _ = parts.hostname, parts.port
        except ValueError:
            host = None
        if host is None or parts.scheme not in ("http", "https"):
            # Not echoed, since it may hold a password.
            raise ConfigError(
                "model.base_url or OPENAI_BASE_URL must look like http://host:port/v1"
            )
        query = dict(parse_qsl(parts.query))
        bare = parts._replace(query="", fragment="")
        shown = bare._replace(netloc=parts.netloc.rpartition("@")[2])
        secrets = (parts.password or "", unquote(parts.password or ""), *query.values())
        return cls(bare.geturl(), query, shown.geturl().rstrip("/"), _is_local(host), secrets)


def _is_local(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class Connection:
    """An endpoint with the key to it; the key comes from the environment and stays in memory."""

    endpoint: Endpoint
    key_env: str
    timeout: float

    def ask(self, body: Mapping[str, Any]) -> str:
        """The body of the server's reply to one HTTP request, sent once; raises TryFailed."""
        import openai

        try:
            # Raw, since a garbled reply must become an error of our own, not the SDK's guess at it.
            reply = self.client.chat.completions.with_raw_response.create(**body)
            return reply.http_response.text
        except openai.APIStatusError as error:
            raise self._status_failure(error) from None
        except openai.APITimeoutError:
            failure = f"no answer from {self.endpoint.shown} within {self.timeout:g} s"
            raise TryFailed(failure, again=True, unreachable=True) from None
        except openai.APIConnectionError as error:
            failure = f"no connection to {self.endpoint.shown} ({error.__cause__ or error})"
            raise TryFailed(failure, again=True, unreachable=True) from None
        except (openai.OpenAIError, ValueError, TypeError) as error:
            raise TryFailed(f"the request cannot be sent ({error})") from None

    @cached_property
    def client(self) -> "openai.OpenAI":
        """The SDK's client; raises ConfigError without the package or the key."""
        try:
            import openai
        except ImportError:
            raise ConfigError(
                "the model openai-chat needs a package that is not installed: "
                "pip install 'region-harness[openai]'"
            ) from None
        # A proxy cannot know this machine's own servers.
        http = openai.DefaultHttpxClient(trust_env=False) if self.endpoint.local else None
        return openai.OpenAI(
            api_key=self._key,
            base_url=self.endpoint.url,
            default_query=self.endpoint.query,
            timeout=openai.Timeout(self.timeout, connect=min(self.timeout, _LONGEST_CONNECT)),
            max_retries=0,  # retries are ours: counted, and known to the pace
            http_client=http,
        )

    def clean(self, message: str) -> str:
        """A message in one line of bounded length, without a secret that a server echoed."""
        for secret in self._secrets:
            message = message.replace(secret, "[secret]")
        message = _LONE_SURROGATE.sub("\ufffd", " ".join(message.split()))
        return message if len(message) <= _LONGEST_ERROR else f"{message[:_LONGEST_ERROR]}..."

    def close(self) -> None:
        if "client" in self.__dict__:
            self.client.close()

    @cached_property
    def _key(self) -> str:
        key = os.environ.get(self.key_env, "").strip()
        if not key and not self.endpoint.local:
            raise ConfigError(
                f"{self.endpoint.shown} needs a key: put it into the environment variable "
                f"{self.key_env} (any word if the server wants none)"
            )
        if not (key.isascii() and key.isprintable()):
            raise ConfigError(
                f"the environment variable {self.key_env} holds no key: odd characters"
            )
        return key or "none"

    @cached_property
    def _secrets(self) -> list[str]:
        """What no message may hold, in each spelling a server may echo; the longest first."""
        long_enough = {word for word in self.endpoint.secrets if len(word) >= _SHORTEST_SECRET}
        words = long_enough if self._key == "none" else long_enough | {self._key}
        spellings = {s for word in words for s in (word, quote(word), word.replace("/", r"\/"))}
        return sorted(spellings, key=len, reverse=True)

    def _status_failure(self, error: "openai.APIStatusError") -> TryFailed:
        status, body = error.status_code, error.body
        details = body if isinstance(body, Mapping) else {}
        said = details.get("message") or error.response.text or "without a reason"
        # Quota that is used up comes as 429 too, but no waiting brings it back.
        spent = status == 429 and details.get("code") == "insufficient_quota"
        final = spent or status in (401, 402, 403, 404)
        return TryFailed(
            f"HTTP {status}: {said}",
            again=not spent and (status in (408, 409, 429) or status >= 500),
            busy=not spent and status in (429, 503),
            unreachable=status in (502, 504),  # a gateway that finds nobody behind it
            advice=_ADVICE[status].format(env=self.key_env) if final else "",
            retry_after=retry_after(error.response.headers),
        )
