"""Compares a job with its dispatch, and returns the difference to repair."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from callsheet.dispatch.facts import JobCycle, QueueEntry
from callsheet.dispatch.repair import CentralState
from callsheet.jobs.machine.cycles import cycle_has_ended
from callsheet.jobs.machine.states import Transition
from callsheet.wire.job_errors import job_error, sentence_of
from callsheet.wire.jobs import ACTIVE, JobStatus


class Discrepancy(StrEnum):
    MISSING_DISPATCH = "missing_dispatch"
    ORPHANED_DISPATCH = "orphaned_dispatch"
    OPEN_DISPATCH_OF_ENDED_JOB = "open_dispatch_of_ended_job"
    OPEN_JOB_OF_ENDED_DISPATCH = "open_job_of_ended_dispatch"
    LEASES_OF_DISPATCH = "leases_of_dispatch"
    STATUS_OF_JOB = "status_of_job"
    PRIORITY_OF_JOB = "priority_of_job"


class JobSide(NamedTuple):
    """The pool's data about a job: what the queue needs, and what is compared."""

    entry: QueueEntry
    status: str
    lease_seq: int
    # The relay has not yet sent the job to central.
    awaits_relay: bool
    has_settled: bool

    def has_ended(self, charge_cycle: int) -> bool:
        return cycle_has_ended(self.status, self.entry.charge_cycle, charge_cycle)


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A discrepancy that was seen once. A second check confirms it only if all fields are equal."""

    kind: Discrepancy
    job: JobCycle
    lease_seq: int


def compare(cycle: JobCycle, job: JobSide | None, central: CentralState) -> Suspicion | None:
    """The discrepancy of a job in a charge cycle, or None. A young job may still be changing, so it is not checked."""
    if job is not None and not job.has_settled:
        return None
    if central.dispatch_id is not None:
        kind = _of_open_dispatch(cycle.charge_cycle, job, central)
    else:
        kind = _of_job_without_dispatch(cycle.charge_cycle, job, central)
    return Suspicion(kind, cycle, job.lease_seq if job else 0) if kind else None


def _of_open_dispatch(charge_cycle: int, job: JobSide | None, central: CentralState) -> Discrepancy | None:
    if job is None or job.entry.charge_cycle < charge_cycle:
        return None if central.holder_notified else Discrepancy.ORPHANED_DISPATCH
    if job.has_ended(charge_cycle):
        # The worker gets this with its next heartbeat, or the reaper closes the dispatch.
        return None if central.holder_notified else Discrepancy.OPEN_DISPATCH_OF_ENDED_JOB
    if central.status == "queued" and job.lease_seq > (central.lease_seq or 0):
        # The job would reject the next lease as outdated.
        return Discrepancy.LEASES_OF_DISPATCH
    if central.status == "queued" and _lacks_status_queued(job, central):
        return Discrepancy.STATUS_OF_JOB
    if central.priority != job.entry.priority:
        return Discrepancy.PRIORITY_OF_JOB
    return None


def _lacks_status_queued(job: JobSide, central: CentralState) -> bool:
    """Whether the dispatch is queued, but the job's status does not show it."""
    if job.status == JobStatus.PENDING:
        return not job.awaits_relay
    return job.status == JobStatus.PROCESSING and job.lease_seq == central.lease_seq


def _of_job_without_dispatch(charge_cycle: int, job: JobSide | None, central: CentralState) -> Discrepancy | None:
    if job is None or job.entry.charge_cycle != charge_cycle or job.status not in ACTIVE or job.awaits_relay:
        return None
    if central.end_status is None:
        return Discrepancy.MISSING_DISPATCH
    return Discrepancy.OPEN_JOB_OF_ENDED_DISPATCH if central.has_settled else None


def into_the_queue(job: JobSide) -> Transition:
    return Transition.QUEUE if job.status == JobStatus.PENDING else Transition.REQUEUE


def ending_of(job: JobSide, central: CentralState) -> tuple[Transition, dict[str, Any] | None]:
    """The transition that ends a job as its dispatch ended. If only the dispatch completed, nothing was delivered,
    so the job fails.
    """
    match central.end_status:
        case "canceled":
            return Transition.CANCEL, None
        case "expired" if job.status == JobStatus.PROCESSING:
            return Transition.EXPIRE, job_error("expired", central.last_error or sentence_of("expired"))
        case "completed":
            return Transition.FAIL, job_error("result_lost", sentence_of("result_lost"))
        case _:
            return Transition.FAIL, job_error("dispatch_ended", central.last_error or sentence_of("dispatch_ended"))
