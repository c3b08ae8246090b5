"""Finds placeholders in the input texts of a parsed graph, and replaces them in one pass by typed values. Pure.

The graph is never converted to text for this, because a prompt with quotes would then change the graph. Inserted values
are not searched for placeholders. Keys and all other values stay unchanged.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

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


class Filled(NamedTuple):
    """A graph with its values, in which the placeholders of files remain for the worker."""

    graph: dict[str, Any]
    file_placeholders: Mapping[str, str]
    """The name of each placeholder of a file in this graph."""


def fill(graph: Mapping[str, Any], values: Mapping[str, Value], of_files: Collection[str]) -> Filled:
    """The graph with `values` (by placeholder) inserted into the inputs of its nodes.

    Workers search the whole graph for the placeholders of files. If a value contains such a placeholder, or forms one
    together with the text around it, the placeholders get new names in this graph. The names contain a hash of the
    values, so that no value can contain them.
    """
    names = {each: each for each in of_files}
    made, is_clear = _filled(graph, values, names)
    if not is_clear:
        digest = hashlib.sha256(repr(sorted(values.items())).encode("utf-8", "surrogatepass")).hexdigest()[:32]
        names = {each: f"__FILE_{number}_{digest}__" for number, each in enumerate(sorted(of_files), 1)}
        made, _ = _filled(graph, values, names)
    return Filled(made, names)


def _filled(
    graph: Mapping[str, Any], values: Mapping[str, Value], names: Mapping[str, str]
) -> tuple[dict[str, Any], bool]:
    """The filled graph, and whether it has the placeholders of files in exactly the places where `graph` has them."""
    # Longer placeholders come first, because one placeholder of a file may contain another one.
    pattern = _any_of(sorted({**values, **names}, key=len, reverse=True))
    known = {**values, **names}
    is_clear = True

    def replace(text: str) -> Value:
        nonlocal is_clear
        if text in values:
            replaced = values[text]
        else:
            replaced = pattern.sub(lambda found: as_text(known[found[0]]), text)
        if isinstance(replaced, str) and replaced != text:
            is_clear = is_clear and all(_count(replaced, name) == _count(text, each) for each, name in names.items())
        return replaced

    made = {
        node_id: {**node, "inputs": {name: _walk(value, replace) for name, value in node["inputs"].items()}}
        for node_id, node in graph.items()
    }
    return made, is_clear


def _any_of(placeholders: Sequence[str]) -> re.Pattern[str]:
    # Without placeholders, the pattern matches nothing.
    return re.compile("|".join(map(re.escape, placeholders)) or r"(?!)")


def _count(text: str, placeholder: str) -> int:
    # Overlaps are counted: `__A` before `__A__` is a second `__A__`.
    return sum(1 for _ in _places(text, placeholder))


def _walk(value: Any, replace: Callable[[str], Value]) -> Any:
    match value:
        case str():
            return replace(value)
        case list():
            return [_walk(item, replace) for item in value]
        case dict():
            return {name: _walk(member, replace) for name, member in value.items()}
    return value


def as_text(value: Value) -> str:
    """The value as part of a longer text. Booleans and numbers are written as in JSON."""
    match value:
        case bool():
            return "true" if value else "false"
        case _:
            return str(value)
