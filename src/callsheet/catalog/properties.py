"""Checks the properties of a workflow against each other and against the graph, and values against their properties.
Pure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Any
from uuid import UUID

from callsheet.catalog.graphs import Graph, Text, texts_of
from callsheet.catalog.placeholders import overlapping
from callsheet.providers.comfy.file_inputs import nodes_that_name_files, takes_file
from callsheet.wire.catalog import FILES, MAX_TEXT_LENGTH, Limits, Property, PropertyType
from callsheet.wire.errors import FieldProblem
from callsheet.wire.plurals import counted

Value = bool | int | float | str
DEFAULT_INPUT_PLACEHOLDER = "__INPUT_PATH__"
# A value may differ this much from a step, because 0.1 + 0.2 is not exactly 0.3.
STEP_TOLERANCE = 1e-6

# The type that the browser gets must be the type of the file.
MIME_TYPES: Mapping[str, str] = {
    "mp4": "video/mp4",
    "webm": "video/webm",
    "mov": "video/quicktime",
    "mkv": "video/x-matroska",
    "gif": "image/gif",
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "webp": "image/webp",
    "mp3": "audio/mpeg",
    "wav": "audio/wav",
    "flac": "audio/flac",
    "ogg": "audio/ogg",
    "opus": "audio/ogg",
    "m4a": "audio/mp4",
    "aac": "audio/aac",
    "glb": "model/gltf-binary",
    "json": "application/json",
    "zip": "application/zip",
    "txt": "text/plain",
    "bin": "application/octet-stream",
}

_LIMITS_OF: Mapping[PropertyType, frozenset[str]] = {
    PropertyType.TEXT: frozenset({"max_length"}),
    PropertyType.NUMBER: frozenset({"min", "max", "step", "integer"}),
    PropertyType.BOOLEAN: frozenset(),
    PropertyType.CHOICE: frozenset({"choices"}),
    PropertyType.IMAGE: frozenset({"max_bytes"}),
    PropertyType.VIDEO: frozenset({"max_bytes", "max_seconds"}),
    PropertyType.AUDIO: frozenset({"max_bytes", "max_seconds"}),
}


class Unfit(Exception):
    """A value does not fit its property. The message describes a valid value."""


def fit(wanted: Property, value: object) -> Value:
    """The value in the form for the graph. Raises Unfit. For the id of a file, only the form is checked."""
    return _FITTINGS[wanted.type](value, wanted.limits)


def _fit_text(value: object, limits: Limits) -> Value:
    if not isinstance(value, str):
        raise Unfit("The value must be a text.")
    max_length = limits.max_length or MAX_TEXT_LENGTH
    if len(value) > max_length:
        raise Unfit(f"The text must have at most {counted(max_length, 'character')}.")
    return value


def _fit_number(value: object, limits: Limits) -> Value:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Unfit("The value must be a number.")
    if limits.integer and not float(value).is_integer():
        raise Unfit("The value must be a whole number.")
    if limits.min is not None and value < limits.min:
        raise Unfit(f"The value must be {_plain(limits.min)} or more.")
    if limits.max is not None and value > limits.max:
        raise Unfit(f"The value must be {_plain(limits.max)} or less.")
    if limits.step is not None:
        steps = (value - (limits.min or 0)) / limits.step
        # There are too many steps to count: for a float, every such number is a whole one.
        if math.isfinite(steps) and not math.isclose(steps, round(steps), abs_tol=STEP_TOLERANCE):
            raise Unfit(f"The value must be {_plain(limits.min or 0)} plus a multiple of {_plain(limits.step)}.")
    return int(value) if limits.integer else value


def _plain(number: float) -> str:
    return str(int(number)) if float(number).is_integer() else str(number)


def _fit_boolean(value: object, limits: Limits) -> Value:
    if not isinstance(value, bool):
        raise Unfit("The value must be true or false.")
    return value


def _fit_choice(value: object, limits: Limits) -> Value:
    for choice in limits.choices or ():
        # Text and number are different values, and so are 1 and true.
        if choice == value and isinstance(choice, str) == isinstance(value, str) and not isinstance(value, bool):
            return choice
    shown = ", ".join(str(choice)[:100] for choice in (limits.choices or ())[:20])
    raise Unfit(f"The value must be one of: {shown}.")


def _fit_file(value: object, limits: Limits) -> Value:
    try:
        return str(UUID(value)) if isinstance(value, str) else _no_id()
    except ValueError:
        return _no_id()


def _no_id() -> Value:
    raise Unfit("The value must be an id (a UUID).")


_FITTINGS: Mapping[PropertyType, Callable[[object, Limits], Value]] = {
    PropertyType.TEXT: _fit_text,
    PropertyType.NUMBER: _fit_number,
    PropertyType.BOOLEAN: _fit_boolean,
    PropertyType.CHOICE: _fit_choice,
    PropertyType.IMAGE: _fit_file,
    PropertyType.VIDEO: _fit_file,
    PropertyType.AUDIO: _fit_file,
}


def an(file_type: PropertyType) -> str:
    return {PropertyType.IMAGE: "an image", PropertyType.VIDEO: "a video", PropertyType.AUDIO: "an audio file"}[
        file_type
    ]


def check_properties(properties: Sequence[Property], graph: Graph) -> list[FieldProblem]:
    """The problems of a workflow's properties with this graph, each with its field (`properties.2.default`)."""
    problems = [
        *_check_unique(properties),
        *(problem for number, each in enumerate(properties) for problem in _check_alone(number, each)),
    ]
    return problems or [*_check_against_graph(properties, graph)]


