"""What the database of a pool has, compared with what central knows of that pool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from callsheet.plumbing.database.database import connected
from callsheet.plumbing.database.databases import CENTRAL
from callsheet.plumbing.database.sql import statements
from callsheet.wire.plurals import counted

if TYPE_CHECKING:
    from callsheet.plumbing.database.sql import Connection

CENTRAL_SQL = statements("callsheet.operate.installation", "central_statements.sql")
POOL_SQL = statements("callsheet.operate.installation", "pool_statements.sql")


class JobsRow(NamedTuple):
    size_bytes: int
    jobs: int
    newest_job: UUID | None
    newest_at: datetime | None
    now: datetime


class NewerRow(NamedTuple):
    """Jobs that central knows and the pool does not have."""

    jobs: int
    newest_at: datetime | None


class MisplacedTenant(NamedTuple):
    """A tenant that this pool has, and that central routes to another one."""

    slug: str
    pool: str


@dataclass(frozen=True, slots=True)
class PoolContents:
    found: JobsRow
    # Lost with this database.
    newer_in_central: NewerRow
    # Lost with this central, until the reconciler queues them again.
    newer_in_pool: int
    misplaced: Sequence[MisplacedTenant]
    missing: Sequence[str]


async def read_contents(central_dsn: str, pool: str, pool_dsn: str) -> PoolContents:
    """Reads whole tables, so it may take seconds."""
    async with connected(central_dsn, CENTRAL) as central, connected(pool_dsn, pool) as connection:
        found = await POOL_SQL["pool_contents"].row(connection, JobsRow)
        assert found is not None, "an aggregate has one row"
        newer = await CENTRAL_SQL["newer_dispatches"].row(central, NewerRow, pool=pool, newest_job=found.newest_job)
        assert newer is not None, "an aggregate has one row"
        newest = await CENTRAL_SQL["newest_dispatched_job"].value(central, pool=pool)
        tenants = await _tenants(connection)
        missing = await CENTRAL_SQL["missing_tenants"].rows(central, pool=pool, tenant_ids=tenants)
        return PoolContents(
            found,
            newer,
            await POOL_SQL["count_jobs_after"].value(connection, newest_job=newest),
            await misplaced_tenants(central, connection, pool),
            [row["slug"] for row in missing],
        )


async def misplaced_tenants(central: Connection, connection: Connection, pool: str) -> list[MisplacedTenant]:
    tenants = await _tenants(connection)
    return await CENTRAL_SQL["tenants_of_other_pools"].rows(central, MisplacedTenant, pool=pool, tenant_ids=tenants)


def misplaced_sentence(pool: str, found: Sequence[MisplacedTenant]) -> str:
    """What an operator reads of tenants that were moved."""
    names = ", ".join(f"{each.slug} (now in {each.pool})" for each in found[:5])
    more = f" and {counted(len(found) - 5, 'other tenant')}" if len(found) > 5 else ""
    return (
        f"Pool {pool} has data of tenants that central routes to another pool: {names}{more}. Nothing of it is served. "
        "If the move was right, this data is an old copy; otherwise central was restored from before the move."
    )


async def _tenants(connection: Connection) -> list[UUID]:
    return [row["tenant_id"] for row in await POOL_SQL["list_tenants"].rows(connection)]
