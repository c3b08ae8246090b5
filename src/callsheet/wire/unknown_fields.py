"""The known name that is most like an unknown one, for fields of bodies and for query parameters. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Sequence
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel

# A name may be as long as the body, and the time to compare grows with its length.
MAX_COMPARED = 100


def did_you_mean(name: str, known: Collection[str]) -> str | None:
    nearest = difflib.get_close_matches(name[:MAX_COMPARED], sorted(known), n=1)
    return f"Did you mean {nearest[0]!r}?" if nearest else None


def fields_beside(annotation: Any, location: Sequence[str | int]) -> frozenset[str]:
    """The names of the fields that the object with this unknown field may have. `annotation`: the type of the body."""
    found = [*_choices(annotation)]
    for part in location[:-1]:
        found = [each for node in found for each in _inside(node, part)]
    return frozenset(name for node in found if _is_model(node) for name in node.model_fields)


def _choices(annotation: Any) -> Iterator[Any]:
    """The types that a value may have, without what is around them."""
    if get_origin(annotation) is Annotated:
        yield from _choices(get_args(annotation)[0])
    elif get_origin(annotation) in (Union, UnionType):
        for each in get_args(annotation):
            yield from _choices(each)
    else:
        yield annotation


def _inside(node: Any, part: str | int) -> Iterator[Any]:
    if _is_model(node):
        if part in node.model_fields:
            yield from _choices(node.model_fields[part].annotation)
        else:
            # The place of an error in a union names the type that was tried.
            yield node
    elif (types := get_args(node)) and isinstance(part, int) != issubclass(get_origin(node) or object, dict):
        yield from _choices(types[-1])


def _is_model(node: Any) -> bool:
    return isinstance(node, type) and issubclass(node, BaseModel)
