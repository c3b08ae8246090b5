"""All jobs of a tenant, for its server: what changed since a time or a position, as a list and as a stream.

The order is the time of the events. An event may be committed after one with a later time, so events are read only up
to a time before which no transaction is open (decision 0061).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from uuid import UUID

from callsheet.identity.access.principal import Principal
from callsheet.identity.accounts.accounts import Accounts
from callsheet.jobs.lease.progress import progress_view
from callsheet.jobs.machine.rows import ChangedJobRow, EventOfTenant, SettledRow
from callsheet.jobs.show.presenter import Presenter
from callsheet.jobs.show.reader import with_outcomes
from callsheet.jobs.show.views import listed_job_view, streamed_view
from callsheet.jobs.stream.feeds import AT_ONCE, FeedEvent, Feeds, Item, LatestOfUser, MayGoOn, News
from callsheet.jobs.stream.positions import EPOCH, TenantPosition, tenant_position_of
from callsheet.jobs.stream.tenant_progress import TenantWatch
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import Connection, statements
from callsheet.wire.tenant.jobs import ChangedJobs, ChangesFilter, TenantJob

SQL = statements("callsheet.jobs.stream", "tenant_statements.sql")
MACHINE_SQL = statements("callsheet.jobs.machine")
FIRST = TenantPosition(EPOCH)


class TenantJobs:
    def __init__(self, databases: Databases, feeds: Feeds, accounts: Accounts, presenter: Presenter):
        self._databases = databases
        self._feeds = feeds
        self._accounts = accounts
        self._presenter = presenter

    async def changed(self, principal: Principal, wanted: ChangesFilter, limit: int) -> ChangedJobs:
        """The jobs that changed, each with its last event, in the order of these events."""
        after = FIRST
        if wanted.cursor is not None:
            after = tenant_position_of(wanted.cursor)
        elif wanted.updated_since is not None:
            after = TenantPosition(wanted.updated_since)
        tenant_id = principal.tenant_id
        pool = await self._databases.pool(principal.pool)
        async with pool.ordinary() as connection:
            until = await settled_until(connection)
            rows = await MACHINE_SQL["list_changed_jobs"].rows(
                connection, ChangedJobRow, tenant_id=tenant_id, until=until, limit=limit, **_after(after)
            )
            changed = [(row, row.last) for row in rows if row.last is not None]
            page, is_cut = await with_outcomes(connection, tenant_id, [job for _, job in changed], limit)
        changed = changed[: len(page)]
        last = changed[-1][0] if is_cut else rows[-1] if rows else None
        jobs = await self._presenter.many(tenant_id, [listed_job_view(job, outcome) for job, outcome in page])
        external = await self._accounts.external_ids(tenant_id, {job.user_id for _, job in changed})
        items = [
            TenantJob(
                user_id=row.user_id,
                external_id=external.get(row.user_id),
                changed_at=change.at,
                deleted_at=change.deleted_at,
                job=job,
            )
            for (change, row), job in zip(changed, jobs, strict=True)
        ]
        position = after if last is None else TenantPosition(last.at, last.job_id, last.seq)
        return ChangedJobs(items=items, next_cursor=str(position), is_last=len(rows) < limit and not is_cut)

    async def follow(
        self, principal: Principal, after: TenantPosition | None, may_go_on: MayGoOn
    ) -> AsyncIterator[Item]:
        """The events and the progress of all jobs of the tenant. Without a position, the stream starts with the next
        event.
        """
        tenant_id = principal.tenant_id
        pool = await self._databases.pool(principal.pool)
        if after is None:
            async with pool.connection() as connection:
                after = TenantPosition(await settled_until(connection))

        watch = TenantWatch(pool, tenant_id)

        async def read(position: TenantPosition) -> News:
            rows, is_held_back = await _events(pool, tenant_id, position)
            running, has_more = await watch.news()
            users = {row.user_id for row in rows} | {row.user_id for row in running}
            external = await self._accounts.external_ids(tenant_id, users)
            latest = [LatestOfUser(progress_view(row), _members(row.user_id, external)) for row in running]
            return News([_line(row, external) for row in rows], latest, is_held_back=is_held_back or has_more)

        key = (str(tenant_id), str(tenant_id))
        async for item in self._feeds.follow(key, read, after, may_go_on, (str(tenant_id),)):
            yield item


async def settled_until(connection: Connection) -> datetime:
    """No event with an earlier time can appear any more. The caller reads events with a later statement."""
    row = await SQL["settled_until"].row(connection, SettledRow)
    assert row is not None, "an aggregate has one row"
    return row.now if row.oldest_start is None else min(row.now, row.oldest_start)


async def _events(pool: Database, tenant_id: UUID, after: TenantPosition) -> tuple[list[EventOfTenant], bool]:
    """The next events, and whether there are events that cannot be sent yet."""
    async with pool.connection() as connection:
        until = await settled_until(connection)
        rows = await SQL["events_of_tenant"].rows(
            connection, EventOfTenant, tenant_id=tenant_id, until=until, limit=AT_ONCE, **_after(after)
        )
        is_held_back = await SQL["has_events_from"].value(connection, tenant_id=tenant_id, **{"from": until})
    return rows, is_held_back


def _after(position: TenantPosition) -> dict[str, object]:
    return {"after_at": position.at, "after_job": position.job_id, "after_seq": position.seq}


def _line(row: EventOfTenant, external: Mapping[UUID, str]) -> FeedEvent:
    place = TenantPosition(row.at, row.job_id, row.seq)
    return FeedEvent(row.seq, streamed_view(row), place, _members(row.user_id, external))


def _members(user_id: UUID, external: Mapping[UUID, str]) -> dict[str, str | None]:
    return {"user_id": str(user_id), "external_id": external.get(user_id)}
