"""Changes the status of existing jobs according to the state machine of `states.py`.

Concurrent transitions of one kind share one statement and one commit.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

import asyncpg

from callsheet.dispatch.facts import JobCycle
from callsheet.identity.accounts.tenant_pools import TenantRouting
from callsheet.jobs.machine.cycles import JobState
from callsheet.jobs.machine.journal import Journal
from callsheet.jobs.machine.states import PATHS, Transition, target
from callsheet.jobs.machine.transition_requests import StartedJob, TransitionRequest, TransitionResult
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.sql import Connection, statements
from callsheet.toolbox.batching import Batcher
from callsheet.wire.errors import InvalidTransition, NotFound
from callsheet.wire.jobs import JobStatus

TRANSITION_SQL = statements("callsheet.jobs.machine", "transition_statements.sql")
SQL = statements("callsheet.jobs.machine")


class DeniedJob(NamedTuple):
    from_status: str
    user_id: UUID


Requests = Sequence[TransitionRequest]
Changed = TypeVar("Changed", TransitionResult, StartedJob)


async def apply_transition(
    connection: Connection,
    transition: Transition,
    requests: Requests,
    *,
    close_dispatch: bool = False,
    only_from: JobStatus | None = None,
) -> list[TransitionResult]:
    """Changes the jobs that may change, and returns them. The other jobs are not in the result.

    `close_dispatch`: the relay closes the dispatches of these jobs.
    """
    statuses = statuses_of(transition, only_from)
    match transition:
        case Transition.QUEUE | Transition.REQUEUE:
            return await TRANSITION_SQL["queue_jobs"].rows(
                connection, TransitionResult, **statuses, **_columns(requests)
            )
        case Transition.COMPLETE:
            return await TRANSITION_SQL["complete_jobs"].rows(
                connection, TransitionResult, **statuses, requests=[request.as_json() for request in requests]
            )
        case Transition.FAIL | Transition.CANCEL | Transition.EXPIRE:
            return await TRANSITION_SQL["end_jobs"].rows(
                connection,
                TransitionResult,
                **statuses,
                requests=[request.as_json() for request in requests],
                close_dispatch=close_dispatch,
            )
        case _:
            raise ValueError(f"{transition} has a function of its own")


async def start_jobs(connection: Connection, transition: Transition, requests: Requests) -> list[StartedJob]:
    """Starts the jobs that may start under the lease `new_lease_seq`, and returns them."""
    return await TRANSITION_SQL["start_jobs"].rows(
        connection,
        StartedJob,
        **steps_of(transition),
        to_status=target(transition).value,
        tenant_ids=[request.job.tenant_id for request in requests],
        job_ids=[request.job.job_id for request in requests],
        charge_cycles=[request.job.charge_cycle for request in requests],
        lease_seqs=[request.new_lease_seq for request in requests],
        actors=[request.actor for request in requests],
        request_ids=[request.request_id for request in requests],
    )


async def retry_job(
    connection: Connection, request: TransitionRequest, *, has_budgets: bool, paid_by_tenant: bool
) -> TransitionResult | None:
    """Starts the next charge cycle of an ended job. The caller holds the locks of the wallet and of the budgets."""
    return await TRANSITION_SQL["retry_job"].row(
        connection,
        TransitionResult,
        **statuses_of(Transition.RETRY),
        **request.job._asdict(),
        actor=request.actor,
        reason=request.reason,
        request_id=request.request_id,
        has_budgets=has_budgets,
        paid_by_tenant=paid_by_tenant,
    )


def _columns(requests: Requests) -> dict[str, list[Any]]:
    ranges = [request.lease_range for request in requests]
    return {
        "tenant_ids": [request.job.tenant_id for request in requests],
        "job_ids": [request.job.job_id for request in requests],
        "charge_cycles": [request.job.charge_cycle for request in requests],
        "min_lease_seqs": [min_lease_seq for min_lease_seq, _ in ranges],
        "max_lease_seqs": [max_lease_seq for _, max_lease_seq in ranges],
        "actors": [request.actor for request in requests],
        "reasons": [request.reason for request in requests],
        "reported_reasons": [request.reported for request in requests],
        "traces": [request.trace for request in requests],
        "request_ids": [request.request_id for request in requests],
    }


@cache
def statuses_of(transition: Transition, only_from: JobStatus | None = None) -> Mapping[str, Any]:
    """The statuses from which a transition of one step starts, and the status in which it ends."""
    origins = [origin.value for origin in PATHS[transition] if only_from in (None, origin)]
    return {"from_statuses": origins, "to_status": target(transition).value}


@cache
def steps_of(transition: Transition) -> Mapping[str, Any]:
    """The steps from each allowed status: the status, the number of the step, and the two statuses of the step."""
    steps = [
        (origin.value, number, step.from_status.value, step.to_status.value)
        for origin, path in PATHS[transition].items()
        for number, step in enumerate(path, 1)
    ]
    names = ("origins", "numbers", "from_statuses", "to_statuses")
    return {name: list(column) for name, column in zip(names, zip(*steps, strict=True), strict=True)}


class Transitions:
    def __init__(self, routing: TenantRouting, journal: Journal):
        self._routing = routing
        self._journal = journal
        # Requests share a statement if pool, transition, `close_dispatch` and `only_from` are the same.
        self._changes: dict[object, Batcher[TransitionRequest, TransitionResult | None]] = {}
        self._starts: dict[object, Batcher[TransitionRequest, StartedJob | None]] = {}

    async def apply(
        self,
        transition: Transition,
        request: TransitionRequest,
        *,
        close_dispatch: bool = False,
        only_from: JobStatus | None = None,
        pool: Database | None = None,
    ) -> TransitionResult | None:
        """Changes the job, or returns None if it has another status, cycle or lease. `pool`: for loops that read the
        job in its pool. A restored central may not know its tenant.
        """
        pool = pool or await self._routing.pool_of_tenant(request.job.tenant_id)
        kind = (pool.name, transition, close_dispatch, only_from)
        batcher = self._changes.get(kind)
        if batcher is None:

            async def change(connection: Connection, requests: Requests) -> list[TransitionResult]:
                return await apply_transition(
                    connection, transition, requests, close_dispatch=close_dispatch, only_from=only_from
                )

            batcher = self._changes[kind] = _batcher(pool, change)
        changed = await batcher(request)
        if changed is not None:
            self._journal.changed(transition, changed, request)
        return changed

    async def start(self, transition: Transition, request: TransitionRequest) -> StartedJob | None:
        """Starts the job, or returns None if it has another status or cycle, or a newer lease."""
        pool = await self._routing.pool_of_tenant(request.job.tenant_id)
        kind = (pool.name, transition)
        batcher = self._starts.get(kind)
        if batcher is None:

            async def start(connection: Connection, requests: Requests) -> list[StartedJob]:
                return await start_jobs(connection, transition, requests)

            batcher = self._starts[kind] = _batcher(pool, start)
        started = await batcher(request)
        if started is not None:
            self._journal.changed(transition, started, request)
        return started

    async def state_of(self, job: JobCycle) -> JobState | None:
        """The current state of the job. If this cycle is an earlier one, it includes how the cycle ended."""
        pool = await self._routing.pool_of_tenant(job.tenant_id)
        async with pool.connection() as connection:
            return await SQL["state_of_job"].row(connection, JobState, **job._asdict())

    async def set_priority(self, job: JobCycle, priority: int) -> bool:
        """Sets the priority of the job to the priority of its dispatch."""
        pool = await self._routing.pool_of_tenant(job.tenant_id)
        async with pool.connection() as connection:
            changed = await SQL["set_priority"].run(connection, **job._asdict(), priority=priority)
        return changed > 0

    async def deny(self, transition: Transition, request: TransitionRequest) -> InvalidTransition:
        """Records a denied transition in the job's history; returns the error to raise."""
        wanted = target(transition)
        tenant_id, job_id, _ = request.job
        pool = await self._routing.pool_of_tenant(tenant_id)
        async with pool.transaction() as connection:
            row = await SQL["deny"].row(
                connection,
                DeniedJob,
                tenant_id=tenant_id,
                job_id=job_id,
                to_status=wanted.value,
                actor=request.actor,
                reason=request.reason,
                request_id=request.request_id,
            )
        if row is None:
            raise NotFound("There is no such job.")
        status = JobStatus(row.from_status)
        self._journal.denied(tenant_id, row.user_id, job_id, status, wanted)
        return InvalidTransition(status.value, wanted.value)


def _batcher(
    pool: Database, change: Callable[[Connection, Requests], Awaitable[Sequence[Changed]]]
) -> Batcher[TransitionRequest, Changed | None]:
    async def run(requests: Requests) -> list[Changed | None]:
        # One statement changes a job once, so a second request for the same job runs after the first.
        first = {request.job[:2]: request for request in reversed(requests)}
        results: list[Changed | None] = []
        async with pool.connection() as connection:
            changed = {row[:2]: row for row in await change(connection, list(first.values()))}
            for request in requests:
                key = request.job[:2]
                if first[key] is request:
                    results.append(changed.get(key))
                else:
                    results.append(next(iter(await change(connection, [request])), None))
        return results

    return Batcher(run, isolate=(asyncpg.PostgresError,))
