"""Writes job events to the log and notifies the readers of streams. Called after the commit, never before."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from callsheet.jobs.machine.states import PATHS, Transition
from callsheet.jobs.machine.transition_requests import StartedJob, TransitionRequest, TransitionResult
from callsheet.plumbing.database.notify import Notify
from callsheet.toolbox.logs import get_logger
from callsheet.wire.jobs import JobStatus

log = get_logger(__name__)
CHANNEL = "job_events"
# A job may make a thousand files.
MAX_SIZES = 20


class Journal:
    def __init__(self, notify: Notify):
        self._notify = notify

    def created(self, tenant_id: UUID, user_id: UUID, job_id: UUID, kind: str, cost: int) -> None:
        log.info("job.created", job_id=str(job_id), type=kind, credits_cost=cost)
        self._wake(tenant_id, user_id, job_id)

    def changed(
        self, transition: Transition, result: TransitionResult | StartedJob, request: TransitionRequest
    ) -> None:
        job_id = str(result.job_id)
        for step in PATHS[transition][JobStatus(result.from_status)]:
            log.info(
                "job.transition", job_id=job_id, from_status=step.from_status.value, to_status=step.to_status.value
            )
        if transition is Transition.COMPLETE:
            log.info("job.completed", job_id=job_id, output=_output(request), outputs=_outputs(request))
        elif transition is Transition.FAIL:
            log.info("job.failed", job_id=job_id, error=request.error, refund=result.cost)
        self._wake(result.tenant_id, result.user_id, result.job_id)

    def denied(self, tenant_id: UUID, user_id: UUID, job_id: UUID, status: JobStatus, wanted: JobStatus) -> None:
        log.info("job.transition_denied", job_id=str(job_id), from_status=status, to_status=wanted)
        self._wake(tenant_id, user_id, job_id)

    def deleted(self, tenant_id: UUID, user_id: UUID, job_id: UUID) -> None:
        log.info("job.deleted", job_id=str(job_id))
        self._wake(tenant_id, user_id, job_id)

    def wallet_changed(self, tenant_id: UUID, user_id: UUID) -> None:
        """Notifies the streams of a user. There is no job, so the id of the user takes the place of the job id."""
        self._wake(tenant_id, user_id, user_id)

    def _wake(self, tenant_id: UUID, user_id: UUID, job_id: UUID) -> None:
        self._notify(CHANNEL, f"{tenant_id}/{user_id}/{job_id}")


def _outputs(request: TransitionRequest) -> dict[str, Any]:
    """How many files the job made, their types and their sizes."""
    made = request.outputs
    return {
        "count": len(made),
        "types": sorted({each.mime_type for each in made}),
        "sizes": [each.size for each in made[:MAX_SIZES]],
        "bytes": sum(each.size for each in made),
    }


def _output(request: TransitionRequest) -> Any:
    return (request.result or {}).get("metadata")
