"""How far a long job is, on stderr: a bar at a terminal, a plain line now and then elsewhere."""

import sys
import time
from typing import TextIO


class Progress:
    """Counts finished items and shows count, rate and time left."""

    def __init__(
        self,
        label: str,
        total: int,
        done: int = 0,
        *,
        stream: TextIO | None = None,
        quiet: bool = False,
    ) -> None:
        self.quiet = quiet
        self.label, self.total, self.done, self.failed = label, total, done, 0
        self.stream = stream or sys.stderr
        self.terminal = self.stream.isatty()
        self.started_with, self.started = done, time.monotonic()
        self.shown = self.started
        self.every = 0.1 if self.terminal else 10.0

    def add(self, items: int = 1, failed: int = 0) -> None:
        """Counts items; shows the new state if the last one is old enough."""
        self.done += items
        self.failed += failed
        now = time.monotonic()
        if now - self.shown >= self.every:
            self.shown = now
            self._show(now)

    def close(self) -> None:
        """Shows the final state."""
        self._show(time.monotonic())
        if self.terminal:
            self._write("\n")

    def _show(self, now: float) -> None:
        new, seconds = self.done - self.started_with, max(now - self.started, 1e-9)
        rate = new / seconds
        speed = f", {rate:,.1f}/s" if new else ""
        left = (
            f", {_duration((self.total - self.done) / rate)} left"
            if rate and self.done < self.total
            else ""
        )
        failed = f", {self.failed} failed" if self.failed else ""
        text = f"{self.label}: {self.done}/{self.total}{failed}{speed}{left}"
        if self.terminal:
            filled = round(20 * self.done / max(1, self.total))
            text = f"\r\x1b[K[{'#' * filled}{'.' * (20 - filled)}] {text}"
        self._write(text if self.terminal else text + "\n")

    def _write(self, text: str) -> None:
        if self.quiet:
            return
        try:
            self.stream.write(text)
            self.stream.flush()
        except OSError:  # nobody reads it any more; the work goes on
            self.quiet = True


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
