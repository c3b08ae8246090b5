"""Moves jobs in the pool of their tenant. Concurrent moves of one kind share one statement and one commit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal, cast
from uuid import UUID

import asyncpg

from callsheet.dispatch.facts import EndStatus
from callsheet.identity.routing import TenantRouting
from callsheet.jobs.journal import Journal
from callsheet.jobs.moves import SQL, Move, Moved, move_jobs
from callsheet.jobs.states import Happening, target
from callsheet.plumbing.database import Database
from callsheet.plumbing.sql import statements
from callsheet.toolbox.batching import Batcher
from callsheet.wire.errors import InvalidTransition, NotFound
from callsheet.wire.jobs import ACTIVE, JobStatus

RECONCILE_SQL = statements("callsheet.jobs", "reconcile_statements.sql")
TellCentral = Literal["dispatch", "close"] | None
Kind = tuple[str, Happening, TellCentral, JobStatus | None]


@dataclass(frozen=True, slots=True)
class JobFacts:
    """The current status, cycle and lease of a job."""

    status: JobStatus
    charge_cycle: int
    lease_seq: int
    # How the requested cycle ended, if the job has been retried since.
    earlier_end: EndStatus | None = None


def ended_in(facts: JobFacts | None, charge_cycle: int) -> EndStatus | None:
    """How this charge cycle of the job ended, or None while it is live."""
    if facts is None:
        return "failed"
    if facts.charge_cycle > charge_cycle:
        return facts.earlier_end or "failed"
    if facts.status in ACTIVE:
        return None
    return cast("EndStatus", facts.status.value)


class Mover:
    def __init__(self, routing: TenantRouting, journal: Journal):
        self._routing = routing
        self._journal = journal
        self._batchers: dict[Kind, Batcher[Move, Moved | None]] = {}

    async def move(
        self,
        happening: Happening,
        move: Move,
        *,
        tell_central: TellCentral = None,
        only_from: JobStatus | None = None,
    ) -> Moved | None:
        """Moves the job, or returns None if it has another status, cycle or lease."""
        pool = await self._routing.pool_of(move.tenant_id)
        kind: Kind = (pool.name, happening, tell_central, only_from)
        batcher = self._batchers.get(kind)
        if batcher is None:
            batcher = self._batchers[kind] = Batcher(self._moving(pool, kind), isolate=(asyncpg.PostgresError,))
        moved = await batcher(move)
        if moved is not None:
            self._journal.moved(happening, moved, move)
        return moved

    async def look(self, tenant_id: UUID, job_id: UUID, charge_cycle: int) -> JobFacts | None:
        """The current state of the job, and how this cycle ended if it was an earlier one."""
        pool = await self._routing.pool_of(tenant_id)
        async with pool.connection() as connection:
            row = await SQL["look"].row(connection, tenant_id=tenant_id, job_id=job_id, charge_cycle=charge_cycle)
        if row is None:
            return None
        return JobFacts(JobStatus(row["status"]), row["charge_cycle"], row["lease_seq"], row["earlier_end"])

    async def follow_priority(self, key: tuple[UUID, UUID, int], priority: int) -> bool:
        """Sets the job (tenant, id, cycle) to the priority of its dispatch."""
        tenant_id, job_id, charge_cycle = key
        pool = await self._routing.pool_of(tenant_id)
        async with pool.connection() as connection:
            changed = await RECONCILE_SQL["set_priority"].run(
                connection, tenant_id=tenant_id, job_id=job_id, charge_cycle=charge_cycle, priority=priority
            )
        return changed > 0

    async def pool_of(self, tenant_id: UUID) -> Database:
        return await self._routing.pool_of(tenant_id)

    async def deny(self, happening: Happening, move: Move) -> InvalidTransition:
        """Records a denied transition in the job's history; returns the error to raise."""
        wanted = target(happening)
        pool = await self._routing.pool_of(move.tenant_id)
        async with pool.transaction() as connection:
            row = await SQL["deny"].row(
                connection,
                tenant_id=move.tenant_id,
                job_id=move.job_id,
                to_status=wanted.value,
                actor=move.actor,
                reason=move.reason,
            )
        if row is None:
            raise NotFound("There is no such job.")
        status = JobStatus(row["from_status"])
        self._journal.denied(move.tenant_id, row["user_id"], move.job_id, status, wanted)
        return InvalidTransition(status.value, wanted.value)

    def _moving(self, pool: Database, kind: Kind) -> Callable[[Sequence[Move]], Awaitable[Sequence[Moved | None]]]:
        _, happening, tell_central, only_from = kind

        async def run(moves: Sequence[Move]) -> list[Moved | None]:
            # One statement moves a job once, so a second move of the same job runs after the first.
            first = {(move.tenant_id, move.job_id): move for move in reversed(moves)}
            results: list[Moved | None] = []
            async with pool.connection() as connection:
                moved = await move_jobs(
                    connection, happening, list(first.values()), tell_central=tell_central, only_from=only_from
                )
                for move in moves:
                    key = (move.tenant_id, move.job_id)
                    if first[key] is not move:
                        again = await move_jobs(
                            connection, happening, [move], tell_central=tell_central, only_from=only_from
                        )
                        results.append(again.get(key))
                    else:
                        results.append(moved.get(key))
            return results

        return run
