"""What is there: names, options, where data comes from, and whether your copy of it is sound."""

import ast
import dataclasses
import inspect
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin

from harness import registry
from harness.errors import DataError, UnknownPlugin, did_you_mean
from harness.metrics import Metric
from harness.pictures import picture_size
from harness.plan import PlannedTask, plan_task
from harness.runner import score_one
from harness.types import Sample


def listing() -> dict[str, dict[str, str]]:
    """Every plug-in by kind and name, with the first line of its page. Imports none of them."""
    return {
        kind: {name: found.summary for name, found in shelf.found.items()}
        for kind, shelf in registry.KINDS.items()
    }


@dataclass(frozen=True)
class Option:
    """One option of a plug-in, for its page."""

    name: str
    type: str
    default: str
    meaning: str


@dataclass(frozen=True)
class Page:
    """What `harness show` prints."""

    kind: str
    name: str
    doc: str
    options: list[Option]
    facts: Mapping[str, str]


def pages(name: str) -> list[Page]:
    """The page of each plug-in of that name (a model and a judge may share one).

    ``judge/recorded`` names one kind only. Raises UnknownPlugin.
    """
    kind, slash, rest = name.rpartition("/")
    found = [
        _page(shelf.kind, registry.canonical(rest), shelf)
        for shelf in registry.KINDS.values()
        if registry.canonical(rest) in shelf.found and (not slash or kind.rstrip("s") == shelf.kind)
    ]
    if not found:
        known = {n for shelf in registry.KINDS.values() for n in shelf.names()}
        raise UnknownPlugin(f"nothing is named {name!r}.{did_you_mean(rest, known)}")
    return found


def _page(kind: str, name: str, shelf: registry.Registry[Any]) -> Page:
    source = shelf.found[name].file.read_text(encoding="utf-8")
    doc = ast.get_docstring(ast.parse(source)) or ""
    cls = shelf.find(name)
    facts: dict[str, str] = {}
    if kind == "task":
        facts = {"data": cls.recipe, "version": str(cls.version)}
        if isinstance(metrics := inspect.getattr_static(cls, "metrics"), Mapping):
            facts["metrics"] = ", ".join(metrics)
    return Page(kind, name, doc, list(_options(cls)), facts)


def _options(cls: type[Any]) -> Iterator[Option]:
    meanings: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if dataclasses.is_dataclass(base):
            meanings |= _field_docs(inspect.getsource(sys.modules[base.__module__]), base.__name__)
    for f in dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ():
        if f.init:
            kind: Any = f.type
            if get_origin(kind) is Annotated:
                kind = get_args(kind)[0]
            plain = isinstance(kind, type) and not get_args(kind)
            kind = kind.__name__ if plain else str(kind).replace("typing.", "")
            yield Option(
                f.name, kind.replace("pathlib.", ""), _default(f), meanings.get(f.name, "")
            )


def _default(f: "dataclasses.Field[Any]") -> str:
    if f.default is not dataclasses.MISSING:
        return repr(f.default)
    if f.default_factory is not dataclasses.MISSING:
        return repr(f.default_factory())
    return "(required)"


def _field_docs(source: str, class_name: str) -> dict[str, str]:
    """The text below each field of a class: its documentation by the convention of this project."""
    docs: dict[str, str] = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef) and node.name == class_name:
            for field, text in zip(node.body, node.body[1:], strict=False):
                if (
                    isinstance(field, ast.AnnAssign)
                    and isinstance(field.target, ast.Name)
                    and isinstance(text, ast.Expr)
                    and isinstance(text.value, ast.Constant)
                ):
                    docs[field.target.id] = inspect.cleandoc(str(text.value.value))
    return docs


@dataclass(frozen=True)
class Finding:
    """One line of a check: ``state`` is ok, warn or fail."""

    state: str
    text: str


def check_task(name: str, options: Mapping[str, Any]) -> Iterator[Finding]:
    """Reads the user's copy of a benchmark and scores the truth on it: full marks, or it fails."""
    planned = plan_task(name, options)
    groups = Counter(sample.group for sample in planned.samples)
    counts = ", ".join(f"{group or 'all'} {count}" for group, count in groups.items())
    yield Finding("ok", f"{len(planned.samples)} samples: {counts}")
    skipped = planned.task.skipped()
    if skipped:
        yield Finding("warn", f"{len(skipped)} left out by the protocol: {', '.join(skipped[:10])}")
    yield from _check_gold(planned)
    yield from _check_pictures(planned)


def _check_gold(planned: PlannedTask) -> Iterator[Finding]:
    metric: Metric = planned.task.metrics[planned.task.primary]
    scores, without = [], 0
    for sample in planned.samples:
        gold = planned.task.gold(sample)
        if gold is None:
            without += 1
        else:
            scores.append(score_one(planned, sample, gold))
    short = [score.sample_id for score in scores if not _full(metric, [score])]
    if short:
        yield Finding(
            "fail", f"the truth does not earn full marks on {len(short)} samples: {short[:5]}"
        )
    else:
        yield Finding(
            "ok",
            f"the truth earns full marks ({planned.task.primary} 100) on {len(scores)} samples",
        )
    if without:
        yield Finding("warn", f"{without} samples cannot earn full marks (no truth that scores)")


def _full(metric: Metric, scores: list[Any]) -> bool:
    value = metric(scores)
    return value != value or abs(value - 1) < 1e-9


def _check_pictures(planned: PlannedTask) -> Iterator[Finding]:
    distinct: dict[Any, Sample] = {sample.image: sample for sample in planned.samples}
    problems = []
    for path, sample in distinct.items():
        try:
            size = picture_size(path)
        except DataError as error:
            problems.append(str(error))
            continue
        if sample.size not in (None, size):
            problems.append(f"{path} is {size[1]}x{size[0]}, its annotation says otherwise")
    if problems:
        yield Finding(
            "warn",
            f"{len(problems)} of {len(distinct)} pictures cannot be used, e.g. {problems[0]} "
            "(recorded answers can be scored without pictures)",
        )
    else:
        yield Finding("ok", f"{len(distinct)} pictures are there and of the right size")
