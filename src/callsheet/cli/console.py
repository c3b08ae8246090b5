"""How commands talk: sentences to people on stderr, results on stdout, JSON where `--json` asks for it."""

from __future__ import annotations

import json
import os
import reprlib
import sys
from collections.abc import Iterable, Sequence
from typing import NoReturn, TextIO, TypeVar

from pydantic import BaseModel, ValidationError
from rich.console import Console
from rich.table import Table

from callsheet.toolbox.errors import OperatorError
from callsheet.toolbox.redaction import redact_text
from callsheet.wire.forms import reason_of

Model = TypeVar("Model", bound=BaseModel)

# Names and messages are shown as they are: markup only where a command asks for it. Into a pipe nothing is folded,
# so that one row stays one line.
# Where there is no stdout at all (`>&-`) nothing is folded either.
_is_shown = sys.stdout is not None and sys.stdout.isatty()
out = Console(highlight=False, markup=False, emoji=False, soft_wrap=True, width=None if _is_shown else 10_000)
err = Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)


def complain(message: str) -> NoReturn:
    try:
        err.print(f"callsheet: {redact_text(message)}")
    except OSError:
        # Where even that cannot be written, the status is all there is.
        give_up(sys.stderr)
    sys.exit(1)


def give_up(stream: TextIO | None) -> None:
    """What is left in its buffer goes nowhere, or Python would fail a second time when it ends, with status 120."""
    if stream is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def print_json(value: object) -> None:
    """One line, so that it can be read by a program line by line."""
    if sys.stdout is not None:
        sys.stdout.write(json.dumps(value, default=_plain) + "\n")
        sys.stdout.flush()


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*("" if cell is None else str(cell) for cell in row))
    out.print(table)


def checked(model: type[Model], /, **values: object) -> Model:
    """The request a command makes of its arguments, or one sentence about the first that is wrong."""
    try:
        return model(**values)
    except ValidationError as invalid:
        first = invalid.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        # Of what is missing there is nothing to show, and of a megabyte not all.
        given = "" if first["type"] == "missing" else f" is {reprlib.repr(first['input'])}:"
        raise OperatorError(f"{field}{given} {reason_of(first)}.") from None


def _plain(value: object) -> object:
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else str(value)
