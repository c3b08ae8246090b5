"""Finds placeholders in the input texts of a parsed graph, and replaces them in one pass by typed values. Pure.

The graph is never converted to text for this, because a prompt with quotes would then change the graph. Inserted values
are not searched for placeholders. Keys and all other values stay unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

Value = bool | int | float | str


def overlapping(text: str, placeholders: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Pairs of placeholders that share characters of this text, as `__A__` and `__B__` do in `__A__B__`."""
    spans = sorted((at, at + len(each), each) for each in placeholders if each in text for at in _places(text, each))
    for (_, end, first), (start, _, second) in pairwise(spans):
        if start < end:
            yield first, second


def _places(text: str, placeholder: str) -> Iterator[int]:
    at = text.find(placeholder)
    while at >= 0:
        yield at
        at = text.find(placeholder, at + 1)


class InjectedPlaceholder(Exception):
    """A value formed a new placeholder together with the text around it."""

    def __init__(self, value_of: str, placeholder: str):
        super().__init__(value_of, placeholder)
        self.value_of = value_of
        self.placeholder = placeholder


def substitute(graph: Mapping[str, Any], values: Mapping[str, Value], kept: Sequence[str]) -> dict[str, Any]:
    """The graph with `values` (by placeholder) inserted into the inputs of its nodes.

    `kept`: placeholders that are replaced later. A value must not create one of them.
    """
    replace = _replacing(values, kept)
    return {
        node_id: {**node, "inputs": {name: _walk(value, replace) for name, value in node["inputs"].items()}}
        for node_id, node in graph.items()
    }


def _walk(value: Any, replace: Callable[[str], Value]) -> Any:
    match value:
        case str():
            return replace(value)
        case list():
            return [_walk(item, replace) for item in value]
        case dict():
            return {name: _walk(member, replace) for name, member in value.items()}
    return value


def _replacing(values: Mapping[str, Value], kept: Sequence[str]) -> Callable[[str], Value]:
    if not values:
        return lambda text: text
    pattern = re.compile("|".join(re.escape(placeholder) for placeholder in values))

    def replace(text: str) -> Value:
        whole = values.get(text)
        replaced = whole if whole is not None else pattern.sub(lambda found: as_text(values[found[0]]), text)
        if replaced is text or not isinstance(replaced, str):
            return replaced
        for placeholder in kept:
            # Overlaps are counted: `__A` before `__A__` must not create a second `__A__`.
            if sum(1 for _ in _places(replaced, placeholder)) != sum(1 for _ in _places(text, placeholder)):
                found = pattern.search(text)
                assert found is not None
                raise InjectedPlaceholder(found[0], placeholder)
        return replaced

    return replace


def as_text(value: Value) -> str:
    """The value as part of a longer text. Booleans and numbers are written as in JSON."""
    match value:
        case bool():
            return "true" if value else "false"
        case _:
            return str(value)
