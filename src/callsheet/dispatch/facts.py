"""The values that the queue returns: facts about dispatches, never about jobs.

The types that every job needs are tuples: a frozen dataclass of fifteen fields takes four times as long to create.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple
from uuid import UUID

# Tenant and user of every lane if the queue is not shared fairly between tenants.
NO_OWNER = UUID(int=0)

# Workflow, stage and provider: the beginning of a lane's key. Not a named tuple: one is made for every lease and close.
Route = tuple[int, str, str]
EndStatus = Literal["completed", "failed", "canceled", "expired"]


class JobCycle(NamedTuple):
    """One charge cycle of a job: its first run, or one of its retries. Each is charged separately."""

    tenant_id: UUID
    job_id: UUID
    charge_cycle: int


def columns_of(jobs: Sequence[JobCycle]) -> dict[str, object]:
    """The arrays that statements about several jobs take."""
    return {
        "tenant_ids": [tenant_id for tenant_id, _, _ in jobs],
        "job_ids": [job_id for _, job_id, _ in jobs],
        "cycles": [charge_cycle for _, _, charge_cycle in jobs],
    }


class QueueEntry(NamedTuple):
    """A job to run, with the fields that the queue needs."""

    tenant_id: UUID
    user_id: UUID
    job_id: UUID
    workflow_id: int
    stage: str
    provider: str
    concurrency_identifier: str
    priority: int
    kind: str
    max_attempts: int
    lease_seconds: int
    run_limit_seconds: int
    deadline_at: datetime
    charge_cycle: int

    @property
    def cycle(self) -> JobCycle:
        return JobCycle(self.tenant_id, self.job_id, self.charge_cycle)


class LaneKey(NamedTuple):
    """The fields that identify a lane, before the lane exists."""

    workflow_id: int
    stage: str
    provider: str
    concurrency_identifier: str
    priority: int
    tenant_id: UUID
    user_id: UUID


class Lane(NamedTuple):
    """The queue of one user for one route, at one priority. Tenant and user are `NO_OWNER` if all users share it."""

    lane_id: int
    workflow_id: int
    stage: str
    provider: str
    concurrency_identifier: str
    priority: int
    tenant_id: UUID
    user_id: UUID

    @property
    def route(self) -> Route:
        return self[1:4]


class Workflow(NamedTuple):
    id: int
    slug: str
    name: str
    run_limit_seconds: int
    # None: the setting applies.
    lease_seconds: int | None
    max_attempts: int | None


class Criteria(NamedTuple):
    """The jobs that a worker may lease: only workflows assigned to it, of its stage, of providers it declared (G4)."""

    workflow_ids: tuple[int, ...]
    stage: str = "production"
    providers: tuple[str, ...] = ("self_hosted",)

    def matches(self, workflow_id: int, stage: str, provider: str) -> bool:
        return stage == self.stage and provider in self.providers and workflow_id in self.workflow_ids

    def overlaps(self, other: Criteria) -> bool:
        """Whether one dispatch could match both."""
        return (
            self.stage == other.stage
            and not set(self.providers).isdisjoint(other.providers)
            and not set(self.workflow_ids).isdisjoint(other.workflow_ids)
        )


class Lease(NamedTuple):
    dispatch_id: int
    tenant_id: UUID
    job_id: UUID
    charge_cycle: int
    lease_token: UUID
    lease_seq: int
    lease_expires_at: datetime
    lease_seconds: int
    workflow_id: int
    provider: str
    kind: str
    worker_id: str
    attempts: int
    run_limit_seconds: int
    # The number of its runs that left an engine stuck.
    wedges: int = 0

    @property
    def cycle(self) -> JobCycle:
        return JobCycle(self.tenant_id, self.job_id, self.charge_cycle)


@dataclass(frozen=True, slots=True)
class Heartbeat:
    dispatch_id: int
    token: UUID
    run_started: bool = False
    worker_id: str | None = None
    run_waiting: bool = False
    provider_job_id: str | None = None


class LeaseExtension(NamedTuple):
    """A lease after a heartbeat."""

    dispatch_id: int
    tenant_id: UUID
    job_id: UUID
    charge_cycle: int
    lease_seq: int
    lease_token: UUID
    lease_expires_at: datetime
    cancel_requested: bool
    ttl_seconds: float
    # Number of leases of the worker.
    held_by_worker: int

    @property
    def cycle(self) -> JobCycle:
        return JobCycle(self.tenant_id, self.job_id, self.charge_cycle)


class DispatchState(NamedTuple):
    """The current state of a dispatch, live or finished."""

    dispatch_id: int
    tenant_id: UUID
    job_id: UUID
    charge_cycle: int
    status: str
    lease_token: UUID | None
    lease_seq: int
    past_lease_tokens: Sequence[UUID]
    # The worker of each past lease token, in the same order.
    past_workers: Sequence[str]
    worker_id: str | None
    attempts: int
    max_attempts: int
    requeues: int
    cancel_requested_at: datetime | None
    workflow_id: int
    provider: str
    kind: str
    lease_expires_at: datetime | None
    lease_seconds: int
    run_limit_seconds: int
    finished: bool
    wedges: int
    # The workers whose engines refused the graph because of a value that the job chose.
    refused_by: Sequence[str]
    provider_job_id: str | None

    @property
    def cycle(self) -> JobCycle:
        return JobCycle(self.tenant_id, self.job_id, self.charge_cycle)


@dataclass(frozen=True, slots=True)
class Requeue:
    """A request to put a leased dispatch back into the queue.

    `attempt_counts`: whether the run that ends here counts as an attempt of the job (expiry, retryable failure) or not
    (requeue). `wedged`: the run left an engine stuck. `refused`: the engine of the worker refused the graph."""

    dispatch_id: int
    token: UUID
    attempt_counts: bool = field(kw_only=True)
    counts_as_requeue: bool = False
    only_expired: bool = False
    delay_seconds: float = 0.0
    error: str | None = None
    wedged: bool = False
    refused: bool = False


class RequeuedDispatch(NamedTuple):
    """A dispatch that is in the queue again."""

    lane: Lane
    dispatch_id: int
    tenant_id: UUID
    job_id: UUID
    charge_cycle: int
    lease_seq: int
    attempts: int
    not_before: datetime | None
    held_seconds: float


class DispatchEnd(NamedTuple):
    """A request to close a dispatch. If a token is given, the dispatch is closed only if the token holds the lease."""

    dispatch_id: int
    status: EndStatus
    token: UUID | None = None
    provider_job_id: str | None = None
    error: str | None = None


class ClosedDispatch(NamedTuple):
    """A dispatch that was just finished: how long its last run took, and how long its last lease was held."""

    dispatch_id: int
    workflow_id: int
    duration_seconds: float | None
    held_seconds: float | None
    concurrency_identifier: str
    stage: str
    provider: str


@dataclass(frozen=True, slots=True)
class JobEnd:
    """A job that ended in its pool."""

    tenant_id: UUID
    job_id: UUID
    charge_cycle: int
    status: EndStatus


class ExpiredDispatch(NamedTuple):
    """A dispatch whose lease or wait for a callback has expired."""

    dispatch_id: int
    tenant_id: UUID
    job_id: UUID
    charge_cycle: int
    status: str
    lease_token: UUID | None
    lease_seq: int
    worker_id: str | None
    attempts: int
    max_attempts: int
    cancel_requested_at: datetime | None
    workflow_id: int
    provider_job_id: str | None
    held_seconds: float

    @property
    def cycle(self) -> JobCycle:
        return JobCycle(self.tenant_id, self.job_id, self.charge_cycle)


class HeldLease(NamedTuple):
    """A lease of a worker."""

    dispatch_id: int
    lease_token: UUID
