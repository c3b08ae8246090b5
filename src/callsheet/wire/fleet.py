"""The models of workers and fleets: registration, and the admins' views and actions."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import BeforeValidator, Field, model_validator

from callsheet.wire.base import WHOLE, Document, Line, OptionalLine, ResponseModel, Switch, UserRequest
from callsheet.wire.forms import Provider, Slug, WorkerId, WorkflowSlug
from callsheet.wire.operate.scaling import ScalingState
from callsheet.wire.worker.environment import CannotRun, Environment, Lack
from callsheet.wire.worker.fields import Reason, whole_text
from callsheet.wire.worker.protocol import WorkerRequest

# The id is part of URLs, so it has no slash. For example an instance id, a host name or a UUID.
WorkflowSlugs = Annotated[list[WorkflowSlug], Field(max_length=1000)]


OVERLAP_SECONDS = 86_400
MAX_OVERLAP_SECONDS = 90 * 86_400
Count = Annotated[int, Field(ge=0, le=1_000_000), WHOLE]


class RegisterRequest(WorkerRequest):
    """With the shared secret, send either `fleet_slug` and `stage`, or `workflow_slugs`. With a registration token, all
    three may be left out: the token belongs to a fleet. Then `workflow_slugs` selects some workflows of that fleet."""

    worker_id: WorkerId
    display_name: OptionalLine | None = None
    max_concurrency: int | None = Field(
        None, ge=1, le=10_000, description="Number of jobs that the worker runs at once. Default: 1."
    )
    capabilities: Document | None = Field(None, description="Other facts about the worker: GPU, engine, versions.")
    capacity_type: Literal["spot", "on-demand"] | None = None
    instance_type: OptionalLine | None = None
    providers: Annotated[list[Provider], Field(max_length=50)] | None = Field(
        None, description="Providers whose jobs the worker can run. Default: self_hosted."
    )
    fleet_slug: Slug | None = Field(
        None, description="The worker serves the workflows of this fleet, also when they change."
    )
    stage: Slug | None = Field(
        None, description="Stage of the fleet. Default: the stage of the registration token, or production."
    )
    workflow_slugs: WorkflowSlugs | None = Field(
        None,
        description="The worker serves these workflows (at least one) instead of a fleet's. With a registration "
        "token: some workflows of its fleet.",
    )
    environment: Environment | None = Field(
        None, description="What the worker's engines can run. Without it, the worker gets jobs of all its workflows."
    )


class RegisterResponse(ResponseModel):
    worker_id: str
    token: str = Field(
        description="The worker sends it as `Authorization: Bearer …` from now on. It is shown only this once."
    )
    workflows_assigned: list[str]
    fleet_slug: str | None = None
    stage: str
    is_approved: bool = Field(description="Whether an admin has approved the worker. Until then it gets no jobs.")
    cannot_run: list[CannotRun] = Field(
        default_factory=list,
        description="Workflows of `workflows_assigned` whose jobs the worker does not get, because its environment "
        "lacks something.",
    )


class DeregisterRequest(WorkerRequest):
    reason: Annotated[Reason, BeforeValidator(whole_text)] | None = None


class WorkerLease(ResponseModel):
    """A job that a worker holds."""

    dispatch_id: int
    tenant_id: UUID
    job_id: UUID
    workflow: str
    attempts: int
    leased_at: datetime
    run_started_at: datetime | None = None
    heartbeat_at: datetime | None = None
    lease_expires_at: datetime
    percent: float | None = Field(
        None, description="Progress of the job, from 0 to 100. Null: the worker has not reported any."
    )
    message: str | None = Field(None, description="What the worker does for the job, as it last reported.")


class WorkerSession(ResponseModel):
    """One registration of a worker. It is kept after the worker is gone."""

    id: int
    worker_id: str
    fleet_slug: str | None = None
    stage: str
    capacity_type: str | None = None
    instance_type: str | None = None
    started_at: datetime
    ended_at: datetime | None = None
    end_reason: str | None = None
    busy_seconds: float = Field(
        description="Total time of all leases of the session, from lease to report, in seconds."
    )
    jobs_completed: int
    jobs_failed: int
    jobs_requeued: int


class Worker(ResponseModel):
    worker_id: str
    is_registered: bool = Field(
        description="False for a drained worker that is not connected. Its values are those of its last session."
    )
    display_name: str
    registration_source: Literal["fleet", "workflows"]
    fleet_id: int | None = None
    fleet_slug: str | None = None
    fleet_token_id: int | None = Field(
        None,
        description="The registration token that the worker registered with. Null: it registered with the "
        "shared secret.",
    )
    stage: str
    providers: list[str]
    workflows: list[str] = Field(description="Slugs of the active workflows whose jobs the worker gets.")
    max_concurrency: int = Field(
        description="Number of jobs that the worker runs at once. 0 while it is not registered."
    )
    current_load: int = Field(description="Number of jobs that the worker holds.")
    leases: list[WorkerLease] = Field(
        description="The first three jobs that the worker holds, with their progress. All jobs if you get one worker."
    )
    capabilities: dict[str, Any]
    capacity_type: str | None = None
    instance_type: str | None = None
    is_live: bool = Field(description="Whether the worker was seen in the last 90 seconds.")
    is_approved: bool
    asg_unverified: bool = Field(
        False, description="Whether AWS was not reachable to verify the instance when the worker registered."
    )
    is_draining: bool = Field(
        description="Whether the worker is draining: it gets no new jobs until an admin ends the drain."
    )
    drained_since: datetime | None = None
    drained_by: str | None = None
    drained_by_email: str | None = Field(
        None,
        description="E-mail address of the user who drained it. Null if it was not a user, or was deleted.",
    )
    drain_reason: str | None = None
    rotation_pending: bool = Field(description="Whether the worker has a new token that it has not used yet.")
    revoked_at: datetime | None = None
    session_id: int | None = None
    registered_at: datetime
    last_seen_at: datetime = Field(description="When the worker was seen last, to about a second.")


class EngineUse(ResponseModel):
    """How much an engine was used, as its worker measured it."""

    name: str
    slots: int = Field(description="Number of jobs that the engine runs at once.")
    idle_share: float | None = Field(
        description="Share of the time in which the engine took jobs and its slots did not render. Null: it took none."
    )
    measured_seconds: float = Field(description="Length of the measured period in seconds, at most an hour.")


class WorkerDisk(ResponseModel):
    """The disk of a worker's data directory, as the worker last reported it."""

    free_bytes: int = Field(description="What the worker may still write, in bytes.")
    size_bytes: int = Field(description="Size of the disk in bytes.")
    reported_at: datetime = Field(description="When the worker reported it.")


