"""Builds requests from templates, and reads responses by dotted paths. Pure.

Values are inserted into parsed texts in one pass: inserted values are not searched for placeholders. JSON is written
last, so a prompt with quotes or braces stays a prompt.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

from callsheet.providers.http.config import PLACEHOLDER

Values = Mapping[str, Any]
_ABSENT: Final = object()


def filled(template: Any, values: Values) -> Any:
    """The template with its values. A text that consists of one placeholder becomes the value itself. Without a
    value, its key or item is left out.
    """
    match template:
        case str():
            return _filled_text(template, values)
        case Mapping():
            members = {key: filled(member, values) for key, member in template.items()}
            return {key: member for key, member in members.items() if member is not _ABSENT}
        case list() | tuple():
            return [item for item in (filled(item, values) for item in template) if item is not _ABSENT]
    return template


def filled_path(path: str, query: Mapping[str, str], values: Values) -> str:
    """Path and query of a URL. Every value is quoted, so that it cannot add a segment or a parameter."""
    whole = PLACEHOLDER.sub(lambda found: quote(_text(values.get(found[1])), safe=""), path)
    pairs = {name: _text(value) for name, value in filled(query, values).items()}
    return f"{whole}{'&' if '?' in whole else '?'}{urlencode(pairs)}" if pairs else whole


def dug(document: Any, path: str) -> list[Any]:
    """All values at a dotted path: members by name, items by number, all items by a star. Empty if there are none."""
    found = [document]
    for part in path.split("."):
        found = [below for value in found for below in _below(value, part)]
    return [value for value in found if value is not None]


def dug_texts(document: Any, path: str) -> list[str]:
    """The texts at a path, also if it leads to a list of texts. Each is listed once, in order."""
    flat = [each for value in dug(document, path) for each in (value if isinstance(value, list) else [value])]
    return list(dict.fromkeys(each for each in flat if isinstance(each, str) and each))


def percent_of(value: object) -> float | None:
    """42.0 for 42, "42" or "42%"; None for anything else."""
    if isinstance(value, str):
        try:
            value = float(value.strip().removesuffix("%"))
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        return None
    return min(100.0, max(0.0, float(value)))


def _filled_text(template: str, values: Values) -> Any:
    only = PLACEHOLDER.fullmatch(template)
    if only is not None:
        value = values.get(only[1])
        return _ABSENT if value is None else value
    return PLACEHOLDER.sub(lambda found: _text(values.get(found[1])), template)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _below(value: Any, part: str) -> list[Any]:
    match value:
        case Mapping():
            return [value[part]] if part in value else []
        case list() if part == "*":
            return value
        case list() if part.isdecimal() and int(part[:9]) < len(value):
            return [value[int(part[:9])]]
    return []
