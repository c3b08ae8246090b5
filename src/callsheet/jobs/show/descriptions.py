"""The texts of a job that lists show and search uses; they are set at submit. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

# Maximum size of a job's search text: its index holds no more (search_text_fits_an_index).
MAX_SEARCH_BYTES = 2000
MAX_PROMPT_LENGTH = 2000
MAX_TITLE_LENGTH = 200
# Names of payload fields that may hold the prompt, the best first.
PROMPTS = ("prompt", "positive_prompt", "text", "script", "message", "brief", "description", "url")
_MEDIA = ("image", "video", "audio", "text")
_DEEPEST = 4


@dataclass(frozen=True, slots=True)
class JobDescription:
    title: str
    # Names of the files that the job reads, the primary input first.
    input_names: tuple[str, ...] = ()
    # The texts that the user wrote, by field name.
    texts: Mapping[str, str] | None = None
    medium: str | None = None

    @property
    def prompt(self) -> str | None:
        texts = self.texts or {}
        named = next((texts[name] for name in PROMPTS if texts.get(name)), None)
        found = named or max(texts.values(), key=len, default="")
        return found[:MAX_PROMPT_LENGTH] or None

    @property
    def search_text(self) -> str:
        parts = (self.title, *self.input_names, *(self.texts or {}).values())
        return folded(" ".join(parts)).encode()[:MAX_SEARCH_BYTES].decode(errors="ignore")

    def as_json(self) -> dict[str, Any]:
        return {
            "title": self.title[:MAX_TITLE_LENGTH],
            "input_name": self.input_names[0] if self.input_names else None,
            "prompt": self.prompt,
            "medium": self.medium,
            "search_text": self.search_text,
        }


def folded(text: str) -> str:
    """The form in which texts are compared: case and equivalent forms of a letter do not matter."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def medium_of(mime_type: str) -> str:
    """The same rule as the function of this name in the pools."""
    medium = mime_type.split("/")[0]
    return medium if medium in _MEDIA else "other"


def texts_of(payload: Mapping[str, Any]) -> dict[str, str]:
    """The texts in a payload that a user sent to an actor, by field name; the first text of a name is used."""
    found: dict[str, str] = {}
    for name, text in _texts("", payload, 0):
        found.setdefault(name, text)
    return found


def _texts(name: str, value: object, depth: int) -> Iterator[tuple[str, str]]:
    members: Iterable[tuple[str, object]] = ()
    match value:
        case str() if value.strip():
            yield name, value
        case dict() if depth < _DEEPEST:
            members = value.items()
        case list() if depth < _DEEPEST:
            members = ((name, item) for item in value)
    for member, inner in members:
        yield from _texts(member, inner, depth + 1)
