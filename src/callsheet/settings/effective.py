"""Every setting with its current value, the source of the value, and its documentation. Secrets are not shown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from callsheet.settings.installation_search import find_place
from callsheet.settings.loading import source_reader
from callsheet.settings.tree import Settings, is_table, setting_fields
from callsheet.settings.variables import variable_name
from callsheet.toolbox.redaction.redaction import redact

MASK = "********"
# Units by the end of a setting's name.
UNITS = {
    "_seconds": "seconds",
    "_minutes": "minutes",
    "_hours": "hours",
    "_days": "days",
    "_bytes": "bytes",
    "_bytes_per_second": "bytes per second",
    "_share": "share from 0 to 1",
    "_tokens": "tokens",
}


@dataclass(frozen=True, slots=True)
class EffectiveSetting:
    # The name in TOML, for example server.port.
    name: str
    variable: str
    value: object
    default: object
    # The source of the value; None for the default.
    source: str | None
    is_secret: bool
    unit: str | None
    description: str


def effective_settings(settings: Settings) -> Iterator[EffectiveSetting]:
    """All settings in the order of the source code."""
    dumped = settings.model_dump(mode="json")
    # This is not `Settings()`, which would read the environment.
    defaults = Settings.model_construct().model_dump(mode="json")
    source_of = source_reader()
    for path, field in setting_fields():
        value, default = _at(dumped, path), _at(defaults, path)
        secret = is_secret(field)
        # A value that differs from the default and is in neither a file nor the environment was an option of the
        # command.
        source = source_of(path) or ("the command line" if value != default else None)
        if path == ("home",) and settings.home == find_place().home:
            source = find_place().origin
        yield EffectiveSetting(
            name=".".join(path),
            variable=variable_name(path),
            value=shown(value, field),
            default=None if secret else shown(default, field),
            source=source,
            is_secret=secret,
            unit=unit_of(path[-1]),
            description=field.description or "",
        )


def is_secret(field: FieldInfo) -> bool:
    return "SecretStr" in str(field.annotation)


def shown(value: object, field: FieldInfo) -> object:
    """The value without secrets. A key in a table, for example an input of a model, may be named like a secret
    without being declared as one, and a URL may contain a password.
    """
    if is_secret(field):
        return None if value is None else MASK
    if is_table(field) or isinstance(value, str | list | dict):
        return redact(value)
    return value


def unit_of(name: str) -> str | None:
    found = [end for end in UNITS if f"_{name}".endswith(end)]
    return UNITS[max(found, key=len)] if found else None


def _at(tree: Any, path: tuple[str, ...]) -> object:
    for name in path:
        tree = tree[name]
    return None if tree is PydanticUndefined else tree
