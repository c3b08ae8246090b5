"""The queue as users and admins see it: positions of jobs, lists, limits, and changes of priority.

No worker request uses this module. It reads a bounded number of rows for any length of the queue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from callsheet.dispatch.facts import JobCycle, LaneKey, QueueEntry, Route
from callsheet.dispatch.queue import Queue, open_lanes
from callsheet.dispatch.rows import MovedRow, RouteRow
from callsheet.identity.audit_log import record
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.sql import Connection, statements
from callsheet.wire.base import Page
from callsheet.wire.errors import NotFound, WrongState
from callsheet.wire.operate.operations import ConcurrencyLimit, Dispatch, DispatchFilter

SQL = statements("callsheet.dispatch", "overview_statements.sql")

# Positions are exact up to a thousand; 1001 means "more than a thousand".
MAX_AHEAD = 1001
# This is enough to estimate the wait of a new job for fifty effects at once.
MAX_COUNTED = 200
# Maximum number of rows that a filtered list reads per request.
MAX_INSPECTED = 5000


class QueuePosition(NamedTuple):
    """The position and limits of an open dispatch."""

    tenant_id: UUID
    job_id: UUID
    charge_cycle: int
    status: str
    workflow_id: int
    stage: str
    provider: str
    not_before: datetime | None
    last_leased_at: datetime | None
    run_started_at: datetime | None
    now: datetime
    max_concurrent: int | None
    in_use: int | None
    # How many jobs of its tenant and of its user may run at once, and how many run; None without a limit.
    max_running: int | None
    max_running_per_user: int | None
    tenant_running: int | None
    user_running: int | None
    average_seconds: float | None
    # Whether the workflow is switched on. Jobs that were accepted before it was switched off wait.
    is_active: bool
    ahead: int | None

    @property
    def cycle(self) -> JobCycle:
        return JobCycle(self.tenant_id, self.job_id, self.charge_cycle)


class RouteLoad(NamedTuple):
    """The load of a route, as a new job of a user would see it."""

    # The place of the route in the request, counted from 1.
    place: int
    now: datetime
    average_seconds: float | None
    # About how many jobs would be leased before the new job, at most MAX_COUNTED.
    ahead: int


class CentralState(NamedTuple):
    """Central's data about a job in a charge cycle: an open dispatch, a finished one, or neither."""

    tenant_id: UUID
    job_id: UUID
    charge_cycle: int
    dispatch_id: int | None = None
    status: str | None = None
    priority: int | None = None
    lease_seq: int | None = None
    # The worker that holds the lease gets the end of the job with its next heartbeat.
    holder_notified: bool = False
    end_status: str | None = None
    last_error: str | None = None
    # Whether the dispatch finished at least settle_seconds ago.
    has_settled: bool | None = None

    @property
    def cycle(self) -> JobCycle:
        return JobCycle(self.tenant_id, self.job_id, self.charge_cycle)


class OpenDispatch(NamedTuple):
    dispatch_id: int
    tenant_id: UUID
    job_id: UUID
    charge_cycle: int
    status: str
    priority: int
    lease_seq: int
    cancel_requested_at: datetime | None
    has_settled: bool

    @property
    def cycle(self) -> JobCycle:
        return JobCycle(self.tenant_id, self.job_id, self.charge_cycle)


class ListWindow(NamedTuple):
    """The rows that a filtered list reads for one page: the smallest id, and the number of rows."""

    smallest_id: int | None
    rows: int


