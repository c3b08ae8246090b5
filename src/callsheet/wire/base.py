"""Parts that all messages share.

The user API refuses unknown fields. The worker protocol ignores them, because an agent may be older or newer than its
control plane.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Generic, TypeVar

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    StringConstraints,
)

Item = TypeVar("Item")


def printable(value: object) -> object:
    # PostgreSQL text cannot hold NUL, and the other control characters only break terminals and logs.
    if isinstance(value, str) and any(ord(character) < 32 or ord(character) == 127 for character in value):
        raise ValueError("The text must not contain control characters.")
    return value


# The patterns only document the checks of the validators: the messages of patterns would show a regular expression to
# users.
PRINTABLE = Field(json_schema_extra={"pattern": r"^[^\x00-\x1f\x7f]*$"})
OptionalLine = Annotated[
    str, StringConstraints(strip_whitespace=True, max_length=200), BeforeValidator(printable), PRINTABLE
]
Line = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=200),
    BeforeValidator(printable),
    Field(json_schema_extra={"pattern": r"^[^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f][^\x00-\x1f\x7f]*$"}),
]


def _not_boolean(value: object) -> object:
    # `false` would be 0. strict=True is not used, because it also refuses 2.0, which is an integer in JSON.
    if isinstance(value, bool | str):
        raise ValueError("The value must be a whole number.")
    return value


_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ]")


def _written_out(value: object) -> object:
    # A plain number would count as seconds since 1970.
    if isinstance(value, int | float) or (isinstance(value, str) and not _DATE.match(value)):
        raise ValueError("Use a time like 2026-11-16T12:00:00Z.")
    return value


def _in_calendar(value: datetime) -> datetime:
    # Such a time does not exist in another time zone, and the database stores all times in one.
    try:
        value.astimezone(UTC)
    except OverflowError:
        raise ValueError("Use a time between the years 1 and 9999.") from None
    return value


# A time with its zone.
Moment = Annotated[AwareDatetime, BeforeValidator(_written_out), AfterValidator(_in_calendar)]

# Only a boolean: 0 and "no" are refused, as the document says.
Switch = Annotated[bool, Field(strict=True)]

# This comes after the bounds, which the documentation would lose otherwise: Annotated[int, Field(ge=0), WHOLE].
WHOLE = BeforeValidator(_not_boolean)
# The same for numbers that may have a fraction.
NUMBER = WHOLE


def _storable(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """The document, if PostgreSQL's jsonb can store it: no NUL, no half of a surrogate pair, and no NaN."""
    waiting: list[object] = [value]
    while waiting:
        match waiting.pop():
            case dict() as members:
                waiting.extend(members)
                waiting.extend(members.values())
            case list() as items:
                waiting.extend(items)
            case float() as number if not math.isfinite(number):
                raise ValueError("All numbers must be finite.")
            case str() as text if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
                raise ValueError("No text may contain a NUL character or half of a surrogate pair.")
    return value


Document = Annotated[dict[str, JsonValue], AfterValidator(_storable)]


MAX_METADATA_BYTES = 4096
METADATA = "Texts of yours, by key: at most 20, and 4 kB in total. Lists can be filtered by them."
_METADATA_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}")


def _metadata_key(value: str) -> str:
    if not _METADATA_KEY.fullmatch(value):
        raise ValueError("A key has at most 40 letters, digits, dots, hyphens and underscores, for example order_id.")
    return value


def _short(value: dict[str, str]) -> dict[str, str]:
    if sum(len(key.encode()) + len(text.encode()) for key, text in value.items()) > MAX_METADATA_BYTES:
        raise ValueError(f"All keys and values together must have at most {MAX_METADATA_BYTES} bytes.")
    return value


Metadata = Annotated[
    dict[
        Annotated[str, AfterValidator(_metadata_key)],
        Annotated[str, StringConstraints(max_length=1000), BeforeValidator(printable), PRINTABLE],
    ],
    Field(max_length=20, json_schema_extra={"propertyNames": {"pattern": f"^{_METADATA_KEY.pattern}$"}}),
    AfterValidator(_short),
]


def _pair(value: str) -> str:
    key, colon, _ = value.partition(":")
    if not colon or not _METADATA_KEY.fullmatch(key):
        raise ValueError("Use the form KEY:VALUE, for example color:red.")
    return value


# A filter by one key and its value.
MetadataPair = Annotated[
    str,
    StringConstraints(max_length=1041),
    BeforeValidator(printable),
    Field(json_schema_extra={"pattern": rf"^{_METADATA_KEY.pattern}:[^\x00-\x1f\x7f]*$"}),
    AfterValidator(_pair),
]


def metadata_of(pairs: Sequence[str]) -> dict[str, str] | None:
    """The metadata that these filters ask for. None: any."""
    return {key: value for key, _, value in (pair.partition(":") for pair in pairs)} or None


class UserRequest(BaseModel):
    """A request of the user API."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class KeyedRequest(UserRequest):
    """A request that creates something, and creates it once however often it is sent."""

    idempotency_key: Line | None = Field(
        None,
        description="A repeated request with the same key returns what the first one created, and charges nothing. "
        "The header Idempotency-Key does the same.",
    )


class ResponseModel(BaseModel):
    model_config = ConfigDict(frozen=True)


class Page(ResponseModel, Generic[Item]):
    """One page of a list. Request the next page with `cursor=next_cursor`; null means that there is no next page."""

    items: list[Item]
    next_cursor: str | None = None
