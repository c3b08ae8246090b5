"""Policies to compare: policies from files, and variants with changed rules."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from pathlib import Path
from typing import Any

from callsheet.scaling.policy import Policy, PolicyError
from callsheet.toolbox.errors import OperatorError
from callsheet.wire.plurals import counted

MAX_FILE_BYTES = 64 * 1024
RULES = {field.name: field.type for field in fields(Policy)}
MAX_POLICIES = 100


@dataclass(frozen=True, slots=True)
class NamedPolicy:
    name: str
    policy: Policy


def read_policy(file: Path) -> NamedPolicy:
    """Reads a TOML file with the rules of a policy; missing rules have their defaults."""
    try:
        with file.open("rb") as content:
            text = content.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise OperatorError(f"{file} cannot be read: {error.strerror}.") from None
    if len(text) > MAX_FILE_BYTES:
        raise OperatorError(f"{file} is larger than {MAX_FILE_BYTES} bytes, so it is not a policy.")
    try:
        rules = tomllib.loads(text.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise OperatorError(f"{file} is not TOML: {error}.") from None
    return NamedPolicy(file.stem, policy_of(rules, str(file)))


def rules_in(values: Mapping[str, Any]) -> dict[str, Any]:
    """Selects the values that are rules of a policy."""
    return {name: values[name] for name in RULES if name in values}


def policy_of(rules: Mapping[str, Any], where: str) -> Policy:
    """`where` is the source of the rules, for error messages."""
    for name, value in rules.items():
        if name not in RULES:
            raise OperatorError(f"{where}: there is no rule {name!r}. There are: {', '.join(RULES)}.")
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or (RULES[name] == "int" and not isinstance(value, int)):
            kind = "whole number" if RULES[name] == "int" else "number"
            raise OperatorError(f"{where}: {name} is {value!r}: it should be a {kind}.")
    try:
        return Policy(**rules)
    except PolicyError as error:
        raise OperatorError(f"{where}: {error.field} is {rules.get(error.field)!r}: {error.reason}") from None


def variants(policies: Sequence[NamedPolicy], changes: Mapping[str, Sequence[Any]]) -> list[NamedPolicy]:
    """Each policy with each combination of the given values for its rules."""
    given = {name: tuple(dict.fromkeys(values)) for name, values in changes.items() if values}
    combinations = [dict(zip(given, values, strict=True)) for values in product(*given.values())]
    if len(policies) * len(combinations) > MAX_POLICIES:
        many = len(policies) * len(combinations)
        raise OperatorError(f"These are {counted(many, 'policy', 'policies')}: compare at most {MAX_POLICIES} at once.")
    named = [_changed(policy, rules) for policy in policies for rules in combinations]
    return _with_names_of_their_own(named)


def _changed(base: NamedPolicy, rules: Mapping[str, Any]) -> NamedPolicy:
    words = [f"{SHORT.get(name, name)} {value:g}" for name, value in rules.items()]
    name = ", ".join(filter(None, (base.name, *words))) or "default"
    try:
        return NamedPolicy(name, replace(base.policy, **rules))
    except PolicyError as error:
        raise OperatorError(f"{name}: {error.reason}") from None


SHORT = {
    "minimum": "min",
    "maximum": "max",
    "target_seconds": "target",
    "idle_seconds": "idle",
    "warm_up_seconds": "warm-up",
    "scale_out_cooldown_seconds": "out cooldown",
    "scale_in_cooldown_seconds": "in cooldown",
    "on_demand_minimum": "on-demand",
    "spot_share": "spot",
}


def _with_names_of_their_own(policies: Iterable[NamedPolicy]) -> list[NamedPolicy]:
    """Makes names unique: files in two folders may have the same name."""
    seen: dict[str, int] = {}
    named = []
    for each in policies:
        seen[each.name] = seen.get(each.name, 0) + 1
        number = seen[each.name]
        named.append(each if number == 1 else replace(each, name=f"{each.name} ({number})"))
    return named
