"""Types of fields in the worker protocol: they take what engines and workers write, and keep what can be stored."""

from __future__ import annotations

import base64
import binascii
import math
from datetime import UTC, datetime
from typing import Annotated

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    JsonValue,
    StringConstraints,
    WithJsonSchema,
)

from callsheet.wire.base import printable

MAX_PREVIEW_BYTES = 65_536
MAX_SIZE = 2**53
# Encoded as base64, with room for the padding.
MAX_PREVIEW_LENGTH = -(-MAX_PREVIEW_BYTES // 3) * 4
REASON = 500
TRACEBACK = 20_000


def cut_at(max_length: int) -> AfterValidator:
    """Text of at most this length that PostgreSQL can store."""

    def cut(text: str) -> str:
        return text[:max_length].replace("\0", "")

    return AfterValidator(cut)


def cleaned(value: JsonValue) -> JsonValue:
    """The document without characters and numbers that PostgreSQL's jsonb cannot store: NUL, and numbers that are
    not finite.
    """
    match value:
        case dict():
            return {key.replace("\0", ""): cleaned(member) for key, member in value.items()}
        case list():
            return [cleaned(item) for item in value]
        case str():
            return value.replace("\0", "")
        case float() if not math.isfinite(value):
            return None
    return value


def _cleaned_object(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    found = cleaned(value)
    assert isinstance(found, dict)
    return found


def in_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        # A time an hour before the year 10000 may be after it in UTC, which cannot be stored.
        raise ValueError("The time must be in the years 1 to 9999 (UTC).") from None


def whole_text(value: object) -> object:
    """Removes lone surrogates, which Python writes for bytes that are not text."""
    return value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else value


def _decoded(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("The value must be base64.") from None


Reason = Annotated[str, cut_at(REASON)]
Facts = Annotated[dict[str, JsonValue], AfterValidator(_cleaned_object)]
_TOKEN = r"[A-Za-z0-9!#$&^_.+-]{1,100}"  # noqa: S105 (RFC 6838)
MimeType = Annotated[str, StringConstraints(max_length=200, pattern=rf"^{_TOKEN}/{_TOKEN}$")]
# The name is unchanged, including spaces: the worker looks for its file's URL by this name.
FileName = Annotated[
    str,
    StringConstraints(min_length=1, max_length=255),
    BeforeValidator(printable),
    Field(json_schema_extra={"pattern": r"^[^\x00-\x1f\x7f]+$"}),
]
ShortHash = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16}$")]
Size = Annotated[int, Field(ge=0, le=MAX_SIZE, description="Size in bytes.")]
Base64Image = Annotated[
    bytes,
    BeforeValidator(_decoded),
    Field(max_length=MAX_PREVIEW_BYTES),
    WithJsonSchema(
        {
            "type": "string",
            "contentEncoding": "base64",
            "maxLength": MAX_PREVIEW_LENGTH,
            "pattern": r"^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
        }
    ),
]
