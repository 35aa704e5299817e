"""How the work of a function grows with its input: a ratio within one run, in processor time."""

import time
from collections.abc import Callable

SHORTEST = 1e-3  # seconds; less than this is noise


def growth(call: Callable[[int], object], size: int) -> float:
    """How many times more eight times the size takes: 8 if linear, 64 if quadratic."""
    small, large = (min(_cost(call, n) for _ in range(3)) for n in (size, 8 * size))
    return large / max(small, SHORTEST)


def _cost(call: Callable[[int], object], size: int) -> float:
    began = time.process_time()
    call(size)
    return time.process_time() - began
