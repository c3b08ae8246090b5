"""`--property NODE.INPUT[:TYPE][,NAME=VALUE…]`: properties that an operator chooses for an import."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import typer

from callsheet.toolbox.errors import OperatorError
from callsheet.wire.catalog import Limits, PropertyType
from callsheet.wire.plurals import counted

if TYPE_CHECKING:
    from callsheet.catalog.proposing.chosen import ChosenProperty

PROPERTY = typer.Option(
    [],
    "--property",
    metavar="NODE.INPUT[:TYPE][,NAME=VALUE]…",
    help="Make an input of a node a property, for example 7.steps or 7.steps:number,min=1,max=50,label=Quality. Repeat "
    "the option for more. To change a proposed property, name its key: prompt,max_length=200. "
    "TYPE: text, number, boolean, choice, image, video, audio; fixed keeps the value of the graph. "
    "NAME: label, description, key, default, required, users, min, max, step, integer, max_length, choices (a|b), "
    "max_bytes, max_seconds.",
)
FIXED = "fixed"
_WHOLE = ("max_length", "max_bytes")
_NUMBERS = ("min", "max", "step", "max_seconds")
_SWITCHES = ("required", "users", "integer")
_TEXTS = ("label", "description", "key", "default", "choices")
NAMES = (*_TEXTS, *_SWITCHES, *_NUMBERS, *_WHOLE)
_SEPARATOR = re.compile(rf",\s*(?=(?:{'|'.join(NAMES)})=)")
_ANOTHER = re.compile(r",\s*[a-z_]+=")
_YES = {"yes": True, "true": True, "no": False, "false": False}


def chosen_properties(options: Iterable[str], graph: Mapping[str, Any]) -> dict[tuple[str, str], ChosenProperty]:
    """The chosen properties. Keys are node and input, or "" and the key of a property."""
    found: dict[tuple[str, str], ChosenProperty] = {}
    for option in options:
        target, chosen = _parsed(option, graph)
        if target in found:
            raise OperatorError(f"--property {option}: another --property names the same input.")
        found[target] = chosen
    return found


def _parsed(option: str, graph: Mapping[str, Any]) -> tuple[tuple[str, str], ChosenProperty]:
    from callsheet.catalog.proposing.chosen import ChosenProperty
    from callsheet.providers.comfy.file_inputs import is_link

    head, *pairs = _SEPARATOR.split(option)
    target, kind = _target(option, head, graph)
    if kind not in (None, FIXED, *PropertyType):
        raise OperatorError(
            f"--property {option}: {kind!r} is not a type. Types: {', '.join(PropertyType)}, {FIXED}. "
            f"Settings: {', '.join(NAMES)}."
        )
    type_ = None if kind in (None, FIXED) else PropertyType(kind)
    value = graph[target[0]]["inputs"][target[1]] if target[0] else None
    if is_link(value):
        raise OperatorError(f"--property {option}: the input is linked to another node, so it has no value.")
    settings: dict[str, Any] = {}
    for pair in pairs:
        name, _, text = pair.partition("=")
        if name not in ("description", "default") and _ANOTHER.search(text):
            raise OperatorError(f"--property {option}: {text!r} has an unknown setting. Settings: {', '.join(NAMES)}.")
        settings["user_configurable" if name == "users" else name] = _setting(option, name, text, type_, value)
    if "choices" in settings and type_ is None:
        type_ = PropertyType.CHOICE
    return target, ChosenProperty(type_, kind == FIXED, settings)


def _target(option: str, head: str, graph: Mapping[str, Any]) -> tuple[tuple[str, str], str | None]:
    """The named node and input, and the type. Ids of nodes may contain colons and dots, so the graph decides what
    is an id.
    """
    found: list[tuple[str, str]] = [
        (node_id, name)
        for node_id, node in graph.items()
        for name in node["inputs"]
        if head == f"{node_id}.{name}" or head.startswith(f"{node_id}.{name}:")
    ]
    if found:
        node_id, name = max(found, key=lambda each: len(".".join(each)))
        rest = head[len(node_id) + 1 + len(name) :]
        return (node_id, name), rest[1:] or None
    target, _, kind = head.partition(":")
    node_id, dot, name = target.rpartition(".")
    if not dot:
        return ("", target), kind or None
    if node_id not in graph:
        raise OperatorError(f"--property {option}: there is no node {node_id!r} in this graph.")
    names = ", ".join(graph[node_id]["inputs"]) or "none"
    raise OperatorError(f"--property {option}: node {node_id} has no input {name!r}. Its inputs: {names}.")


def _setting(option: str, name: str, text: str, kind: PropertyType | None, value: object) -> Any:
    try:
        if name in _SWITCHES:
            return _YES[text.lower()]
        if name in _WHOLE:
            return int(text)
        if name in _NUMBERS:
            return _number(text)
        if name == "choices":
            return [_like(each, value, None) for each in text.split("|")]
        return _like(text, value, kind) if name == "default" else text
    except (KeyError, ValueError, OverflowError):
        wanted = "yes or no" if name in _SWITCHES or kind is PropertyType.BOOLEAN else "a number"
        raise OperatorError(f"--property {option}: {name} must be {wanted}, not {text!r}.") from None


def _like(text: str, value: object, kind: PropertyType | None) -> bool | int | float | str:
    """The text as a value of the type, or of the type that the value in the graph has."""
    if kind is PropertyType.BOOLEAN or (kind is None and isinstance(value, bool)):
        return _YES[text.lower()]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return _number(text) if kind is PropertyType.NUMBER or (kind is not PropertyType.TEXT and is_number) else text


def _number(text: str) -> int | float:
    number = float(text)
    if number != number or number in (float("inf"), float("-inf")):
        raise ValueError(text)
    # A float cannot hold every whole number, for example most seeds.
    return int(text) if re.fullmatch(r"\s*[+-]?\d+\s*", text) else number


def limits_text(limits: Limits) -> str:
    """The limits for a table, for example `1 to 50, whole`."""
    if limits.choices is not None:
        shown = " | ".join(str(each)[:30] for each in limits.choices[:5])
        return f"{shown} | {len(limits.choices) - 5} more" if len(limits.choices) > 5 else shown
    low, high = (None if each is None else f"{each:g}" for each in (limits.min, limits.max))
    span = f"{low} to {high}" if low and high else f"from {low}" if low else f"to {high}" if high else ""
    step = "" if limits.step is None else f"step {limits.step:g}"
    length = "" if limits.max_length is None else counted(limits.max_length, "character")
    size = "" if limits.max_bytes is None else counted(limits.max_bytes, "byte")
    seconds = "" if limits.max_seconds is None else counted(limits.max_seconds, "second")
    return ", ".join(filter(None, [span, step, "whole" if limits.integer else "", length, size, seconds]))
