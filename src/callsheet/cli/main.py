"""The `callsheet` command. Light to import: what needs the server parts is imported when it is used."""

from __future__ import annotations

import errno
import sys
from importlib.util import find_spec

import typer

from callsheet import __version__
from callsheet.cli import (
    accounts,
    catalog,
    database,
    demo,
    doctor,
    fleet,
    lightbox,
    pipelines,
    runs,
    secrets,
    serve,
    settings,
    submit,
    up,
    wallet,
    worker,
)
from callsheet.cli.command_tree import VERBOSE, VERSION, CommandTree, warn_of_ignored
from callsheet.cli.console import complain, give_up, out
from callsheet.toolbox.errors import OperatorError
from callsheet.toolbox.extras import how_to_install
from callsheet.wire.errors import Refusal

# A full disk, a device or a pipe that is gone, where the output was sent.
UNWRITABLE = (errno.ENOSPC, errno.EIO, errno.EPIPE, errno.EBADF)

app = typer.Typer(
    name="callsheet",
    cls=CommandTree,
    help="A self-hosted control plane for generative-media jobs.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("up")(up.up)
app.command("serve")(serve.serve)
app.command("demo")(demo.demo)
app.command("submit")(submit.submit)
app.command("task")(submit.task)
app.command("watch")(submit.watch)
app.command("lightbox")(lightbox.lightbox)
app.command("worker")(worker.worker)
app.command("doctor")(doctor.doctor)
app.command("settings")(settings.show)
app.add_typer(database.app, name="db")
app.add_typer(secrets.app, name="secrets")
app.add_typer(accounts.tenants, name="tenants")
app.add_typer(accounts.users, name="users")
app.add_typer(accounts.keys, name="keys")
app.add_typer(wallet.app, name="wallet")
app.add_typer(fleet.fleets, name="fleets")
app.add_typer(fleet.workers, name="workers")
app.add_typer(catalog.workflows, name="workflows")
app.add_typer(catalog.effects, name="effects")
app.add_typer(pipelines.pipelines, name="pipelines")
app.add_typer(runs.runs, name="runs")


@app.callback()
def options(version: bool = VERSION, verbose: bool = VERBOSE) -> None:
    warn_of_ignored()


@app.command("version")
def print_version() -> None:
    """Print the version."""
    out.print(__version__)


def main() -> None:
    try:
        try:
            app()
        finally:
            # What is still in the buffer fails here, where it can be told, and not when Python ends.
            if sys.stdout is not None:
                sys.stdout.flush()
    except (OperatorError, Refusal) as error:
        complain(str(error))
    except ModuleNotFoundError as error:
        if find_spec("asyncpg") is not None:
            raise
        complain(f"This command needs the server parts ({error.name} is missing): {how_to_install('server')}.")
    except OSError as error:
        if error.filename is not None or error.errno not in UNWRITABLE:
            raise
        give_up(sys.stdout)
        complain(f"What was to be printed cannot be written: {error.strerror}.")
    except KeyboardInterrupt:
        sys.exit(130)
