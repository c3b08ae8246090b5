"""A driver's options are a model of its own; what is wrong with them is said by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from callsheet.scaling.driver import DriverError, OptionError, ScaledFleet
from callsheet.wire.forms import reason_of

Options = TypeVar("Options", bound=BaseModel)


def fits(pattern: str, sentence: str) -> Callable[[str], str]:
    """A validator that says in words what the text must be."""

    def check(value: str) -> str:
        if re.fullmatch(pattern, value) is None:
            raise ValueError(sentence)
        return value

    return check


def checked_options(model: type[Options], options: Mapping[str, object]) -> Options:
    """As an admin gives them."""
    try:
        return model.model_validate(dict(options))
    except ValidationError as error:
        # A name that is misspelt says more than that the right one is missing.
        first = min(error.errors(include_url=False), key=lambda each: each["type"] != "extra_forbidden")
        name = ".".join(str(part) for part in first["loc"]) or "options"
        if first["type"] == "extra_forbidden":
            reason = f"There is no such option. Available: {', '.join(sorted(model.model_fields))}."
        elif first["type"] == "tuple_type":
            reason = 'should be a list, written as JSON: ["first", "second"]'
        else:
            reason = reason_of(first)
        raise OptionError(name, reason) from None


def read_options(model: type[Options], fleet: ScaledFleet) -> Options:
    """As the database has them: checked when they were written, maybe by another release."""
    try:
        return checked_options(model, fleet.options)
    except OptionError as error:
        raise DriverError(
            f"The scaling options of the fleet {fleet.slug} cannot be used: {error.option}: {error.reason}"
        ) from None
