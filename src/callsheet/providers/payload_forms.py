"""JSON Schemas of the payloads of actors, in a form for web forms: without references, with titles and defaults.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import BaseModel

from callsheet.providers.actor import Actor
from callsheet.providers.parameters import MAX_TEXT_LENGTH, Parameter, Parameters

Schema = dict[str, Any]
_TYPES: Final = {"text": "string", "integer": "integer", "number": "number", "boolean": "boolean"}


@dataclass(frozen=True, slots=True)
class PayloadForm:
    """One kind of payload of an actor. `values`: the members of the payload that choose this kind."""

    title: str
    schema: Schema
    values: Mapping[str, Any] = field(default_factory=dict)
    # An example of a valid payload.
    example: Mapping[str, Any] | None = None
    # Only for a media provider, whose price may depend on provider and action.
    provider: str | None = None
    action: str | None = None


@dataclass(frozen=True, slots=True)
class ActorForm:
    description: str = ""
    schema: Schema = field(default_factory=lambda: {"type": "object", "additionalProperties": True})
    example: Mapping[str, Any] | None = None
    # The kinds of payloads, if there are several; otherwise only the schema is set.
    variants: Sequence[PayloadForm] = ()


def form_of(actor: Actor) -> ActorForm:
    """The form of an actor. An actor of another package may have a `form`; otherwise it accepts any object."""
    form = getattr(actor, "form", None)
    return form if isinstance(form, ActorForm) else ActorForm()


def model_schema(model: type[BaseModel]) -> Schema:
    """The schema of a model, with all references replaced."""
    schema = model.model_json_schema()
    parts = schema.pop("$defs", {})
    placed: Schema = _placed(schema, parts)
    return placed


def parameters_schema(parameters: Parameters) -> Schema:
    return {
        "type": "object",
        "title": "Parameters",
        "properties": {name: _parameter_schema(name, each) for name, each in parameters.items()},
        "required": [name for name, each in parameters.items() if each.required],
        "additionalProperties": False,
    }


def object_schema(properties: Mapping[str, Schema], required: Iterable[str]) -> Schema:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }


def _parameter_schema(name: str, each: Parameter) -> Schema:
    schema: Schema = {"type": _TYPES[each.type], "title": name.replace("_", " ").capitalize()}
    minimum, maximum = ("minLength", "maxLength") if each.type == "text" else ("minimum", "maximum")
    limit = MAX_TEXT_LENGTH if each.type == "text" and each.maximum is None else each.maximum
    bounds = {minimum: each.minimum, maximum: limit}
    schema |= {
        key: int(value) if float(value).is_integer() else value for key, value in bounds.items() if value is not None
    }
    if each.choices:
        schema["enum"] = list(each.choices)
    if each.default is not None:
        schema["default"] = each.default
    return schema


def _placed(value: Any, parts: Mapping[str, Any]) -> Any:
    match value:
        case {"$ref": str(reference)}:
            part = parts[reference.rpartition("/")[2]]
            # The members beside a reference describe this place more exactly.
            return {**_placed(part, parts), **{key: each for key, each in value.items() if key != "$ref"}}
        case dict():
            return {key: _placed(each, parts) for key, each in value.items()}
        case list():
            return [_placed(each, parts) for each in value]
    return value
