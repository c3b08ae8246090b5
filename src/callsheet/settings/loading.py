"""Reads the settings, and explains every error in them."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from callsheet.settings.installation_search import config_file, find_place, short_variables, variables
from callsheet.settings.tree import Settings, is_table, setting_fields
from callsheet.settings.variables import (
    CONFIG_VARIABLE,
    DELIMITER,
    POOL_DIRECT_DSN_VARIABLE,
    POOL_DSN_VARIABLE,
    PREFIX,
    PROFILE_VARIABLE,
    SHORT_NAMES,
    SettingsError,
    environment,
    read_config,
    variable_name,
)
from callsheet.toolbox.redaction.redaction import redact_text
from callsheet.wire.reasons import reason_of, text_of_validator


def load_settings(**overrides: Any) -> Settings:
    """Reads the settings. `overrides` (options of the command line) override every source."""
    unusable = [*_unknown_variables(), *_tables_that_are_no_json(), *_unknown_sections()]
    if unusable:
        raise SettingsError("\n".join(unusable))
    place = find_place()
    found = {"home": place.home} if place.is_home_usable else {}
    try:
        return Settings(**{**found, **overrides})
    except ValidationError as invalid:
        raise SettingsError("\n".join(_sentence(error, overrides) for error in invalid.errors())) from None


def _unknown_variables() -> Iterator[str]:
    # A misspelt variable that is silently ignored would be the worst kind of configuration error.
    own = {CONFIG_VARIABLE, PROFILE_VARIABLE, POOL_DSN_VARIABLE, POOL_DIRECT_DSN_VARIABLE}
    known = {variable_name(path) for path, _ in setting_fields()} | own
    tables = tuple(f"{variable_name(path)}{DELIMITER}" for path, field in setting_fields() if is_table(field))
    for name, (source, _) in sorted(variables().items()):
        if name not in known and not name.startswith(tables):
            yield f"{name} (from {source}) is not a setting. {_hint(name, known)}"


def _tables_that_are_no_json() -> Iterator[str]:
    given = variables()
    for path, field in setting_fields():
        source, value = given.get(variable_name(path), ("", None))
        if is_table(field) and value and not _is_json(value):
            yield f"{variable_name(path)} (from {source}) is not valid JSON. {field.description}"


def _is_json(value: str) -> bool:
    try:
        json.loads(value)
    except ValueError:
        return False
    return True


def _unknown_sections() -> Iterator[str]:
    file, known = config_file(), Settings.model_fields.keys()
    if not file.exists():
        if CONFIG_VARIABLE in variables():
            yield f"{CONFIG_VARIABLE} is {str(file)!r}: there is no such file."
        return
    for name in read_config(file).keys() - known:
        yield f"{name} in {file} is not a setting. {_hint(name, known)}"


def _hint(name: str, known: Iterable[str]) -> str:
    # The prefix is removed, because with it every name would look similar.
    full = {each.removeprefix(PREFIX): each for each in known}
    nearest = difflib.get_close_matches(name.removeprefix(PREFIX), full, n=1)
    return f"Did you mean {full[nearest[0]]}?" if nearest else "`callsheet settings` lists them all."


def _sentence(error: ErrorDetails, overrides: Mapping[str, Any]) -> str:
    path = [part for part in error["loc"] if isinstance(part, str)]
    reason = _reason(error)
    if error["type"] == "extra_forbidden":
        name = ".".join(path)
        hint = _hint(name, [".".join(names) for names, _ in setting_fields()])
        return f"{name} in {_source_of_table(path)} is not a setting. {hint}"
    leaf = _leaf(path)
    if leaf is None:
        # The value is not shown, because it may contain a secret.
        return f"{'.'.join(path)} in {config_file()} must be a table of settings." if path else f"{reason}."
    names, field = leaf
    if is_table(field) and len(path) > len(names):
        # The value is not shown, because it is not known here which settings of a table are secret.
        return f"{'.'.join(path)} (from {_source_of_table(path)}): {reason}."
    # A table of providers contains their secrets.
    secret = "SecretStr" in str(field.annotation) or (is_table(field) and names[0] == "providers")
    # A URL may contain a password, and be refused because of it.
    value = "***" if secret else redact_text(repr(error["input"]))
    name, source = _source(names, overrides)
    return f"{name} is {value} (from {source}): {reason}. {field.description}"


def _reason(error: ErrorDetails) -> str:
    match error["type"]:
        case "missing":
            return "it is required"
        case "value_error":
            # Often a fragment such as "must name a directory": the name of the setting is in front of it.
            return text_of_validator(error).rstrip(".")
    return re.sub(r"^The (\w+) (?=must |has |is )", "it ", reason_of(error)).rstrip(".")


def _leaf(path: Sequence[str]) -> tuple[tuple[str, ...], FieldInfo] | None:
    # The location of pydantic continues into unions and items: the longest setting that is a prefix of it is meant.
    for names, field in setting_fields():
        if tuple(path[: len(names)]) == names:
            return names, field
    return None


def _source(names: Sequence[str], overrides: Mapping[str, Any]) -> tuple[str, str]:
    """The name of the setting in its source, and the source."""
    own = variable_name(names)
    if _is_given(names, overrides):
        return own, "the command line"
    if own in variables():
        return own, variables()[own][0]
    for short, (source, _) in short_variables().items():
        if SHORT_NAMES[short] == tuple(names):
            return short, source
    return own, str(config_file())


def _source_of_table(path: Sequence[str]) -> str:
    """The source of a setting that is inside a table."""
    own = f"{variable_name(path)}{DELIMITER}"
    sources = (source for name, (source, _) in variables().items() if own.startswith(f"{name}{DELIMITER}"))
    return next(sources, str(config_file()))


def file_of(names: Sequence[str]) -> Path | None:
    """The file of a setting; None if it is not set, or if it comes from the environment."""
    name = variable_name(names)
    if name in environment():
        return None
    if name in variables():
        return Path(variables()[name][0])
    file = config_file()
    return file if file.exists() and _is_given(names, read_config(file)) else None


def _is_given(names: Sequence[str], overrides: object) -> bool:
    if not names:
        return True
    return isinstance(overrides, Mapping) and names[0] in overrides and _is_given(names[1:], overrides[names[0]])


def source_reader() -> Callable[[Sequence[str]], str | None]:
    """A function that returns the source of a setting's value: the environment, or a file; None if neither sets it.
    Environment and files are read once.
    """
    given, short = variables(), short_variables()
    file = config_file()
    config = read_config(file) if file.exists() else {}

    def source_of(names: Sequence[str]) -> str | None:
        own = variable_name(names)
        # A table may also be set one name at a time.
        for name, (source, _) in given.items():
            if name == own or name.startswith(f"{own}{DELIMITER}"):
                return source
        for name, (source, _) in short.items():
            if SHORT_NAMES[name] == tuple(names):
                return source
        return str(file) if _is_given(names, config) else None

    return source_of
