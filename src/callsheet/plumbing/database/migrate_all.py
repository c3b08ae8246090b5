"""Migrates central and every pool, after all of them were checked: if one cannot be migrated, none is changed."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

from callsheet.plumbing.database import migrate as schema
from callsheet.plumbing.database.database import connected, may_not_create
from callsheet.plumbing.database.databases import (
    CENTRAL,
    FIRST_POOL,
    first_pool_database,
    migrate_central,
    pool_addresses,
    with_database,
)
from callsheet.plumbing.database.errors import DatabaseError
from callsheet.plumbing.database.ownership import Central, check_owner, read_central
from callsheet.plumbing.database.pool_keeper import PoolAddress, empty_pool, prepare_pool
from callsheet.plumbing.database.sql import DatabaseKind
from callsheet.settings import Settings

COMMAND = "callsheet db migrate"


class NotMigrated(DatabaseError):
    """At least one database cannot be migrated, or was not. The message names each one with its reason."""


async def migrate_all(settings: Settings, dsn: str, without: Collection[str] = ()) -> dict[str, list[schema.Migration]]:
    """Migrates central first, then every pool except those in `without`. At a first start, the first pool is created.
    Returns the applied migrations by database.

    Raises NotMigrated before the first change if one of the databases cannot be migrated.
    """
    await _check_all(settings, dsn, without)
    applied = await migrate_central(settings, dsn)
    async with connected(dsn, CENTRAL) as connection:
        central = await read_central(connection, dsn)
    addresses = [each for each in await pool_addresses(settings, dsn) if each.name not in {*applied, *without}]
    # The result has this order, in whichever order the pools finish.
    names = [*applied, *(address.name for address in addresses)]
    problems: dict[str, str] = {}

    async def migrate(address: PoolAddress) -> None:
        try:
            applied[address.name] = await prepare_pool(address, central, migrate=True)
        except DatabaseError as error:
            problems[address.name] = str(error)

    await asyncio.gather(*map(migrate, addresses))
    if problems:
        done = ", ".join(name for name in names if name in applied)
        raise NotMigrated(_failed(f"These databases have the schema of this version now: {done}.", problems))
    return {name: applied[name] for name in names}


async def _check_all(settings: Settings, dsn: str, without: Collection[str]) -> None:
    """Reads only. The statements for this run on the schema of every earlier release."""
    problems: dict[str, str] = {}
    addresses: Sequence[PoolAddress] = []
    central: Central | None = None
    try:
        if await _check_schema(dsn, "central", CENTRAL):
            addresses = await pool_addresses(settings, dsn)
            async with connected(dsn, CENTRAL) as connection:
                central = await read_central(connection, dsn)
        if not addresses:
            await _check_first_pool(dsn)
    except DatabaseError as error:
        problems[CENTRAL] = str(error)
    unknown = sorted(set(without) - {address.name for address in addresses})
    if unknown and not problems:
        raise DatabaseError(f"This central has no pool {', '.join(unknown)}. Leave out only pools that it has.")

    async def check(address: PoolAddress) -> None:
        try:
            if central is not None:
                await _check_pool(address, central)
        except DatabaseError as error:
            problems[address.name] = str(error)

    await asyncio.gather(*(check(address) for address in addresses if address.name not in without))
    if problems:
        raise NotMigrated(_failed("No database was changed.", problems))


async def _check_pool(address: PoolAddress, central: Central) -> None:
    if not await _check_schema(address.dsn, "pool", address.name):
        raise empty_pool(address.name)
    async with connected(address.dsn, address.name) as connection:
        await check_owner(connection, address.name, central, address.attached_at)


async def _check_schema(dsn: str, kind: DatabaseKind, name: str) -> bool:
    """Checks that the database can be migrated. False if it is empty."""
    state = await schema.inspect(dsn, kind, name)
    if state.pending:
        async with connected(dsn, name) as connection:
            await schema.require_right_to_migrate(connection, name)
    return state.version > 0


async def _check_first_pool(dsn: str) -> None:
    """The first pool will be created beside central, or is there already, as after a crash."""
    async with connected(dsn, CENTRAL) as connection:
        database = await first_pool_database(connection)
        exists = await connection.fetchval("SELECT 1 FROM pg_database WHERE datname = $1", database)
        may = await connection.fetchval("SELECT rolcreatedb OR rolsuper FROM pg_roles WHERE rolname = current_user")
    if exists:
        await _check_schema(with_database(dsn, database), "pool", FIRST_POOL)
    elif not may:
        raise may_not_create(CENTRAL, database)


def _failed(state: str, problems: dict[str, str]) -> str:
    lines = [f"{name}: {problem}" for name, problem in sorted(problems.items())]
    pools = [name for name in sorted(problems) if name != CENTRAL]
    advice = f"Correct this and run {COMMAND} again."
    if len(pools) == len(problems):
        options = " ".join(f"--without {name}" for name in pools)
        advice += f" To leave out a pool that cannot be corrected now: {COMMAND} {options}"
    return "\n".join([state, *lines, advice])
