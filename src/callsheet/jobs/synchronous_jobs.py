"""Jobs that their submitter runs at once in this process. They are created leased, so the reaper handles a crash."""

from __future__ import annotations

from callsheet.jobs.new_jobs import NewJob
from callsheet.jobs.outcomes import StartedLease
from callsheet.jobs.relay import POSTPONED, Relay, entry_of
from callsheet.jobs.start import Starter
from callsheet.jobs.submit import Submission, SubmittedJob
from callsheet.jobs.views import job_view
from callsheet.toolbox.logs import get_logger
from callsheet.wire.jobs import JobStatus

log = get_logger(__name__)


class SynchronousJobs:
    def __init__(self, submission: Submission, relay: Relay, starter: Starter):
        self._submission = submission
        self._relay = relay
        self._starter = starter

    async def submit(self, new: NewJob, worker_id: str) -> tuple[SubmittedJob, StartedLease | None]:
        """The job, and the lease under which this worker must run it now. Without a lease, the job is in the queue (its
        limit is reached) or soon will be; or it is an earlier job with the same idempotency key."""
        row = await self._submission.accept(new)
        if isinstance(row, SubmittedJob):
            return row, None
        try:
            started = await self._starter.start_synchronous(entry_of(row), worker_id)
        except POSTPONED as error:
            log.warning("synchronous.postponed", job_id=str(row["job_id"]), error=repr(error))
            return SubmittedJob(job_view(row), replayed=False), None
        if started is not None:
            return SubmittedJob(job_view({**row, "status": JobStatus.PROCESSING}), replayed=False), started
        status = await self._relay.dispatch_now(row)
        return SubmittedJob(job_view({**row, "status": status}), replayed=False), None
