"""Asks a server many things at once, and persistently: pace, retries, a breaker for a dead server.

Knows nothing of any protocol: a try is a function that returns an answer or raises ``TryFailed``.
"""

import itertools
import math
import queue
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TypeVar

from harness.errors import ConfigError, JudgeError, ModelError

Item = TypeVar("Item")
Answer = TypeVar("Answer")

LONGEST_WAIT = 30.0
"""Seconds; no back-off is longer."""
LONGEST_RETRY_AFTER = 60.0
"""Seconds; a server that asks for more is asked again after this."""
FATAL = (ConfigError, ModelError, JudgeError)
"""What ends a run: nothing can be asked at all."""
DEAD_AFTER = 3
"""So many requests given up in a row, since nobody answered, open the breaker."""


@dataclass(eq=False)
class TryFailed(Exception):
    """One try brought no answer. The flags say what that means for the next one."""

    message: str
    again: bool = False
    """Another try can succeed."""
    busy: bool = False
    """The server asks for fewer requests at a time."""
    unreachable: bool = False
    """Nobody answered at all."""
    advice: str = ""
    """Set if every other request would be refused for the same reason: what to do about that."""
    retry_after: float = 0.0
    """Seconds that the server asks to wait."""


@dataclass(eq=False)
class GaveUp(Exception):
    """No answer after all tries that made sense; holds the last failure."""

    failure: TryFailed
    tries: int


class Stopped(Exception):
    """The caller does not want the answer any more."""


