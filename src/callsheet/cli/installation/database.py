"""`callsheet db …`: status, migrations and pools."""

from __future__ import annotations

import asyncio
import getpass
import os
import shutil
import signal
import sys
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import typer

from callsheet.cli.installation.adoption import adopt, pool_dsn, repoint
from callsheet.cli.shared.console import out, print_json, print_table
from callsheet.settings import POOL_DSN_VARIABLE, Settings, given_pool_direct_dsn, load_settings
from callsheet.toolbox.errors import OperatorError
from callsheet.wire.plurals import counted

if TYPE_CHECKING:
    from callsheet.plumbing.database.migrate import SchemaState
    from callsheet.plumbing.database.ownership import Central
    from callsheet.plumbing.database.pool_keeper import PoolAddress

app = typer.Typer(help="The databases: status, migrations, pools.", no_args_is_help=True)


@app.command()
def status(as_json: bool = typer.Option(False, "--json", help="Print JSON.")) -> None:
    """Show where central and each pool are, their schemas, and whether the pools belong to this central."""
    report = asyncio.run(_status(load_settings()))
    if as_json:
        print_json(report)
    else:
        for name, value in report.items():
            if name != "databases":
                out.print(f"{name}: {value}")
        columns = ("name", "kind", "host", "database", "schema", "installation")
        print_table(columns, [[_shown(row, column) for column in columns] for row in report["databases"]])
        for row in report["databases"]:
            if row["replication"]:
                clock = f"clock {row['replication']['clock_offset_seconds']:+.2f} s"
                out.print(f"{row['name']}: {row['replication']['shown']}; {clock}")
            if row["replica"]:
                out.print(f"{row['name']}: lists and charts of operators {row['replica']['shown']}")
            if row["problem"]:
                out.print(f"{row['name']}: {row['problem']}")


@app.command()
def migrate(
    create: bool = typer.Option(False, "--create", help="Create the installation if there is none yet."),
    without: list[str] = typer.Option(
        [], "--without", metavar="POOL", help="Leave this pool out. It is not served until it is migrated."
    ),
) -> None:
    """Migrate central and every pool to the schema of this version.

    All of them are checked first. If one cannot be migrated, none is changed.
    """
    applied = asyncio.run(_migrate(load_settings(), create, without))
    for name, labels in applied.items():
        out.print(f"{name}: {', '.join(labels) if labels else 'up to date'}")
    number = sum(len(labels) for labels in applied.values())
    done = f"Applied {counted(number, 'migration')}" if number else "No migration was needed"
    out.print(f"{done}. {counted(len(applied), 'database has', 'databases have')} the schema of this version.")


@app.command("add-pool")
def add_pool(
    name: str = typer.Argument(help="Name of the pool, for example pool_2."),
    dsn: str | None = typer.Argument(
        None,
        help="URL of the pool's database, without a password: postgresql://user@host/name. Default: "
        "CALLSHEET_POOL_DSN in the environment, otherwise a prompt. Both may contain the password: "
        "postgresql://user:password@host/name.",
    ),
) -> None:
    """Add a pool: a database that holds tenants.

    If its URL goes through a pooler in transaction mode, set CALLSHEET_POOL_DIRECT_DSN to its URL without the pooler.
    """
    applied = asyncio.run(_add_pool(load_settings(), name, _pool_dsn(dsn)))
    out.print(f"{name}: {', '.join(applied) if applied else 'up to date'}; it can hold tenants now.")


app.command()(adopt)
app.command()(repoint)


@app.command()
def shell(database: str = typer.Argument("central", help="central, or the name of a pool.")) -> None:
    """Open psql on a database."""
    raise typer.Exit(asyncio.run(_shell(load_settings(), database)))


@app.command()
def stop() -> None:
    """Stop the embedded PostgreSQL, even if another process uses it."""
    out.print("PostgreSQL was stopped." if asyncio.run(_stop(load_settings())) else "PostgreSQL was not running.")


