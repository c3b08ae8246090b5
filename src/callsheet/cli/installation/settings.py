"""`callsheet settings`: every setting with its value, its default and its description."""

from __future__ import annotations

from typing import Any

import typer

from callsheet.cli.shared.console import out, print_json
from callsheet.settings import load_settings, setting_fields, variable_name
from callsheet.settings.tree import is_table
from callsheet.settings.variables import DELIMITER, PREFIX
from callsheet.toolbox.errors import OperatorError
from callsheet.toolbox.redaction.redaction import redact


def wanted_name(prefix: str) -> str:
    """The name in the form of variables, from a name that may be written as in TOML: `jobs.`, `server.po`,
    `CALLSHEET_SERVER__PO`.
    """
    upper = prefix.upper()
    return upper if upper.startswith(PREFIX) else PREFIX + upper.replace(".", DELIMITER)


def show(
    prefix: str = typer.Argument(
        "", metavar="[PREFIX]", help="Only settings whose name starts with this: server, database.dsn, CALLSHEET_JOBS …"
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """List the settings with the values in force. Secrets are not shown."""
    dumped = load_settings().model_dump(mode="json")
    values: dict[str, tuple[object, str | None]] = {}
    for path, field in setting_fields():
        value: Any = dumped
        for name in path:
            value = value[name]
        # A key in a table, for example an input of a model, may be named like a secret without being declared as one.
        values[variable_name(path)] = (redact(value) if is_table(field) else value, field.description)
    values = {name: value for name, value in values.items() if name.startswith(wanted_name(prefix))}
    if not values:
        raise OperatorError(f"No setting begins with {prefix!r}. `callsheet settings` lists them all.")
    if as_json:
        print_json({name: value for name, (value, _) in values.items()})
        return
    for name, (value, description) in values.items():
        out.print(name, style="bold", end="")
        out.print(f" = {value!r}")
        out.print(f"    {description}", style="dim")
