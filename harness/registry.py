"""Finds plug-ins by name. A shelf is a package named by an entry point; a file on it is a plug-in.

``gar_vqa.py`` on a shelf of ``harness.tasks`` is the task ``gar-vqa``; ``-`` and ``_`` are equal in
names. Listing imports no plug-in, so a broken one or a heavy one harms nobody who does not use it.
"""

import ast
import importlib
import importlib.util
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Generic, TypeVar

from harness import config
from harness.builder import Builder
from harness.codec import Codec
from harness.errors import ConfigError, UnknownPlugin, did_you_mean
from harness.judge import Judge
from harness.model import ModelAdapter
from harness.source import Source
from harness.task import Task
from harness.training import Trainer

T = TypeVar("T")


@dataclass(frozen=True)
class Found:
    """Where a plug-in lies: the module to import, and its file for a look without importing."""

    module: str
    file: Path

    @property
    def summary(self) -> str:
        """The first line of the module's docstring."""
        try:
            doc = ast.get_docstring(ast.parse(self.file.read_text(encoding="utf-8"))) or ""
        except (SyntaxError, ValueError, OSError) as error:
            return f"(broken: {type(error).__name__})"
        return doc.partition("\n")[0]


class Registry(Generic[T]):
    """The plug-ins of one kind ("task"): each module holds its class under that name."""

    def __init__(self, kind: str, base: Any) -> None:
        self.kind = kind
        self.base = base
        self._clashes: dict[str, str] = {}

    @cached_property
    def found(self) -> Mapping[str, Found]:
        """Every plug-in by name, sorted. Of two with one name the first; ``find`` refuses both."""
        plugins: dict[str, Found] = {}
        for shelf in entry_points(group=f"harness.{self.kind}s"):
            for name, module, file in _modules(shelf.name, shelf.value):
                first = plugins.setdefault(name, Found(module, file)).module
                if first != module:
                    self._clashes[name] = (
                        f"two packages bring a {self.kind} named {name!r}: {first} and {module}; "
                        "rename the file of one, or uninstall it"
                    )
        return dict(sorted(plugins.items()))

    def names(self) -> list[str]:
        return list(self.found)

    def find(self, name: str) -> type[T]:
        """The class of a plug-in; raises UnknownPlugin, or ConfigError if its module is broken."""
        name = canonical(name)
        if name not in self.found:
            raise UnknownPlugin(f"no {self.kind} named {name!r}.{did_you_mean(name, self.found)}")
        if name in self._clashes:
            raise ConfigError(self._clashes[name])
        module_name = self.found[name].module
        try:
            module = importlib.import_module(module_name)
        except (SyntaxError, UnicodeDecodeError, SystemExit) as error:
            raise ConfigError(f"{module_name} cannot be imported ({error!r}); mend it") from error
        except ImportError as error:
            raise ConfigError(
                f"the {self.kind} {name!r} needs a package that cannot be imported here ({error}); "
                f"see `harness show {name}` for what to install"
            ) from error
        plugin = getattr(module, self.kind, None)
        if not (isinstance(plugin, type) and issubclass(plugin, self.base)):
            raise ConfigError(
                f"{module_name} must end in `{self.kind} = ItsClass`, a {self.base.__name__}"
            )
        return plugin

    def build(self, name: str, options: config.Options | None = None, where: str = "") -> T:
        """A plug-in with these options; ``where`` is their path, for messages."""
        return config.build(
            self.find(name), options or {}, where or f"{self.kind}s.{canonical(name)}"
        )


def canonical(name: str) -> str:
    """The spelling of a plug-in's name: ``gar_vqa`` and ``gar-vqa`` are one."""
    return name.strip().replace("_", "-")


def _modules(entry: str, target: str) -> list[tuple[str, str, Path]]:
    """(plug-in name, module, file) for each plug-in that an entry point names.

    The target is a package (every public module on it) or one module (named by the entry point).
    """
    try:
        spec = importlib.util.find_spec(target)
    except ImportError as error:
        raise ConfigError(
            f"the plug-in package {target!r} cannot be found ({error}); reinstall it"
        ) from error
    if spec is not None and spec.submodule_search_locations is None and spec.origin is not None:
        return [(canonical(entry), target, Path(spec.origin))]
    if spec is None or spec.submodule_search_locations is None:
        raise ConfigError(f"the plug-in package {target!r} cannot be found; reinstall or remove it")
    return [
        (canonical(module.name), f"{target}.{module.name}", Path(folder) / f"{module.name}.py")
        for folder in dict.fromkeys(spec.submodule_search_locations)
        for module in pkgutil.iter_modules([folder])
        if not module.name.startswith("_") and not module.ispkg
    ]


tasks: Registry[Task[Any]] = Registry("task", Task)
models: Registry[ModelAdapter] = Registry("model", ModelAdapter)
codecs: Registry[Codec] = Registry("codec", Codec)
judges: Registry[Judge] = Registry("judge", Judge)
trainers: Registry[Trainer] = Registry("trainer", Trainer)
sources: Registry[Source] = Registry("source", Source)
builders: Registry[Builder] = Registry("builder", Builder)

KINDS: Mapping[str, Registry[Any]] = {
    "tasks": tasks,
    "models": models,
    "codecs": codecs,
    "judges": judges,
    "trainers": trainers,
    "sources": sources,
    "builders": builders,
}

CodecChoice = str | dict[str, Any]
"""A codec's name, or a table with its name and options."""


DEFAULT_CODEC = "mask-tokens"


def codec_name(choice: CodecChoice) -> str:
    """The name in a choice of codec; a table without one sets options of the default codec."""
    name = choice if isinstance(choice, str) else choice.get("name", DEFAULT_CODEC)
    return canonical(str(name))


def build_codec(choice: CodecChoice) -> Codec:
    """The codec that an option names; raises UnknownPlugin or ConfigError."""
    options = {} if isinstance(choice, str) else {k: v for k, v in choice.items() if k != "name"}
    return codecs.build(codec_name(choice), options, where="model.codec")
