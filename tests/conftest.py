"""Helpers that several tests share."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from harness.cli import main

FIXTURES = Path(__file__).parent / "fixtures"

Harness = Callable[..., Any]


@pytest.fixture
def harness(capsys: pytest.CaptureFixture[str]) -> Harness:
    """``harness("eval", ..., code=0)`` runs a command in this process: its JSON, or its text.

    Fails if the exit code is another. With ``--json`` in the arguments the one object is returned.
    """

    def run(*arguments: object, code: int = 0) -> Any:
        words = [str(a) for a in arguments]
        got = main(words)
        out, err = capsys.readouterr()
        assert got == code, f"harness {' '.join(words)} ended with {got}:\n{out}\n{err}"
        if code == 2:
            return err
        return json.loads(out) if "--json" in words else out

    return run


def sub(arguments: Sequence[object], **kwargs: Any) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own, as a user runs it."""
    return subprocess.run(
        [sys.executable, "-m", "harness", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, **kwargs.pop("env", {})},
        **kwargs,
    )


@pytest.fixture
def gres_root() -> Path:
    """The golden GRES files."""
    return FIXTURES / "gres"


@pytest.fixture
def shared() -> Path:
    """A folder with real photos and published runs (``HARNESS_SHARED``); skips where none is."""
    folder = Path(os.environ.get("HARNESS_SHARED", Path(__file__).parents[2] / "shared"))
    if not (folder / "data" / "realpack").is_dir():
        pytest.skip("no real photos here: HARNESS_SHARED names no folder with data/realpack")
    return folder


# How many cases hypothesis tries: 500 in `make test`, 20,000 in `make fuzz`.
settings.register_profile("default", max_examples=500, deadline=None)
settings.register_profile("nightly", max_examples=20_000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
