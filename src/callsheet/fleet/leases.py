"""Taking back what a worker holds, and what that comes to in its log."""

from __future__ import annotations

from callsheet.dispatch.facts import Expired
from callsheet.fleet.audit import Audit, Event
from callsheet.jobs.execution import Execution


class HeldLeases:
    def __init__(self, execution: Execution, audit: Audit):
        self._execution = execution
        self._audit = audit

    async def reaped(self, lease: Expired, became: str) -> None:
        """A lease ran out. Its worker's log says so; of the session it is not known how long it was at work."""
        if lease.worker_id is not None:
            details = {"status": became}
            event = Event(lease.worker_id, None, "lease_expired", "reaper", lease.dispatch_id, details)
            await self._audit.record(event)

    async def put_back(
        self, worker_id: str, session_id: int | None, *, keep_attempt: bool, reason: str, actor: str
    ) -> int:
        """All of them, back to the queue; answers how many. `keep_attempt`: they count as attempts."""
        taken = await self._execution.put_back_held(worker_id, keep_attempt=keep_attempt, reason=reason, actor=actor)
        for dispatch_id, outcome in taken:
            await self._audit.record(
                Event(
                    worker_id,
                    session_id,
                    "lease_put_back",
                    actor,
                    dispatch_id,
                    {"reason": reason, "status": outcome.status},
                    settled=outcome.settled,
                    outcome="failed" if outcome.status == "failed" else "requeued",
                )
            )
        return len(taken)
