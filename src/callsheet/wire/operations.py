"""What admins see of the running installation, and what they may do to it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field

from callsheet.wire.base import WHOLE, Answer, Line, UserRequest
from callsheet.wire.jobs import Job

OpenStatus = Literal["queued", "leased", "waiting"]
EndedStatus = Literal["completed", "failed", "canceled", "expired"]
DispatchStatus = OpenStatus | EndedStatus
FINISHED = frozenset({"completed", "failed", "canceled", "expired"})


Priority = Annotated[int, Field(ge=-(2**31), le=2**31 - 1), WHOLE]
Count = Annotated[int, Field(ge=0, le=2**31 - 1), WHOLE]


class Dispatch(Answer):
    """The queue's row of a job in one charge cycle, open or finished."""

    dispatch_id: int
    tenant_id: UUID
    tenant: str
    job_id: UUID
    charge_cycle: int
    workflow: str
    stage: str
    provider: str
    concurrency_identifier: str
    priority: int
    kind: str
    status: DispatchStatus
    attempts: int
    max_attempts: int | None = Field(None, description="While it is open.")
    requeues: int
    worker_id: str | None = Field(None, description="Who holds it, or held it last.")
    provider_job_id: str | None = None
    last_error: str | None = None
    created_at: datetime
    queue_wait_seconds: float | None = Field(None, description="From its creation to its first lease.")
    not_before: datetime | None = Field(None, description="It is not handed out before this time.")
    deadline_at: datetime | None = None
    last_leased_at: datetime | None = None
    lease_expires_at: datetime | None = None
    heartbeat_at: datetime | None = None
    run_started_at: datetime | None = None
    cancel_requested_at: datetime | None = Field(None, description="The job has ended; the holder is told so.")
    finished_at: datetime | None = None
    duration_seconds: float | None = Field(None, description="Of its last run.")


@dataclass(frozen=True, slots=True)
class DispatchFilter:
    """Only dispatches of which all of this is true; `None` asks for nothing."""

    finished: bool = False
    status: str | None = None
    workflow: str | None = None
    worker_id: str | None = None
    tenant_id: UUID | None = None


class ChangePriority(UserRequest):
    priority: Priority = Field(description="Higher comes first; 0 is what users get.")


class Because(UserRequest):
    """Why, for the job's history and the audit log."""

    reason: Line | None = None


class ConcurrencyLimit(Answer):
    identifier: str
    max_concurrent: int | None = Field(None, description="Null: as many as workers can take.")
    in_use: int = Field(description="How many are out at this moment.")


class SetConcurrencyLimit(UserRequest):
    identifier: Line
    max_concurrent: Count | None = Field(description="0 pauses it, null takes the limit away.")


class FullError(Answer):
    """Why a job failed, with what only admins may see."""

    type: str
    message: str
    details: Any = None
    traceback: str | None = None


class AdminJob(Job):
    """A job with everything that is known of it."""

    tenant_id: UUID
    user_id: UUID
    workflow_id: int
    stage: str
    provider: str
    concurrency_identifier: str
    max_attempts: int
    lease_seq: int
    provider_job_id: str | None = None
    idempotency_key: str | None = None
    full_error: FullError | None = None
    payload: dict[str, Any] | None = Field(None, description="What its worker gets. Not in lists.")
    dispatch: Dispatch | None = Field(None, description="Its row in the queue, in this charge cycle. Not in lists.")


class WorkflowMetrics(Answer):
    workflow: str
    is_active: bool
    queued: int = Field(description="Ready to be leased. Exact up to 1000, which also stands for more.")
    delayed: int = Field(description="Failed, and tried again at a given time.")
    leased: int
    waiting: int = Field(description="Submitted to a provider and waiting for its callback.")
    oldest_wait_seconds: float | None = Field(None, description="Of the oldest that is ready to be leased.")
    live_workers: int
    live_slots: int
    busy_slots: int
    completed_last_hour: int
    failed_last_hour: int
    average_seconds: float | None = Field(None, description="How long a completed run took in the last hour.")
    p95_seconds: float | None = Field(None, description="19 of 20 completed runs took no longer.")
    moving_average_seconds: float | None = Field(None, description="What estimates are made from.")


class LoopMetrics(Answer):
    name: str
    ticks: int
    failures: int
    failures_in_a_row: int


class RunsMetrics(Answer):
    """How the runs of pipelines in one pool do."""

    pool: str
    active_runs: int = Field(description="Exact up to 1000, which also stands for more.")
    blocked_runs: int = Field(description="Those of them that cannot go on for now; each says why.")
    broken_runs: int = Field(description="Those of the blocked ones that something unforeseen keeps from going on.")
    jobs_under_way: int
    oldest_job_seconds: float | None = Field(None, description="How long ago the oldest of them was begun.")
    window_seconds: int = Field(
        description="What follows is of jobs that were settled in so many seconds: as set, or those of the last 5000."
    )
    completed: int
    failed: int
    canceled: int
    jobs_per_minute: float
    failed_share: float | None = Field(None, description="Of those that completed or failed, from 0 to 1.")
    average_seconds: float | None = Field(None, description="From the submit of a completed job to its candidates.")
    p95_seconds: float | None = Field(None, description="19 of 20 took no longer.")
    due_thumbnails: int = Field(description="Pictures that wait for a small one. Exact up to 1000.")


class Metrics(Answer):
    at: datetime
    workflows: list[WorkflowMetrics]
    finished_since: datetime = Field(
        description="Where `…_last_hour` begins: an hour ago, or later where more finished than is looked at."
    )
    live_workers: int
    unapproved_workers: int
    unverified_workers: int = Field(0, description="Instances that registered while AWS could not be asked about them.")
    draining_workers: int
    runs: list[RunsMetrics] = Field(default_factory=list, description="Runs of pipelines, by pool.")
    reconciled: dict[str, int] = Field(description="What this process has healed since it started, by kind.")
    loops: list[LoopMetrics] = Field(description="The background loops of this process.")


class Alert(Answer):
    code: Literal[
        "pool_unavailable",
        "storage_not_owned",
        "no_live_worker",
        "long_wait",
        "unapproved_workers",
        "unverified_workers",
        "failing_loop",
        "scaling_driver_failing",
        "fleet_at_maximum",
        "scaling_paused",
        "paused_limit",
        "provider_paused",
        "many_failures",
        "kills_engines",
        "failing_runs",
        "broken_runs",
        "mails_not_sent",
        "reconciled",
    ]
    severity: Literal["critical", "warning"]
    subject: str = Field(description="What it is about: a workflow, a loop, an identifier.")
    message: str
    action: str = Field(description="What to do about it.")


class Alerts(Answer):
    at: datetime
    alerts: list[Alert]
