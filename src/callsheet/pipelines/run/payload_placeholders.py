"""The payload of a step that is an actor: its placeholders and their places. Pure.

As in graphs, values are inserted into parsed texts in one pass, and inserted values are not searched for placeholders.
A text that consists of one placeholder becomes the value with its type.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from callsheet.media.task_files import KEY, Place
from callsheet.pipelines.run.workflow_placeholders import (
    NAME,
    PARENT,
    PROMPT,
    SEED,
    Needs,
    filled_text,
    placeholder,
    unknown,
)
from callsheet.wire.errors import FieldProblem

FIELD = "payload"
PARENT_FILE = "parent_file_id"
# Names whose values come from the run or the scheduler. All other names are variables.
RESERVED = frozenset({PROMPT, PARENT, PARENT_FILE, SEED})
# Most services take seeds of at most 31 bits, and an actor does not declare its maximum.
MAX_SEED = 2**31 - 1
# Maximum number of texts with placeholders. Every text is compared with every problem that an actor reports.
MAX_TEXTS = 1000

Placed = list[tuple[str, list[str]]]


def field_of(place: Place) -> str:
    return ".".join(map(str, (FIELD, *place)))


def texts_in(value: Any, place: Place = ()) -> Iterator[tuple[Place, str]]:
    """Every text in a document with its place. Keys are not texts."""
    match value:
        case str():
            yield place, value
        case dict():
            for name, member in value.items():
                yield from texts_in(member, (*place, name))
        case list():
            for number, item in enumerate(value):
                yield from texts_in(item, (*place, number))


def names_in(payload: Mapping[str, Any]) -> set[str]:
    return {name for _, names in placed_names(payload) for name in names}


def variables_in(payload: Mapping[str, Any], needs: Needs) -> set[str]:
    """The variables of a run that the payload uses. A variable `seed` replaces the drawn seed."""
    return names_in(payload) - (RESERVED - {SEED}) if needs.variables else set()


def address_places(payload: Mapping[str, Any]) -> list[Place]:
    """The places that get a URL of the parent's image."""
    return [place for place, text in texts_in(payload) if text == placeholder(PARENT)]


def filled(payload: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The payload with its placeholders replaced by `values`. A placeholder without a value stays."""
    made: dict[str, Any] = _filled(payload, values)
    return made


def _filled(value: Any, values: Mapping[str, Any]) -> Any:
    match value:
        case str():
            return filled_text(value, values)
        case dict():
            return {name: _filled(member, values) for name, member in value.items()}
        case list():
            return [_filled(item, values) for item in value]
    return value


def check_payload(payload: Mapping[str, Any], needs: Needs, position: int) -> Iterator[FieldProblem]:
    """Problems of a step's payload that do not depend on the actor, by the field of the step."""
    yield from _misplaced(payload)
    if KEY in payload:
        yield FieldProblem(f"{FIELD}.{KEY}", "This name is reserved. Choose another one.")
    for place, text in texts_in(payload):
        names = NAME.findall(text)
        reasons = [unknown(PARENT if name == PARENT_FILE else name, needs) for name in names]
        yield from (FieldProblem(field_of(place), reason) for reason in reasons if reason)
        if PARENT in names and text != placeholder(PARENT):
            yield FieldProblem(
                field_of(place),
                f"The whole text must be {placeholder(PARENT)}, because it is replaced by a URL.",
            )
    placed = placed_names(payload)
    if len(placed) > MAX_TEXTS:
        yield FieldProblem(FIELD, f"The payload has placeholders in {len(placed)} texts. The limit is {MAX_TEXTS}.")
    names_there = {name for _, names in placed for name in names}
    if needs.prompt and PROMPT not in names_there:
        yield FieldProblem("needs_run_prompt", "The step needs the run's prompt, but its payload has no {{prompt}}.")
    if needs.parent and position == 1:
        yield FieldProblem("needs_parent_image_path", "The first step has no parent.")
    elif needs.parent and not names_there & {PARENT, PARENT_FILE}:
        reason = f"The payload has neither {placeholder(PARENT)} nor {placeholder(PARENT_FILE)}."
        yield FieldProblem("needs_parent_image_path", reason)


def _misplaced(value: Any, place: Place = ()) -> Iterator[FieldProblem]:
    members: Iterable[tuple[str | int, Any]] = ()
    match value:
        case dict():
            members = value.items()
        case list():
            members = enumerate(value)
    for name, member in members:
        if isinstance(name, str) and NAME.search(name):
            yield FieldProblem(
                field_of(place), "A key contains a placeholder. Placeholders are replaced in values only."
            )
        yield from _misplaced(member, (*place, name))


def placed_names(payload: Mapping[str, Any]) -> Placed:
    """The fields that contain placeholders, each with the names in it."""
    return [(field_of(place), names) for place, text in texts_in(payload) if (names := NAME.findall(text))]


def names_behind(placed: Placed, field: str) -> set[str]:
    """The placeholders in a field of the payload, in the fields below it and in the fields above it."""
    return {
        name
        for here, names in placed
        if here == field or here.startswith(f"{field}.") or field.startswith(f"{here}.")
        for name in names
    }
