"""Validates the options of drivers. Each driver has its own model, and errors name the option."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from callsheet.scaling.driver import DriverError, OptionError, ScaledFleet
from callsheet.wire.reasons import reason_of

Options = TypeVar("Options", bound=BaseModel)


def fits(pattern: str, sentence: str) -> Callable[[str], str]:
    """A validator whose error is a sentence instead of a pattern."""

    def check(value: str) -> str:
        if re.fullmatch(pattern, value) is None:
            raise ValueError(sentence)
        return value

    return check


def checked_options(model: type[Options], options: Mapping[str, object]) -> Options:
    """Options from an admin."""
    try:
        return model.model_validate(dict(options))
    except ValidationError as error:
        # A misspelled name is reported first: it explains more than the missing right name.
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
    """Options from the database: they were checked when they were written, but maybe by another release."""
    try:
        return checked_options(model, fleet.options)
    except OptionError as error:
        raise DriverError(
            f"The scaling options of the fleet {fleet.slug} cannot be used: {error.option}: {error.reason}"
        ) from None
