"""The operator's choices for single inputs of a graph, instead of the proposals of the import. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from callsheet.wire.catalog import Limits, Property, PropertyType
from callsheet.wire.reasons import reason_of

LIMITS = frozenset(Limits.model_fields)
FIELDS = frozenset({"label", "description", "default", "required", "user_configurable"})


class Unusable(Exception):
    """A choice does not fit the graph. The text says why."""


@dataclass(frozen=True, slots=True)
class ChosenProperty:
    """`type`: None for the most likely type. `settings`: fields of the property and of its limits, by name."""

    type: PropertyType | None = None
    # The input keeps the value of the graph, so no property is made of it.
    is_fixed: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)


def with_settings(wanted: Property, settings: Mapping[str, Any]) -> Property:
    """The property with other fields and limits. Raises Unusable if a value has the wrong form."""
    limits = {name: value for name, value in settings.items() if name in LIMITS}
    fields = {name: value for name, value in settings.items() if name in FIELDS}
    if "default" in fields and "required" not in fields:
        fields["required"] = False
    changed = {**wanted.model_dump(), **fields, "limits": {**wanted.limits.model_dump(exclude_unset=True), **limits}}
    try:
        return Property.model_validate(changed)
    except ValidationError as invalid:
        first = invalid.errors()[0]
        where = ".".join(str(part) for part in first["loc"] if part != "limits")
        raise Unusable(f"{where}: {reason_of(first)}") from None
