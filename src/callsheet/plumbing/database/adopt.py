"""The operator's decision that a central is the production, and which databases are its pools.

`plan_adoption` only reads, so that the operator sees what will be attached. `adopt` can be repeated after a crash at
any line: the pool may be refused until then, and never has two databases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

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
from callsheet.plumbing.database.ownership import Central, claim, read_central, refusal, retire
from callsheet.plumbing.database.pool_keeper import PoolAddress
from callsheet.plumbing.database.sql import statements
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.plumbing.installation.installation_key import check_key
from callsheet.settings import Settings

SQL = statements("callsheet.plumbing.database")


@dataclass(frozen=True, slots=True)
class Adoption:
    """A database that becomes a pool of this central."""

    target: Target
    # Why it is not a pool of this central now. None: it is, and nothing changes.
    reason: str | None
    # The database that is the pool now, if it is another one and can be reached. It is retired.
    former: Target | None
    # Where the pool is now, for people. None if central does not know the pool.
    replaced: str | None

    @property
    def address(self) -> str:
        return "/".join(shown_address(self.target.dsn))


async def plan_adoption(
    settings: Settings,
    central_dsn: str,
    pool: str | None = None,
    dsn: str | None = None,
    direct_dsn: str | None = None,
    *,
    may_be_retired: bool = False,
) -> list[Adoption]:
    """Checks the databases of all pools, or of one pool. `dsn`: that database becomes the pool. `direct_dsn`: the same
    database without a pooler, if `dsn` goes through one.
    """
    pooled_dsn, dsn = (None, dsn) if dsn is None or direct_dsn is None else (dsn, direct_dsn)
    async with connected(central_dsn, CENTRAL) as connection:
        await check_key(connection, settings)
        central = await read_central(connection, central_dsn)
    addresses = {address.name: address for address in await pool_addresses(settings, central_dsn)}
    if pool is not None and dsn is None and pool not in addresses:
        known = ", ".join(addresses)
        raise DatabaseError(f"This central has no pool {pool}. It has: {known}. Name the database of the pool.")
    names = list(addresses) if pool is None else [pool]
    plan = [await _plan(name, addresses.get(name), dsn, central, may_be_retired) for name in names]
    return [replace(each, target=replace(each.target, pooled_dsn=pooled_dsn)) for each in plan]


async def adopt(settings: Settings, central_dsn: str, plan: Sequence[Adoption], *, is_whole: bool = True) -> list[str]:
    """Attaches the databases. `is_whole`: the plan is of all pools, so this central is the production. Returns the
    names of the pools.
    """
    async with connected(central_dsn, CENTRAL) as connection:
        central = await read_central(connection, central_dsn)
    for each in plan:
        await _attach(settings, central_dsn, central, each)
    if is_whole:
        async with connected(central_dsn, CENTRAL) as connection:
            await SQL["clear_possible_copy"].run(connection)
            await SQL["adopt_scaling"].run(
                connection,
                installation_id=central.installation_id,
                central_system=central.system,
                central_database=central.database,
            )
    return [each.target.name for each in plan]


async def _plan(name: str, address: PoolAddress | None, dsn: str | None, central: Central, may: bool) -> Adoption:
    place = address.dsn if dsn is None and address is not None else dsn or ""
    target = await inspect_target(name, place, is_moved=dsn is not None)
    owner = target.owner
    if owner is not None and owner.installation_id != central.installation_id:
        raise DatabaseError(
            f"Pool {name} belongs to installation {owner.installation_id}, not to this one "
            f"({central.installation_id}). Name the database of this installation: callsheet db adopt {name} DSN"
        )
    if not may:
        require_not_retired(target)
    require_unused(target, central)
    if address is None:
        return Adoption(target, f"Central does not know pool {name}.", None, None)
    decided = replace(central, is_possible_copy=False)
    refused = "No central has used it yet." if owner is None else refusal(name, decided, owner, address.attached_at)
    reason = None if refused is None else str(refused)
    if dsn is None:
        return Adoption(target, reason, None, "/".join(shown_address(target.dsn)))
    replaced, former = await _former(address, central)
    if former is not None and former.place == target.place:
        # The same database, by another DSN.
        return Adoption(target, reason, None, replaced)
    unmarked = "" if former is not None else " That one cannot be reached, so it is not marked as retired."
    return Adoption(target, f"It replaces the database at {replaced}.{unmarked}", former, replaced)


async def _former(address: PoolAddress, central: Central) -> tuple[str, Target | None]:
    """The database that is the pool now: where it is, and the database itself if it can be reached."""
    if address.readable_dsn is None:
        return "an unknown place", None
    replaced = "/".join(shown_address(address.readable_dsn))
    try:
        former = await inspect_target(address.name, address.readable_dsn, False)
    except DatabaseError:
        return replaced, None
    if former.owner is not None and former.owner.installation_id == central.installation_id:
        require_unused(former, central)
    return replaced, former


async def _attach(settings: Settings, central_dsn: str, central: Central, adoption: Adoption) -> None:
    target = adoption.target
    if adoption.reason is None:
        assert target.owner is not None, "a pool without an owner changes"
        attached_at = target.owner.attached_at
        async with connected(target.dsn, target.name) as connection:
            await claim(connection, target.name, replace(central, is_possible_copy=False), attached_at)
    else:
        async with connected(central_dsn, CENTRAL) as connection:
            attached_at = await SQL["read_clock"].value(connection)
        await give(target, central, attached_at)
    if adoption.former is not None:
        await hit(Failpoint.ADOPT_BEFORE_RETIRE)
        async with connected(adoption.former.dsn, target.name) as connection:
            await retire(connection, central, adoption.address)
    await hit(Failpoint.ADOPT_BEFORE_REGISTER)
    async with connected(central_dsn, CENTRAL) as connection:
        await record(settings, connection, target, attached_at)