class Pace:
    """How many requests may be on the wire at once, learned from how the server reacts.

    Halves when the server says it is busy, and grows by one after as many successes in a row as the
    limit. Requests that were under way when it halved do not halve it again: they tell old news.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.limit = most
        self.answered = False
        self._turn = threading.Condition()
        self._running = 0
        self._successes = 0
        self._halvings = 0
        self._shut_until = 0.0
        self._given_up = 0

    @property
    def broken(self) -> bool:
        """Whether the server seems dead, so that retries only cost time."""
        return self._given_up >= DEAD_AFTER

    @contextmanager
    def slot(self, stop: threading.Event) -> Iterator[int]:
        """Waits for leave to send one request; yields what ``failed`` needs to know later."""
        with self._turn:
            while (shut := self._shut()) or self._running >= self.limit:
                if stop.is_set():
                    raise Stopped
                self._turn.wait(shut or None)
            if stop.is_set():
                raise Stopped
            self._running += 1
            halvings = self._halvings
        try:
            yield halvings
        finally:
            with self._turn:
                self._running -= 1
                self._turn.notify_all()

    def succeeded(self) -> None:
        with self._turn:
            self.answered = True
            self._given_up = 0
            self._successes += 1
            if self._successes >= self.limit:
                self._successes = 0
                self.limit = min(self.limit + 1, self.most)
                self._turn.notify_all()

    def failed(self, failure: TryFailed, halvings: int) -> None:
        with self._turn:
            self._successes = 0
            if not failure.unreachable:
                self._given_up = 0
            if failure.busy:
                until = time.monotonic() + failure.retry_after
                self._shut_until = max(self._shut_until, until)
                if halvings == self._halvings:
                    self._halvings += 1
                    self.limit = max(self.limit // 2, 1)

    def gave_up(self, failure: TryFailed) -> None:
        if failure.unreachable:
            with self._turn:
                self._given_up += 1
                self._turn.notify_all()

    def rest(self, seconds: float, stop: threading.Event) -> None:
        """Waits, but no longer than waiting makes sense."""
        with self._turn:
            self._turn.wait_for(lambda: stop.is_set() or self.broken, seconds)

    def wake(self) -> None:
        """Makes every waiting thread look again whether it should stop."""
        with self._turn:
            self._turn.notify_all()

    def _shut(self) -> float:
        """For how many seconds nothing may be sent."""
        return 0.0 if self.broken else max(self._shut_until - time.monotonic(), 0.0)


def persist(
    attempt: Callable[[], Answer],
    pace: Pace,
    *,
    retries: int,
    backoff: float,
    key: str,
    stop: threading.Event,
) -> tuple[Answer, int]:
    """The answer, and how many tries it took; raises GaveUp when no further try makes sense.

    Waits ``backoff`` seconds before the first retry, then twice as long each time, and at least as
    long as the server asks. ``key`` (a sample id) spreads the retries of different requests.
    """
    for tries in itertools.count(1):
        with pace.slot(stop) as halvings:
            try:
                answer = attempt()
            except TryFailed as error:
                failure = error
                # Still inside the slot, so that nobody slips in at the old limit.
                pace.failed(failure, halvings)
            else:
                pace.succeeded()
                return answer, tries
        if tries > retries or not failure.again or pace.broken:
            break
        pace.rest(max(_wait(backoff, tries, key), failure.retry_after), stop)
    pace.gave_up(failure)
    raise GaveUp(failure, tries)


def _wait(backoff: float, tries: int, key: str) -> float:
    """The back-off in seconds: exponential, times a factor in [0.5, 1) that the key decides."""
    spread = 0.5 + zlib.crc32(f"{key}/{tries}".encode(errors="replace")) / 2**33
    return min(backoff * 2.0 ** min(tries - 1, 30), LONGEST_WAIT) * spread


def retry_after(headers: Mapping[str, str]) -> float:
    """The seconds that a reply asks to wait, in [0, LONGEST_RETRY_AFTER]; 0 if it does not say.

    ``Retry-After`` holds seconds or a date; some servers send ``retry-after-ms``.
    """
    stated = headers.get("retry-after", "")
    try:
        if milliseconds := headers.get("retry-after-ms"):
            seconds = float(milliseconds) / 1000
        elif stated.strip().endswith("GMT"):
            seconds = parsedate_to_datetime(stated).timestamp() - time.time()
        else:
            seconds = float(stated or 0)
    except ValueError:
        return 0.0
    return min(max(seconds, 0.0), LONGEST_RETRY_AFTER) if math.isfinite(seconds) else 0.0


Outcome = tuple[Answer, None] | tuple[None, Exception]


def fan_out(
    items: Sequence[Item],
    work: Callable[[Item], Answer],
    *,
    threads: int,
    stop: threading.Event,
) -> Iterator[Answer]:
    """What ``work`` returns for each item, as soon as it is known.

    A FATAL error of one item ends all at once. Any other exception costs only its item: it is
    raised when the others are done. ``stop`` is set at the end, and whenever the caller
    leaves.
    """
    todo: queue.SimpleQueue[Item] = queue.SimpleQueue()
    done: queue.SimpleQueue[Outcome[Answer]] = queue.SimpleQueue()
    for item in items:
        todo.put(item)
    # Not a ThreadPoolExecutor: at exit Python waits for its threads, so Ctrl-C would hang for as
    # long as a server does. Daemon threads die with the process.
    for _ in range(min(threads, len(items))):
        threading.Thread(
            target=_labour, args=(todo, done, work, stop), name="harness-request", daemon=True
        ).start()
    first_error: Exception | None = None
    try:
        for _ in items:
            answer, error = done.get()
            if isinstance(error, FATAL):
                raise error
            if error is None:
                yield answer  # type: ignore[misc]  # the pair holds one or the other
            first_error = first_error or error
    finally:
        stop.set()
    if first_error is not None:
        raise first_error


def _labour(
    todo: queue.SimpleQueue[Item],
    done: queue.SimpleQueue[Outcome[Answer]],
    work: Callable[[Item], Answer],
    stop: threading.Event,
) -> None:
    """Works items off until none is left or the caller has gone."""
    while not stop.is_set():
        try:
            item = todo.get_nowait()
        except queue.Empty:
            return
        try:
            done.put((work(item), None))
        except Exception as error:  # nothing is swallowed: fan_out raises it in the caller's thread
            if isinstance(error, FATAL):
                stop.set()  # now, so that nothing more is sent while the caller wakes up
            done.put((None, error))