class Overview:
    def __init__(self, central: Database, queue: Queue):
        self._central = central
        self._queue = queue

    async def positions(self, keys: Sequence[JobCycle]) -> Mapping[JobCycle, QueuePosition]:
        """The position of each job that has an open dispatch."""
        if not keys:
            return {}
        # This is part of the response to each submit, so its plan is kept: planning takes 2 ms.
        async with self._central.connection() as connection:
            rows = await SQL["outlook"].rows(
                connection,
                QueuePosition,
                **_keys(keys),
                max_rows=MAX_AHEAD,
                running_per_tenant=self._queue.leasing.default_terms.max_running,
                running_per_user=self._queue.leasing.default_terms.max_running_per_user,
            )
        return {row.cycle: row for row in rows}

    async def loads(self, routes: Sequence[Route], tenant_id: UUID, user_id: UUID) -> Mapping[Route, RouteLoad]:
        """The load of each route (workflow, stage, provider) for a new job of this user, in one statement."""
        async with self._central.ordinary() as connection:
            rows = await SQL["route_loads"].rows(
                connection,
                RouteLoad,
                workflow_ids=[workflow_id for workflow_id, _, _ in routes],
                stages=[stage for _, stage, _ in routes],
                providers=[provider for _, _, provider in routes],
                tenant_id=tenant_id,
                user_id=user_id,
                is_fair=self._queue.leasing.is_fair,
                max_rows=MAX_COUNTED,
            )
        return {routes[row.place - 1]: row for row in rows}

    async def list(self, wanted: DispatchFilter, before: int | None, limit: int) -> Page[Dispatch]:
        """The dispatches, newest first. A page of the queue or the history may be shorter than `limit` and still
        have a next page.
        """
        filters = {
            "before": before,
            "status": wanted.status,
            "workflow": wanted.workflow,
            "tenant_id": wanted.tenant_id,
            "limit": limit + 1,
        }
        async with self._central.ordinary() as connection:
            if wanted.finished or (wanted.worker_id is None and wanted.status not in ("leased", "waiting")):
                return await _filtered(connection, wanted, filters, limit)
            if wanted.worker_id is not None:
                rows = await SQL["list_held_by_worker"].rows(
                    connection, Dispatch, **filters, worker_id=wanted.worker_id
                )
            else:
                rows = await SQL["list_held"].rows(connection, Dispatch, **filters)
        return _page(rows, limit, None)

    async def get(self, dispatch_id: int) -> Dispatch:
        async with self._central.ordinary() as connection:
            found = await SQL["get_open"].row(connection, Dispatch, dispatch_id=dispatch_id)
            # The history is read second, because the dispatch may finish between the two statements.
            found = found or await SQL["get_finished"].row(connection, Dispatch, dispatch_id=dispatch_id)
        if found is None:
            raise NotFound("There is no such dispatch.")
        return found

    async def of_job(self, job: JobCycle) -> Dispatch | None:
        async with self._central.ordinary() as connection:
            dispatch_id = await SQL["dispatch_of_job"].value(connection, **job._asdict())
        return await self.get(dispatch_id) if dispatch_id is not None else None

    async def change_priority(self, dispatch_id: int, priority: int, actor: str) -> MovedRow:
        """Moves a queued dispatch to the lane of another priority."""
        async with self._central.transaction() as connection:
            lane = await SQL["lane_of_queued"].row(connection, LaneKey, dispatch_id=dispatch_id)
            if lane is not None:
                await open_lanes(connection, [lane._replace(priority=priority)])
            moved = await SQL["change_priority"].row(connection, MovedRow, dispatch_id=dispatch_id, priority=priority)
            if moved is not None:
                await record(
                    connection,
                    actor,
                    "dispatch.priority",
                    "dispatch",
                    dispatch_id,
                    moved.tenant_id,
                    job_id=moved.job_id,
                    old_priority=moved.old_priority,
                    priority=priority,
                )
        if moved is None:
            status = (await self.get(dispatch_id)).status
            raise WrongState(f"The dispatch is {status}. Only the priority of a queued dispatch can be changed.")
        if moved.not_before is None:
            self._queue.announce_arrivals([(moved.lane, moved.dispatch_id)])
        return moved

    async def limits(self, after: str | None, limit: int) -> Page[ConcurrencyLimit]:
        async with self._central.ordinary() as connection:
            found = await SQL["list_limits"].rows(connection, ConcurrencyLimit, after=after, limit=limit + 1)
        items = found[:limit]
        return Page(items=items, next_cursor=items[-1].identifier if len(found) > limit else None)

    async def set_limit(self, identifier: str, max_concurrent: int | None, actor: str) -> None:
        """Sets the limit of an identifier. None removes the limit."""
        async with self._central.transaction() as connection:
            if max_concurrent is None:
                await SQL["remove_limit"].run(connection, identifier=identifier)
            else:
                await SQL["set_limit"].run(connection, identifier=identifier, max_concurrent=max_concurrent)
            routes = await SQL["routes_of_identifier"].rows(connection, RouteRow, identifier=identifier)
            await record(
                connection,
                actor,
                "concurrency_limit.set",
                "concurrency_limit",
                identifier,
                max_concurrent=max_concurrent,
            )
        # If the limit was raised, jobs may be waiting for the new slots.
        for route in routes:
            self._queue.announce_free_slot(*route)

    async def declare_limit(self, identifier: str, max_concurrent: int) -> None:
        """Sets the limit of concurrent jobs that a provider declares. A limit that an admin has set stays."""
        async with self._central.connection() as connection:
            values = {"identifier": identifier, "max_concurrent": max_concurrent}
            changed = await SQL["declare_limit"].value(connection, **values)
            routes = (
                await SQL["routes_of_identifier"].rows(connection, RouteRow, identifier=identifier) if changed else []
            )
        for route in routes:
            self._queue.announce_free_slot(*route)

    async def central_states(self, keys: Sequence[JobCycle], settle_seconds: float) -> Mapping[JobCycle, CentralState]:
        async with self._central.ordinary() as connection:
            rows = await SQL["central_states"].rows(
                connection, CentralState, **_keys(keys), settle_seconds=settle_seconds
            )
        return {row.cycle: row for row in rows}

    async def page(self, after: int, limit: int, settle_seconds: float) -> Sequence[OpenDispatch]:
        """Open dispatches in the order of their ids."""
        async with self._central.ordinary() as connection:
            return await SQL["open_dispatches"].rows(
                connection, OpenDispatch, after=after, limit=limit, settle_seconds=settle_seconds
            )

    async def raise_lease_seq(self, key: JobCycle, lease_seq: int) -> bool:
        """Raises lease_seq of a queued dispatch to its job's last lease; False if lease_seq was not behind."""
        async with self._central.connection() as connection:
            return await _raise_lease_seq(connection, key, lease_seq) > 0

    async def recreate(self, entry: QueueEntry, lease_seq: int) -> bool:
        """Creates the missing dispatch of a job, with the job's lease_seq; False if a dispatch exists or existed."""
        async with self._central.transaction() as connection:
            placed = await self._queue.place(connection, [entry])
            if placed:
                await _raise_lease_seq(connection, entry.cycle, lease_seq)
        self._queue.announce_arrivals(placed)
        return bool(placed)


