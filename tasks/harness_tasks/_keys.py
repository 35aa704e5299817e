"""Keys for judges that go by rule: ``x_key`` of an item, beside its official fields.

Synthetic benchmarks know what a description must say; they write it there. The official files have
no such field, and nothing of it is ever sent to a model.
"""

from collections.abc import Mapping
from typing import Any

from harness.errors import DataError

FIELD = "x_key"


def of(row: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """What an item adds to the data of its question; {} for an item without a key.

    Raises DataError if the key is no JSON object.
    """
    if FIELD not in row:
        return {}
    key = row[FIELD]
    if not isinstance(key, dict):
        raise DataError(f"{where}: {FIELD} must be a JSON object, not {key!r:.80}; mend or drop it")
    return {FIELD: key}
