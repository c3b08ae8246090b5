"""The operator's decision that a central is a copy. It gets its own installation id, and copies of its pools.

It can be repeated after a crash at any line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from uuid import UUID

from callsheet.plumbing.database.attaching import (
    Target,
    give,
    inspect_target,
    record,
    require_not_retired,
    require_unused,
)
from callsheet.plumbing.database.database import connected
from callsheet.plumbing.database.databases import CENTRAL, pool_addresses
from callsheet.plumbing.database.errors import DatabaseError, shown_address
from callsheet.plumbing.database.ownership import Central, read_central, same_place
from callsheet.plumbing.database.pool_keeper import PoolAddress
from callsheet.plumbing.database.sql import statements
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.plumbing.installation.installation_key import record_key
from callsheet.plumbing.installation.secrets import master_secret
from callsheet.settings import Settings

SQL = statements("callsheet.plumbing.database")


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
        now = await SQL["read_clock"].value(connection)
    targets = [await _target(address, dsns, central, pending) for address in addresses]
    for target in targets:
        _require_copy(target, central, pending, physical_copy)
    async with connected(central_dsn, CENTRAL) as connection:
        new_id: UUID = await SQL["choose_next_id"].value(connection)
    for target in targets:
        await give(target, replace(central, installation_id=new_id), now)
        await hit(Failpoint.REPOINT_BETWEEN_DATABASES)
    async with connected(central_dsn, CENTRAL) as connection, connection.transaction():
        for target in targets:
            await record(settings, connection, target, now)
        # A copy may have a key of its own.
        await record_key(connection, master_secret(settings))
        await SQL["become_next"].run(connection)
    return new_id


async def _target(address: PoolAddress, dsns: Mapping[str, str], central: Central, pending: UUID | None) -> Target:
    given = dsns.get(address.name)
    if given is not None:
        return await inspect_target(address.name, given, True)
    try:
        target = await inspect_target(address.name, address.dsn, False)
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


def _require_copy(target: Target, central: Central, pending: UUID | None, physical_copy: bool) -> None:
    owner = target.owner
    if owner is None or owner.installation_id == pending:
        return
    require_not_retired(target)
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
    require_unused(target, central)
