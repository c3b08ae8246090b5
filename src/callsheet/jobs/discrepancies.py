"""Compares a job with its dispatch and returns what to heal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from callsheet.dispatch.overview import CentralSide, JobKey
from callsheet.jobs.states import Happening
from callsheet.wire.jobs import ACTIVE, JobStatus


class Discrepancy(StrEnum):
    MISSING_DISPATCH = "missing_dispatch"
    ORPHANED_DISPATCH = "orphaned_dispatch"
    OPEN_DISPATCH_OF_ENDED_JOB = "open_dispatch_of_ended_job"
    OPEN_JOB_OF_ENDED_DISPATCH = "open_job_of_ended_dispatch"
    LEASES_OF_DISPATCH = "leases_of_dispatch"
    STATUS_OF_JOB = "status_of_job"
    PRIORITY_OF_JOB = "priority_of_job"


@dataclass(frozen=True, slots=True)
class JobSide:
    """The pool's data about a job."""

    status: JobStatus
    charge_cycle: int
    lease_seq: int
    priority: int
    # The relay has not yet sent the job to central.
    is_untold: bool
    has_settled: bool
    row: Mapping[str, Any]

    def has_ended(self, charge_cycle: int) -> bool:
        """Whether this charge cycle ended. `ended_in` returns how."""
        return self.charge_cycle > charge_cycle or self.status not in ACTIVE


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A discrepancy that was seen once. A second look confirms it only if all fields are equal."""

    kind: Discrepancy
    key: JobKey
    lease_seq: int


def compare(key: JobKey, job: JobSide | None, central: CentralSide) -> Suspicion | None:
    """What is wrong with a job in a charge cycle, or None. A young job may still be changing, so it is not checked."""
    if job is not None and not job.has_settled:
        return None
    if central.dispatch_id is not None:
        kind = _of_open_dispatch(key[2], job, central)
    else:
        kind = _of_job_without_dispatch(key[2], job, central)
    return Suspicion(kind, key, job.lease_seq if job else 0) if kind else None


def _of_open_dispatch(cycle: int, job: JobSide | None, central: CentralSide) -> Discrepancy | None:
    if job is None or job.charge_cycle < cycle:
        return None if central.holder_told else Discrepancy.ORPHANED_DISPATCH
    if job.has_ended(cycle):
        # Its worker learns it with the next heartbeat, or the reaper closes the dispatch.
        return None if central.holder_told else Discrepancy.OPEN_DISPATCH_OF_ENDED_JOB
    if central.status == "queued" and job.lease_seq > (central.lease_seq or 0):
        # The job would reject the next lease as outdated.
        return Discrepancy.LEASES_OF_DISPATCH
    if central.status == "queued" and _was_not_told(job, central):
        return Discrepancy.STATUS_OF_JOB
    if central.priority != job.priority:
        return Discrepancy.PRIORITY_OF_JOB
    return None


def _was_not_told(job: JobSide, central: CentralSide) -> bool:
    """Whether the dispatch is queued, but the job's status does not show it."""
    if job.status is JobStatus.PENDING:
        return not job.is_untold
    return job.status is JobStatus.PROCESSING and job.lease_seq == central.lease_seq


def _of_job_without_dispatch(cycle: int, job: JobSide | None, central: CentralSide) -> Discrepancy | None:
    if job is None or job.charge_cycle != cycle or job.status not in ACTIVE or job.is_untold:
        return None
    if central.end_status is None:
        return Discrepancy.MISSING_DISPATCH
    return Discrepancy.OPEN_JOB_OF_ENDED_DISPATCH if central.has_settled else None


def into_the_queue(job: JobSide) -> Happening:
    return Happening.QUEUE if job.status is JobStatus.PENDING else Happening.PUT_BACK


def ending_of(job: JobSide, central: CentralSide) -> tuple[Happening, dict[str, str] | None]:
    """A job ends as its dispatch did. If only the dispatch completed, nothing was delivered, so the job fails."""
    match central.end_status:
        case "canceled":
            return Happening.CANCEL, None
        case "expired" if job.status is JobStatus.PROCESSING:
            return Happening.EXPIRE, {"type": "expired", "message": central.last_error or "It did not finish in time."}
        case "completed":
            message = "It was finished, but its result was lost. You were not charged."
            return Happening.FAIL, {"type": "result_lost", "message": message}
        case _:
            return Happening.FAIL, {"type": "dispatch_ended", "message": central.last_error or "Processing failed."}
