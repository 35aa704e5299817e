"""A chat endpoint on this machine that misbehaves on demand: real sockets, scripted faults.

    with ChatServer([error(429, retry_after="1"), answer("a cat")]) as server:
        OpenAIChat(model="m", base_url=server.base_url)

The script is a list (one act a request, the last one repeated) or a function of what was sent.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self


@dataclass(frozen=True)
class Sent:
    """One request as the server saw it. ``at_once`` counts the requests in progress, itself too."""

    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]
    at_once: int
    when: float

    @property
    def text(self) -> str:
        """The text of the user's message."""
        content = self.body["messages"][-1]["content"]
        return content if isinstance(content, str) else str(content[1]["text"])

    @property
    def picture(self) -> str:
        """The picture's data URL."""
        return str(self.body["messages"][-1]["content"][0]["image_url"]["url"])


@dataclass(frozen=True)
class Act:
    """What the server does with one request."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    """Seconds before anything is sent."""
    silent: bool = False
    """Closes the connection instead of answering."""
    missing: int = 0
    """How many bytes are announced but never sent."""


Script = Sequence[Act] | Callable[[Sent], Act]


def completion(content: Any, *, finish: Any = "stop", **message: Any) -> dict[str, Any]:
    """A chat completion that holds ``content``."""
    choice = {
        "index": 0,
        "finish_reason": finish,
        "message": {"role": "assistant", "content": content, **message},
    }
    usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
    return {"id": "1", "object": "chat.completion", "choices": [choice], "usage": usage}


def answer(content: Any = "fine", *, delay: float = 0.0, missing: int = 0, **rest: Any) -> Act:
    """A good reply; ``missing`` cuts the connection before its end."""
    body = json.dumps(completion(content, **rest)).encode()
    return Act(
        body=body, delay=delay, missing=missing, headers={"Content-Type": "application/json"}
    )


def error(status: int, message: str = "no", code: str | None = None, **headers: str) -> Act:
    """An error as OpenAI words it; ``retry_after="1"`` sends that header."""
    body = json.dumps({"error": {"message": message, "code": code}}).encode()
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    return Act(status, body, {"Content-Type": "application/json", **named})


def raw(body: str, content_type: str = "application/json", status: int = 200) -> Act:
    """Any body at all."""
    return Act(status, body.encode(), {"Content-Type": content_type})


HANG = Act(delay=3600.0)
HANG_UP = Act(silent=True)


class ChatServer:
    """A server on 127.0.0.1 while its ``with`` block runs. ``sent`` holds all that it was asked."""

    def __init__(self, script: Script, *, dies_after: int | None = None, port: int = 0) -> None:
        self.sent: list[Sent] = []
        self._script = script
        self._dies_after = dies_after
        self._at_once = 0
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._http = _Listener(("127.0.0.1", port), _handler(self))
        self.port: int = self._http.server_port
        self.base_url = f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> Self:
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.die()

    @property
    def most_at_once(self) -> int:
        return max(sent.at_once for sent in self.sent)

    def die(self) -> None:
        """Stops listening; whoever hangs is cut off."""
        if not self._over.is_set():
            self._over.set()
            self._http.shutdown()
            self._http.server_close()

    def handle(self, http: BaseHTTPRequestHandler) -> None:
        """Does with one request what the script says."""
        length = int(http.headers["Content-Length"])
        body = json.loads(http.rfile.read(length))
        with self._lock:
            self._at_once += 1
            headers = {key.lower(): value for key, value in http.headers.items()}
            sent = Sent(http.path, headers, body, self._at_once, time.monotonic())
            self.sent.append(sent)
            number = len(self.sent)
        act = self._act(sent, number)
        cut_off = act.delay > 0 and self._over.wait(act.delay)
        with self._lock:
            self._at_once -= 1  # before the client can know and send its next request
        if not (cut_off or act.silent):
            _send(act, http)
        if number == self._dies_after:
            self.die()

    def _act(self, sent: Sent, number: int) -> Act:
        if self._over.is_set():
            return HANG_UP
        if callable(self._script):
            return self._script(sent)
        return self._script[min(number, len(self._script)) - 1]


def _send(act: Act, http: BaseHTTPRequestHandler) -> None:
    http.send_response(act.status)
    for key, value in act.headers.items():
        http.send_header(key, value)
    http.send_header("Content-Length", str(len(act.body)))
    http.end_headers()
    http.wfile.write(act.body[: len(act.body) - act.missing])


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # a request that hangs must not keep the test
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that gave up are part of the tests, and nothing to print."""


def _handler(server: ChatServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            server.handle(self)

        def log_message(self, format: str, *args: object) -> None:
            """Keeps the tests quiet."""

    return Handler
