"""Checks the formula of a price before it is saved: every job that the effect accepts has a price.

Each part of a formula has a range, from the smallest to the largest number that it can be. The ranges are calculated
from the limits of the properties, so no value has to be tried. A range may be wider than the numbers that are possible
(x - x has the range of two different numbers). Then a formula is refused that would work; max() and min() narrow it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from callsheet.catalog.pricing.formulas import (
    Call,
    Case,
    Expression,
    FormulaProblem,
    Number,
    Operation,
    Table,
    Value,
    Variable,
    applied,
    combined,
    exactly,
    is_number,
    parsed,
    same,
    shown,
    variables_of,
)
from callsheet.wire.catalog import FILES, MAX_NUMBER, MAX_TEXT_LENGTH, Property, PropertyType

MAX_PRICE = 2**53
# Whole numbers are taken one by one up to this number, so that a table may name each of them.
MAX_NAMED = 200
# The longest duration is a day, as in the limits of properties. An image has at most this number of megapixels.
MAX_SECONDS = Fraction(86_400) + 1
MAX_MEGAPIXELS = Fraction(10_000)
SECONDS, MEGAPIXELS, LENGTH = "seconds", "megapixels", "length"
MEASURES: Mapping[PropertyType, tuple[str, ...]] = {
    PropertyType.IMAGE: (MEGAPIXELS,),
    PropertyType.VIDEO: (SECONDS, MEGAPIXELS),
    PropertyType.AUDIO: (SECONDS,),
    PropertyType.TEXT: (LENGTH,),
}
# The smallest value of a measure: the seconds are rounded to thousandths.
LEAST = {SECONDS: Fraction(1, 1000), MEGAPIXELS: Fraction(1, 10**6), LENGTH: Fraction(0)}


class Range(NamedTuple):
    low: Fraction
    high: Fraction


@dataclass(frozen=True, slots=True)
class Domain:
    """The values that a variable can have: these, or all numbers of a range."""

    values: tuple[Value, ...] = ()
    range: Range | None = None


Domains = Mapping[Variable, Domain]


def lowest_price(formula: str, properties: Sequence[Property], overrides: Mapping[str, Any]) -> int:
    """The lowest price that a job can have. Raises FormulaProblem if a job might have no price, a negative one, or one
    that no wallet can hold.
    """
    expression = parsed(formula)
    by_key = {each.key: each for each in properties}
    domains = {each: _domain(each, by_key, overrides) for each in dict.fromkeys(variables_of(expression))}
    _check_cases(expression, domains)
    low, high = _range(expression, domains)
    if low < 0:
        raise FormulaProblem(
            f"The price could be as low as {_plain(low)}. A price is never negative: use max(0, …) around it, or set "
            "limits of the properties."
        )
    if high > MAX_PRICE:
        raise FormulaProblem(
            f"The price could be more than {MAX_PRICE} tokens. Set a maximum of the properties, or use min(…, 1000) "
            "around it."
        )
    return math.ceil(low)


def measured_files(formula: str) -> list[Variable]:
    """The measures of files that decide the price."""
    if not formula:
        return []
    return [each for each in dict.fromkeys(variables_of(parsed(formula))) if each.measure in (SECONDS, MEGAPIXELS)]


def _domain(variable: Variable, properties: Mapping[str, Property], overrides: Mapping[str, Any]) -> Domain:
    each = properties.get(variable.key)
    if each is None:
        offered = ", ".join(sorted(properties)[:20]) or "none"
        raise FormulaProblem(f"The workflow has no property {variable.key!r}. It has: {offered}.")
    if variable.measure:
        return _measure(variable, each, overrides)
    match each.type:
        case PropertyType.NUMBER | PropertyType.CHOICE | PropertyType.BOOLEAN:
            pass
        case _:
            offered = " or ".join(f"{each.key}.{name}" for name in MEASURES[each.type])
            raise FormulaProblem(f"{each.key} is not a number: its type is {each.type.value}. Use {offered}.")
    if not each.user_configurable:
        return Domain((overrides.get(each.key, each.default),))
    if each.type is PropertyType.BOOLEAN:
        return Domain((False, True))
    if each.type is PropertyType.CHOICE:
        return Domain(tuple(each.limits.choices or ()))
    return _numbers(each)


def _numbers(each: Property) -> Domain:
    limits = each.limits
    low = exactly(-MAX_NUMBER if limits.min is None else limits.min)
    high = exactly(MAX_NUMBER if limits.max is None else limits.max)
    step = exactly(limits.step or 1)
    if limits.integer and step.denominator == low.denominator == 1 and (high - low) / step < MAX_NAMED:
        return Domain(tuple(range(int(low), math.floor(high) + 1, int(step))))
    return Domain(range=Range(low, high))


def _measure(variable: Variable, each: Property, overrides: Mapping[str, Any]) -> Domain:
    measures = MEASURES.get(each.type, ())
    if variable.measure not in measures:
        offered = " or ".join(f"{each.key}.{name}" for name in measures) or each.key
        raise FormulaProblem(f"There is no {variable}: the type of {each.key} is {each.type.value}. Use {offered}.")
    if each.type in FILES and not _always_sent(each, overrides):
        raise FormulaProblem(
            f"{variable} is not known for every job: only files that users must send are measured, and {each.key} has "
            "a default or cannot be set by users."
        )
    limits = each.limits
    if variable.measure == LENGTH:
        high = Fraction(limits.max_length or MAX_TEXT_LENGTH)
    elif variable.measure == SECONDS:
        # Durations may be half a second longer than the limit.
        high = MAX_SECONDS if limits.max_seconds is None else exactly(limits.max_seconds) + 1
    else:
        high = MAX_MEGAPIXELS
    return Domain(range=Range(LEAST[variable.measure], high))


def _always_sent(each: Property, overrides: Mapping[str, Any]) -> bool:
    return each.is_primary_input or (
        each.user_configurable and each.default is None and overrides.get(each.key) is None
    )


def _check_cases(expression: Expression, domains: Domains) -> None:
    """Refuses cases that no job can have, which are typing errors: "darft" is not a value."""
    match expression:
        case Operation(_, left, right):
            _check_cases(left, domains)
            _check_cases(right, domains)
        case Call(_, arguments):
            for each in arguments:
                _check_cases(each, domains)
        case Table(variable, cases):
            for case in cases:
                _check_case(variable, case, domains[variable])
                _check_cases(case.result, domains)


def _check_case(variable: Variable, case: Case, domain: Domain) -> None:
    numbers = domain.range is not None or any(is_number(each) for each in domain.values)
    if case.up_to is not None and not numbers:
        raise FormulaProblem(f"{variable} is not a number, so its table cannot have a case with <=.")
    if case.value is None:
        return
    if domain.range is not None:
        raise FormulaProblem(
            f"{variable} can have any number in a range. Use limits in its table, for example "
            f"{variable}[<=10: 1, else: 2]."
        )
    if not any(same(case.value, each) for each in domain.values):
        offered = ", ".join(shown(each) for each in domain.values[:20])
        raise FormulaProblem(f"{shown(case.value)} is not a value of {variable}. Its values are: {offered}.")


def _range(expression: Expression, domains: Domains, path: tuple[str, ...] = ()) -> Range:
    """`path`: the cases of the tables around this part."""
    match expression:
        case Number(value):
            return Range(value, value)
        case Variable():
            return _range_of(expression, domains[expression])
        case Call(function, arguments):
            ranges = [_range(each, domains, path) for each in arguments]
            # All functions rise with each of their arguments.
            return Range(
                applied(function, [each.low for each in ranges]), applied(function, [each.high for each in ranges])
            )
        case Operation(operator, left, right):
            return _combined(operator, _range(left, domains, path), _range(right, domains, path))
        case Table(variable, cases):
            return _of_table(variable, cases, domains, path)


def _range_of(variable: Variable, domain: Domain) -> Range:
    if domain.range is not None:
        return domain.range
    if not all(is_number(each) for each in domain.values):
        raise FormulaProblem(f"{variable} is not a number. Use a table, for example {variable}[{_example(domain)}].")
    numbers = [exactly(each) for each in domain.values]
    return Range(min(numbers), max(numbers))


def _example(domain: Domain) -> str:
    return ", ".join(f"{shown(each)}: {number}" for number, each in enumerate(domain.values[:3], start=1))


def _combined(operator: str, left: Range, right: Range) -> Range:
    if operator == "/" and right.low <= 0 <= right.high:
        raise FormulaProblem(
            "The formula could divide by 0. Use max(1, …) around the divisor, or set a minimum of the property."
        )
    ends = [combined(operator, one, other) for one in left for other in right]
    return Range(min(ends), max(ends))


def _of_table(variable: Variable, cases: Sequence[Case], domains: Domains, path: tuple[str, ...]) -> Range:
    """The range of all cases that are possible here. Each case is calculated with the values that lead to it."""
    left = domains[variable]
    found: list[Range] = []
    for case in cases:
        inside, left = _split(left, case)
        if inside is not None:
            step = f"{variable} {_named(case, inside)}"
            found.append(_range(case.result, {**domains, variable: inside}, (*path, step)))
        if left.range is None and not left.values:
            break
    else:
        missing = f"{variable} = {shown(left.values[0])}" if left.range is None else _beyond(variable, left.range)
        raise FormulaProblem(f"There is no price for {' and '.join((*path, missing))}. Add a case, or else.")
    return Range(min(each.low for each in found), max(each.high for each in found))


def _split(domain: Domain, case: Case) -> tuple[Domain | None, Domain]:
    """The values that the case takes, and those that are left. None: it takes no value."""
    if domain.range is None:
        inside = tuple(each for each in domain.values if case.takes(each))
        rest = tuple(each for each in domain.values if not case.takes(each))
        return (Domain(inside) if inside else None), Domain(rest)
    low, high = domain.range
    if case.up_to is None or case.up_to >= high:
        return domain, Domain()
    if case.up_to < low:
        return None, domain
    return Domain(range=Range(low, case.up_to)), Domain(range=Range(case.up_to, high))


def _named(case: Case, inside: Domain) -> str:
    if case.up_to is not None:
        return f"<= {_plain(case.up_to)}"
    return f"= {shown(inside.values[0])}" if inside.values else "of other values"


def _beyond(variable: Variable, left: Range) -> str:
    return f"{variable} > {_plain(left.low)}"


def _plain(number: Fraction) -> str:
    return str(number.numerator) if number.denominator == 1 else f"{float(number):g}"
