"""Creates dispatches in their lanes, within the caller's transaction. Lanes are opened as they are needed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar
from uuid import UUID

from callsheet.dispatch.facts import NO_OWNER, JobCycle, Lane, LaneKey, Lease, QueueEntry
from callsheet.dispatch.lease.slots import Slots
from callsheet.dispatch.lease.taking import new_tokens
from callsheet.dispatch.rows import EnqueuedRow, NewLeaseRow
from callsheet.plumbing.database.sql import AsJson, Connection, statements

SQL = statements("callsheet.dispatch")
# A lane, and the id of a dispatch in it.
Placed = tuple[Lane, int]
# A job that is leased at creation, and the id of its worker.
LeasedEntry = tuple[QueueEntry, str]
# Tenant and user of a lane.
Owner = tuple[UUID, UUID]
_entry_as_json = AsJson(QueueEntry)


Row = TypeVar("Row", EnqueuedRow, NewLeaseRow)


class Placing:
    """`is_fair`: each user has lanes of their own. Otherwise only users whose number of running jobs is limited have
    them.
    """

    def __init__(self, slots: Slots, *, is_fair: bool):
        self._slots = slots
        self._is_fair = is_fair

    async def place(self, connection: Connection, entries: Sequence[QueueEntry]) -> list[Placed]:
        """Creates a dispatch for each entry, unless one exists or existed. They are announced after the commit."""
        # All processes use the same order: two processes that relay the same jobs wait for each other's rows.
        ordered = sorted(entries, key=lambda entry: (entry.job_id, entry.charge_cycle, entry.tenant_id))
        owned = [(entry, self._lane_owner(entry)) for entry in ordered]
        payload = [_as_json(*each) for each in owned]

        async def insert() -> list[EnqueuedRow]:
            return await SQL["enqueue"].rows(connection, EnqueuedRow, entries=payload)

        rows = await _with_lanes(connection, owned, insert)
        return [(row.lane, row.dispatch_id) for row in rows if row.lane is not None and row.dispatch_id is not None]

    async def place_leased(
        self, connection: Connection, entries: Sequence[LeasedEntry]
    ) -> dict[JobCycle, tuple[Lease, Lane]]:
        """Creates dispatches that are leased at once, unless one exists or existed or the worker is drained."""
        ordered = sorted(entries, key=lambda entry: (entry[0].job_id, entry[0].charge_cycle))
        owned = [(entry, self._lane_owner(entry)) for entry, _ in ordered]
        payload = [
            {**_as_json(*each), "worker_id": worker_id, "token": str(token)}
            for each, (_, worker_id), token in zip(owned, ordered, new_tokens(len(ordered)), strict=True)
        ]

        async def insert() -> list[NewLeaseRow]:
            return await SQL["enqueue_leased"].rows(connection, NewLeaseRow, entries=payload)

        rows = await _with_lanes(connection, owned, insert)
        keys = {entry.cycle: _lane_key(entry, owner) for entry, owner in owned}
        leased = [(row.lease, row.lane_id) for row in rows if row.lease is not None]
        return {lease.cycle: (lease, Lane(lane_id, *keys[lease.cycle])) for lease, lane_id in leased}

    def _lane_owner(self, entry: QueueEntry) -> Owner:
        """Tenant and user of the lane that the job waits in."""
        terms = self._slots.terms_of(entry.tenant_id)
        bounded = terms.max_running is not None or terms.max_running_per_user is not None
        return (entry.tenant_id, entry.user_id) if self._is_fair or bounded else (NO_OWNER, NO_OWNER)


async def _with_lanes(
    connection: Connection, owned: Sequence[tuple[QueueEntry, Owner]], insert: Callable[[], Awaitable[list[Row]]]
) -> list[Row]:
    """Inserts again after opening the lanes, if entries had none."""
    rows = await insert()
    without_lane = rows[0].without_lane
    # There is more than one round only if a lane was removed in between.
    while without_lane:
        await open_lanes(connection, [_lane_key(entry, owner) for entry, owner in owned])
        more = await insert()
        without_lane = more[0].without_lane
        rows += more
    return rows


def _as_json(entry: QueueEntry, owner: Owner) -> dict[str, object]:
    tenant_id, user_id = owner
    return _entry_as_json(entry) | {"lane_tenant_id": str(tenant_id), "lane_user_id": str(user_id)}


def _lane_key(entry: QueueEntry, owner: Owner) -> LaneKey:
    """The lane that the job waits in."""
    return LaneKey(entry.workflow_id, entry.stage, entry.provider, entry.concurrency_identifier, entry.priority, *owner)


async def open_lanes(connection: Connection, keys: Sequence[LaneKey]) -> None:
    """Creates the lanes that do not exist yet."""
    workflow_ids, stages, providers, identifiers, priorities, tenant_ids, user_ids = map(list, zip(*keys, strict=True))
    await SQL["open_lanes"].run(
        connection,
        workflow_ids=workflow_ids,
        stages=stages,
        providers=providers,
        identifiers=identifiers,
        priorities=priorities,
        tenant_ids=tenant_ids,
        user_ids=user_ids,
    )
