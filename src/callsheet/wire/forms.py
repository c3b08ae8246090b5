"""Patterns that texts must match, each with a sentence for people: a regular expression is not an error message."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Final

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


def is_worker_id(text: str) -> bool:
    return re.fullmatch(_WORKER_ID, text) is not None


def sentence_of_pattern(pattern: object) -> str | None:
    return _SENTENCES.get(pattern) if isinstance(pattern, str) else None
