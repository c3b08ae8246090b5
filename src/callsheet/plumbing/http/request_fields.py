"""The fields of a request with an idempotency key, to say in which of them a later request differs. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

# A request with more fields than this is compared by its top-level fields only.
MAX_FIELDS = 50
MAX_NAME_LENGTH = 100
_MARK_LENGTH = 16


def hash_of(request: object) -> bytes:
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode("utf-8", "surrogatepass")).digest()


def fields_of(request: Mapping[str, Any]) -> dict[str, str]:
    """A short mark of each field that has a value: equal marks mean equal values.

    An id is its own mark. Therefore, two ids of files can be compared by the content of the files.
    """
    named = list(_named(request))
    if len(named) > MAX_FIELDS:
        named = [(name, value) for name, value in request.items() if value is not None]
    return {name: _mark(value) for name, value in named}


def differing(earlier: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """The names of the fields in which two requests differ."""
    return sorted(name for name in earlier.keys() | now.keys() if earlier.get(name) != now.get(name))


def id_in(mark: str | None) -> UUID | None:
    """The id that a mark is."""
    try:
        return UUID(mark) if mark is not None and len(mark) != _MARK_LENGTH else None
    except ValueError:
        return None


def _named(request: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in request.items():
        if isinstance(value, dict) and value and all(len(f"{name}.{key}") <= MAX_NAME_LENGTH for key in value):
            yield from ((f"{name}.{key}", inner) for key, inner in value.items())
        elif value is not None:
            yield name, value


def _mark(value: object) -> str:
    try:
        return str(UUID(value)) if isinstance(value, str) else hash_of(value).hex()[:_MARK_LENGTH]
    except ValueError:
        return hash_of(value).hex()[:_MARK_LENGTH]
