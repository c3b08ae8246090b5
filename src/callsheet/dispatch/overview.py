"""The queue as users and admins see it: positions of jobs, lists, limits, and changes of priority.

No worker request uses this module. The number of rows it reads is bounded, however long the queue is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import asyncpg

from callsheet.dispatch.facts import Entry, JobCycle
from callsheet.dispatch.leasing import SQL as QUEUE_SQL
from callsheet.dispatch.queue import Queue
from callsheet.identity.audit import record
from callsheet.plumbing.database import Database
from callsheet.plumbing.sql import Connection, statements
from callsheet.wire.base import Page
from callsheet.wire.errors import NotFound, WrongState
from callsheet.wire.operations import ConcurrencyLimit, Dispatch, DispatchFilter

SQL = statements("callsheet.dispatch", "overview_statements.sql")

# Positions are exact up to a thousand; 1001 means "more than a thousand".
MOST_AHEAD = 1001
# Enough to estimate the wait of a new job for fifty effects at once.
MOST_COUNTED = 200
# Rows that a filtered list reads per request.
MOST_LOOKED_AT = 5000


@dataclass(frozen=True, slots=True)
class Standing:
    """The position and limits of an open dispatch."""

    status: str
    workflow_id: int
    stage: str
    provider: str
    now: datetime
    ahead: int | None
    not_before: datetime | None
    max_concurrent: int | None
    in_use: int | None
    # How many jobs of its tenant and of its user may run at once, and how many run; None without a limit.
    max_running: int | None
    tenant_running: int | None
    max_running_per_user: int | None
    user_running: int | None
    average_seconds: float | None
    last_leased_at: datetime | None
    run_started_at: datetime | None


@dataclass(frozen=True, slots=True)
class RouteLoad:
    """The load of a route, as a new job of a user would see it."""

    now: datetime
    # About how many jobs would be leased before the new job, at most MOST_COUNTED.
    ahead: int
    average_seconds: float | None


@dataclass(frozen=True, slots=True)
class Reordered:
    dispatch_id: int
    tenant_id: UUID
    job_id: UUID
    charge_cycle: int
    old_priority: int


@dataclass(frozen=True, slots=True)
class CentralSide:
    """Central's data about a job in a charge cycle: an open dispatch, a finished one, or neither."""

    dispatch_id: int | None
    status: str | None
    priority: int | None
    lease_seq: int | None
    # The worker that holds the lease learns from its next heartbeat that the job has ended.
    holder_told: bool
    end_status: str | None
    last_error: str | None
    # Whether the dispatch finished at least settle_seconds ago.
    has_settled: bool | None


@dataclass(frozen=True, slots=True)
class OpenDispatch:
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


