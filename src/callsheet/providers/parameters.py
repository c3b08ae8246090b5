"""The parameters of media tasks (`params`), and their checks. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, Self

from pydantic import Field, model_validator

from callsheet.toolbox.sections import Section
from callsheet.wire.errors import FieldProblem
from callsheet.wire.reasons import REQUIRED

MAX_TEXT_LENGTH: Final = 10_000
# Most programs that read JSON change larger numbers.
MAX_INTEGER: Final = 2**53

_KINDS: Final[Mapping[str, tuple[tuple[type, ...], str]]] = {
    "text": ((str,), "a text"),
    "integer": ((int,), "a whole number"),
    "number": ((int, float), "a number"),
    "boolean": ((bool,), "true or false"),
}


class Parameter(Section):
    type: Literal["text", "integer", "number", "boolean"] = Field("text", description="Type of the value.")
    default: str | int | float | bool | None = Field(None, description="Value if the task sends none.")
    required: bool = Field(False, description="Whether a task must send it.")
    minimum: float | None = Field(None, description="Smallest number, or smallest number of characters of a text.")
    maximum: float | None = Field(None, description="Largest number, or largest number of characters of a text.")
    choices: tuple[str | int | float, ...] = Field((), description="Allowed values. Default: any value.")

    @model_validator(mode="after")
    def _default_fits(self) -> Self:
        if self.minimum is not None and self.maximum is not None and self.minimum > self.maximum:
            raise ValueError("minimum must not be above maximum")
        if self.default is not None and (reason := unfit(self, self.default)):
            raise ValueError(f"the default does not fit: {reason.removesuffix('.')}")
        return self


Parameters = Mapping[str, Parameter]


def unfit(parameter: Parameter, value: object) -> str | None:
    """The problem of this value, if there is one."""
    kinds, kind = _KINDS[parameter.type]
    if not isinstance(value, kinds) or (isinstance(value, bool) and parameter.type != "boolean"):
        return f"The value must be {kind}."
    if parameter.choices and value not in parameter.choices:
        return f"The value must be one of: {', '.join(map(str, parameter.choices))}."
    match value:
        case bool():
            return None
        case str():
            maximum = MAX_TEXT_LENGTH if parameter.maximum is None else parameter.maximum
            return _outside(len(value), parameter.minimum, maximum, " characters")
        case float() if not math.isfinite(value):
            return "The value must be a finite number."
        case int() if abs(value) > MAX_INTEGER:
            return f"The value must be a number up to {MAX_INTEGER}."
        case int() | float():
            return _outside(value, parameter.minimum, parameter.maximum, "")
    return None


def parameter_problems(parameters: Parameters, action: str, params: Mapping[str, Any]) -> Iterator[FieldProblem]:
    known = ", ".join(parameters) or "none"
    for name in params.keys() - parameters.keys():
        yield FieldProblem(f"params.{name[:100]}", f"The action {action} has no such parameter. Available: {known}.")
    for name, parameter in parameters.items():
        value = params.get(name)
        reason = (REQUIRED if parameter.required else None) if value is None else unfit(parameter, value)
        if reason:
            yield FieldProblem(f"params.{name}", reason)


def with_defaults(parameters: Parameters, params: Mapping[str, Any]) -> dict[str, Any]:
    """The given values, and the defaults of the other parameters. A null counts as missing."""
    defaults = {name: each.default for name, each in parameters.items() if each.default is not None}
    return defaults | {name: value for name, value in params.items() if value is not None}


def _outside(size: float, minimum: float | None, maximum: float | None, unit: str) -> str | None:
    verb = "have" if unit else "be"
    if minimum is not None and size < minimum:
        return f"The value must {verb} {minimum:g}{unit} or more."
    if maximum is not None and size > maximum:
        return f"The value must {verb} {maximum:g}{unit} or less."
    return None