class WorkerDetails(Worker):
    disk: WorkerDisk | None = Field(None, description="The disk of the worker. Null: the worker does not report it.")
    cannot_run: list[CannotRun] = Field(
        description="Workflows that are assigned to the worker but whose jobs it does not get, and what its engines "
        "lack. At most twenty."
    )
    sessions: list[WorkerSession] = Field(description="The worker's last ten sessions.")
    engine_use: list[EngineUse] = Field(
        default_factory=list,
        description="How much each engine was used in the last hour. Empty if the worker does not report it.",
    )
    engine_use_at: datetime | None = Field(None, description="When the worker reported the use of its engines.")


class WorkerGroup(ResponseModel):
    """Workers that are the same to a workflow."""

    workers: int
    worker_ids: list[str] = Field(description="The first five.")
    draining: int = Field(description="Number of these workers that are draining.")
    has_reported: bool = Field(
        description="Whether the workers report what their engines have. Workers that do not get all jobs."
    )
    lacks: list[Lack] = Field(
        description="What the engines of these workers lack: the first 20, custom nodes first. Empty: they can run "
        "the workflow."
    )


class WorkflowWorkers(ResponseModel):
    """The live workers that a workflow is assigned to, and whether they can run it."""

    live: int = Field(description="Approved workers that were seen in the last 90 seconds.")
    able: int = Field(description="Number of these workers that can run the workflow.")
    groups: list[WorkerGroup] = Field(description="The fifty largest; those that can run the workflow come first.")


class DrainRequest(UserRequest):
    reason: OptionalLine | None = Field(None, description="Reason, for other admins.")


class RevokeWorkerRequest(UserRequest):
    with_token: Switch = Field(
        False,
        description="Whether to revoke the worker's registration token too, so that it cannot register again under "
        "another id.",
    )


class AssignWorkflowsRequest(UserRequest):
    workflow_slugs: WorkflowSlugs = Field(
        description="All workflows of the worker or fleet. Workflows that you leave out are removed."
    )


class ChangeWorkflowsRequest(UserRequest):
    """Workflows that you do not name stay as they are."""

    add: WorkflowSlugs = Field(
        default_factory=list, description="Workflows to assign. One that is assigned already stays assigned."
    )
    remove: WorkflowSlugs = Field(
        default_factory=list, description="Workflows to remove. One that is not assigned is ignored."
    )

    @model_validator(mode="after")
    def _one_direction(self) -> Self:
        if both := sorted(set(self.add) & set(self.remove)):
            raise ValueError(f"Send {both[0]!r} in `add` or in `remove`, not in both.")
        return self


