"""The operator's decision about a central that its pools refuse: it is the production (adopt), or a copy (repoint).

Both can be repeated after a crash at any line: a pool that already has its new owner does not change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from callsheet.plumbing.database import migrate as schema
from callsheet.plumbing.database.database import DatabaseError, connected, shown_address
from callsheet.plumbing.database.databases import CENTRAL, pool_addresses
from callsheet.plumbing.database.ownership import (
    LEASE_SECONDS,
    Central,
    PoolOwner,
    claim,
    is_original,
    read_central,
    read_owner,
    read_system,
    refusal,
    same_place,
    take,
)
from callsheet.plumbing.database.pool_keeper import PoolAddress
from callsheet.plumbing.database.sql import statements
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.plumbing.installation.installation_key import record_key
from callsheet.plumbing.installation.secrets import SEAL, master_secret, seal
from callsheet.settings import Settings
from callsheet.wire.plurals import counted

SQL = statements("callsheet.plumbing.database")


@dataclass(frozen=True, slots=True)
class Target:
    """A pool, its new place, and its current owner."""

    name: str
    dsn: str
    owner: PoolOwner | None
    # The place where it was claimed. A pool that was restored from a dump is elsewhere, and was not claimed since.
    is_original: bool
    is_moved: bool


async def adopt(settings: Settings, central_dsn: str) -> list[str]:
    """This central is the production: it takes over its pools, and the former owner is refused."""
    async with connected(central_dsn, CENTRAL) as connection:
        central = await read_central(connection, central_dsn)
    addresses = await pool_addresses(settings, central_dsn)
    targets = [await _inspect(address.name, address.dsn, False) for address in addresses]
    for target in targets:
        if target.owner is not None and target.owner.installation_id != central.installation_id:
            raise DatabaseError(
                f"Pool {target.name} belongs to installation {target.owner.installation_id}, not to this one "
                f"({central.installation_id}). Name the database of this installation: callsheet db add-pool "
                f"{target.name} DSN"
            )
        _require_unused(target, central)
    for target in targets:
        await _give(target, central)
    async with connected(central_dsn, CENTRAL) as connection:
        await SQL["clear_possible_copy"].run(connection)
        await SQL["adopt_scaling"].run(
            connection,
            installation_id=central.installation_id,
            central_system=central.system,
            central_database=central.database,
        )
    return [target.name for target in targets]


async def repoint(
    settings: Settings, central_dsn: str, dsns: Mapping[str, str], *, physical_copy: bool = False
) -> UUID:
    """This central is a copy: it gets its own installation id, and copies of its pools. Returns the id."""
    addresses = await pool_addresses(settings, central_dsn)
    unknown = sorted(dsns.keys() - {address.name for address in addresses})
    if unknown:
        known = ", ".join(address.name for address in addresses)
        raise DatabaseError(f"This central has no pool {', '.join(unknown)}. It has: {known}.")
    async with connected(central_dsn, CENTRAL) as connection:
        central = await read_central(connection, central_dsn)
        pending = await SQL["read_next_id"].value(connection)
    targets = [await _target(address, dsns, central, pending) for address in addresses]
    for target in targets:
        _require_copy(target, central, pending, physical_copy)
    async with connected(central_dsn, CENTRAL) as connection:
        new_id: UUID = await SQL["choose_next_id"].value(connection)
    for target in targets:
        await _give(target, replace(central, installation_id=new_id))
        await hit(Failpoint.REPOINT_BETWEEN_DATABASES)
    async with connected(central_dsn, CENTRAL) as connection, connection.transaction():
        master = master_secret(settings)
        for target in targets:
            if target.is_moved:
                sealed = seal(master, SEAL, target.dsn)
                await SQL["register_pool"].run(connection, name=target.name, database=None, sealed_dsn=sealed)
        # A copy may have a key of its own.
        await record_key(connection, master)
        await SQL["become_next"].run(connection)
    return new_id


async def _target(address: PoolAddress, dsns: Mapping[str, str], central: Central, pending: UUID | None) -> Target:
    given = dsns.get(address.name)
    if given is not None:
        return await _inspect(address.name, given, True)
    try:
        target = await _inspect(address.name, address.dsn, False)
    except DatabaseError as error:
        raise DatabaseError(f"{error} Name a copy of the pool: callsheet db repoint {address.name}=DSN") from error
    owner = target.owner
    # A physical copy of central's whole server contains copies of the pools; anything else is the original.
    is_beside = owner is not None and owner.server_started_at == central.started_at and same_place(central, owner)
    if owner is not None and not is_beside and owner.installation_id != pending:
        host, database = shown_address(address.dsn)
        raise DatabaseError(
            f"Pool {address.name} is still the original at {host}/{database}. Restore a copy of it, and name that: "
            f"callsheet db repoint {address.name}=DSN"
        )
    return target


async def _inspect(name: str, dsn: str, is_moved: bool) -> Target:
    # Kind and name are checked with the schema.
    if (await schema.inspect(dsn, "pool", name)).version == 0:
        raise DatabaseError(f"The database for pool {name} is empty. Restore a copy of the pool there first.")
    async with connected(dsn, name) as connection:
        owner = await read_owner(connection)
        return Target(name, dsn, owner, owner is None or is_original(owner, await read_system(connection)), is_moved)


def _require_copy(target: Target, central: Central, pending: UUID | None, physical_copy: bool) -> None:
    owner = target.owner
    if owner is None or owner.installation_id == pending:
        return
    if owner.installation_id != central.installation_id:
        raise DatabaseError(
            f"The database for pool {target.name} belongs to installation {owner.installation_id}. A copy needs a copy "
            f"of its own pool, of installation {central.installation_id}."
        )
    if owner.server_started_at == central.started_at and same_place(central, owner):
        return
    if target.is_original and not physical_copy:
        host, database = shown_address(target.dsn)
        raise DatabaseError(
            f"{host}/{database} is the original of pool {target.name}, not a copy restored from a dump. If it is a "
            "physical copy (a disk snapshot or a copied data directory), say so with --physical-copy."
        )
    _require_unused(target, central)


def _require_unused(target: Target, central: Central) -> None:
    owner = target.owner
    if owner is None or not owner.is_held or not target.is_original:
        return
    if same_place(central, owner) and central.started_at in (owner.central_started_at, owner.server_started_at):
        return
    raise DatabaseError(
        f"The central at {owner.central_name} used pool {target.name} "
        f"{counted(round(owner.renewed_ago), 'second')} ago. Stop its "
        f"control planes, wait {LEASE_SECONDS:.0f} seconds, and run this again."
    )


async def _give(target: Target, central: Central) -> None:
    """Gives the pool to this central."""
    decided, owner = replace(central, is_possible_copy=False), target.owner
    async with connected(target.dsn, target.name) as connection:
        if owner is None or refusal(target.name, decided, owner) is None:
            await claim(connection, target.name, decided)
        else:
            await take(connection, target.name, decided, owner)
