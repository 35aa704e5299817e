"""Options: defaults < TOML file < command line, checked once, with errors that name the mend.

A path such as ``tasks.gres.root`` is the same in a TOML file and after ``--set``. Plug-ins declare
their options as dataclass fields; ``build`` turns text and TOML values into them.
"""

import dataclasses
import tomllib
import types
import typing
from collections.abc import Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from harness.errors import ConfigError, DataError, did_you_mean
from harness.files import parse_json

T = TypeVar("T")

Options = Mapping[str, Any]


def read_file(path: Path) -> dict[str, Any]:
    """The content of a file of options, TOML (or JSON, by its ending).

    Raises ConfigError if it is missing or broken.
    """
    try:
        text = path.read_text(encoding="utf-8")
        tree = parse_json(text) if path.suffix == ".json" else tomllib.loads(text)
    except FileNotFoundError:
        raise ConfigError(f"there is no file {path}; check --config") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read ({error}); check --config") from None
    except RecursionError:
        raise ConfigError(f"{path} is nested too deeply") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None
    except DataError as error:
        raise ConfigError(f"{path} is not valid JSON: {error}") from None
    if not isinstance(tree, dict):
        raise ConfigError(f"{path} must hold one JSON object")
    return tree


def set_path(tree: MutableMapping[str, Any], assignment: str) -> None:
    """Puts ``a.b.c=value`` into a tree of tables; raises ConfigError if it is not of that form.

    A plug-in that was named by a plain word and then gets an option becomes a table:
    ``model.codec=boxes`` with ``model.codec.coords=x`` is ``{name = "boxes", coords = "x"}``.
    """
    path, equals, value = assignment.partition("=")
    keys = [key.strip().replace("-", "_") for key in path.split(".")]
    if not equals or not all(keys):
        raise ConfigError(f"--set {assignment!r} must have the form path.to.option=value")
    if keys[0] == "tasks" and len(keys) > 1:
        keys[1] = keys[1].replace("_", "-")
    node = tree
    for key in keys[:-1]:
        child = node.get(key, {})
        if isinstance(child, str):
            child = {"name": child}
        if not isinstance(child, MutableMapping):
            raise ConfigError(f"--set {assignment!r}: {key!r} is a value, not a group of options")
        node[key] = child
        node = child
    current = node.get(keys[-1])
    if isinstance(current, MutableMapping):
        current["name"] = value
    else:
        node[keys[-1]] = value


def build(cls: type[T], options: Options, where: str) -> T:
    """An instance of a dataclass from untyped options; raises ConfigError on the first misfit.

    Text is converted to the field's type; a text for a tuple is split at commas. ``where`` is the
    path of the options, for messages (``tasks.gres``).
    """
    from pydantic import ConfigDict, TypeAdapter, ValidationError

    if not dataclasses.is_dataclass(cls):
        raise ConfigError(
            f"{where}: {cls.__name__} must be a dataclass whose fields are its options"
        )
    fields = {f.name: f for f in dataclasses.fields(cls) if f.init}
    for key in options:
        if key not in fields:
            raise ConfigError(f"{where} has no option {key!r}.{did_you_mean(key, fields)}")
    hints = typing.get_type_hints(cls, include_extras=True)
    values = {key: _split(value, hints[key]) for key, value in options.items()}
    strict = ConfigDict(arbitrary_types_allowed=True)
    for key, value in list(values.items()):
        try:
            values[key] = TypeAdapter(
                hints[key], config=_config(hints[key], strict)
            ).validate_python(value)
        except ValidationError as error:
            first = error.errors()[0]
            raise ConfigError(
                f"{where}.{key} = {value!r} does not fit: {first['msg'].lower()}"
            ) from None
    missing = [
        name
        for name, f in fields.items()
        if name not in values
        and f.default is dataclasses.MISSING
        and f.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise ConfigError(
            f"{where}.{missing[0]} must be given, e.g. --set {where}.{missing[0]}=..."
        )
    return cls(**values)


def _config(hint: Any, config: Any) -> Any:
    """pydantic takes no config for types that carry their own (dataclasses, models)."""
    return None if dataclasses.is_dataclass(hint) else config


def _split(value: Any, hint: Any) -> Any:
    """Text for a tuple field, split at commas; anything else as it is."""
    kinds = typing.get_args(hint) if _is_union(hint) else (hint,)
    if isinstance(value, str) and any(typing.get_origin(kind) is tuple for kind in kinds):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


def _is_union(hint: Any) -> bool:
    return typing.get_origin(hint) in (typing.Union, types.UnionType)


def jsonable(value: Any) -> Any:
    """A value as JSON can hold it: paths as text, tuples as lists, dataclasses as tables."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            f.name: jsonable(getattr(value, f.name)) for f in dataclasses.fields(value) if f.init
        }
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [jsonable(item) for item in value]
    return str(value) if isinstance(value, Path) else value
