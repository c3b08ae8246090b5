"""Jobs that their submitter runs at once, in this very process: born leased, so a crash is reaped like any other."""

from __future__ import annotations

from callsheet.dispatch.facts import Entry
from callsheet.jobs.execution import Execution
from callsheet.jobs.provider_gate import PAUSED, EveryProvider, ProviderGate, ProviderPaused
from callsheet.jobs.relay import POSTPONED, Relay, entry_of
from callsheet.jobs.reports import StartedLease
from callsheet.jobs.submission import NewJob, Submission, Submitted
from callsheet.jobs.views import job_view
from callsheet.toolbox.logs import get_logger
from callsheet.wire.jobs import JobStatus

log = get_logger(__name__)


class Synchronous:
    def __init__(self, submission: Submission, relay: Relay, execution: Execution):
        self._submission = submission
        self._relay = relay
        self._execution = execution
        # Set by whoever knows the providers.
        self.gate: ProviderGate = EveryProvider()

    async def submit(self, new: NewJob, worker_id: str) -> tuple[Submitted, StartedLease | None]:
        """The job, and the lease under which this worker shall run it now. Without a lease it waits in the queue (its
        limit is reached, its provider paused) or soon will; or it is an earlier one, of the same idempotency key."""
        row = await self._submission.accept(new)
        if isinstance(row, Submitted):
            return row, None
        try:
            paused = self.gate.pause_of(new.provider) is not None
            started = None if paused else await self._begun(entry_of(row), worker_id)
        except ProviderPaused:
            return Submitted(job_view({**row, "status": JobStatus.QUEUED}), replayed=False), None
        except POSTPONED as error:
            log.warning("synchronous.postponed", job_id=str(row["job_id"]), error=repr(error))
            return Submitted(job_view(row), replayed=False), None
        if started is not None:
            return Submitted(job_view({**row, "status": JobStatus.PROCESSING}), replayed=False), started
        status = await self._relay.dispatch_now(row)
        return Submitted(job_view({**row, "status": status}), replayed=False), None

    async def _begun(self, entry: Entry, worker_id: str) -> StartedLease | None:
        started = await self._execution.begin(entry, worker_id)
        if started is not None and self.gate.concerns(entry.provider):
            try:
                await self.gate.admit(started.lease)
            except ProviderPaused:
                await self._execution.release(started, PAUSED)
                raise
        return started
