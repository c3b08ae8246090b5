"""Output of commands: messages on stderr, results on stdout, and JSON with `--json`."""

from __future__ import annotations

import json
import os
import reprlib
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import NoReturn, TextIO, TypeVar

from pydantic import BaseModel, ValidationError
from rich.console import Console

from callsheet.cli.shared.tables import print_rows
from callsheet.toolbox.errors import OperatorError
from callsheet.toolbox.redaction.redaction import redact_text
from callsheet.wire.reasons import reason_of

Model = TypeVar("Model", bound=BaseModel)
UNITS = ((86_400 * 365, "y"), (86_400, "d"), (3600, "h"), (60, "min"))
FAILED, WRONG_USAGE = 1, 2

# Names and messages are shown unchanged: markup is used only if a command asks for it. Output to a pipe is not wrapped,
# so that one row stays one line. Without stdout (`>&-`) nothing is wrapped either.
_is_shown = sys.stdout is not None and sys.stdout.isatty()
out = Console(highlight=False, markup=False, emoji=False, soft_wrap=True, width=None if _is_shown else 10_000)
err = Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)


def complain(message: str, error: BaseException | None = None, status: int = FAILED) -> NoReturn:
    """Prints one sentence; with `--json` one object that a program can read."""
    silence(False)
    try:
        if wants_json():
            err.print(json.dumps(problem_of(message, error)))
        else:
            err.print(f"callsheet: {redact_text(message)}")
    except OSError:
        # If even that cannot be written, only the status is left.
        give_up(sys.stderr)
    sys.exit(status)


def silence(is_quiet: bool) -> None:
    """With `--quiet`, only results and errors are printed."""
    err.quiet = is_quiet


def wants_json() -> bool:
    """Whether `--json` is among the arguments. They are searched directly, because they may be invalid."""
    arguments = sys.argv[1:]
    return "--json" in (arguments[: arguments.index("--")] if "--" in arguments else arguments)


def problem_of(message: str, error: BaseException | None) -> dict[str, object]:
    """The error as JSON, in the form of an error of the HTTP API. If the control plane refused, it has the same
    code.
    """
    errors = [{"field": each.field, "reason": redact_text(each.reason)} for each in getattr(error, "errors", ())]
    return {"code": getattr(error, "code", "failed"), "detail": redact_text(message), "errors": errors}


def give_up(stream: TextIO | None) -> None:
    """Discards the rest of a stream's buffer. Otherwise Python would fail a second time at its end, with status 120."""
    if stream is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def print_json(value: object) -> None:
    """Prints one line of JSON, so that a program can read line by line."""
    if sys.stdout is not None:
        sys.stdout.write(json.dumps(value, default=_plain) + "\n")
        sys.stdout.flush()


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    print_rows(out, columns, [["" if cell is None else str(cell) for cell in row] for row in rows])


def moment(value: datetime | None) -> str:
    """The relative time for a person at a terminal, or the time itself for a program."""
    if value is None:
        return ""
    if not out.is_terminal:
        return value.isoformat(timespec="seconds")
    return relative((value - datetime.now(UTC)).total_seconds())


def relative(seconds: float) -> str:
    """The time from now; the past is negative."""
    if abs(seconds) < 1:
        return "now"
    return f"{seconds_text(-seconds)} ago" if seconds < 0 else f"in {seconds_text(seconds)}"


def seconds_text(seconds: float | None) -> str:
    """The duration in its largest unit, for example 3 min instead of 200 s."""
    if seconds is None:
        return ""
    size, unit = next((each for each in UNITS if seconds >= each[0]), (1, "s"))
    return f"{int(seconds // size)} {unit}"


def checked(model: type[Model], /, **values: object) -> Model:
    """The request of a command from its arguments. Raises with one sentence about the first wrong one."""
    try:
        return model(**values)
    except ValidationError as invalid:
        first = invalid.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        # A missing value cannot be shown, and a long one is shortened.
        given = "" if first["type"] == "missing" else f" is {reprlib.repr(first['input'])}"
        raise OperatorError(f"{field}{given}: {reason_of(first)}") from None


def agrees(question: str, yes: bool, *, default: bool = False) -> bool:
    """Whether the user gave --yes or agrees at a terminal. Without a terminal there is no one to ask."""
    import typer

    return yes or (sys.stdin.isatty() and typer.confirm(question, default=default, err=True))


def require_consent(question: str, outcome: str, yes: bool, purpose: str, *, default: bool = False) -> None:
    if not agrees(question, yes, default=default):
        raise OperatorError(f"Nothing was {outcome}. Add --yes to {purpose}.")


def _plain(value: object) -> object:
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else str(value)