def _check_unique(properties: Sequence[Property]) -> Iterator[FieldProblem]:
    keys: set[str] = set()
    primary = None
    for number, each in enumerate(properties):
        if each.key in keys:
            yield FieldProblem(f"properties.{number}.key", f"Another property has the key {each.key!r}.")
        keys.add(each.key)
        for other, earlier in enumerate(properties):
            if number == other or each.placeholder not in earlier.placeholder:
                continue
            if each.placeholder != earlier.placeholder:
                reason = f"This placeholder is a part of {earlier.placeholder}. Rename one of them."
                yield FieldProblem(f"properties.{number}.placeholder", reason)
            elif other < number:
                yield FieldProblem(
                    f"properties.{number}.placeholder", f"The property {earlier.key!r} has the same placeholder."
                )
        if each.is_primary_input:
            if primary is not None:
                reason = f"A workflow has only one primary input, and {primary!r} already is one."
                yield FieldProblem(f"properties.{number}.is_primary_input", reason)
            primary = primary or each.key


def _check_alone(number: int, each: Property) -> Iterator[FieldProblem]:
    where = f"properties.{number}"
    yield from _check_limits(f"{where}.limits", each)
    # A worker always replaces this placeholder.
    if each.type not in FILES and (
        DEFAULT_INPUT_PLACEHOLDER in each.placeholder or each.placeholder in DEFAULT_INPUT_PLACEHOLDER
    ):
        yield FieldProblem(
            f"{where}.placeholder", f"{DEFAULT_INPUT_PLACEHOLDER} is reserved for a file. Choose another placeholder."
        )
    if each.is_primary_input and each.type not in FILES:
        yield FieldProblem(
            f"{where}.is_primary_input", "Only an image, a video or an audio file can be the primary input."
        )
    if each.is_primary_input and each.default is not None:
        yield FieldProblem(f"{where}.default", "The primary input has no default: it is the user's own file.")
    elif each.default is not None:
        yield from _check_value(f"{where}.default", each, each.default)
    elif not each.required and not each.is_primary_input and each.type is not PropertyType.TEXT:
        yield FieldProblem(f"{where}.default", "A property that is not required needs a default.")


def _check_value(where: str, each: Property, value: object) -> Iterator[FieldProblem]:
    try:
        fit(each, value)
    except Unfit as unfit:
        yield FieldProblem(where, str(unfit))


def _check_limits(where: str, each: Property) -> Iterator[FieldProblem]:
    limits = each.limits
    for name in sorted(limits.model_fields_set - _LIMITS_OF[each.type]):
        if getattr(limits, name) not in (None, False):
            yield FieldProblem(f"{where}.{name}", f"A property of type {each.type.value} has no such limit.")
    if limits.min is not None and limits.max is not None and limits.min > limits.max:
        yield FieldProblem(f"{where}.max", "The maximum must not be less than the minimum.")
    if each.type is PropertyType.CHOICE:
        if limits.choices is None:
            yield FieldProblem(f"{where}.choices", "A property of this type needs a list of allowed values.")
        elif any(isinstance(choice, bool) for choice in limits.choices):
            yield FieldProblem(
                f"{where}.choices", "Choices must be texts or numbers. For yes and no, use the type boolean."
            )
        elif len({(type(choice) is str, choice) for choice in limits.choices}) < len(limits.choices):
            yield FieldProblem(f"{where}.choices", "All choices must be different.")


