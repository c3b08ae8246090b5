"""The job state machine: one table. All code that changes a job's status takes the allowed steps from this table."""

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
        (PENDING, PROCESSING): "synchronous: its dispatch is created leased to its executor",
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


class Transition(StrEnum):
    """The ways in which the status of an existing job changes."""

    QUEUE = "queue"
    START = "start"
    START_SYNCHRONOUS = "start_synchronous"
    REQUEUE = "requeue"
    COMPLETE = "complete"
    FAIL = "fail"
    CANCEL = "cancel"
    EXPIRE = "expire"
    RETRY = "retry"


@dataclass(frozen=True, slots=True)
class TransitionStep:
    from_status: JobStatus
    to_status: JobStatus


Path = tuple[TransitionStep, ...]


def _direct(target: JobStatus, *origins: JobStatus) -> dict[JobStatus, Path]:
    return {origin: (TransitionStep(origin, target),) for origin in origins}


# The steps of a transition from each allowed status. A step that is missing (the relay has not marked the job queued
# yet, a requeue crashed after central) is added and recorded as a separate step.
PATHS: Mapping[Transition, Mapping[JobStatus, Path]] = MappingProxyType(
    {
        Transition.QUEUE: _direct(QUEUED, PENDING),
        Transition.START: {
            PENDING: (TransitionStep(PENDING, QUEUED), TransitionStep(QUEUED, PROCESSING)),
            QUEUED: (TransitionStep(QUEUED, PROCESSING),),
            PROCESSING: (TransitionStep(PROCESSING, QUEUED), TransitionStep(QUEUED, PROCESSING)),
        },
        # The dispatch is created leased. The relay may mark the job queued before the job is started.
        Transition.START_SYNCHRONOUS: _direct(PROCESSING, PENDING, QUEUED),
        Transition.REQUEUE: _direct(QUEUED, PROCESSING),
        Transition.COMPLETE: _direct(COMPLETED, PROCESSING),
        Transition.FAIL: _direct(FAILED, *sorted(ACTIVE)),
        Transition.CANCEL: _direct(CANCELED, *sorted(ACTIVE)),
        Transition.EXPIRE: _direct(EXPIRED, PROCESSING),
        Transition.RETRY: _direct(PENDING, FAILED, EXPIRED),
    }
)


def target(transition: Transition) -> JobStatus:
    """The final status of a transition, which is the same from every origin."""
    return next(iter(PATHS[transition].values()))[-1].to_status


def path(transition: Transition, origin: JobStatus) -> Path | None:
    """The steps to take, or None if the transition is not allowed."""
    return PATHS[transition].get(origin)


def diagram() -> str:
    """The table as a Mermaid state diagram, for the documentation."""
    lines = ["stateDiagram-v2"]
    for (origin, status), when in TRANSITIONS.items():
        lines.append(f"    {origin or '[*]'} --> {status}: {when.partition(':')[0].partition(';')[0]}")
    lines.extend(f"    {status} --> [*]" for status in (COMPLETED, CANCELED))
    return "\n".join(lines)
