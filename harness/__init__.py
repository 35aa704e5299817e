"""Evaluate region-level vision-language models: official numbers, intervals, provenance."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.frames import load as load

__all__ = ["load"]


def __getattr__(name: str) -> Any:
    """``harness.load``, imported on first use so that ``import harness`` stays light."""
    if name == "load":
        from harness.frames import load

        return load
    raise AttributeError(f"module 'harness' has no attribute {name!r}")
