"""A driver's options, as the database has them: validated when they were written, maybe by another release."""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel, ValidationError

from callsheet.scaling.driver import DriverError, ScaledFleet
from callsheet.wire.forms import reason_of

Options = TypeVar("Options", bound=BaseModel)


def read_options(model: type[Options], fleet: ScaledFleet) -> Options:
    try:
        return model.model_validate(dict(fleet.options))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "options"
        raise DriverError(
            f"The scaling options of the fleet {fleet.slug} cannot be used: {field} {reason_of(first)}."
        ) from None
