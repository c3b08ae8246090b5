"""`callsheet settings`: every setting with its value, its default and a sentence."""

from __future__ import annotations

from typing import Any

import typer

from callsheet.cli.console import out, print_json
from callsheet.settings import load_settings, setting_fields, variable_name
from callsheet.settings.tree import is_table
from callsheet.toolbox.redaction import redact


def show(as_json: bool = typer.Option(False, "--json", help="Print JSON.")) -> None:
    """List every setting with its value in force (secrets are not shown)."""
    dumped = load_settings().model_dump(mode="json")
    values: dict[str, tuple[object, str | None]] = {}
    for path, field in setting_fields():
        value: Any = dumped
        for name in path:
            value = value[name]
        # What stands in a table, as inputs of a model do, may be named like a secret without being declared as one.
        values[variable_name(path)] = (redact(value) if is_table(field) else value, field.description)
    if as_json:
        print_json({name: value for name, (value, _) in values.items()})
        return
    for name, (value, description) in values.items():
        out.print(name, style="bold", end="")
        out.print(f" = {value!r}")
        out.print(f"    {description}", style="dim")
