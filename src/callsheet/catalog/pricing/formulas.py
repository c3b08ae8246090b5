"""Formulas of prices: a small language of its own, read into a tree and calculated with exact fractions.

    2 + 3 * ceil(video.seconds / 10) * quality["draft": 1, "final": 2.5] + count[<=4: 0, else: 1]

No part of a formula is run as code. Its length, its depth and its number of parts are limited.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from types import MappingProxyType
from typing import TypeVar

from callsheet.wire.effects import MAX_FORMULA_LENGTH
from callsheet.wire.plurals import counted

MAX_PARTS = 200
MAX_DEPTH = 12
# A longer number would be a typing error, and 1e99999999 would take gigabytes.
MAX_DIGITS = 20

Value = bool | int | float | str | Fraction
Item = TypeVar("Item")


class FormulaProblem(Exception):
    """The formula cannot be used. The message says why, and where."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A property, or a measure of it, for example the seconds of a video."""

    key: str
    measure: str = ""

    def __str__(self) -> str:
        return f"{self.key}.{self.measure}" if self.measure else self.key


@dataclass(frozen=True, slots=True)
class Number:
    value: Fraction


@dataclass(frozen=True, slots=True)
class Operation:
    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Call:
    function: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """A case of a table: a value, all numbers up to `up_to`, or all other values."""

    result: Expression
    value: Value | None = None
    up_to: Fraction | None = None

    def takes(self, value: Value) -> bool:
        if self.up_to is not None:
            return is_number(value) and exactly(value) <= self.up_to
        return self.value is None or same(self.value, value)


@dataclass(frozen=True, slots=True)
class Table:
    variable: Variable
    cases: tuple[Case, ...]


Expression = Number | Variable | Operation | Call | Table

# The functions, and how many arguments they have: at least, at most.
_FUNCTIONS: Mapping[str, tuple[Callable[..., Fraction | int], int, int]] = MappingProxyType(
    {
        "ceil": (math.ceil, 1, 1),
        "floor": (math.floor, 1, 1),
        "round": (lambda number: math.floor(number + Fraction(1, 2)), 1, 1),
        "min": (min, 2, 10),
        "max": (max, 2, 10),
    }
)


def calculated(expression: Expression, values: Mapping[Variable, Value]) -> Fraction:
    """The value of the expression. Raises FormulaProblem if it has none."""
    match expression:
        case Number():
            return expression.value
        case Variable():
            return exactly(values[expression])
        case Call(function, arguments):
            return applied(function, [calculated(each, values) for each in arguments])
        case Operation(operator, left, right):
            return combined(operator, calculated(left, values), calculated(right, values))
        case Table(variable, cases):
            value = values[variable]
            for case in cases:
                if case.takes(value):
                    return calculated(case.result, values)
            raise FormulaProblem(f"There is no price for {variable} = {shown(value)}.")


def applied(function: str, arguments: Sequence[Fraction]) -> Fraction:
    return Fraction(_FUNCTIONS[function][0](*arguments))


def combined(operator: str, left: Fraction, right: Fraction) -> Fraction:
    match operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
    if right == 0:
        raise FormulaProblem("The formula divides by 0.")
    return left / right


def exactly(value: Value) -> Fraction:
    """The number as people write it: 0.1 is one tenth, and not the nearest binary number."""
    if isinstance(value, Fraction):
        return value
    if not is_number(value):
        raise FormulaProblem(f"{shown(value)} is not a number.")
    return Fraction(repr(value))


def is_number(value: Value) -> bool:
    return isinstance(value, int | float | Fraction) and not isinstance(value, bool)


def same(one: Value, other: Value) -> bool:
    """Whether two values are the same: text, number, and true or false are different kinds."""
    return (isinstance(one, bool), isinstance(one, str)) == (isinstance(other, bool), isinstance(other, str)) and (
        one == other
    )


def shown(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value[:100]}"'
    return str(value) if isinstance(value, int) else f"{float(value):g}"


@lru_cache(maxsize=1000)
def parsed(text: str) -> Expression:
    """Reads a formula. Raises FormulaProblem."""
    if len(text) > MAX_FORMULA_LENGTH:
        raise FormulaProblem(f"A formula has at most {MAX_FORMULA_LENGTH} characters.")
    return _Parser(text).whole()


def variables_of(expression: Expression) -> Iterator[Variable]:
    match expression:
        case Variable():
            yield expression
        case Operation(_, left, right):
            yield from variables_of(left)
            yield from variables_of(right)
        case Call(_, arguments):
            for each in arguments:
                yield from variables_of(each)
        case Table(variable, cases):
            yield variable
            for case in cases:
                yield from variables_of(case.result)


_TOKEN = re.compile(
    r"\s*(?:(?P<number>[0-9]+(?:\.[0-9]+)?)|(?P<name>[a-z][a-z0-9_]*)|(?P<text>\"[^\"]*\")|(?P<sign><=|[-+*/()\[\]:,.]))"
)


