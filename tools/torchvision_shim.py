"""Makes ``import torchvision`` work where its wheel was built for CUDA and torch was not.

Such a torchvision fails at its first line ("operator torchvision::nms does not exist"), and with it
every processor of transformers that looks at pictures. Two operators, declared before it is
imported, are all it misses; they have no body, so ``torchvision.ops.nms`` stays unusable.

``install_shim.py`` copies this file into site-packages and has each interpreter import it, child
processes included (vLLM and Ray start their own). Hence a finder: torch is imported only when
somebody asks for torchvision.
"""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class _DeclareFirst(MetaPathFinder):
    """Finds nothing itself; declares the operators on the way to torchvision."""

    busy = False
    library: Any = None  # its operators go away with it, so it must outlive the import

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "torchvision" or self.busy or self.library is not None:
            return None
        self.busy = True  # torch itself may look for torchvision while it is imported
        try:
            import torch

            if torch.version.cuda is None:
                declare: Any = torch.library.Library
                self.library = declare("torchvision", "FRAGMENT")
                for name in ("nms", "qnms"):
                    self.library.define(
                        f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
                    )
        finally:
            self.busy = False
        return None


if not any(type(finder).__name__ == _DeclareFirst.__name__ for finder in sys.meta_path):
    sys.meta_path.insert(0, _DeclareFirst())