async def _raise_lease_seq(connection: Connection, key: JobCycle, lease_seq: int) -> int:
    tenant_id, job_id, charge_cycle = key
    return await SQL["raise_lease_seq"].run(
        connection, tenant_id=tenant_id, job_id=job_id, charge_cycle=charge_cycle, lease_seq=lease_seq
    )


async def _filtered(
    connection: Connection, wanted: DispatchFilter, filters: Mapping[str, object], limit: int
) -> Page[Dispatch]:
    """A filtered page. No index covers the filters, so a page reads a limited number of rows, and the next page
    continues there.
    """
    finished = wanted.finished
    window = await SQL["window_of_history" if finished else "window_of_queue"].row(
        connection, ListWindow, before=filters["before"], max_rows=MAX_INSPECTED
    )
    if window is None or window.smallest_id is None:
        return Page(items=[], next_cursor=None)
    if finished:
        rows = await SQL["list_finished"].rows(
            connection, Dispatch, **filters, worker_id=wanted.worker_id, from_id=window.smallest_id
        )
    else:
        rows = await SQL["list_queue"].rows(connection, Dispatch, **filters, from_id=window.smallest_id)
    return _page(rows, limit, window.smallest_id if window.rows >= MAX_INSPECTED else None)


def _page(rows: Sequence[Dispatch], limit: int, next_id: int | None) -> Page[Dispatch]:
    """Builds a page. `next_id`: where the list continues if these rows do not fill the page; None at its end."""
    items = list(rows[:limit])
    cursor = items[-1].dispatch_id if len(rows) > limit else next_id
    return Page(items=items, next_cursor=None if cursor is None else str(cursor))


def _keys(keys: Sequence[JobCycle]) -> dict[str, object]:
    return {
        "tenant_ids": [tenant_id for tenant_id, _, _ in keys],
        "job_ids": [job_id for _, job_id, _ in keys],
        "cycles": [charge_cycle for _, _, charge_cycle in keys],
    }
