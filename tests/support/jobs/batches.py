"""Batches without HTTP and without a catalog.

batch_id = await submit_batch(core, ann, number=3, cost=7)
row = await batch_row(core, ann, batch_id)            # the counts of its items
jobs = await jobs_of_batch(core, ann, batch_id)       # in the order of the items
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from callsheet.batches.batches import SQL
from callsheet.plumbing.database.sql import Connection
from callsheet.toolbox.ids import uuid7
from tests.support.jobs.core import Core, Member

COUNTS = ("active", "completed", "failed", "canceled", "expired")


@dataclass(frozen=True, slots=True)
class BatchOwner:
    tenant_id: UUID
    user_id: UUID
    pool: str


def owner_of(member: Member) -> BatchOwner:
    return BatchOwner(member.tenant_id, member.user_id, member.pool.name)


async def submit_batch(
    core: Core, member: Member, *, number: int = 3, batch_id: UUID | None = None, **changes: Any
) -> UUID:
    """A batch of equal jobs."""
    made = batch_id or uuid7()
    jobs = [core.new_job(member, batch_id=made, batch_item=item, **changes) for item in range(1, number + 1)]

    async def begin(connection: Connection) -> bool:
        await SQL["insert_batch"].run(
            connection,
            tenant_id=member.tenant_id,
            user_id=member.user_id,
            id=made,
            effect_id=uuid7(),
            title="Noir",
            idempotency_key=None,
            request_hash=None,
            content_hash=None,
            request_fields=None,
            client_reference=None,
            metadata=None,
            webhook_url=changes.get("webhook_url"),
            cost=sum(job.cost for job in jobs),
            items=number,
        )
        return True

    await core.room.batch_submission.submit(member.pool, owner_of(member), jobs, begin)
    return made


async def cancel_batch(core: Core, member: Member, batch_id: UUID) -> None:
    await core.room.batch_changes.cancel(member.pool, owner_of(member), batch_id)


async def retry_batch(core: Core, member: Member, batch_id: UUID, key: str | None = None) -> bool:
    return await core.room.batch_changes.retry(member.pool, owner_of(member), batch_id, key)


async def batch_row(core: Core, member: Member, batch_id: UUID) -> Mapping[str, Any]:
    query = "SELECT * FROM batches WHERE tenant_id = $1 AND id = $2"
    return (await core.rows(member.pool, query, member.tenant_id, batch_id))[0]


async def counts(core: Core, member: Member, batch_id: UUID) -> dict[str, int]:
    """The counts that are not 0."""
    row = await batch_row(core, member, batch_id)
    return {name: row[name] for name in COUNTS if row[name]}


async def jobs_of_batch(core: Core, member: Member, batch_id: UUID) -> list[Mapping[str, Any]]:
    return await core.rows(member.pool, "SELECT * FROM ai_jobs WHERE batch_id = $1 ORDER BY batch_item", batch_id)
