"""The long poll: the next job for a worker now, or as soon as there is one."""

from __future__ import annotations

import time
from collections.abc import Callable

from callsheet.dispatch.affinity import Cold
from callsheet.dispatch.facts import Criteria
from callsheet.dispatch.waiters import Waiters
from callsheet.jobs.execution import Execution
from callsheet.jobs.provider_gate import EveryProvider, ProviderGate
from callsheet.jobs.reports import StartedLease


class Polling:
    def __init__(self, execution: Execution, waiters: Waiters):
        self._execution = execution
        self._waiters = waiters
        # Set by whoever knows the providers.
        self.gate: ProviderGate = EveryProvider()

    async def next_job(
        self,
        criteria: Criteria,
        worker_id: str,
        wait_seconds: float,
        poll_id: str | None = None,
        is_outdated: Callable[[], bool] = lambda: False,
        cold: Cold | None = None,
    ) -> StartedLease | None:
        """Issues no query while it waits. A wait without work answers None when it is over, or outdated when woken."""
        until = time.monotonic() + wait_seconds
        while not is_outdated():
            with self._waiters.expecting(criteria, cold) as arrival:
                # What is paused may have changed while it waited.
                allowed = self.gate.narrowed(criteria)
                started = (
                    await self._execution.lease_and_start(allowed, worker_id, poll_id, cold)
                    if allowed.providers
                    else None
                )
                left = 0.0 if self._waiters.closed or is_outdated() else until - time.monotonic()
                if started is not None or left <= 0 or not await arrival.within(left):
                    return started
        return None
