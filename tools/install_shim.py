"""Puts the torchvision shim into the running interpreter's site-packages, where it is needed.

``python tools/install_shim.py``; needed means: torchvision is installed, it cannot be imported, and
torch has no CUDA. Anywhere else nothing is written. Exit 1 if torchvision stays broken.
"""

import importlib.util
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

MODULE = "torchvision_shim"


def imports(statement: str) -> bool:
    """Whether a fresh interpreter runs the statement."""
    done = subprocess.run([sys.executable, "-c", statement], capture_output=True, check=False)
    return done.returncode == 0


def main() -> int:
    if importlib.util.find_spec("torchvision") is None:
        print("torchvision is not installed: no shim needed")
        return 0
    if imports("import torchvision"):
        print("torchvision can be imported: no shim needed")
        return 0
    if not imports("import sys, torch; sys.exit(torch.version.cuda is not None)"):
        print(
            "torchvision is broken, but torch is missing or has CUDA: this shim is not the remedy"
        )
        return 1
    site = Path(sysconfig.get_path("purelib"))
    shutil.copyfile(Path(__file__).with_name(f"{MODULE}.py"), site / f"{MODULE}.py")
    (site / f"{MODULE}.pth").write_text(f"import {MODULE}\n", encoding="utf-8")
    if not imports("import torchvision"):
        print(f"the shim was written to {site}, but torchvision still cannot be imported")
        return 1
    print(f"wrote the torchvision shim to {site}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
