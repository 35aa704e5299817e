"""Makes the virtual environment: ``install.py base|tests FOLDER``. Standard library only.

``base`` is the harness (editable) with its development tools. ``tests`` adds what some tests start
for real, from a pinned list that was tried on one kind of machine: Linux x86-64, Python 3.11, no
GPU. Elsewhere those tests skip themselves and say why.
"""

import platform
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PINS = ROOT / "requirements" / "cpu-py311.txt"


def main() -> int:
    """Runs one of the two steps; returns the exit code."""
    if len(sys.argv) != 3 or sys.argv[1] not in ("base", "tests"):
        print(__doc__, file=sys.stderr)
        return 2
    if sys.version_info < (3, 11):  # noqa: UP036 (this file runs before anything is installed)
        print(
            f"Python 3.11 or newer is needed, this is {platform.python_version()}; "
            "name another with: make PYTHON=python3.12 ...",
            file=sys.stderr,
        )
        return 2
    step, folder = sys.argv[1], Path(sys.argv[2])
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    if step == "base":
        pins = ["-c", str(PINS)] if _pins_fit() else []
        return _pip(python, "-e", f"{ROOT}[dev]", *pins)
    if not _pins_fit():
        print("No pinned set for this machine: the tests that start vLLM will be skipped.")
        return _pip(python, "-e", f"{ROOT}[dev,captions]")
    if code := _pip(python, "--no-deps", "-r", str(PINS)):
        return code
    # Where the pinned torch is a build for GPUs, it wants the libraries that --no-deps left out.
    if not _runs(python, "-c", "import torch"):
        pin = next(line for line in PINS.read_text().splitlines() if line.startswith("torch=="))
        if code := _pip(python, pin):
            return code
    return subprocess.call([python, str(ROOT / "tools" / "install_shim.py")])


def _pins_fit() -> bool:
    return (
        sys.version_info[:2] == (3, 11)
        and platform.system() == "Linux"
        and platform.machine() == "x86_64"
    )


def _pip(python: Path, *arguments: str) -> int:
    return subprocess.call([python, "-m", "pip", "install", "--quiet", *arguments])


def _runs(python: Path, *arguments: str) -> bool:
    return subprocess.run([python, *arguments], capture_output=True, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
