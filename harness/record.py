"""The form of run.json, checked when it is read: a run folder can have been edited by hand."""

from typing import Any

from typing_extensions import TypedDict  # pydantic needs this one before Python 3.12

from harness.errors import StorageError


class Spec(TypedDict):
    model: str
    model_options: dict[str, Any]
    tasks: dict[str, dict[str, Any]]
    judges: dict[str, dict[str, Any]]
    limit: int | None


class Circumstances(TypedDict):
    model: dict[str, Any]
    judges: dict[str, dict[str, Any]]
    tasks: dict[str, dict[str, Any]]


class Named(TypedDict):
    """A model or a judge: what tables call it, and all that can change its answers."""

    name: str
    fingerprint: dict[str, str]


class TaskRecord(TypedDict):
    version: int
    protocol: dict[str, Any]
    model_protocol: dict[str, Any]
    judge: Named | None
    data: dict[str, str]
    samples: str
    prompts: str
    n: int


class RunRecord(TypedDict):
    schema: int
    spec: Spec
    circumstances: Circumstances
    model: Named
    tasks: dict[str, TaskRecord]
    made_by: dict[str, Any]


def check_record(value: object, where: str) -> dict[str, Any]:
    """``value`` if it has the form of a run.json; else StorageError that names the misfit."""
    from pydantic import TypeAdapter, ValidationError

    try:
        TypeAdapter(RunRecord).validate_python(value, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        path = ".".join(str(part) for part in first["loc"])
        raise StorageError(
            f"{where} is damaged: {path or 'it'}: {first['msg'].lower()}; restore it or choose "
            "another --run folder"
        ) from None
    assert isinstance(value, dict)
    names = set(value["tasks"])
    for part in (value["spec"]["tasks"], value["circumstances"]["tasks"]):
        if set(part) != names:
            raise StorageError(f"{where} is damaged: its parts name unequal tasks; restore it")
    if set(value["spec"]["judges"]) != set(value["circumstances"]["judges"]):
        raise StorageError(f"{where} is damaged: its parts name unequal judges; restore it")
    return value
