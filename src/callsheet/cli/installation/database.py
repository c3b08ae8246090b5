"""`callsheet db …`: status, migrations and pools."""

from __future__ import annotations

import asyncio
import getpass
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit
from uuid import UUID

import typer

from callsheet.cli.shared.console import err, out, print_json, print_table
from callsheet.settings import POOL_DSN_VARIABLE, Settings, given_pool_direct_dsn, given_pool_dsn, load_settings
from callsheet.toolbox.errors import OperatorError
from callsheet.wire.errors import Unavailable
from callsheet.wire.plurals import counted

if TYPE_CHECKING:
    from callsheet.media.storage import Storage
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


@app.command()
def adopt(
    storage: bool = typer.Option(
        False, "--storage", help="Also take over the object storage: this installation may delete files there."
    ),
) -> None:
    """This central is the production, restored or moved: let it take over its pools.

    The central that had them before is refused from then on. Stop its control planes first.
    """
    names, place = asyncio.run(_adopt(load_settings(), storage))
    out.print(f"This central owns {', '.join(names)} now.")
    if place is not None:
        out.print(f"This installation owns the storage at {place} now.")


@app.command()
def repoint(
    pools: list[str] = typer.Argument(None, metavar="NAME=DSN …", help="A copy of each pool: pool_1=postgresql://…"),
    physical_copy: bool = typer.Option(
        False, "--physical-copy", help="The pools were copied as disk snapshots or data directories."
    ),
) -> None:
    """Give a copy of the central database its own installation id and pools, for example for staging.

    The pools must be copies as well. A pool needs no DSN here if it was copied together with central's whole server.
    """
    new_id, problem = asyncio.run(_repoint(load_settings(), _named_dsns(pools or []), physical_copy))
    out.print(f"This copy is installation {new_id} now, with pools of its own.")
    if problem is not None:
        err.print(f"Warning: {problem}")


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
    from callsheet.operate.installation.replication import replication_report
    from callsheet.plumbing.database.database import connected
    from callsheet.plumbing.database.databases import CENTRAL, pool_addresses
    from callsheet.plumbing.database.migrate import inspect
    from callsheet.plumbing.database.ownership import read_central
    from callsheet.plumbing.database.replication import read_replication

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
    row["installation"] = str(central.installation_id)
    return [row, *[await _pool_row(pool, central) for pool in await pool_addresses(settings, dsn)]]


async def _pool_row(pool: PoolAddress, central: Central) -> dict[str, Any]:
    from callsheet.operate.installation.replication import replication_report
    from callsheet.plumbing.database.database import connected
    from callsheet.plumbing.database.migrate import inspect
    from callsheet.plumbing.database.ownership import read_owner, refusal
    from callsheet.plumbing.database.replication import read_replication

    row = _row(pool.name, "pool", pool.readable_dsn)
    try:
        row |= _schema_of(await inspect(pool.dsn, "pool", pool.name))
        async with connected(pool.dsn, pool.name) as connection:
            row["replication"] = replication_report(await read_replication(connection))
            owner = await read_owner(connection)
    except OperatorError as error:
        return {**row, "problem": str(error)}
    if owner is None:
        return row
    refused = refusal(pool.name, central, owner)
    matches = {"installation": str(owner.installation_id), "matches": refused is None}
    return {**row, **matches, "problem": row["problem"] or (str(refused) if refused else None)}


def _row(name: str, kind: str, dsn: str | None) -> dict[str, Any]:
    from callsheet.plumbing.database.database import shown_address

    host, database = (None, None) if dsn is None else shown_address(dsn)
    unknown: dict[str, Any] = {"schema": None, "pending": [], "installation": None, "matches": None, "problem": None}
    return {"name": name, "kind": kind, "host": host, "database": database, **unknown, "replication": None}


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
    if given is not None:
        if _has_password(given):
            raise OperatorError(
                "A password on the command line can be read by other users of this machine, and stays in the shell's "
                f"history. Set {POOL_DSN_VARIABLE} to the whole URL, or leave it out to get a prompt."
            )
        return given
    dsn = given_pool_dsn()
    if dsn is None and sys.stdin.isatty():
        dsn = getpass.getpass("Database (postgresql://user:password@host/name): ").strip()
    if not dsn:
        raise OperatorError(f"Which database? Set {POOL_DSN_VARIABLE}=postgresql://user:password@host/name.")
    return dsn


def _has_password(dsn: str) -> bool:
    try:
        parts = urlsplit(dsn)
        return bool(parts.password) or "password" in parse_qs(parts.query)
    except ValueError:
        # The text is not a URL; the caller refuses it.
        return False


async def _add_pool(settings: Settings, name: str, pool_dsn: str) -> list[str]:
    from callsheet.plumbing.database.databases import CENTRAL, add_pool
    from callsheet.plumbing.database.migrate import require_current
    from callsheet.plumbing.installation.secrets import master_secret

    async with _running_central(settings) as dsn:
        master_secret(settings, create=False)
        # Only central is migrated: the first pool may be the one that is being added.
        await require_current(dsn, "central", CENTRAL)
        return [migration.label for migration in await add_pool(settings, dsn, name, pool_dsn, given_pool_direct_dsn())]


async def _adopt(settings: Settings, with_storage: bool) -> tuple[list[str], str | None]:
    """The adopted pools, and the place of the storage if it was taken over too."""
    from callsheet.media.storage.owner import mark
    from callsheet.plumbing.database.database import connected
    from callsheet.plumbing.database.databases import CENTRAL
    from callsheet.plumbing.database.ownership import read_central
    from callsheet.plumbing.database.repoint import adopt

    async with _running_central(settings) as dsn:
        names = await adopt(settings, dsn)
        if not with_storage:
            return names, None
        async with connected(dsn, CENTRAL) as connection:
            central = await read_central(connection, dsn)
        async with _storage(settings) as storage:
            await mark(storage, central.installation_id)
            return names, storage.place


async def _repoint(settings: Settings, dsns: dict[str, str], physical_copy: bool) -> tuple[UUID, str | None]:
    """The new id, and the reason why this copy may not delete anything in its storage, if there is one."""
    from callsheet.media.storage.owner import refusal
    from callsheet.plumbing.database.repoint import repoint

    async with _running_central(settings) as dsn:
        new_id = await repoint(settings, dsn, dsns, physical_copy=physical_copy)
    async with _storage(settings) as storage:
        try:
            return new_id, await refusal(storage, new_id)
        except Unavailable as error:
            return new_id, f"The storage at {storage.place} was not checked: {error}"


@asynccontextmanager
async def _storage(settings: Settings) -> AsyncIterator[Storage]:
    from callsheet.media.storage import open_storage
    from callsheet.plumbing.installation.secrets import master_secret

    storage = open_storage(settings, master_secret(settings, create=False), None)
    try:
        yield storage
    finally:
        await storage.close()


def _named_dsns(given: list[str]) -> dict[str, str]:
    dsns = {}
    for each in given:
        name, separator, dsn = each.partition("=")
        if not separator or not dsn.startswith(("postgresql://", "postgres://")):
            # The text is not shown, because it may contain a password.
            raise OperatorError("Write each pool as NAME=DSN, like pool_1=postgresql://user:password@host/name")
        dsns[name] = dsn
    return dsns


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
