"""The `callsheet` command. It is light to import: server parts are imported only when they are used."""

from __future__ import annotations

import errno
import os
import sys
from importlib.util import find_spec

import typer

from callsheet import __version__
from callsheet.cli.accounts import accounts, budgets, profiles, quotas, wallet, webhooks
from callsheet.cli.accounts import tenant_weights as shares
from callsheet.cli.catalog import effects, workflows
from callsheet.cli.fleet import fleet, fleet_workflows, scaling, worker, worker_details
from callsheet.cli.installation import database, doctor, installation_health, lightbox, secrets, serve, settings, up
from callsheet.cli.jobs import batches, jobs, pipelines, runs, submit
from callsheet.cli.shared.command_tree import PROFILE, QUIET, VERBOSE, VERSION, CommandTree, warn_of_ignored
from callsheet.cli.shared.console import WRONG_USAGE, complain, give_up, out, wants_json
from callsheet.cli.shared.refusals import sentence_of
from callsheet.cli.start import INTERRUPTED
from callsheet.toolbox.errors import OperatorError, how_to_install
from callsheet.toolbox.logs import configure_logs
from callsheet.wire.errors import CallsheetError
from callsheet_demo import command as demo
from callsheet_simulation import command as simulate
from callsheet_simulation import job_export

# The output was sent to a full disk, a missing device or a closed pipe.
UNWRITABLE = (errno.ENOSPC, errno.EIO, errno.EPIPE, errno.EBADF)

