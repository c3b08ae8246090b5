"""Options of every command: `--verbose`, `--quiet` and `--profile` before or after its name, and flags without a type
in the help.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import typer
from typer.core import TyperGroup

from callsheet import __version__
from callsheet.cli.shared.console import err, out, silence
from callsheet.cli.shared.profile_store import choose_profile
from callsheet.settings import SettingsError, find_place

_is_verbose: ContextVar[bool] = ContextVar("is_verbose", default=False)


def print_detail(message: str) -> None:
    """Prints a line if the user gave `--verbose`."""
    if _is_verbose.get():
        err.print(f"callsheet: {message}", style="dim")


def _turn_verbose(value: bool) -> None:
    if value and not _is_verbose.get():
        _is_verbose.set(True)
        print_detail(find_place().sentence)


def _turn_quiet(value: bool) -> None:
    if value:
        silence(True)


def _print_version(value: bool) -> None:
    if value:
        out.print(__version__)
        raise typer.Exit


VERSION = typer.Option(
    False, "--version", help="Print the version and exit.", callback=_print_version, is_eager=True, expose_value=False
)
VERBOSE = typer.Option(
    False,
    "--verbose",
    "-v",
    help="Print which installation and settings are used.",
    callback=_turn_verbose,
    is_eager=True,
    expose_value=False,
)


QUIET = typer.Option(
    False,
    "--quiet",
    "-q",
    help="Print results and errors only: no progress and no hints.",
    callback=_turn_quiet,
    is_eager=True,
    expose_value=False,
)

PROFILE = typer.Option(
    None,
    "--profile",
    metavar="NAME",
    help="Use this profile (CALLSHEET_PROFILE); `callsheet profiles list` shows yours.",
    callback=choose_profile,
    is_eager=True,
    expose_value=False,
)


def warn_of_ignored() -> None:
    """Warns about ignored files of another user. The code that reads files reports problems with the user's own."""
    try:
        ignored = find_place().ignored
    except SettingsError:
        return
    for note in ignored:
        err.print(f"callsheet: {note}")


class CommandTree(TyperGroup):
    def __init__(self, **given: Any):
        super().__init__(**given)
        shared = {param.name: param for param in self.params}
        for command in _leaves(self):
            # Commands that use a control plane over HTTP.
            if command.name == "logout" or any(param.name == "url" for param in command.params):
                command.params.append(shared["profile"])
            command.params.extend((shared["verbose"], shared["quiet"]))
        for command in (self, *_all(self)):
            command.get_params = _without_types_of_flags(command.get_params)

    def make_context(self, *given: Any, **extra: Any) -> Any:
        # A process may run several commands.
        silence(False)
        return super().make_context(*given, **extra)


def _without_types_of_flags(get_params: Callable[[Any], list[Any]]) -> Callable[[Any], list[Any]]:
    """Removes the type of flags from the help. Typer writes <bool> beside a flag, also beside --help, which is
    created only on request.
    """

    def quiet(context: Any) -> list[Any]:
        params = get_params(context)
        for param in params:
            if getattr(param, "is_flag", False):
                param.metavar = ""
        return params

    return quiet


def _all(group: Any) -> Iterator[Any]:
    for command in group.commands.values():
        yield command
        if hasattr(command, "commands"):
            yield from _all(command)


def _leaves(group: Any) -> Iterator[Any]:
    return (command for command in _all(group) if not hasattr(command, "commands"))
