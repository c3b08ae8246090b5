"""Decides which central may work on a pool (decision 0023).

A copy of central knows the DSNs of production's pools. So each pool records its owner: the installation, the place of
central (server and database), and a lease with the start time of central's server. The claim is one statement;
`refusal` explains why it changed nothing.

The pool and central also record when the database became the pool. A database that another one replaced is marked as
retired; a restored copy from before knows an earlier time, or is at another place than where it was claimed (decision
0053).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg

from callsheet.plumbing.database.errors import DatabaseError, shown_address
from callsheet.plumbing.database.sql import Connection, statements
from callsheet.wire.plurals import counted

SQL = statements("callsheet.plumbing.database")
POOL_SQL = statements("callsheet.plumbing.database", "pool_statements.sql")
LEASE_SECONDS = 30.0
RENEW_SECONDS = 5.0
# Servers that do not report their system identifier: it is not compared.
UNKNOWN_SYSTEM = 0


class WrongOwner(DatabaseError):
    """This central may not work on the pool. The message explains what the operator has to decide."""


class NotAttached(WrongOwner):
    """Another database took the place of this one, or this one was restored, and no operator has attached it."""


class LeaseHeld(WrongOwner):
    """Another server with this central's data has the pool, or had it until a moment ago."""

    def __init__(self, message: str, renewed_at: datetime):
        super().__init__(message)
        self.renewed_at = renewed_at


@dataclass(frozen=True, slots=True)
class Central:
    """This process's central, as its server describes it now."""

    installation_id: UUID
    system: int
    database: int
    name: str
    started_at: datetime
    is_possible_copy: bool = False


@dataclass(frozen=True, slots=True)
class PoolOwner:
    """The record in a pool, and the current report of its server."""

    installation_id: UUID
    central_system: int
    central_database: int
    central_name: str
    central_started_at: datetime
    renewed_at: datetime
    pool_system: int
    pool_database: int
    is_held: bool
    renewed_ago: float
    attached_at: datetime
    retired_at: datetime | None
    successor: str | None
    server_started_at: datetime
    database: int
    system: int


async def read_central(connection: Connection, dsn: str) -> Central:
    installation = await SQL["read_installation"].row(connection)
    server = await SQL["read_server"].row(connection)
    if installation is None or server is None:
        raise DatabaseError("Database central has no installation id: the row of its table installation is missing.")
    host, database = shown_address(dsn)
    return Central(
        installation_id=installation["id"],
        system=await read_system(connection),
        database=server["database"],
        name=f"{host}/{database or server['database_name']}",
        started_at=server["started_at"],
        is_possible_copy=installation["possible_copy_at"] is not None,
    )


async def read_system(connection: Connection) -> int:
    """The identifier of a server. A physical copy has the same identifier; another server never has it."""
    try:
        system: int = await connection.fetchval("SELECT system_identifier FROM pg_control_system()")
    except (asyncpg.InsufficientPrivilegeError, asyncpg.UndefinedFunctionError, asyncpg.FeatureNotSupportedError):
        return UNKNOWN_SYSTEM
    return system


async def read_owner(connection: Connection) -> PoolOwner | None:
    """The owner of the pool. None if it has no owner yet, or no schema."""
    if await connection.fetchval("SELECT to_regclass('pool_owner')") is None:
        return None
    row = await POOL_SQL["read_owner"].row(connection, lease_seconds=LEASE_SECONDS)
    return None if row is None else PoolOwner(**row, system=await read_system(connection))


async def check_owner(connection: Connection, pool: str, central: Central, attached_at: datetime) -> None:
    """Raises WrongOwner if another central owns the pool, or if this database is not the one that central attached.
    Call it before anything is written there.
    """
    owner = await read_owner(connection)
    if owner is not None:
        _raise(refusal(pool, central, owner, attached_at))


async def claim(
    connection: Connection, pool: str, central: Central, attached_at: datetime, known_started_at: datetime | None = None
) -> None:
    """Makes this central the pool's owner, or renews its lease. Raises WrongOwner as `check_owner` does.

    `known_started_at`: the start time of this process's last claim, so that a restart of central is not mistaken for
    another central.
    """
    if central.is_possible_copy:
        await check_owner(connection, pool, central, attached_at)
    claimed = await POOL_SQL["claim_pool"].run(
        connection,
        **_values(central),
        pool_system=await read_system(connection),
        attached_at=attached_at,
        known_started_at=known_started_at,
        lease_seconds=LEASE_SECONDS,
    )
    if not claimed:
        owner = await read_owner(connection)
        assert owner is not None, "only an owner can prevent a claim"
        # This is None if the lease expired between the two statements: the next attempt succeeds.
        _raise(refusal(pool, central, owner, attached_at) or _held(pool, central, owner))


async def release(connection: Connection, claimed_with: datetime) -> None:
    await POOL_SQL["release_pool"].run(connection, central_started_at=claimed_with, lease_seconds=LEASE_SECONDS)


