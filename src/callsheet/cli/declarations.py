"""Declared and found, compared: what would change. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Change:
    sign: str
    """`+` is added, `-` is taken away, `~` is another."""
    what: str
    before: Any = None
    after: Any = None

    def __str__(self) -> str:
        match self.sign:
            case "+":
                return f"+ {self.what}" + ("" if self.after is None else f": {_shown(self.after)}")
            case "-":
                return f"- {self.what}" + ("" if self.before is None else f": {_shown(self.before)}")
        return f"~ {self.what}: {_shown(self.before)} → {_shown(self.after)}"


def differences(found: Mapping[str, Any] | None, wanted: Mapping[str, Any], *, lists: str) -> list[Change]:
    """What makes `wanted` of `found`, if there is one. Under `lists` stand parts in order, known by their slugs."""
    if found is None:
        return [
            Change("+", f"pipeline {wanted['slug']}"),
            *(Change("+", f"{lists} {part['slug']}", after=_fields(part)) for part in wanted[lists]),
        ]
    return [
        *_changed("", _without(found, lists), _without(wanted, lists)),
        *_parts(lists, found[lists], wanted[lists]),
    ]


def _parts(name: str, found: Sequence[Mapping[str, Any]], wanted: Sequence[Mapping[str, Any]]) -> Iterator[Change]:
    before = {part["slug"]: (place, part) for place, part in enumerate(found, start=1)}
    after = {part["slug"]: (place, part) for place, part in enumerate(wanted, start=1)}
    for slug, (_, part) in before.items():
        if slug not in after:
            yield Change("-", f"{name} {slug}", before=_fields(part))
    for slug, (place, part) in after.items():
        if slug not in before:
            yield Change("+", f"{name} {slug}", after=_fields(part))
            continue
        old_place, old = before[slug]
        if old_place != place:
            yield Change("~", f"{name} {slug}: place", old_place, place)
        yield from _changed(f"{name} {slug}: ", old, part)


def _changed(where: str, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[Change]:
    for key, value in wanted.items():
        if found.get(key) != value:
            yield Change("~", f"{where}{key}", found.get(key), value)


def _without(fields: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if key != name}


def _fields(part: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in part.items() if key != "slug" and value not in (None, False, "", {})}


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
