"""`callsheet demo`: starts everything on embedded parts, and runs a real job."""

from __future__ import annotations

import typer

from callsheet.cli.installation.serve import run
from callsheet.settings import find_place, load_settings
from callsheet.toolbox.errors import OperatorError
from callsheet.toolbox.logs import configure_logs

# Everything that the demo starts, including its engine, listens on this machine only, whatever the settings say.
DEMO_HOST = "127.0.0.1"


def demo(
    leave: bool = typer.Option(False, "--exit", help="Run one job, print one line of JSON and exit."),
    port: int | None = typer.Option(None, help="Port to listen on (server.port)."),
    scale: bool = typer.Option(
        False, "--scale", help="Start without a worker, submit ten jobs, and watch the fleet grow and shrink."
    ),
) -> None:
    """Start everything on this machine, render a sample clip and keep running. Ctrl-C stops it."""
    given = {"port": port} if port is not None else {}
    settings = load_settings(server={**given, "host": DEMO_HOST})
    if find_place().is_system:
        raise OperatorError(
            "callsheet demo creates an operator, sample effects and tokens, so it does not work on the installation of "
            f"this machine ({settings.home}). Name another data directory: CALLSHEET_HOME=DIRECTORY callsheet demo"
        )
    if settings.database.dsn is not None:
        raise OperatorError(
            "callsheet demo creates an operator, sample effects and tokens, so it works on the embedded database only. "
            "Leave CALLSHEET_DATABASE__DSN out, or run: callsheet serve"
        )
    configure_logs("warning" if settings.log.level == "info" else settings.log.level, settings.log.format)
    # Imported here, because httpx and the whole catalog take 100 ms that other commands need not wait for.
    from callsheet_demo.run import run_demo

    run(run_demo, settings, leave, scale)
