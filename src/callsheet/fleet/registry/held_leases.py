"""Requeues leases of workers and records the outcome in the workers' logs."""

from __future__ import annotations

from callsheet.dispatch.facts import ExpiredDispatch
from callsheet.fleet.registry.worker_log import Audit, Event, outcome_of_requeue
from callsheet.jobs.lease.leases import Leases
from callsheet.jobs.lease.outcomes import LeaseReport, ReportOutcome, Settlement
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import statements
from callsheet.wire.errors import NotFound
from callsheet.wire.worker.errors import LeaseLost

SQL = statements("callsheet.fleet.registry", "log_statements.sql")


class ExpiredLeases:
    """The record of leases that the reaper took from workers."""

    def __init__(self, databases: Databases):
        self._databases = databases
        self._audit = Audit(databases)

    async def record(self, lease: ExpiredDispatch, became: str) -> None:
        """Records an expired lease in its worker's log. The lease adds to the busy time of its session until now."""
        if lease.worker_id is None:
            return
        async with self._databases.central.connection() as connection:
            # A session that started after the lease is not used: a new session requeues the leases of the earlier one.
            session_id = await SQL["session_of_lease"].value(
                connection, worker_id=lease.worker_id, held_seconds=lease.held_seconds
            )
        await self._audit.record(
            Event(
                lease.worker_id,
                session_id,
                "lease_expired",
                "reaper",
                lease.dispatch_id,
                {"status": became},
                settled=Settlement(
                    lease.dispatch_id, lease.tenant_id, lease.workflow_id, None, None, lease.held_seconds
                ),
                outcome=outcome_of_requeue(became),
            )
        )


class HeldLeases:
    def __init__(self, leases: Leases, audit: Audit):
        self._leases = leases
        self._audit = audit

    async def requeue_all(
        self, worker_id: str, session_id: int | None, *, attempt_counts: bool, reason: str, actor: str
    ) -> int:
        """Requeues all leases of the worker and returns their number. `attempt_counts`: each lease counts as an
        attempt.
        """
        requeued = await self._leases.requeue_held_by(
            worker_id, attempt_counts=attempt_counts, reason=reason, actor=actor
        )
        for dispatch_id, outcome in requeued:
            await self._record(worker_id, session_id, dispatch_id, outcome, reason, actor)
        return len(requeued)

    async def requeue_one(
        self, report: LeaseReport, session_id: int | None, *, attempt_counts: bool, reason: str, actor: str
    ) -> None:
        """Requeues one lease."""
        try:
            outcome = await self._leases.requeue(report, reason, attempt_counts=attempt_counts, actor=actor)
        except (LeaseLost, NotFound):
            return  # Another process reported, reaped or requeued the lease at this moment.
        if outcome.settled is not None:
            await self._record(report.worker_id, session_id, report.dispatch_id, outcome, reason, actor)

    async def _record(
        self, worker_id: str, session_id: int | None, dispatch_id: int, outcome: ReportOutcome, reason: str, actor: str
    ) -> None:
        await self._audit.record(
            Event(
                worker_id,
                session_id,
                "lease_requeued",
                actor,
                dispatch_id,
                {"reason": reason, "status": outcome.status},
                settled=outcome.settled,
                outcome=outcome_of_requeue(outcome.status),
            )
        )
