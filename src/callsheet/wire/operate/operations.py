"""Models of admins' views of the running installation, and of their actions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field

from callsheet.wire.base import WHOLE, Line, ResponseModel, UserRequest
from callsheet.wire.jobs import Job, WhyWaiting

OpenStatus = Literal["queued", "leased", "waiting"]
EndedStatus = Literal["completed", "failed", "canceled", "expired"]
DispatchStatus = OpenStatus | EndedStatus
FINISHED = frozenset({"completed", "failed", "canceled", "expired"})


Priority = Annotated[int, Field(ge=-(2**31), le=2**31 - 1), WHOLE]
Count = Annotated[int, Field(ge=0, le=2**31 - 1), WHOLE]


class Dispatch(ResponseModel):
    """The queue entry of a job in one charge cycle, open or finished."""

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
    max_attempts: int | None = Field(None, description="Position in the queue while the dispatch is open.")
    requeues: int
    worker_id: str | None = Field(None, description="The worker that holds the lease, or held it last.")
    provider_job_id: str | None = None
    last_error: str | None = None
    created_at: datetime
    queue_wait_seconds: float | None = Field(None, description="Seconds from creation to the first lease.")
    not_before: datetime | None = Field(None, description="The dispatch is not leased before this time.")
    deadline_at: datetime | None = None
    last_leased_at: datetime | None = None
    lease_expires_at: datetime | None = None
    heartbeat_at: datetime | None = None
    run_started_at: datetime | None = None
    cancel_requested_at: datetime | None = Field(
        None, description="When the job ended. The worker that holds it is notified."
    )
    finished_at: datetime | None = None
    duration_seconds: float | None = Field(None, description="Seconds of the last run.")


@dataclass(frozen=True, slots=True)
class DispatchFilter:
    """Only dispatches that match all filters. `None` means no filter."""

    finished: bool = False
    status: str | None = None
    workflow: str | None = None
    worker_id: str | None = None
    tenant_id: UUID | None = None


class ChangePriority(UserRequest):
    priority: Priority = Field(description="Dispatches with a higher priority come first. The default of users is 0.")


class Because(UserRequest):
    """The reason, for the job's history and the audit log."""

    reason: Line | None = None


class ConcurrencyLimit(ResponseModel):
    identifier: str
    max_concurrent: int | None = Field(None, description="Limit of concurrent jobs. Null: no limit.")
    in_use: int = Field(description="Number of jobs that run now.")


class SetConcurrencyLimit(UserRequest):
    identifier: Line
    max_concurrent: Count | None = Field(description="New limit. 0 pauses the jobs, null removes the limit.")


class FullError(ResponseModel):
    """Why a job failed, with the details that only admins may see."""

    type: str
    message: str
    details: Any = None
    traceback: str | None = None


class AdminJob(Job):
    """A job with all its details."""

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
    payload: dict[str, Any] | None = Field(None, description="The payload that the worker gets. Not in lists.")
    dispatch: Dispatch | None = Field(None, description="The job's queue entry in this charge cycle. Not in lists.")


class WorkflowMetrics(ResponseModel):
    workflow: str
    is_active: bool
    queued: int = Field(description="Number of jobs that can be leased. 1000 means 1000 or more.")
    delayed: int = Field(description="Number of jobs that failed and wait for a retry.")
    leased: int
    waiting: int = Field(description="Number of jobs that were submitted to a provider and wait for its callback.")
    oldest_wait_seconds: float | None = Field(
        None, description="Waiting time of the oldest job that can be leased, in seconds."
    )
    why_waiting: WhyWaiting | None = Field(None, description="Why the oldest job that can be leased waits.")
    live_workers: int
    live_slots: int
    busy_slots: int
    completed_last_hour: int
    failed_last_hour: int
    average_seconds: float | None = Field(
        None, description="Mean run time of completed jobs in the last hour, in seconds."
    )
    p95_seconds: float | None = Field(None, description="95th percentile of the run time, in seconds.")
    moving_average_seconds: float | None = Field(None, description="Run time that estimates are based on, in seconds.")


class LoopMetrics(ResponseModel):
    name: str
    ticks: int
    failures: int
    failures_in_a_row: int