class WorkerEvent(ResponseModel):
    """An event of a worker."""

    id: int
    at: datetime
    worker_id: str
    session_id: int | None = None
    event: str
    actor: str
    actor_email: str | None = Field(
        None, description="E-mail address of the user who acted. Null if the actor is not a user, or was deleted."
    )
    dispatch_id: int | None = None
    details: dict[str, Any]


class CreateFleetRequest(UserRequest):
    slug: Slug
    stage: Slug = "production"
    name: Line | None = Field(None, description="Name of the fleet. Default: the slug.")
    workflow_slugs: WorkflowSlugs = Field(default_factory=list)
    desired_workers: Count | None = Field(None, description="Wanted number of workers. Null: not set.")


class UpdateFleetRequest(UserRequest):
    """Only fields that you send change."""

    name: Line | None = None
    is_active: Switch | None = Field(None, description="Workers of a fleet that is switched off get no jobs.")
    desired_workers: Count | None = Field(
        None, description="Wanted number of workers, set by the system that scales the fleet. Null: not set."
    )


class Fleet(ResponseModel):
    id: int
    slug: str
    stage: str
    name: str
    is_active: bool
    desired_workers: int | None = None
    workflows: list[str] = Field(description="Slugs of the fleet's workflows. Only active ones have jobs.")
    workers: int = Field(description="Number of registered workers.")
    live_workers: int = Field(
        description="Number of registered workers that are approved, not draining, and seen in the last 90 seconds."
    )
    scaling: ScalingState | None = Field(
        None, description="State of the fleet for the autoscaler. Null: the fleet is not scaled."
    )
    created_at: datetime


class FleetWorkflow(ResponseModel):
    """A workflow of a fleet: whether the fleet's live workers can run it, and its queue in the fleet's stage."""

    workflow: str
    is_active: bool = Field(description="Whether the workflow takes jobs.")
    live: int = Field(
        description="Approved workers of the fleet that were seen in the last 90 seconds and have this workflow."
    )
    able: int = Field(description="Number of these workers that can run the workflow.")
    groups: list[WorkerGroup] = Field(
        description="These workers by what they lack: the five largest groups. Those that can run the workflow come "
        "first."
    )
    queued: int = Field(
        description="Jobs of the fleet's stage that wait for a worker. Counted up to 1,000: then there may be more."
    )
    delayed: int = Field(description="Jobs of the fleet's stage that wait for a retry or for their start time.")
    oldest_wait_seconds: float | None = Field(
        None, description="How long the first queued job has waited, in seconds. Null: none waits."
    )
    running: int = Field(description="Jobs of the workflow that workers of the fleet hold.")
    average_seconds: float | None = Field(
        None, description="Moving average of the run time in seconds, on all fleets. Null: not measured yet."
    )


class FleetMetric(ResponseModel):
    """Numbers of a fleet for an external autoscaler such as KEDA."""

    fleet_slug: str
    stage: str
    queued_jobs: int = Field(description="Jobs that a worker of the fleet could take now.")
    queued_seconds: float = Field(description="Total run time of these jobs, from measured times, in seconds.")
    running_jobs: int = Field(description="Jobs that the fleet's workers hold.")
    jobs: int = Field(description="Queued and running jobs together.")
    needed_workers: int = Field(
        description="Number of workers that brings the backlog to the target, and at least the number of busy "
        "workers. 0 without work."
    )


class CreateFleetTokenRequest(UserRequest):
    name: Line | None = Field(
        None, description="Name of the token, for example the machine image it is used in. Default: workers."
    )


class RotateFleetTokenRequest(UserRequest):
    overlap_seconds: Annotated[int, Field(ge=0, le=MAX_OVERLAP_SECONDS), WHOLE] = Field(
        OVERLAP_SECONDS, description="How long the old token is still accepted, in seconds. Default: a day."
    )


class FleetToken(ResponseModel):
    """A token that workers of a fleet register with. It is shown once, when it is created."""

    id: int
    fleet_id: int
    fleet_slug: str
    stage: str
    name: str
    prefix: str = Field(description="First characters of the token.")
    is_accepted: bool = Field(description="Whether workers can register with the token now.")
    replaces: int | None = Field(None, description="The token that this token replaces.")
    workers: int = Field(description="Number of workers that are registered with this token.")
    created_by: str
    created_at: datetime
    expires_at: datetime | None = Field(None, description="When the rotated token stops being accepted.")
    revoked_at: datetime | None = None
    last_used_at: datetime | None = Field(None, description="When a worker last registered with the token.")
    last_used_by: str | None = Field(None, description="Id of the worker that last registered with the token.")


class CreatedFleetToken(FleetToken):
    token: str = Field(description="Workers send it as X-Fleet-Secret when they register. It is shown only this once.")
