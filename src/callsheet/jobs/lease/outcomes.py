"""Workers' reports about their leases and the outcomes of leases: facts, and rules that need only facts. Pure."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any, ParamSpec
from uuid import UUID

from callsheet.dispatch.facts import DispatchState, Lease
from callsheet.jobs.machine.transition_requests import TransitionResult
from callsheet.toolbox.redaction.redaction import redact_json, redact_text
from callsheet.wire.errors import NotFound
from callsheet.wire.job_errors import job_error, sentence_of
from callsheet.wire.worker.errors import LeaseLost

P = ParamSpec("P")
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
    """Why a run failed, for operators. Secrets are masked. Users read only the sentence of the type."""

    type: str
    message: str
    details: Mapping[str, Any] | None = None
    traceback: str | None = None
    retryable: bool = False
    # The id of the run at the engine or the provider, if it was submitted.
    provider_job_id: str | None = None

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
        """The final failure of a job that blocked an engine before. Its graph is the cause, so the job is not
        retried.
        """
        details = dict(self.details or {})
        node_id, node_type = details.get("node_id"), details.get("node_type")
        place = f", node {node_id} ({node_type})" if node_id else ""
        message = f"The job blocked an engine for the second time (workflow {workflow}{place})."
        return replace(self, message=message, details={**details, "workflow": workflow}, retryable=False)

    def after(self, attempts: int, max_attempts: int) -> Failure:
        """The final failure of a job, which names its attempts."""
        details = {**(self.details or {}), "attempts": attempts, "max_attempts": max_attempts}
        return replace(self, details=details)

    @property
    def retry_after_seconds(self) -> float:
        """The delay that a busy provider requests before the next attempt."""
        seconds = (self.details or {}).get("retry_after_seconds")
        if isinstance(seconds, bool) or not isinstance(seconds, int | float):
            return 0.0
        # A JSON number may be larger than any float.
        return float(max(0, min(seconds, 2**31)))

    def as_error(self) -> dict[str, Any]:
        return job_error(self.type, self.message, self.details, self.traceback)

    @property
    def sentence(self) -> str:
        """The sentence for users."""
        return sentence_of(self.type)


@dataclass(frozen=True, slots=True)
class LeaseReport:
    """The lease and the worker of a report."""

    dispatch_id: int
    token: UUID
    worker_id: str
    # When each part of the run happened, for operators.
    trace: Mapping[str, Any] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Settlement:
    """The outcome of a lease that a report ended."""

    dispatch_id: int
    tenant_id: UUID
    workflow_id: int
    effect_id: UUID | None
    # Seconds from the start of the run (or of the lease, if the worker reported no start) to the end. None if the job
    # continues.
    duration_seconds: float | None
    lease_seconds_held: float
    # The provider that executed the job, and the number of the lease.
    provider: str = ""
    lease_seq: int = 0


@dataclass(frozen=True, slots=True)
class ReportOutcome:
    job_id: UUID
    status: str
    # Set only if this report ended the lease; a repeated report changes nothing.
    settled: Settlement | None = field(default=None, compare=False)


class LeaseEnded(Exception):
    """The lease of a report has ended before."""

    def __init__(self, outcome: ReportOutcome):
        super().__init__(outcome.status)
        self.outcome = outcome


def or_recorded(report: Callable[P, Awaitable[ReportOutcome]]) -> Callable[P, Coroutine[Any, Any, ReportOutcome]]:
    """Returns the recorded outcome if the lease has ended before: a repeated report changes nothing."""

    @wraps(report)
    async def handle(*args: P.args, **kwargs: P.kwargs) -> ReportOutcome:
        try:
            return await report(*args, **kwargs)
        except LeaseEnded as ended:
            return ended.outcome

    return handle


def recorded_outcome(dispatch: DispatchState, report: LeaseReport) -> ReportOutcome:
    """The response to a report whose lease has ended."""
    if dispatch.finished and dispatch.lease_token == report.token and dispatch.worker_id == report.worker_id:
        return ReportOutcome(dispatch.job_id, dispatch.status)
    if (report.token, report.worker_id) not in zip(dispatch.past_lease_tokens, dispatch.past_workers, strict=False):
        raise NotFound("This worker has no such lease.")
    if not dispatch.finished and dispatch.lease_token is None and dispatch.past_lease_tokens[-1] == report.token:
        return ReportOutcome(dispatch.job_id, dispatch.status)
    if dispatch.finished and dispatch.lease_token is None:
        return ReportOutcome(dispatch.job_id, dispatch.status)
    raise LeaseLost()


def settlement_of(
    dispatch: DispatchState, changed: TransitionResult | None, held: float, duration: float | None = None
) -> Settlement:
    effect_id = changed.effect_id if changed is not None else None
    return Settlement(
        dispatch.dispatch_id,
        dispatch.tenant_id,
        dispatch.workflow_id,
        effect_id,
        duration,
        held,
        dispatch.provider,
        dispatch.lease_seq,
    )


def lease_of(dispatch: DispatchState) -> Lease:
    assert dispatch.lease_token is not None
    assert dispatch.worker_id is not None
    assert dispatch.lease_expires_at is not None
    return Lease(
        dispatch_id=dispatch.dispatch_id,
        tenant_id=dispatch.tenant_id,
        job_id=dispatch.job_id,
        charge_cycle=dispatch.charge_cycle,
        lease_token=dispatch.lease_token,
        lease_seq=dispatch.lease_seq,
        lease_expires_at=dispatch.lease_expires_at,
        lease_seconds=dispatch.lease_seconds,
        workflow_id=dispatch.workflow_id,
        provider=dispatch.provider,
        kind=dispatch.kind,
        worker_id=dispatch.worker_id,
        attempts=dispatch.attempts,
        run_limit_seconds=dispatch.run_limit_seconds,
        wedges=dispatch.wedges,
    )
