"""Changes the status of existing jobs, by the state machine of `states.py`.

LEDGER defines the wallet entry of each transition. Concurrent transitions of one kind share one statement and one
commit.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any, Literal
from uuid import UUID

import asyncpg

from callsheet.dispatch.facts import JobCycle
from callsheet.identity.routing import TenantRouting
from callsheet.jobs.cycles import JobState
from callsheet.jobs.journal import Journal
from callsheet.jobs.sql import RECONCILE_SQL, SQL
from callsheet.jobs.states import PATHS, Transition, target
from callsheet.jobs.transition_requests import TransitionRequest, TransitionResult, result_of
from callsheet.plumbing.database import Database
from callsheet.plumbing.sql import Connection
from callsheet.toolbox.batching import Batcher
from callsheet.wire.errors import InvalidTransition, NotFound
from callsheet.wire.jobs import TERMINAL, JobStatus

LEDGER: Mapping[Transition, Literal["JOB_RESERVE", "JOB_CONSUME", "JOB_REFUND"]] = MappingProxyType(
    {
        Transition.COMPLETE: "JOB_CONSUME",
        Transition.FAIL: "JOB_REFUND",
        Transition.CANCEL: "JOB_REFUND",
        Transition.EXPIRE: "JOB_REFUND",
        Transition.RETRY: "JOB_RESERVE",
    }
)
# Requests of one kind share a statement: the pool, the transition, whether the relay closes the dispatch, the only
# status to start from.
Kind = tuple[str, Transition, bool, JobStatus | None]


async def apply_transition(
    connection: Connection,
    transition: Transition,
    requests: Sequence[TransitionRequest],
    *,
    close_dispatch: bool = False,
    only_from: JobStatus | None = None,
) -> dict[tuple[UUID, UUID], TransitionResult]:
    """Changes the jobs that may change, and returns them by (tenant, job); the others are not in the result.

    `close_dispatch`: the relay closes the dispatches of these jobs.
    """
    rows = await SQL["move"].rows(
        connection,
        moves=[request.as_json() for request in requests],
        **arguments(transition, close_dispatch=close_dispatch, only_from=only_from),
    )
    return {(row["tenant_id"], row["job_id"]): result_of(row) for row in rows}


@cache
def arguments(
    transition: Transition, *, close_dispatch: bool = False, only_from: JobStatus | None = None
) -> Mapping[str, Any]:
    """The statement's arguments for a transition, which are the same for every job."""
    origins, numbers, from_statuses, to_statuses = steps_of(transition, only_from)
    is_end = target(transition) in TERMINAL
    is_retry = transition is Transition.RETRY
    return {
        "origins": origins,
        "numbers": numbers,
        "from_statuses": from_statuses,
        "to_statuses": to_statuses,
        "ledger": LEDGER.get(transition),
        "is_retry": is_retry,
        "is_end": is_end,
        "completed": JobStatus.COMPLETED.value,
        # The outbox row is deleted once the dispatch exists or is no longer needed.
        "sent": transition in (Transition.QUEUE, Transition.START_SYNCHRONOUS) or is_end,
        "with_payload": transition in (Transition.START, Transition.START_SYNCHRONOUS),
        "outbox_action": "dispatch" if is_retry else "close" if close_dispatch else None,
    }


def steps_of(
    transition: Transition, only_from: JobStatus | None = None
) -> tuple[list[str], list[int], list[str], list[str]]:
    """The steps from each allowed status: the status, the number of the step, and the two statuses of the step."""
    steps = [
        (origin.value, number, step.from_status.value, step.to_status.value)
        for origin, path in PATHS[transition].items()
        if only_from in (None, origin)
        for number, step in enumerate(path, 1)
    ]
    origins, numbers, from_statuses, to_statuses = zip(*steps, strict=True)
    return list(origins), list(numbers), list(from_statuses), list(to_statuses)


class Transitions:
    def __init__(self, routing: TenantRouting, journal: Journal):
        self._routing = routing
        self._journal = journal
        self._batchers: dict[Kind, Batcher[TransitionRequest, TransitionResult | None]] = {}

    async def apply(
        self,
        transition: Transition,
        request: TransitionRequest,
        *,
        close_dispatch: bool = False,
        only_from: JobStatus | None = None,
    ) -> TransitionResult | None:
        """Changes the job, or returns None if it has another status, cycle or lease."""
        pool = await self._routing.pool_of(request.job.tenant_id)
        kind: Kind = (pool.name, transition, close_dispatch, only_from)
        batcher = self._batchers.get(kind)
        if batcher is None:
            batcher = self._batchers[kind] = Batcher(self._batches(pool, kind), isolate=(asyncpg.PostgresError,))
        result = await batcher(request)
        if result is not None:
            self._journal.changed(transition, result, request)
        return result

    async def state_of(self, job: JobCycle) -> JobState | None:
        """The current state of the job, and how this cycle ended if it was an earlier one."""
        pool = await self._routing.pool_of(job.tenant_id)
        async with pool.connection() as connection:
            return await SQL["state_of_job"].row(connection, JobState, **job._asdict())

    async def set_priority(self, job: JobCycle, priority: int) -> bool:
        """Sets the job to the priority of its dispatch."""
        pool = await self._routing.pool_of(job.tenant_id)
        async with pool.connection() as connection:
            changed = await RECONCILE_SQL["set_priority"].run(connection, **job._asdict(), priority=priority)
        return changed > 0

    async def deny(self, transition: Transition, request: TransitionRequest) -> InvalidTransition:
        """Records a denied transition in the job's history; returns the error to raise."""
        wanted = target(transition)
        tenant_id, job_id, _ = request.job
        pool = await self._routing.pool_of(tenant_id)
        async with pool.transaction() as connection:
            row = await SQL["deny"].row(
                connection,
                tenant_id=tenant_id,
                job_id=job_id,
                to_status=wanted.value,
                actor=request.actor,
                reason=request.reason,
            )
        if row is None:
            raise NotFound("There is no such job.")
        status = JobStatus(row["from_status"])
        self._journal.denied(tenant_id, row["user_id"], job_id, status, wanted)
        return InvalidTransition(status.value, wanted.value)

    def _batches(
        self, pool: Database, kind: Kind
    ) -> Callable[[Sequence[TransitionRequest]], Awaitable[Sequence[TransitionResult | None]]]:
        _, transition, close_dispatch, only_from = kind

        async def run(requests: Sequence[TransitionRequest]) -> list[TransitionResult | None]:
            # One statement changes a job once, so a second request for the same job runs after the first.
            first = {request.job[:2]: request for request in reversed(requests)}
            results: list[TransitionResult | None] = []
            async with pool.connection() as connection:
                changed = await apply_transition(
                    connection, transition, list(first.values()), close_dispatch=close_dispatch, only_from=only_from
                )
                for request in requests:
                    key = request.job[:2]
                    if first[key] is not request:
                        again = await apply_transition(
                            connection, transition, [request], close_dispatch=close_dispatch, only_from=only_from
                        )
                        results.append(again.get(key))
                    else:
                        results.append(changed.get(key))
            return results

        return run
