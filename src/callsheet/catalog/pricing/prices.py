"""The price of a job of an effect: one pure function for submits, quotes, batches and steps of pipelines."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, Protocol

from callsheet.catalog.offers import EffectRecipe
from callsheet.catalog.payloads import FIELD, PropertyValues
from callsheet.catalog.pricing.formulas import FormulaProblem, Value, Variable, calculated, parsed, variables_of
from callsheet.catalog.pricing.ranges import LEAST, LENGTH, MAX_PRICE, SECONDS, measured_files
from callsheet.wire.catalog import Property
from callsheet.wire.errors import FileNotMeasured, InvalidRequest
from callsheet.wire.plurals import counted


class MeasuredFile(Protocol):
    """What the control plane measured in a file. The numbers do not come from the client."""

    @property
    def measured(self) -> Literal["pending", "ready", "none"]: ...
    @property
    def duration_seconds(self) -> float | None: ...
    @property
    def width(self) -> int | None: ...
    @property
    def height(self) -> int | None: ...


@dataclass(frozen=True, slots=True)
class SentFile:
    """A file that a job names, and the field of the request that names it."""

    field: str
    file: MeasuredFile


def price_of(recipe: EffectRecipe, resolved: PropertyValues, files: Mapping[str, SentFile]) -> int:
    """The tokens that a job of the effect costs. `files`: the user's files, by the keys of their properties.

    Raises FileNotMeasured if a measure of a file decides and is not known yet; InvalidRequest if it never will be.
    """
    if not recipe.price.formula:
        return recipe.price.tokens
    try:
        formula = parsed(recipe.price.formula)
        by_key = {each.key: each for each in recipe.properties}
        values = {
            each: _value(each, by_key[each.key], resolved, files) for each in dict.fromkeys(variables_of(formula))
        }
        tokens = math.ceil(calculated(formula, values))
    except (FormulaProblem, KeyError) as problem:
        # The check of the formula makes this impossible, unless a row was changed by hand.
        raise InvalidRequest.field(FIELD, f"The price of this job cannot be calculated. {problem}") from None
    if not 0 <= tokens <= MAX_PRICE:
        raise InvalidRequest.field(
            FIELD, f"The price of this job would be {counted(tokens, 'token')}, which is not possible."
        )
    return tokens


def depends_on_files(formula: str) -> bool:
    """Whether the price is known only together with the files of a job."""
    return bool(measured_files(formula))


def _value(variable: Variable, each: Property, resolved: PropertyValues, files: Mapping[str, SentFile]) -> Value:
    if not variable.measure:
        return resolved.values[each.placeholder]
    if variable.measure == LENGTH:
        return len(str(resolved.values[each.placeholder]))
    sent = files[each.key]
    if sent.file.measured == "pending":
        raise FileNotMeasured(sent.field, variable.measure)
    found = _measured(sent.file, variable.measure)
    if found is None:
        reason = f"The price depends on the {variable.measure} of this file, which are not known. Send another file."
        raise InvalidRequest.field(sent.field, reason)
    return max(found, LEAST[variable.measure])


def _measured(file: MeasuredFile, measure: str) -> Fraction | None:
    if measure == SECONDS:
        # A thousandth of a second is finer than a frame.
        return None if file.duration_seconds is None else Fraction(round(file.duration_seconds * 1000), 1000)
    if file.width is None or file.height is None:
        return None
    return Fraction(file.width * file.height, 10**6)