class Overview:
    def __init__(self, central: Database, queue: Queue):
        self._central = central
        self._queue = queue

    async def standing(self, keys: Sequence[JobCycle]) -> Mapping[JobCycle, Standing]:
        """The standing of each job that has an open dispatch."""
        if not keys:
            return {}
        # Part of the response to each submit, so its plan (2 ms) is kept.
        async with self._central.connection() as connection:
            rows = await SQL["outlook"].rows(
                connection,
                **_keys(keys),
                most=MOST_AHEAD,
                running_per_tenant=self._queue.leasing.default_terms.max_running,
                running_per_user=self._queue.leasing.default_terms.max_running_per_user,
            )
        return {_key(row): Standing(*(row[name] for name in Standing.__slots__)) for row in rows}

    async def loads(
        self, routes: Sequence[tuple[int, str, str]], tenant_id: UUID, user_id: UUID
    ) -> Mapping[tuple[int, str, str], RouteLoad]:
        """The load of each route (workflow, stage, provider) for a new job of this user, in one statement."""
        async with self._central.ordinary() as connection:
            rows = await SQL["route_loads"].rows(
                connection,
                workflow_ids=[workflow_id for workflow_id, _, _ in routes],
                stages=[stage for _, stage, _ in routes],
                providers=[provider for _, _, provider in routes],
                tenant_id=tenant_id,
                user_id=user_id,
                is_fair=self._queue.leasing.is_fair,
                most=MOST_COUNTED,
            )
        return {routes[row["place"] - 1]: RouteLoad(row["now"], row["ahead"], row["average_seconds"]) for row in rows}

    async def list(self, wanted: DispatchFilter, before: int | None, limit: int) -> Page[Dispatch]:
        """Newest first. A page of the queue or the history may be shorter than `limit` and still have a next page."""
        filters = {
            "before": before,
            "status": wanted.status,
            "workflow": wanted.workflow,
            "tenant_id": wanted.tenant_id,
            "limit": limit + 1,
        }
        async with self._central.ordinary() as connection:
            if wanted.finished:
                rows = await SQL["list_finished"].rows(
                    connection, **filters, worker_id=wanted.worker_id, looked_at=MOST_LOOKED_AT
                )
            elif wanted.worker_id is not None:
                rows = await SQL["list_held_by_worker"].rows(connection, **filters, worker_id=wanted.worker_id)
            elif wanted.status in ("leased", "waiting"):
                rows = await SQL["list_held"].rows(connection, **filters)
            else:
                rows = await SQL["list_queue"].rows(connection, **filters, looked_at=MOST_LOOKED_AT)
        items = [dispatch_view(row) for row in rows[:limit] if row["dispatch_id"] is not None]
        if len(rows) > limit:
            return Page(items=items, next_cursor=str(items[-1].dispatch_id))
        whole = not rows or rows[0].get("looked_at", 0) < MOST_LOOKED_AT
        return Page(items=items, next_cursor=None if whole else str(rows[0]["last_looked_at"]))

    async def get(self, dispatch_id: int) -> Dispatch:
        async with self._central.ordinary() as connection:
            row = await SQL["get_open"].row(connection, dispatch_id=dispatch_id)
            # The history is read second, because the dispatch may finish between the two statements.
            row = row or await SQL["get_finished"].row(connection, dispatch_id=dispatch_id)
        if row is None:
            raise NotFound("There is no such dispatch.")
        return dispatch_view(row)

    async def of_job(self, tenant_id: UUID, job_id: UUID, charge_cycle: int) -> Dispatch | None:
        async with self._central.ordinary() as connection:
            dispatch_id = await SQL["dispatch_of_job"].value(
                connection, tenant_id=tenant_id, job_id=job_id, charge_cycle=charge_cycle
            )
        return await self.get(dispatch_id) if dispatch_id is not None else None

    async def change_priority(self, dispatch_id: int, priority: int, actor: str) -> Reordered:
        """Moves a queued dispatch to the lane of another priority."""
        async with self._central.transaction() as connection:
            route = await SQL["route_of"].row(connection, dispatch_id=dispatch_id)
            if route is not None and route["status"] == "queued":
                await QUEUE_SQL["open_lanes"].run(
                    connection,
                    workflow_ids=[route["workflow_id"]],
                    stages=[route["stage"]],
                    providers=[route["provider"]],
                    identifiers=[route["concurrency_identifier"]],
                    priorities=[priority],
                    tenant_ids=[route["tenant_id"]],
                    user_ids=[route["user_id"]],
                )
            row = await SQL["change_priority"].row(connection, dispatch_id=dispatch_id, priority=priority)
            if row is not None:
                await record(
                    connection,
                    actor,
                    "dispatch.priority",
                    "dispatch",
                    dispatch_id,
                    row["tenant_id"],
                    job_id=row["job_id"],
                    old_priority=row["old_priority"],
                    priority=priority,
                )
        if row is None:
            status = (await self.get(dispatch_id)).status
            raise WrongState(f"It is {status}; only what waits in the queue has a place to be changed.")
        if row["not_before"] is None:
            self._queue.tell_arrivals([row])
        return Reordered(*(row[name] for name in Reordered.__slots__))

    async def limits(self, after: str | None, limit: int) -> Page[ConcurrencyLimit]:
        async with self._central.ordinary() as connection:
            rows = await SQL["list_limits"].rows(connection, after=after, limit=limit + 1)
        items = [ConcurrencyLimit(**row) for row in rows[:limit]]
        return Page(items=items, next_cursor=items[-1].identifier if len(rows) > limit else None)

    async def set_limit(self, identifier: str, max_concurrent: int | None, actor: str) -> None:
        """None removes the limit."""
        async with self._central.transaction() as connection:
            if max_concurrent is None:
                await SQL["remove_limit"].run(connection, identifier=identifier)
            else:
                await SQL["set_limit"].run(connection, identifier=identifier, max_concurrent=max_concurrent)
            lanes = await SQL["lanes_of_identifier"].rows(connection, identifier=identifier)
            await record(
                connection,
                actor,
                "concurrency_limit.set",
                "concurrency_limit",
                identifier,
                max_concurrent=max_concurrent,
            )
        # If the limit was raised, jobs may be waiting for the new slots.
        for lane in lanes:
            self._queue.tell_free(lane["workflow_id"], lane["stage"], lane["provider"])

    async def declare_limit(self, identifier: str, max_concurrent: int) -> None:
        """Sets the limit of concurrent jobs that a provider declares. A limit that an admin has set stays."""
        async with self._central.connection() as connection:
            values = {"identifier": identifier, "max_concurrent": max_concurrent}
            changed = await SQL["declare_limit"].value(connection, **values)
            lanes = await SQL["lanes_of_identifier"].rows(connection, identifier=identifier) if changed else []
        for lane in lanes:
            self._queue.tell_free(lane["workflow_id"], lane["stage"], lane["provider"])

    async def known(self, keys: Sequence[JobCycle], settle_seconds: float) -> Mapping[JobCycle, CentralSide]:
        async with self._central.ordinary() as connection:
            rows = await SQL["where_jobs_stand"].rows(connection, **_keys(keys), settle_seconds=settle_seconds)
        return {_key(row): CentralSide(*(row[name] for name in CentralSide.__slots__)) for row in rows}

    async def page(self, after: int, limit: int, settle_seconds: float) -> Sequence[OpenDispatch]:
        """Open dispatches in the order of their ids."""
        async with self._central.ordinary() as connection:
            rows = await SQL["open_dispatches"].rows(
                connection, after=after, limit=limit, settle_seconds=settle_seconds
            )
        return [OpenDispatch(*(row[name] for name in OpenDispatch.__slots__)) for row in rows]

    async def count_on(self, key: JobCycle, lease_seq: int) -> bool:
        """Raises lease_seq of a queued dispatch to its job's last lease; False if lease_seq was not behind."""
        async with self._central.connection() as connection:
            return await _count_on(connection, key, lease_seq) > 0

    async def make_again(self, entry: Entry, lease_seq: int) -> bool:
        """Creates the missing dispatch of a job, with the job's lease_seq; False if a dispatch exists or existed."""
        async with self._central.transaction() as connection:
            placed = await self._queue.place(connection, [entry])
            if placed:
                await _count_on(connection, JobCycle(entry.tenant_id, entry.job_id, entry.charge_cycle), lease_seq)
        self._queue.tell_arrivals(placed)
        return bool(placed)


async def _count_on(connection: Connection, key: JobCycle, lease_seq: int) -> int:
    tenant_id, job_id, charge_cycle = key
    return await SQL["count_leases_on"].run(
        connection, tenant_id=tenant_id, job_id=job_id, charge_cycle=charge_cycle, lease_seq=lease_seq
    )


def dispatch_view(row: asyncpg.Record) -> Dispatch:
    return Dispatch(**{name: row.get(name) for name in Dispatch.model_fields})


def _keys(keys: Sequence[JobCycle]) -> dict[str, object]:
    return {
        "tenant_ids": [tenant_id for tenant_id, _, _ in keys],
        "job_ids": [job_id for _, job_id, _ in keys],
        "cycles": [charge_cycle for _, _, charge_cycle in keys],
    }


def _key(row: asyncpg.Record) -> JobCycle:
    return JobCycle(row["tenant_id"], row["job_id"], row["charge_cycle"])