app = typer.Typer(
    name="callsheet",
    cls=CommandTree,
    help="A self-hosted control plane for generative-media jobs.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
RUN, WORK, ADMINISTER = "Run", "Work with jobs", "Administer"

app.command("demo", rich_help_panel=RUN)(demo.demo)
app.command("up", rich_help_panel=RUN)(up.up)
app.command("serve", rich_help_panel=RUN)(serve.serve)
app.command("worker", rich_help_panel=RUN)(worker.worker)
app.command("lightbox", rich_help_panel=RUN)(lightbox.lightbox)
app.command("login", rich_help_panel=WORK)(profiles.login)
app.command("logout", rich_help_panel=WORK)(profiles.logout)
app.add_typer(profiles.profiles, name="profiles", rich_help_panel=WORK)
app.command("submit", rich_help_panel=WORK)(submit.submit)
app.command("quote", rich_help_panel=WORK)(submit.quote)
app.command("task", rich_help_panel=WORK)(submit.task)
app.command("watch", rich_help_panel=WORK)(submit.watch)
app.command("cancel", rich_help_panel=WORK)(jobs.cancel_job)
jobs.jobs.command("export")(job_export.export_jobs)
app.add_typer(jobs.jobs, name="jobs", rich_help_panel=WORK)
app.add_typer(batches.batches, name="batches", rich_help_panel=WORK)
app.add_typer(pipelines.pipelines, name="pipelines", rich_help_panel=WORK)
app.add_typer(runs.runs, name="runs", rich_help_panel=WORK)
app.add_typer(webhooks.webhooks, name="webhooks", rich_help_panel=WORK)
app.command("doctor", rich_help_panel=ADMINISTER)(doctor.doctor)
app.command("simulate", rich_help_panel=ADMINISTER)(simulate.simulate)
app.command("queue", rich_help_panel=ADMINISTER)(installation_health.queue)
app.command("alerts", rich_help_panel=ADMINISTER)(installation_health.alerts)
accounts.tenants.command("quotas")(quotas.tenant_quotas)
accounts.tenants.command("share")(shares.tenant_share)
accounts.tenants.command("wallet")(wallet.tenant_wallet)
fleet.fleets.command("assign")(fleet_workflows.assign_workflows)
fleet.fleets.command("unassign")(fleet_workflows.unassign_workflows)
fleet.fleets.command("set")(fleet_workflows.set_workflows)
fleet.workers.command("show")(worker_details.show_worker)
fleet.fleets.command("scale")(scaling.scale_fleet)
fleet.fleets.command("decisions")(scaling.list_decisions)
app.add_typer(accounts.tenants, name="tenants", rich_help_panel=ADMINISTER)
app.add_typer(accounts.users, name="users", rich_help_panel=ADMINISTER)
app.add_typer(accounts.keys, name="keys", rich_help_panel=ADMINISTER)
app.add_typer(budgets.budgets, name="budgets", rich_help_panel=ADMINISTER)
app.add_typer(wallet.app, name="wallet", rich_help_panel=ADMINISTER)
app.add_typer(workflows.workflows, name="workflows", rich_help_panel=ADMINISTER)
app.add_typer(effects.effects, name="effects", rich_help_panel=ADMINISTER)
app.add_typer(fleet.fleets, name="fleets", rich_help_panel=ADMINISTER)
app.add_typer(fleet.workers, name="workers", rich_help_panel=ADMINISTER)
app.add_typer(database.app, name="db", rich_help_panel=ADMINISTER)
app.add_typer(secrets.app, name="secrets", rich_help_panel=ADMINISTER)
app.command("settings", rich_help_panel=ADMINISTER)(settings.show)


@app.callback()
def options(
    version: bool = VERSION, profile: str | None = PROFILE, verbose: bool = VERBOSE, quiet: bool = QUIET
) -> None:
    # Logs must not be mixed with the results. Commands that serve set up their own logs.
    configure_logs("warning")
    warn_of_ignored()


@app.command("help", rich_help_panel=ADMINISTER)
def print_help(
    context: typer.Context,
    names: list[str] = typer.Argument(None, metavar="[COMMAND]...", help="The command, for example jobs show."),
) -> None:
    """Show the commands, or the help of one command."""
    shown = context.find_root()
    for name in names or ():
        command = getattr(shown.command, "commands", {}).get(name)
        if command is None:
            raise OperatorError(f"There is no command {' '.join(names)!r}. To list them: callsheet help")
        shown = type(shown)(command, info_name=name, parent=shown)
    typer.echo(shown.get_help())


@app.command("version", rich_help_panel=ADMINISTER)
def print_version() -> None:
    """Print the version."""
    out.print(__version__)


class WrongUsage(OperatorError):
    """The arguments are not valid."""

    code = "wrong_usage"


def _run() -> None:
    if not wants_json():
        app()
    try:
        # Typer would write the error of the arguments in its own form.
        status = app(standalone_mode=False)
    except typer.Abort:
        raise OperatorError("The command was aborted.") from None
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        complain(error.format_message(), WrongUsage(), WRONG_USAGE)
    sys.exit(status or 0)


def _refuse_other_encodings() -> None:
    """Python decodes bytes that are not UTF-8 to surrogates, which no file, database or server accepts as text."""
    for argument in sys.argv[1:]:
        try:
            argument.encode()
        except UnicodeEncodeError:
            shown = os.fsencode(argument).decode("utf-8", "backslashreplace")
            complain(
                f"The argument {shown} is not UTF-8. Write it in UTF-8; rename a file whose name is not.",
                WrongUsage(),
                WRONG_USAGE,
            )


def main() -> None:
    try:
        try:
            _refuse_other_encodings()
            _run()
        finally:
            # The rest of the buffer fails here, where it can be reported, and not when Python ends.
            if sys.stdout is not None:
                sys.stdout.flush()
    except (OperatorError, CallsheetError) as error:
        complain(sentence_of(error), error)
    except ModuleNotFoundError as error:
        if find_spec("asyncpg") is not None:
            raise
        complain(f"This command needs the server parts ({error.name} is missing): {how_to_install('server')}.")
    except OSError as error:
        if error.filename is not None or error.errno not in UNWRITABLE:
            raise
        give_up(sys.stdout)
        complain(f"The output cannot be written: {error.strerror}.")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
