"""Workers' reports about their leases, and the outcomes: facts, and rules that need only facts. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from callsheet.dispatch.facts import Known, Lease
from callsheet.jobs.transition_requests import TransitionResult
from callsheet.toolbox.redaction import redact_json, redact_text
from callsheet.wire.errors import LeaseLost, NotFound

# The error type that agents report.
ENGINE_STUCK = "engine_stuck"


@dataclass(frozen=True, slots=True)
class StartedLease:
    lease: Lease
    user_id: UUID
    effect_id: UUID | None
    payload: Mapping[str, Any]
    # The actor of a task.
    actor: str | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a run failed, without secrets: users, admins, job events and the audit log all get this."""

    type: str
    message: str
    details: Mapping[str, Any] | None = None
    traceback: str | None = None
    retryable: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", redact_text(self.message))
        if self.details is not None:
            object.__setattr__(self, "details", redact_json(dict(self.details)))
        if self.traceback is not None:
            object.__setattr__(self, "traceback", redact_text(self.traceback))

    @property
    def is_wedge(self) -> bool:
        """Whether the engine still responds but no longer works."""
        return self.type == ENGINE_STUCK

    def for_good(self, workflow: str) -> Failure:
        """The final failure of a job that left an engine stuck before: its graph is the cause, so there is no retry."""
        details = dict(self.details or {})
        node_id, node_type = details.get("node_id"), details.get("node_type")
        place = f", node {node_id} ({node_type})" if node_id else ""
        message = f"The job stopped an engine for the second time (workflow {workflow}{place})."
        return replace(self, message=message, details={**details, "workflow": workflow}, retryable=False)

    @property
    def retry_after_seconds(self) -> float:
        """The delay that a busy provider asked for before the next attempt."""
        asked = (self.details or {}).get("retry_after_seconds")
        if isinstance(asked, bool) or not isinstance(asked, int | float):
            return 0.0
        # A JSON number may be larger than any float.
        return float(max(0, min(asked, 2**31)))

    def as_error(self) -> dict[str, Any]:
        return {
            "type": self.type,
            "message": self.message,
            "details": self.details,
            "traceback": self.traceback,
        }


@dataclass(frozen=True, slots=True)
class Report:
    """The lease and the worker of a report."""

    dispatch_id: int
    token: UUID
    worker_id: str


@dataclass(frozen=True, slots=True)
class Settlement:
    """The outcome of a lease that a report ended."""

    dispatch_id: int
    tenant_id: UUID
    workflow_id: int
    effect_id: UUID | None
    # From the start of the run (or of the lease, if the worker reported no start) to the end; None if the job goes on.
    duration_seconds: float | None
    lease_seconds_held: float
    # The provider that executed the job, and the number of the lease.
    provider: str = ""
    lease_seq: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    job_id: UUID
    status: str
    # Set only if this report ended the lease; a repeated report changes nothing.
    settled: Settlement | None = field(default=None, compare=False)


def recorded_outcome(known: Known, report: Report) -> Outcome:
    """The response to a report whose lease has ended."""
    if known.finished and known.lease_token == report.token and known.worker_id == report.worker_id:
        return Outcome(known.job_id, known.status)
    if (report.token, report.worker_id) not in zip(known.past_lease_tokens, known.past_workers, strict=False):
        raise NotFound("This worker has no such lease.")
    if not known.finished and known.lease_token is None and known.past_lease_tokens[-1] == report.token:
        return Outcome(known.job_id, known.status)
    if known.finished and known.lease_token is None:
        return Outcome(known.job_id, known.status)
    raise LeaseLost()


def settlement_of(
    known: Known, changed: TransitionResult | None, held: float, duration: float | None = None
) -> Settlement:
    effect_id = changed.effect_id if changed is not None else None
    return Settlement(
        known.dispatch_id,
        known.tenant_id,
        known.workflow_id,
        effect_id,
        duration,
        held,
        known.provider,
        known.lease_seq,
    )


def lease_of(known: Known) -> Lease:
    assert known.lease_token is not None
    assert known.worker_id is not None
    assert known.lease_expires_at is not None
    return Lease(
        dispatch_id=known.dispatch_id,
        tenant_id=known.tenant_id,
        job_id=known.job_id,
        charge_cycle=known.charge_cycle,
        lease_token=known.lease_token,
        lease_seq=known.lease_seq,
        lease_expires_at=known.lease_expires_at,
        lease_seconds=known.lease_seconds,
        workflow_id=known.workflow_id,
        provider=known.provider,
        kind=known.kind,
        worker_id=known.worker_id,
        attempts=known.attempts,
        run_limit_seconds=known.run_limit_seconds,
        wedges=known.wedges,
    )
