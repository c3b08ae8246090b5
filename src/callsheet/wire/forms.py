"""Patterns that texts must match, each with a sentence for people: a regular expression is not an error message."""

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
    _SLUG: "Use 1 to 63 lower-case letters, digits and dashes. Do not start with a dash.",
    _EMAIL: "Use an e-mail address, for example mara@example.org.",
    _WORKFLOW_SLUG: "Use 1 to 128 lower-case letters, digits and : _ . - and start with a letter or digit.",
    _PROPERTY_KEY: "Use 1 to 63 lower-case letters, digits and underscores, and start with a letter.",
    _PLACEHOLDER: "Use 3 to 100 ASCII characters without spaces.",
    _EXTENSION: "Use 1 to 10 lower-case letters and digits without a dot, for example mp4.",
    _PROVIDER: "Use 1 to 63 lower-case letters, digits, underscores and dashes, and start with a letter.",
    _WORKER_ID: "Use 1 to 200 letters, digits and . _ : @ - and start with a letter or digit.",
    r"^[0-9a-f]{16}$": "Use 16 lower-case hexadecimal digits.",
    _SHA256: "Use 64 lower-case hexadecimal digits.",
}


REQUIRED: Final = "This field is required."

# The name of a field's value in the messages of pydantic.
_SUBJECTS: Final[Mapping[str, str]] = {
    "Input": "The value",
    "String": "The text",
    "List": "The list",
    "Tuple": "The list",
    "Set": "The list",
    "Dictionary": "The object",
    "Data": "The value",
    "URL": "The URL",
    "UUID": "The id",
}


def is_worker_id(text: str) -> bool:
    return re.fullmatch(_WORKER_ID, text) is not None


def reason_of(error: Mapping[str, Any]) -> str:
    """One of pydantic's errors as a sentence for people."""
    match error["type"]:
        case "extra_forbidden":
            return "This request has no such field. Check the spelling, or leave it out."
        case "missing":
            return REQUIRED
        case "model_attributes_type":
            return "The value must be an object."
        case "string_pattern_mismatch" if error["ctx"]["pattern"] in _SENTENCES:
            return _SENTENCES[error["ctx"]["pattern"]]
        case _:
            return as_sentence(str(error["msg"]).removeprefix("Value error, "))


def as_sentence(text: str) -> str:
    """Makes a sentence of a message of pydantic or of a validator."""
    for name, subject in _SUBJECTS.items():
        text = text.replace(f"{name} should", f"{subject} must", 1) if text.startswith(f"{name} should") else text
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '!', '?')) else '.'}"