class _Parser:
    """Reads a formula from left to right. Multiplication and division come before addition and subtraction."""

    def __init__(self, text: str):
        self._tokens = [*_tokens(text), ("", "", len(text))]
        self._at = 0
        self._parts = 0
        self._depth = 0

    def whole(self) -> Expression:
        found = self._sum()
        if self._kind:
            raise self._problem("An operator such as + or * is missing")
        return found

    def _sum(self) -> Expression:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise FormulaProblem(f"The formula has more than {MAX_DEPTH} levels of brackets.")
        left = self._product()
        while self._sign in ("+", "-"):
            operator = self._take()
            left = self._counted(Operation(operator, left, self._product()))
        self._depth -= 1
        return left

    def _product(self) -> Expression:
        left = self._factor()
        while self._sign in ("*", "/"):
            operator = self._take()
            left = self._counted(Operation(operator, left, self._factor()))
        return left

    def _factor(self) -> Expression:
        kind, text = self._kind, self._text
        if text == "-" and kind == "sign":
            raise self._problem("A number has no sign here. Subtract from another number, for example 10 - count")
        if kind == "number":
            return self._counted(Number(self._number()))
        if kind == "name":
            self._take()
            if self._sign == "(":
                return self._call(text)
            return self._variable(text)
        self._expect("(")
        inside = self._sum()
        self._expect(")")
        return inside

    def _call(self, name: str) -> Expression:
        if name not in _FUNCTIONS:
            raise self._problem(f"There is no function {name!r}. Use one of: {', '.join(sorted(_FUNCTIONS))}")
        arguments = self._list("(", ")", self._sum)
        _, least, most = _FUNCTIONS[name]
        if not least <= len(arguments) <= most:
            number = "one value" if most == 1 else f"{least} to {counted(most, 'value')}"
            raise self._problem(f"{name}() takes {number}")
        return self._counted(Call(name, tuple(arguments)))

    def _variable(self, key: str) -> Expression:
        measure = ""
        if self._sign == ".":
            self._take()
            if self._kind != "name":
                raise self._problem("The name of a measure is missing, for example seconds")
            measure = self._take()
        variable = Variable(key, measure)
        if self._sign != "[":
            return self._counted(variable)
        cases = self._list("[", "]", self._case)
        _check_order(variable, cases)
        return self._counted(Table(variable, tuple(cases)))

    def _case(self) -> Case:
        value: Value | None = None
        up_to: Fraction | None = None
        kind, text = self._kind, self._text
        if text == "<=":
            self._take()
            up_to = self._number()
        elif kind == "text":
            value = self._take()[1:-1]
        elif kind == "number":
            number = self._number()
            value = int(number) if number.denominator == 1 else float(number)
        elif text in ("true", "false"):
            value = self._take() == "true"
        elif text == "else":
            self._take()
        else:
            raise self._problem('A case is missing: "text", a number, <=number, true, false or else')
        self._expect(":")
        return Case(self._sum(), value, up_to)

    def _list(self, start: str, end: str, read: Callable[[], Item]) -> list[Item]:
        self._expect(start)
        items = [read()]
        while self._sign == ",":
            self._take()
            items.append(read())
        self._expect(end)
        return items

    def _number(self) -> Fraction:
        if self._kind != "number":
            raise self._problem("A number is missing")
        if len(self._text) > MAX_DIGITS:
            raise self._problem(f"A number has at most {MAX_DIGITS} digits")
        return Fraction(self._take())

    def _counted(self, part: Expression) -> Expression:
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise FormulaProblem(f"The formula has more than {MAX_PARTS} parts.")
        return part

    @property
    def _kind(self) -> str:
        return self._tokens[self._at][0]

    @property
    def _text(self) -> str:
        return self._tokens[self._at][1]

    @property
    def _sign(self) -> str:
        return self._text if self._kind == "sign" else ""

    def _take(self) -> str:
        text = self._text
        self._at += 1
        return text

    def _expect(self, sign: str) -> None:
        if self._sign != sign:
            raise self._problem(f"{sign} is missing" if sign != "(" else "A number, a property or ( is missing")
        self._take()

    def _problem(self, reason: str) -> FormulaProblem:
        return FormulaProblem(f"{reason}, at character {self._tokens[self._at][2] + 1}.")


def _tokens(text: str) -> Iterator[tuple[str, str, int]]:
    at = 0
    while at < len(text.rstrip()):
        found = _TOKEN.match(text, at)
        if found is None:
            place = at + len(text[at:]) - len(text[at:].lstrip())
            raise FormulaProblem(f"{text[place]!r} has no meaning in a formula, at character {place + 1}.")
        kind = found.lastgroup or ""
        yield kind, found[kind], found.start(kind)
        at = found.end()


def _check_order(variable: Variable, cases: Sequence[Case]) -> None:
    """Every case of a table can be reached: `else` is the last, limits rise, and no value is there twice."""
    for number, case in enumerate(cases):
        if case.value is None and case.up_to is None and number < len(cases) - 1:
            raise FormulaProblem(f"In the table of {variable}, else must be the last case.")
        if any(case.value is not None and e.value is not None and same(e.value, case.value) for e in cases[:number]):
            assert case.value is not None
            raise FormulaProblem(f"The table of {variable} has two cases for {shown(case.value)}.")
    limits = [case.up_to for case in cases if case.up_to is not None]
    if any(upper <= lower for lower, upper in pairwise(limits)):
        raise FormulaProblem(f"In the table of {variable}, each limit after <= must be larger than the one before it.")
