"""A vLLM server of our own: started, awaited, and stopped with all that it started."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from harness.errors import ConfigError, ModelError

GRACE = 10.0  # seconds between asking a server to end and killing it
_TAIL = 10  # lines of its log that an error shows


@dataclass(frozen=True)
class Server:
    """A server that answers: where to ask, and its process (the head of its own group)."""

    base_url: str
    process: "subprocess.Popen[bytes]"
    log: Path


@contextmanager
def vllm_server(
    model: str,
    log: Path,
    *,
    name: str,
    port: int = 0,
    arguments: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    patience: float = 1800.0,
) -> Iterator[Server]:
    """A vLLM server on this machine that is ready to answer; gone afterwards, children included.

    ``model`` is a folder or a name that vLLM knows, ``name`` what clients call it. ``port`` 0 takes
    a free one. Raises ConfigError if vLLM is not installed, and ModelError with the end of its log
    if the server dies or is not ready after ``patience`` seconds.
    """
    if find_spec("vllm") is None:
        raise ConfigError("serving a model needs vLLM, which is not installed: pip install vllm")
    port = port or free_port()
    # `vllm serve` asks for a distribution named vllm; the CPU build has another name.
    command = [
        sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", model,
        "--served-model-name", name, "--host", "127.0.0.1", "--port", str(port), *arguments,
    ]  # fmt: skip
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            env={**os.environ, **(environment or {})}, start_new_session=True,
        )  # fmt: skip
    server = Server(f"http://127.0.0.1:{port}/v1", process, log)
    try:
        _await_health(server, f"http://127.0.0.1:{port}/health", patience)
        yield server
    finally:
        stop(process)


def stop(process: "subprocess.Popen[bytes]", grace: float = GRACE) -> None:
    """Ends a server and every process it started: asks first, kills what stays."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, how)
            process.wait(grace)
        except ProcessLookupError:
            break
        except subprocess.TimeoutExpired:
            continue
    process.wait()


def free_port() -> int:
    """A port of the loopback address that nobody listens on at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _await_health(server: Server, url: str, patience: float) -> None:
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        if server.process.poll() is not None:
            raise ModelError(f"the vLLM server ended before it was ready:\n{_tail(server.log)}")
        try:
            with direct.open(url, timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    raise ModelError(f"the vLLM server was not ready after {patience:.0f} s:\n{_tail(server.log)}")


def _tail(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join([*lines[-_TAIL:], f"(all of it: {log})"])