async def take(connection: Connection, pool: str, central: Central, attached_at: datetime, seen: PoolOwner) -> None:
    """Makes this database the pool, and this central its owner, because the operator decided so. The former owner
    loses the pool.
    """
    taken = await POOL_SQL["take_pool"].run(
        connection,
        **_values(central),
        pool_system=await read_system(connection),
        attached_at=attached_at,
        seen_installation_id=seen.installation_id,
        seen_renewed_at=seen.renewed_at,
    )
    if not taken:
        raise WrongOwner(f"Another central claimed pool {pool} at this moment. Stop its control planes first.")


async def retire(connection: Connection, central: Central, successor: str) -> None:
    """Marks the database as replaced. It is refused from now on, also by a central that was restored."""
    await POOL_SQL["retire_pool"].run(connection, installation_id=central.installation_id, successor=successor)


def refusal(pool: str, central: Central, owner: PoolOwner, attached_at: datetime) -> WrongOwner | None:
    """The reason why this central may not use the pool, by the conditions of `claim_pool`; None if it may."""
    if owner.installation_id != central.installation_id:
        return WrongOwner(
            f"Pool {pool} belongs to installation {owner.installation_id}, and this central is installation "
            f"{central.installation_id}. If both are copies, run: callsheet db repoint {pool}=DSN. Otherwise name the "
            f"database of this installation: callsheet db add-pool {pool} DSN"
        )
    if owner.retired_at is not None:
        return retired(pool, owner.retired_at, owner.successor)
    if not same_place(central, owner):
        return WrongOwner(
            f"Pool {pool} belongs to the central at {owner.central_name}, and this central at {central.name} is a "
            f"restored or copied one. {_decide(pool)}"
        )
    if not is_original(owner):
        return NotAttached(
            f"The database of pool {pool} is a restored copy, with the state of {shown_time(owner.renewed_at)}. To see "
            f"what it has and to attach it, run: callsheet db adopt {pool}"
        )
    if owner.attached_at != attached_at:
        return _other_database(pool, owner, attached_at)
    if owner.central_started_at == central.started_at or owner.server_started_at == central.started_at:
        return None
    if central.is_possible_copy:
        return WrongOwner(
            f"Another server with the data of this central has used pool {pool}, so this one at {central.name} may be "
            f"a copy. {_decide(pool)}"
        )
    return _held(pool, central, owner) if owner.is_held else None


def same_place(central: Central, owner: PoolOwner) -> bool:
    systems = (owner.central_system, central.system)
    return owner.central_database == central.database and (systems[0] == systems[1] or UNKNOWN_SYSTEM in systems)


def is_original(owner: PoolOwner) -> bool:
    """Whether the pool is at the place where it was claimed. A restored dump is not; a physical copy looks the same."""
    systems = (owner.pool_system, owner.system)
    return owner.pool_database == owner.database and (systems[0] == systems[1] or UNKNOWN_SYSTEM in systems)


def retired(pool: str, retired_at: datetime, successor: str | None) -> NotAttached:
    return NotAttached(
        f"This database of pool {pool} was retired at {shown_time(retired_at)}, when {successor} took its place. "
        f"Attach that one: callsheet db adopt {pool} DSN"
    )


def shown_time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def _other_database(pool: str, owner: PoolOwner, attached_at: datetime) -> NotAttached:
    """One of the two was restored: each has the time of another attachment."""
    here, there = shown_time(attached_at), shown_time(owner.attached_at)
    if owner.attached_at < attached_at:
        return NotAttached(
            f"This is an earlier database of pool {pool}: it became the pool at {there}, and central attached another "
            f"one at {here}. Name that one in its DSN. To see what this one has and to attach it, run: callsheet db "
            f"adopt {pool}"
        )
    return NotAttached(
        f"This central is older than pool {pool}: the database became the pool at {there}, and central knows of {here}."
        f" If this is the production, restored, run: callsheet db adopt"
    )


def _held(pool: str, central: Central, owner: PoolOwner) -> LeaseHeld:
    return LeaseHeld(
        f"Another server with the data of this central ({owner.central_name}) used pool {pool} "
        f"{counted(round(owner.renewed_ago), 'second')} ago. If central was restarted, the pool is served within "
        f"{LEASE_SECONDS:.0f} seconds. Otherwise this central at {central.name} is a copy. {_decide(pool)}",
        owner.renewed_at,
    )


def _decide(pool: str) -> str:
    return (
        "If this is the production, stop the control planes of the other one and run: callsheet db adopt. If this is a "
        f"copy, give it copies of its pools: callsheet db repoint {pool}=DSN"
    )


def _values(central: Central) -> Mapping[str, Any]:
    return {
        "installation_id": central.installation_id,
        "central_system": central.system,
        "central_database": central.database,
        "central_name": central.name,
        "central_started_at": central.started_at,
    }


def _raise(error: WrongOwner | None) -> None:
    if error is not None:
        raise error