async def _status(settings: Settings) -> dict[str, Any]:
    from callsheet.plumbing.embedded import status as embedded_status
    from callsheet.plumbing.installation.installation import NoInstallation, require_installation

    try:
        await require_installation(settings)
    except NoInstallation:
        raise
    except OperatorError:
        # A database that cannot be reached is listed with its problem.
        if settings.database.dsn is None:
            raise
    report: dict[str, Any] = {"server": "external", "databases": []}
    if settings.database.server_dsn is not None:
        report["databases"] = await _schemas(settings, settings.database.server_dsn.get_secret_value())
    else:
        found = await embedded_status(settings.home)
        report = {
            "server": "embedded",
            "running": found.running,
            "version": found.version,
            "port": found.port,
            "data": str(found.data_directory),
            "size_bytes": found.size_bytes,
            "databases": [],
        }
        if found.running:
            async with _running_central(settings) as dsn:
                report["databases"] = await _schemas(settings, dsn)
    return report


async def _schemas(settings: Settings, dsn: str) -> list[dict[str, Any]]:
    from callsheet.operate.installation.replication import replica_report, replica_state, replication_report
    from callsheet.plumbing.database.database import connected
    from callsheet.plumbing.database.databases import CENTRAL, pool_addresses, replica_dsn_of
    from callsheet.plumbing.database.migrate import inspect
    from callsheet.plumbing.database.ownership import read_central
    from callsheet.plumbing.database.servers.replication import read_replication

    row = _row(CENTRAL, "central", dsn)
    try:
        state = await inspect(dsn, "central", CENTRAL)
    except OperatorError as error:
        return [{**row, "problem": str(error)}]
    row |= _schema_of(state)
    async with connected(dsn, CENTRAL) as connection:
        row["replication"] = replication_report(await read_replication(connection))
        if state.pending:
            return [row]
        central = await read_central(connection, dsn)
    row["replica"] = replica_report(await replica_state(settings, CENTRAL, dsn, replica_dsn_of(settings)))
    row["installation"] = str(central.installation_id)
    return [row, *[await _pool_row(settings, pool, central) for pool in await pool_addresses(settings, dsn)]]


async def _pool_row(settings: Settings, pool: PoolAddress, central: Central) -> dict[str, Any]:
    from callsheet.operate.installation.replication import replica_report, replica_state, replication_report
    from callsheet.plumbing.database.database import connected
    from callsheet.plumbing.database.migrate import inspect
    from callsheet.plumbing.database.ownership import read_owner, refusal
    from callsheet.plumbing.database.servers.replication import read_replication

    row = _row(pool.name, "pool", pool.readable_dsn)
    try:
        row |= _schema_of(await inspect(pool.dsn, "pool", pool.name))
        async with connected(pool.dsn, pool.name) as connection:
            row["replication"] = replication_report(await read_replication(connection))
            owner = await read_owner(connection)
        row["replica"] = replica_report(await replica_state(settings, pool.name, pool.dsn, pool.replica_dsn))
    except OperatorError as error:
        return {**row, "problem": str(error)}
    if owner is None:
        return row
    refused = refusal(pool.name, central, owner, pool.attached_at)
    matches = {"installation": str(owner.installation_id), "matches": refused is None}
    return {**row, **matches, "problem": row["problem"] or (str(refused) if refused else None)}


def _row(name: str, kind: str, dsn: str | None) -> dict[str, Any]:
    from callsheet.plumbing.database.errors import shown_address

    host, database = (None, None) if dsn is None else shown_address(dsn)
    unknown: dict[str, Any] = {"schema": None, "pending": [], "installation": None, "matches": None, "problem": None}
    return {
        "name": name,
        "kind": kind,
        "host": host,
        "database": database,
        **unknown,
        "replication": None,
        "replica": None,
    }


