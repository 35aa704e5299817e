"""Progress: lines where nobody watches, a bar at a terminal, and never a reason to fail."""

import io
import subprocess
import sys
from pathlib import Path

from harness.progress import Progress

FIXTURES = Path(__file__).parents[1] / "fixtures"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Gone(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_a_plain_line_elsewhere() -> None:
    stream = io.StringIO()
    progress = Progress("model", 10, 4, stream=stream)
    progress.add(3, failed=1)
    progress.close()
    (line,) = stream.getvalue().splitlines()
    assert line.startswith("model: 7/10, 1 failed, ")
    assert line.endswith(" left")


def test_a_bar_at_a_terminal() -> None:
    stream = Terminal()
    progress = Progress("model", 10, stream=stream)
    progress.add(10)
    progress.close()
    assert "[####################] model: 10/10" in stream.getvalue()
    assert stream.getvalue().endswith("\n")


def test_quiet_is_quiet_and_a_reader_that_has_gone_is_no_error() -> None:
    stream = io.StringIO()
    Progress("model", 1, stream=stream, quiet=True).close()
    assert stream.getvalue() == ""
    progress = Progress("model", 2, stream=Gone())
    progress.close()
    progress.close()
    assert progress.quiet


def test_json_is_printed_although_stderr_is_closed(tmp_path: Path) -> None:
    root = FIXTURES / "groundingsuite"
    command = (
        f"{sys.executable} -m harness eval --model empty --tasks groundingsuite "
        f"--set tasks.groundingsuite.root={root} --run {tmp_path / 'r'} --json 2> >(true)"
    )
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert '"groundingsuite"' in done.stdout
