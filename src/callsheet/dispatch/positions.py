"""The positions of jobs in the queue, and how many jobs a new one would wait for.

A bounded number of rows is read for any length of the queue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from callsheet.dispatch.facts import JobCycle, Route, columns_of
from callsheet.dispatch.lease.leasing import Leasing
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.sql import statements

SQL = statements("callsheet.dispatch", "position_statements.sql")

# Positions are exact up to a thousand; 1001 means "more than a thousand".
MAX_AHEAD = 1001
# This is enough to estimate the wait of a new job for fifty effects at once.
MAX_COUNTED = 200


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


class Positions:
    def __init__(self, central: Database, leasing: Leasing):
        self._central = central
        self._leasing = leasing

    async def of_jobs(self, jobs: Sequence[JobCycle]) -> Mapping[JobCycle, QueuePosition]:
        """The position of each job that has an open dispatch."""
        if not jobs:
            return {}
        # This is part of the response to each submit, so its plan is kept: planning takes 2 ms.
        async with self._central.connection() as connection:
            rows = await SQL["outlook"].rows(
                connection,
                QueuePosition,
                **columns_of(jobs),
                max_rows=MAX_AHEAD,
                running_per_tenant=self._leasing.slots.default_terms.max_running,
                running_per_user=self._leasing.slots.default_terms.max_running_per_user,
            )
        return {row.cycle: row for row in rows}

    async def of_new_job(self, routes: Sequence[Route], tenant_id: UUID, user_id: UUID) -> Mapping[Route, RouteLoad]:
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
                is_fair=self._leasing.is_fair,
                max_rows=MAX_COUNTED,
            )
        return {routes[row.place - 1]: row for row in rows}