def _schema_of(state: SchemaState) -> dict[str, Any]:
    pending = [migration.label for migration in state.pending]
    problem = f"It lacks {', '.join(pending)}. Run: callsheet db migrate" if pending else None
    return {"schema": state.version, "pending": pending, "problem": problem}


def _shown(row: dict[str, Any], column: str) -> object:
    if column != "installation" or row["installation"] is None:
        return row[column]
    return row["installation"] + ("" if row["matches"] is not False else " (not this central's)")


async def _migrate(settings: Settings, create: bool, without: list[str]) -> dict[str, list[str]]:
    from callsheet.plumbing.database.migrate_all import migrate_all
    from callsheet.plumbing.installation.secrets import master_secret

    if create:
        # A control plane that is started later on this machine uses this key, and so do pools that are added before
        # that.
        master_secret(settings)
    async with _running_central(settings, create=create) as dsn:
        applied = await migrate_all(settings, dsn, without)
    return {name: [migration.label for migration in migrations] for name, migrations in applied.items()}


def _pool_dsn(given: str | None) -> str:
    dsn = pool_dsn(given)
    if dsn is None and sys.stdin.isatty():
        dsn = getpass.getpass("Database (postgresql://user:password@host/name): ").strip()
    if not dsn:
        raise OperatorError(f"Which database? Set {POOL_DSN_VARIABLE}=postgresql://user:password@host/name.")
    return dsn


async def _add_pool(settings: Settings, name: str, pool_dsn: str) -> list[str]:
    from callsheet.plumbing.database.databases import CENTRAL, add_pool
    from callsheet.plumbing.database.migrate import require_current
    from callsheet.plumbing.installation.secrets import master_secret

    async with _running_central(settings) as dsn:
        master_secret(settings, create=False)
        # Only central is migrated: the first pool may be the one that is being added.
        await require_current(dsn, "central", CENTRAL)
        return [migration.label for migration in await add_pool(settings, dsn, name, pool_dsn, given_pool_direct_dsn())]


async def _shell(settings: Settings, database: str) -> int:
    from callsheet.plumbing.database.databases import CENTRAL, pool_addresses

    async with _running_central(settings) as dsn:
        addresses = {CENTRAL: dsn}
        if database != CENTRAL:
            addresses |= {pool.name: pool.dsn for pool in await pool_addresses(settings, dsn)}
        if database not in addresses:
            raise OperatorError(f"There is no database {database!r}. Available: {', '.join(addresses)}.")
        command, environment = _psql(addresses[database])
        # psql handles Ctrl-C itself; the server must run until psql has ended.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        process = await asyncio.create_subprocess_exec(*command, env={**os.environ, **environment})
        return await process.wait()


def _psql(dsn: str) -> tuple[list[str], dict[str, str]]:
    """The command and its environment, which keeps the password out of the process list."""
    from callsheet.plumbing.embedded.binaries import find_binaries

    embedded = find_binaries().psql
    psql = str(embedded) if embedded.exists() else shutil.which("psql")
    if psql is None:
        raise OperatorError("psql is not installed. Install your system's PostgreSQL client package.")
    parts = urlsplit(dsn)
    account, _, host = parts.netloc.rpartition("@")
    user, _, password = account.partition(":")
    query = f"?{parts.query}" if parts.query else ""
    address = f"{parts.scheme}://{user}{'@' if user else ''}{host}{parts.path}{query}"
    return [psql, address], {"PGPASSWORD": unquote(password)} if password else {}


async def _stop(settings: Settings) -> bool:
    from callsheet.plumbing.embedded import stop as stop_embedded
    from callsheet.plumbing.installation.installation import require_installation

    if settings.database.dsn is not None:
        raise OperatorError("The database is external (database.dsn is set); Callsheet does not stop it.")
    await require_installation(settings)
    return await stop_embedded(settings.home)


def _running_central(settings: Settings, *, create: bool = False) -> AbstractAsyncContextManager[str]:
    from callsheet.plumbing.database.databases import reached_central

    return reached_central(settings, create=create)
