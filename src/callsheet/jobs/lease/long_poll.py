"""The long poll: it returns the next job for a worker as soon as there is one."""

from __future__ import annotations

import time
from collections.abc import Callable

from callsheet.dispatch.facts import Criteria
from callsheet.dispatch.order.affinity import Cold
from callsheet.dispatch.waiters import Waiters
from callsheet.jobs.lease.outcomes import StartedLease
from callsheet.jobs.lease.provider_gate import ProviderGate
from callsheet.jobs.lease.start import Starter


class LongPoll:
    def __init__(self, starter: Starter, waiters: Waiters, gate: ProviderGate):
        self._starter = starter
        self._waiters = waiters
        self._gate = gate

    async def next_job(
        self,
        criteria: Criteria,
        worker_id: str,
        wait_seconds: float,
        poll_id: str | None = None,
        is_outdated: Callable[[], bool] = lambda: False,
        cold: Cold | None = None,
    ) -> StartedLease | None:
        """The next job for a worker. No query is sent while it waits. Returns None if the wait ends without work, or
        if the poll is outdated.
        """
        until = time.monotonic() + wait_seconds
        while not is_outdated():
            with self._waiters.waiting(criteria, cold) as wake_up:
                # The paused providers may have changed during the wait.
                allowed = self._gate.narrowed(criteria)
                started = (
                    await self._starter.lease_and_start(allowed, worker_id, poll_id, cold)
                    if allowed.providers
                    else None
                )
                left = 0.0 if self._waiters.closed or is_outdated() else until - time.monotonic()
                if started is not None or left <= 0 or not await wake_up.within(left):
                    return started
        return None
