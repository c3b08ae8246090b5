"""Files of a user that a task reads. They are stored with the places in the payload where their signed URLs go.

A URL is signed when a worker gets the task. A URL that was signed at submit could expire in a long queue, and would be
readable in the database. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

PIPELINE: Final = "pipeline"
REPLAY: Final = "replay"
# Kinds of jobs whose payload the control plane builds. Users write other payloads, so `task_files` in them is ignored.
BUILT: Final = frozenset({PIPELINE, REPLAY})
KEY: Final = "task_files"

Place = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class TaskFile:
    file_id: str
    path: str
    name: str
    mime_type: str
    sha256: str | None
    # The place of the URL in the payload: names of members and indexes of items.
    places: Sequence[Place]


def with_files(payload: Mapping[str, Any], files: Iterable[TaskFile]) -> dict[str, Any]:
    """The payload as it is stored. A `task_files` member that the payload already has is removed."""
    kept = [{name: getattr(file, name) for name in TaskFile.__slots__} for file in files]
    visible = {name: value for name, value in payload.items() if name != KEY}
    return {**visible, KEY: kept} if kept else visible


def files_of(kind: str, payload: Mapping[str, Any]) -> list[TaskFile]:
    kept = payload.get(KEY) if kind in BUILT else None
    return [TaskFile(**{**each, "places": [tuple(place) for place in each["places"]]}) for each in kept or ()]


def without_files(kind: str, payload: Mapping[str, Any]) -> dict[str, Any]:
    """The payload without paths in storage, for users."""
    return {name: value for name, value in payload.items() if kind not in BUILT or name != KEY}


def addressed(kind: str, payload: Mapping[str, Any], urls: Mapping[str, str]) -> dict[str, Any]:
    """The payload that the actor gets. `urls`: the signed URLs, by path in storage."""
    files = files_of(kind, payload)
    return put_in(without_files(kind, payload), ((place, urls[file.path]) for file in files for place in file.places))


def put_in(payload: Mapping[str, Any], values: Iterable[tuple[Place, str]]) -> dict[str, Any]:
    """A copy with a value at each place."""
    by_place = dict(values)
    copied: dict[str, Any] = _copied(dict(payload), (), by_place)
    return copied


def _copied(value: Any, place: Place, values: Mapping[Place, str]) -> Any:
    if place in values:
        return values[place]
    match value:
        case dict():
            return {name: _copied(member, (*place, name), values) for name, member in value.items()}
        case list():
            return [_copied(item, (*place, number), values) for number, item in enumerate(value)]
    return value