class ProviderMetrics(ResponseModel):
    provider: str
    completed_last_hour: int
    failed_last_hour: int


class StoppedRun(ResponseModel):
    """A run that stopped because its jobs failed."""

    id: UUID
    tenant_id: UUID
    user_id: UUID
    name: str
    reason: str = Field(description="`base_failed` or `branches_failed`.")
    reason_detail: str | None = None
    stopped_at: datetime


class RunsMetrics(ResponseModel):
    """State of the pipeline runs in one pool."""

    pool: str
    active_runs: int = Field(description="Number of active runs. 1000 means 1000 or more.")
    blocked_runs: int = Field(description="Number of active runs that are currently blocked. Each run has a reason.")
    broken_runs: int = Field(description="Number of blocked runs that an unexpected error stops.")
    jobs_under_way: int
    oldest_job_seconds: float | None = Field(None, description="Age of the oldest job of a run, in seconds.")
    window_seconds: int = Field(
        description="The following numbers are about jobs that were settled in this many seconds: the configured "
        "window, or less if more than 5000 jobs were settled."
    )
    completed: int
    failed: int
    canceled: int
    jobs_per_minute: float
    failed_share: float | None = Field(
        None, description="Share of failed jobs among completed and failed jobs, from 0 to 1."
    )
    average_seconds: float | None = Field(
        None, description="Mean seconds from the submit of a completed job to its candidates."
    )
    p95_seconds: float | None = Field(None, description="95th percentile of these seconds.")
    due_thumbnails: int = Field(description="Number of images that wait for their thumbnail. 1000 means 1000 or more.")
    stopped_runs: list[StoppedRun] = Field(
        default_factory=list,
        description="The newest 20 runs that stopped in the last 24 hours because their jobs failed, and were not "
        "resumed.",
    )


class Metrics(ResponseModel):
    at: datetime
    workflows: list[WorkflowMetrics]
    providers: list[ProviderMetrics] = Field(
        default_factory=list, description="Providers whose jobs finished in the last hour."
    )
    finished_since: datetime = Field(
        description="Start of the period of `…_last_hour`: an hour ago, or later if too many jobs finished."
    )
    live_workers: int
    unapproved_workers: int
    unverified_workers: int = Field(
        0, description="Number of instances that registered while AWS was not reachable to verify them."
    )
    draining_workers: int
    runs: list[RunsMetrics] = Field(default_factory=list, description="Runs of pipelines, by pool.")
    reconciled: dict[str, int] = Field(description="Number of repairs by this process since it started, by kind.")
    loops: list[LoopMetrics] = Field(description="The background loops of this process.")


AlertCode = Literal[
    "pool_unavailable",
    "standby_gone",
    "standby_behind",
    "storage_not_owned",
    "storage_failing",
    "slow_storage",
    "low_disk",
    "low_worker_disk",
    "no_live_worker",
    "long_wait",
    "unapproved_workers",
    "unverified_workers",
    "failing_loop",
    "scaling_driver_failing",
    "fleet_at_maximum",
    "fleet_cannot_run",
    "scaling_paused",
    "paused_limit",
    "provider_paused",
    "many_failures",
    "failing_provider",
    "kills_engines",
    "failing_runs",
    "broken_runs",
    "stopped_run",
    "mails_not_sent",
    "alerts_not_sent",
    "endpoint_disabled",
    "reconciled",
]
Severity = Literal["critical", "warning"]


class Alert(ResponseModel):
    code: AlertCode
    severity: Severity
    subject: str = Field(description="The affected workflow, loop or other object.")
    message: str
    action: str = Field(description="What to do.")
    meaning: str = Field("", description="What an alert of this kind means.")
    steps: str = Field("", description="What to do about alerts of this kind, in more detail.")
    since: datetime | None = Field(None, description="When the alert was first found. Empty until the next check.")
    process: str = Field("", description="The control plane that it is about. Empty: the installation.")


class Alerts(ResponseModel):
    at: datetime
    checked_at: datetime | None = Field(
        None, description="When the alerts of the installation were checked. Null: they were not checked yet."
    )
    alerts: list[Alert]


class AlertRecipients(ResponseModel):
    recipients: list[str] = Field(
        description="`webhook` and the e-mail addresses that get messages about alerts. Empty: none is configured."
    )
