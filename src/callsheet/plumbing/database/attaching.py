"""A database that an operator makes a pool of a central: what it is now, and the change of its owner."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from callsheet.plumbing.database import migrate as schema
from callsheet.plumbing.database.database import connected
from callsheet.plumbing.database.databases import seal_dsns
from callsheet.plumbing.database.errors import DatabaseError
from callsheet.plumbing.database.ownership import (
    LEASE_SECONDS,
    Central,
    NotAttached,
    PoolOwner,
    claim,
    is_original,
    read_owner,
    read_system,
    retired,
    same_place,
    take,
)
from callsheet.plumbing.database.sql import Connection, statements
from callsheet.settings import Settings
from callsheet.wire.plurals import counted

SQL = statements("callsheet.plumbing.database")


@dataclass(frozen=True, slots=True)
class Target:
    """A pool, its new place, and its current owner."""

    name: str
    dsn: str
    owner: PoolOwner | None
    # The system identifier of the server, the oid of the database and the start of the server: the same for all DSNs
    # that lead to this database.
    place: tuple[int, int, datetime]
    # Another DSN than the one that central has.
    is_moved: bool
    # The same database through a pooler.
    pooled_dsn: str | None = None

    @property
    def is_original(self) -> bool:
        """Whether it is where it was claimed. A pool that was restored from a dump is elsewhere."""
        return self.owner is None or is_original(self.owner)


async def inspect_target(name: str, dsn: str, is_moved: bool) -> Target:
    # Kind and name are checked with the schema.
    if (await schema.inspect(dsn, "pool", name)).version == 0:
        raise DatabaseError(f"The database for pool {name} is empty. Restore a copy of the pool there first.")
    async with connected(dsn, name) as connection:
        owner = await read_owner(connection)
        server = await connection.fetchrow(
            "SELECT oid::bigint, pg_postmaster_start_time() FROM pg_database WHERE datname = current_database()"
        )
        assert server is not None
        return Target(name, dsn, owner, (await read_system(connection), server[0], server[1]), is_moved)


def require_not_retired(target: Target) -> None:
    if target.owner is not None and target.owner.retired_at is not None:
        raise retired(target.name, target.owner.retired_at, target.owner.successor)


def require_unused(target: Target, central: Central) -> None:
    """Raises if another central uses the database now."""
    owner = target.owner
    if owner is None or not owner.is_held or not target.is_original:
        return
    if same_place(central, owner) and central.started_at in (owner.central_started_at, owner.server_started_at):
        return
    raise NotAttached(
        f"The central at {owner.central_name} used pool {target.name} "
        f"{counted(round(owner.renewed_ago), 'second')} ago. Stop its "
        f"control planes, wait {LEASE_SECONDS:.0f} seconds, and run this again."
    )


async def give(target: Target, central: Central, attached_at: datetime) -> None:
    """Makes the database a pool of this central."""
    decided = replace(central, is_possible_copy=False)
    async with connected(target.dsn, target.name) as connection:
        if target.owner is None:
            await claim(connection, target.name, decided, attached_at)
        else:
            await take(connection, target.name, decided, attached_at, target.owner)


async def record(settings: Settings, connection: Connection, target: Target, attached_at: datetime) -> None:
    """Records in central that the database is the pool."""
    values = {"name": target.name, "attached_at": attached_at}
    if target.is_moved:
        sealed = seal_dsns(settings, target.dsn, target.pooled_dsn)
        await SQL["attach_pool"].run(connection, sealed_dsn=sealed, **values)
    else:
        await SQL["attach_pool_again"].run(connection, **values)
