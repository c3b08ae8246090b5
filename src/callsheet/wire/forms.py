"""Forms that texts must have, and the sentence about each: nobody should be told a regular expression."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import StringConstraints

_SLUG: Final = r"^[a-z0-9][a-z0-9-]{0,62}$"
_EMAIL: Final = r"^[^@\s\x00-\x1f\x7f]+@[^@\s\x00-\x1f\x7f]+$"
_WORKFLOW_SLUG: Final = r"^[a-z0-9][a-z0-9:_.-]{0,127}$"
_PROPERTY_KEY: Final = r"^[a-z][a-z0-9_]{0,62}$"
_PLACEHOLDER: Final = r"^[!-~]{3,100}$"
_EXTENSION: Final = r"^[a-z0-9]{1,10}$"
_PROVIDER: Final = r"^[a-z][a-z0-9_-]{0,62}$"
_WORKER_ID: Final = r"^[A-Za-z0-9][A-Za-z0-9._:@-]{0,199}$"
_SHA256: Final = r"^[0-9a-f]{64}$"

Slug = Annotated[str, StringConstraints(pattern=_SLUG)]
Email = Annotated[str, StringConstraints(strip_whitespace=True, to_lower=True, max_length=254, pattern=_EMAIL)]
WorkflowSlug = Annotated[str, StringConstraints(pattern=_WORKFLOW_SLUG)]
PropertyKey = Annotated[str, StringConstraints(pattern=_PROPERTY_KEY)]
Placeholder = Annotated[str, StringConstraints(pattern=_PLACEHOLDER)]
Extension = Annotated[str, StringConstraints(pattern=_EXTENSION)]
Provider = Annotated[str, StringConstraints(pattern=_PROVIDER)]
WorkerId = Annotated[str, StringConstraints(pattern=_WORKER_ID)]
Sha256 = Annotated[str, StringConstraints(pattern=_SHA256)]

_SENTENCES: Final[Mapping[str, str]] = {
    _SLUG: "should be lower-case letters, digits and dashes, 63 at most, and not begin with a dash",
    _EMAIL: "should be an e-mail address",
    _WORKFLOW_SLUG: "should be lower-case letters, digits and : _ . -, 128 at most, beginning with a letter or digit",
    _PROPERTY_KEY: "should be lower-case letters, digits and underscores, 63 at most, beginning with a letter",
    _PLACEHOLDER: "should be 3 to 100 plain characters without spaces",
    _EXTENSION: "should be lower-case letters and digits without a dot, such as mp4",
    _PROVIDER: "should be lower-case letters, digits, underscores and dashes, 63 at most, beginning with a letter",
    _WORKER_ID: "should be letters, digits and . _ : @ -, 200 at most, beginning with a letter or digit",
    r"^[0-9a-f]{16}$": "should be 16 lower-case hexadecimal digits",
    _SHA256: "should be 64 lower-case hexadecimal digits",
}


def is_worker_id(text: str) -> bool:
    return re.fullmatch(_WORKER_ID, text) is not None


def reason_of(error: Mapping[str, Any]) -> str:
    """What is wrong with a field, of one of pydantic's errors, for people to read."""
    match error["type"]:
        case "extra_forbidden":
            return "is not a field of this request"
        case "missing":
            return "is required"
        case "model_attributes_type":
            return "should be an object"
        case "string_pattern_mismatch" if error["ctx"]["pattern"] in _SENTENCES:
            return _SENTENCES[error["ctx"]["pattern"]]
        case _:
            return str(error["msg"]).removeprefix("Value error, ").replace("Input should", "should", 1)
