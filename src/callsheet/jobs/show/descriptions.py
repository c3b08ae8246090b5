"""The texts of a job that lists show and search uses; they are set at submit. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# Maximum size of a job's search text: its index holds no more (migration 0020 of the pools).
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


def texts_in(template: Mapping[str, Any], filled: Mapping[str, Any], placeholders: Iterable[str]) -> dict[str, str]:
    """The texts that replaced placeholders in the inputs of a graph, by placeholder; the first of each is used."""
    found: dict[str, str] = {}
    split = re.compile("(" + "|".join(re.escape(each) for each in sorted(placeholders, key=len, reverse=True)) + ")")
    for node_id, node in template.items():
        inputs = filled.get(node_id, {}).get("inputs", {})
        for name, text in node["inputs"].items():
            value = inputs.get(name)
            if isinstance(text, str) and isinstance(value, str):
                for placeholder, part in _between(split.split(text), value):
                    found.setdefault(placeholder, part)
    return found


def _between(parts: Sequence[str], value: str) -> list[tuple[str, str]]:
    """The texts that replaced the placeholders of one value. `parts`: text, placeholder, text, and so on. The list
    is empty if the value does not match, or matches in several ways.
    """
    found: list[tuple[str, str]] = []
    if len(parts) == 1 or not value.startswith(parts[0]) or "" in parts[2:-1:2]:
        return []
    rest, last = value[len(parts[0]) :], len(parts) - 1
    for place in range(1, last, 2):
        text = parts[place + 1]
        at = rest.find(text) if place + 1 < last else len(rest) - len(text) if rest.endswith(text) else -1
        if at < 0:
            return []
        found.append((parts[place], rest[:at]))
        rest = rest[at + len(text) :]
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
