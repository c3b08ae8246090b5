"""Jobs that their submitter runs at once in this process. They are created leased, so the reaper handles a crash."""

from __future__ import annotations

from callsheet.jobs.execution import Execution
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

    async def submit(self, new: NewJob, worker_id: str) -> tuple[Submitted, StartedLease | None]:
        """The job, and the lease under which this worker must run it now. Without a lease, the job is in the queue (its
        limit is reached) or soon will be; or it is an earlier job with the same idempotency key."""
        row = await self._submission.accept(new)
        if isinstance(row, Submitted):
            return row, None
        try:
            started = await self._execution.begin(entry_of(row), worker_id)
        except POSTPONED as error:
            log.warning("synchronous.postponed", job_id=str(row["job_id"]), error=repr(error))
            return Submitted(job_view(row), replayed=False), None
        if started is not None:
            return Submitted(job_view({**row, "status": JobStatus.PROCESSING}), replayed=False), started
        status = await self._relay.dispatch_now(row)
        return Submitted(job_view({**row, "status": status}), replayed=False), None
