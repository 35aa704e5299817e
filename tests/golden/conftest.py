"""Golden sets: frozen predictions in, the official scorers' numbers out.

``HARNESS_GOLDEN=DIR pytest tests/golden`` runs another set of the same layout.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

DEFAULT = Path(__file__).parents[1] / "fixtures"


@pytest.fixture
def golden() -> Callable[..., Path]:
    """``golden("gres", "expected.json")`` is a path in the set; skips by name what it lacks."""

    def find(*parts: str) -> Path:
        path = Path(os.environ.get("HARNESS_GOLDEN") or DEFAULT).joinpath(*parts)
        if not path.exists():
            pytest.skip(f"the golden set has no {path}")
        return path

    return find
