"""The rows of jobs that SQL statements return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from callsheet.dispatch.facts import JobCycle, QueueEntry
from callsheet.plumbing.database.sql import copied


class JobRow(NamedTuple):
    """A job of a list. Its result and its error are read separately, up to the maximum size of a page."""

    tenant_id: UUID
    id: UUID
    user_id: UUID
    kind: str
    status: str
    charge_cycle: int
    lease_seq: int
    cost: int
    workflow_id: int
    stage: str
    provider: str
    concurrency_identifier: str
    priority: int
    max_attempts: int
    provider_job_id: str | None
    idempotency_key: str | None
    created_at: datetime
    submitted_at: datetime
    deadline_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    effect_id: UUID | None
    video_id: UUID | None
    actor: str | None
    queue_name: str | None
    workflow_run_id: str | None
    run_id: UUID | None
    step_id: UUID | None
    parent_candidate_id: UUID | None
    batch_id: UUID | None
    batch_item: int | None
    client_reference: str | None
    metadata: Mapping[str, str] | None
    webhook_url: str | None
    lease_seconds: int
    run_limit_seconds: int
    event_seq: int

    @property
    def cycle(self) -> JobCycle:
        return JobCycle(self.tenant_id, self.id, self.charge_cycle)

    @property
    def entry(self) -> QueueEntry:
        """The fields that the queue needs."""
        return QueueEntry(job_id=self.id, **copied(_OF_ENTRY, self))


_OF_ENTRY = tuple(name for name in QueueEntry._fields if name != "job_id")


class WholeJob(NamedTuple):
    """A job with everything that lists leave out, except its payload."""

    row: JobRow
    input_file_ids: Sequence[UUID]
    result: Any
    error: Any
    deleted_at: datetime | None
    request_hash: bytes | None
    request_fields: Mapping[str, str] | None


class JobWindow(NamedTuple):
    """The jobs that a filtered list reads for one page: the smallest id, and the number of jobs."""

    smallest_id: UUID | None
    rows: int


class OutcomeRow(NamedTuple):
    result: Any
    error: Mapping[str, Any] | None
    # The name of its effect, actor or workflow; only in lists.
    title: str | None = None


class JobPayload(NamedTuple):
    """The data that a worker needs to run a job, and the lease under which the job runs."""

    user_id: UUID
    effect_id: UUID | None
    actor: str | None
    charge_cycle: int
    lease_seq: int
    payload: Mapping[str, Any]


class EventColumns(Protocol):
    """The columns of an event in several statements. Some of them also return rows without an event."""

    @property
    def job_id(self) -> Any: ...
    @property
    def seq(self) -> Any: ...
    @property
    def event(self) -> Any: ...
    @property
    def from_status(self) -> Any: ...
    @property
    def to_status(self) -> Any: ...
    @property
    def actor(self) -> Any: ...
    @property
    def reason(self) -> Any: ...
    @property
    def data(self) -> Any: ...
    @property
    def at(self) -> Any: ...


class ChangedJobRow(NamedTuple):
    """An event, and its job if the event is the last one of the job."""

    at: datetime
    job_id: UUID
    seq: int
    deleted_at: datetime | None
    last: JobRow | None


class EventOfTenant(NamedTuple):
    """An event in the stream of a tenant."""

    job_id: UUID
    seq: int
    user_id: UUID
    event: str
    from_status: str | None
    to_status: str | None
    actor: str
    reason: str | None
    data: Any
    at: datetime
    client_reference: str | None
    metadata: Mapping[str, str] | None


class SettledRow(NamedTuple):
    now: datetime
    # Start of the oldest transaction that may write an event. None: there is none.
    oldest_start: datetime | None


class EventRow(NamedTuple):
    job_id: UUID
    seq: int
    user_seq: int
    event: str
    from_status: str | None
    to_status: str | None
    actor: str
    reason: str | None
    data: Any
    at: datetime


class OperatorEventRow(NamedTuple):
    """An event with everything that operators see of it."""

    job_id: UUID
    seq: int
    user_seq: int
    event: str
    from_status: str | None
    to_status: str | None
    actor: str
    reason: str | None
    data: Any
    at: datetime
    request_id: str | None
    reported: str | None


class EventOfUser(NamedTuple):
    """An event of a user's stream, and the wallet after the event. There is at least one row; without events, its
    event is empty.
    """

    balance: int
    paid_by_tenant: bool
    held: int | None
    is_known: bool
    job_id: UUID | None
    seq: int | None
    user_seq: int | None
    event: str | None
    from_status: str | None
    to_status: str | None
    actor: str | None
    reason: str | None
    data: Any
    at: datetime | None
    client_reference: str | None
    metadata: Mapping[str, str] | None


class EventOfJob(NamedTuple):
    """An event of a job's stream, the job's status, and the latest progress of a running job. There is at least one
    row per reader.
    """

    place: int
    status: str | None
    event_seq: int | None
    is_known: bool | None
    job_id: UUID | None
    seq: int | None
    event: str | None
    from_status: str | None
    to_status: str | None
    actor: str | None
    reason: str | None
    data: Any
    at: datetime | None
    client_reference: str | None
    metadata: Mapping[str, str] | None
    percent: float | None
    message: str | None
    elapsed_ms: int | None
    node_id: str | None
    updated_at: datetime | None
    preview_at: datetime | None
