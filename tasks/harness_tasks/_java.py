"""Java programs that cannot hang, shift or fail unseen: time limits, exit codes, line counts."""

import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, Popen
from typing import IO

_CHECK_SECONDS = 30.0
_TICK = 0.2  # seconds between two looks at a silent program
_FLAGS = ("-Dfile.encoding=UTF-8", "-Duser.language=en", "-Duser.country=US")


class Unavailable(Exception):
    """Why a tool cannot do its work here; the message goes beside the metric that is null."""


class Died(Unavailable):
    """The program ended early, so that it may be worth a new start."""


@dataclass(frozen=True)
class Java:
    """A Java that answers. ``timeout`` is how long (seconds) a program may be silent."""

    path: str
    timeout: float

    @classmethod
    def find(cls, timeout: float) -> "Java":
        """The ``java`` on the PATH, after it told its version; raises Unavailable."""
        path = shutil.which("java")
        if path is None:
            raise Unavailable("there is no java on the PATH; install a Java runtime (11 or newer)")
        java = cls(path, min(timeout, _CHECK_SECONDS))
        with java.program(["-version"], stdin=DEVNULL, stdout=DEVNULL) as program:
            program.wait()
        return cls(path, timeout)

    @contextmanager
    def program(
        self, arguments: Sequence[str | Path], *, stdin: IO[bytes] | int, stdout: IO[bytes] | int
    ) -> Iterator["Program"]:
        """A running program; killed with its children at the end, however that comes.

        Its stderr goes to a file, so that it cannot fill a pipe. Raises Unavailable when it was
        silent for too long, and Died when it ended with an error.
        """
        with tempfile.TemporaryFile() as stderr:
            command = [self.path, *_FLAGS, *map(str, arguments)]
            try:
                child = Popen(
                    command, stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=True
                )
            except OSError as error:
                raise Unavailable(f"{self.path} cannot be started ({error})") from None
            program = Program(child, self.timeout, stderr)
            try:
                yield program
                program.check()
            finally:
                program.kill()


class Program:
    """A child process with a watch: nothing heard for ``timeout`` seconds, and it is killed."""

    def __init__(self, child: Popen[bytes], timeout: float, stderr: IO[bytes]) -> None:
        self.child, self.timeout, self._stderr = child, timeout, stderr
        self._heard, self._silent = time.monotonic(), False
        self._over = threading.Event()
        self._watch = threading.Thread(target=self._watched, daemon=True)
        self._watch.start()

    def wait(self) -> None:
        """Waits for its end, at most ``timeout`` seconds."""
        self.child.wait()

    def lines(self) -> Iterator[str]:
        """The lines of its output as they come."""
        assert self.child.stdout is not None
        for line in self.child.stdout:
            self._heard = time.monotonic()
            yield line.decode("utf-8", "replace").rstrip("\r\n")

    def feed(self, data: bytes) -> None:
        """Writes to its input in the background and closes it; a dead program is no error here."""
        threading.Thread(target=self._fed, args=(data,), daemon=True).start()

    def check(self) -> None:
        """Raises Unavailable or Died if it was silent, or ended with an error."""
        code = self.child.wait()
        if self._silent:
            raise Unavailable(f"java did not answer for {self.timeout:.0f} seconds and was stopped")
        if code:
            raise Died(f"java ended with code {code}{self._last_words()}")

    def kill(self) -> None:
        """Ends the program and whatever it started."""
        self._over.set()
        self._kill_group()
        for pipe in (self.child.stdin, self.child.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()

    def _kill_group(self) -> None:
        """A shell that stands in for java would leave its own children behind, pipes in hand."""
        if self.child.poll() is None:
            with suppress(OSError):
                os.killpg(self.child.pid, signal.SIGKILL)
            self.child.wait()

    def _last_words(self) -> str:
        self._stderr.seek(0)
        said = self._stderr.read(4000).decode("utf-8", "replace").strip().splitlines()
        return f": {said[0][:200]}" if said else " and said nothing"

    def _fed(self, data: bytes) -> None:
        assert self.child.stdin is not None
        with suppress(OSError, ValueError):
            self.child.stdin.write(data)
            self.child.stdin.close()

    def _watched(self) -> None:
        while not self._over.wait(_TICK):
            if time.monotonic() - self._heard > self.timeout and self.child.poll() is None:
                self._silent = True
                self._kill_group()
                return
