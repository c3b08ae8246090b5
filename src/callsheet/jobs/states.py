"""The job state machine: one table. Everything that changes a job's status takes its allowed steps from here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from callsheet.wire.jobs import ACTIVE, JobStatus

PENDING, QUEUED, PROCESSING = JobStatus.PENDING, JobStatus.QUEUED, JobStatus.PROCESSING
COMPLETED, FAILED, CANCELED, EXPIRED = JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELED, JobStatus.EXPIRED

# from, to, when
TRANSITIONS: Mapping[tuple[JobStatus | None, JobStatus], str] = MappingProxyType(
    {
        (None, PENDING): "accepted: validated, tokens reserved, written",
        (PENDING, QUEUED): "its dispatch exists",
        (PENDING, PROCESSING): "synchronous: its dispatch is born leased to its executor",
        (QUEUED, PROCESSING): "leased",
        (PROCESSING, QUEUED): "lease expired, requeued by its worker, or failed with attempts left",
        (PROCESSING, COMPLETED): "output stored",
        (PENDING, FAILED): "error or queue deadline; refund",
        (QUEUED, FAILED): "error or queue deadline; refund",
        (PROCESSING, FAILED): "error, or attempts exhausted; refund",
        (PENDING, CANCELED): "by user or admin; refund",
        (QUEUED, CANCELED): "by user or admin; refund",
        (PROCESSING, CANCELED): "by user or admin; refund",
        (PROCESSING, EXPIRED): "webhook or deadline passed; refund",
        (FAILED, PENDING): "retry: next charge cycle, tokens reserved again",
        (EXPIRED, PENDING): "retry: next charge cycle, tokens reserved again",
    }
)


class Happening(StrEnum):
    """What can happen to a job that exists."""

    QUEUE = "queue"
    START = "start"
    BEGIN = "begin"
    PUT_BACK = "put_back"
    COMPLETE = "complete"
    FAIL = "fail"
    CANCEL = "cancel"
    EXPIRE = "expire"
    RETRY = "retry"


@dataclass(frozen=True, slots=True)
class Step:
    from_status: JobStatus
    to_status: JobStatus


Path = tuple[Step, ...]


def _direct(target: JobStatus, *origins: JobStatus) -> dict[JobStatus, Path]:
    return {origin: (Step(origin, target),) for origin in origins}


# Where a happening leads from each status it is allowed in. A step that was missed on the way (the relay that has not
# marked the job queued yet, the put-back that crashed after central) is taken and recorded as its own.
PATHS: Mapping[Happening, Mapping[JobStatus, Path]] = MappingProxyType(
    {
        Happening.QUEUE: _direct(QUEUED, PENDING),
        Happening.START: {
            PENDING: (Step(PENDING, QUEUED), Step(QUEUED, PROCESSING)),
            QUEUED: (Step(QUEUED, PROCESSING),),
            PROCESSING: (Step(PROCESSING, QUEUED), Step(QUEUED, PROCESSING)),
        },
        # Born leased. The relay may have been faster with its mark than the lease with its start.
        Happening.BEGIN: _direct(PROCESSING, PENDING, QUEUED),
        Happening.PUT_BACK: _direct(QUEUED, PROCESSING),
        Happening.COMPLETE: _direct(COMPLETED, PROCESSING),
        Happening.FAIL: _direct(FAILED, *sorted(ACTIVE)),
        Happening.CANCEL: _direct(CANCELED, *sorted(ACTIVE)),
        Happening.EXPIRE: _direct(EXPIRED, PROCESSING),
        Happening.RETRY: _direct(PENDING, FAILED, EXPIRED),
    }
)


def target(happening: Happening) -> JobStatus:
    """Where a happening leads; it is the same from every origin."""
    return next(iter(PATHS[happening].values()))[-1].to_status


def path(happening: Happening, origin: JobStatus) -> Path | None:
    """The steps to take, or None where the happening is refused."""
    return PATHS[happening].get(origin)


def diagram() -> str:
    """The table as a Mermaid state diagram, for the documentation."""
    lines = ["stateDiagram-v2"]
    for (origin, status), when in TRANSITIONS.items():
        lines.append(f"    {origin or '[*]'} --> {status}: {when.partition(':')[0].partition(';')[0]}")
    lines.extend(f"    {status} --> [*]" for status in (COMPLETED, CANCELED))
    return "\n".join(lines)
