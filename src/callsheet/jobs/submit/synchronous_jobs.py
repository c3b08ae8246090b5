"""Jobs that their submitter runs at once in this process. They are created leased, so the reaper handles a crash."""

from __future__ import annotations

from callsheet.jobs.lease.outcomes import StartedLease
from callsheet.jobs.lease.start import Starter
from callsheet.jobs.machine.relay import POSTPONED, Relay
from callsheet.jobs.submit.new_jobs import NewJob
from callsheet.jobs.submit.submission import Submission, SubmittedJob
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
        accepted = await self._submission.accept(new)
        if isinstance(accepted, SubmittedJob):
            return accepted, None
        started = None
        try:
            started = await self._starter.start_synchronous(accepted.entry, worker_id)
        except POSTPONED as error:
            log.warning("synchronous.postponed", job_id=str(accepted.job_id), error=repr(error))
            status = JobStatus.PENDING
        else:
            status = JobStatus.PROCESSING if started else await self._relay.dispatch_now(accepted.entry)
        return SubmittedJob(accepted.view(status), replayed=False), started