def _check_against_graph(properties: Sequence[Property], graph: Graph) -> Iterator[FieldProblem]:
    texts = list(texts_of(graph))
    of_files = nodes_that_name_files(graph)
    for number, each in enumerate(properties):
        found = [text for text in texts if each.placeholder in text.text]
        where = f"properties.{number}.placeholder"
        if not found:
            yield FieldProblem(where, f"No input of the graph contains {each.placeholder}.")
        yield from _check_places(where, each, found, of_files)
    placeholders = [each.placeholder for each in properties]
    for text in texts:
        for first, second in overlapping(text.text, placeholders):
            place = f"node {text.node_id[:100]}, input {text.input[:100]}"
            reason = f"This placeholder overlaps {second} in {place}. Rename one of them."
            yield FieldProblem(f"properties.{placeholders.index(first)}.placeholder", reason)
    unclaimed = not any(DEFAULT_INPUT_PLACEHOLDER in placeholder for placeholder in placeholders)
    if unclaimed and any(DEFAULT_INPUT_PLACEHOLDER in text.text for text in texts):
        reason = f"The graph contains {DEFAULT_INPUT_PLACEHOLDER}. Add a property for it."
        yield FieldProblem("properties", reason)


def _check_places(where: str, each: Property, found: Sequence[Text], of_files: Set[str]) -> Iterator[FieldProblem]:
    for text in found:
        place = f"the input {text.input[:100]!r} of node {text.node_id[:100]} ({text.class_type[:100]})"
        if text.in_pair:
            # A text and a number in such a list, both chosen by a user, would be a link to any node of the graph.
            yield FieldProblem(
                where, f"The placeholder is in a list of two in {place}, which is the form of a link between nodes."
            )
        elif each.type is PropertyType.TEXT and takes_file(text.class_type, text.input):
            reason = f"The placeholder is in {place}, which names a file. Use a choice or a file, not free text."
            yield FieldProblem(where, reason)
        elif each.type is PropertyType.TEXT and text.node_id in of_files:
            reason = (
                f"The placeholder is in {place}, which is linked to the name of a file. Do not use free text there."
            )
            yield FieldProblem(where, reason)


def check_output(graph: Graph, output_node_id: str | None, extension: str, mime_type: str) -> Iterator[FieldProblem]:
    if output_node_id is not None and output_node_id not in graph:
        yield FieldProblem("output_node_id", f"The node {output_node_id!r} is not in the graph.")
    usual = MIME_TYPES.get(extension, mime_type)
    if usual != mime_type:
        yield FieldProblem("output_mime_type", f"Files that end in .{extension} have the type {usual}.")


def input_placeholder(properties: Sequence[Property]) -> str:
    """The placeholder of the primary input in the graph."""
    primary = primary_input(properties)
    return primary.placeholder if primary else DEFAULT_INPUT_PLACEHOLDER


def primary_input(properties: Sequence[Property]) -> Property | None:
    return next((each for each in properties if each.is_primary_input), None)


def check_overrides(properties: Sequence[Property], overrides: Mapping[str, Any]) -> list[FieldProblem]:
    """The problems of an effect's values, each with its field (`overrides.strength`)."""
    by_key = {each.key: each for each in properties}
    problems: list[FieldProblem] = []
    for key, value in overrides.items():
        where = f"overrides.{key[:100]}"
        each = by_key.get(key)
        if each is None:
            problems.append(FieldProblem(where, "This workflow has no such property."))
        elif each.is_primary_input:
            problems.append(FieldProblem(where, "This property is the user's own file. An effect cannot set it."))
        else:
            problems.extend(_check_value(where, each, value))
    for each in properties:
        hidden = not each.user_configurable and not each.is_primary_input
        if hidden and each.required and each.default is None and each.key not in overrides:
            problems.append(
                FieldProblem(
                    f"overrides.{each.key}",
                    "The effect must set this property: it is required, and users cannot set it.",
                )
            )
    return problems
