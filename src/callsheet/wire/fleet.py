"""Workers and fleets: how a worker comes and goes, and how admins see and manage them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BeforeValidator, Field

from callsheet.wire.base import WHOLE, Answer, Document, Line, OptionalLine, Switch, UserRequest
from callsheet.wire.environment import CannotRun, Environment
from callsheet.wire.forms import Provider, Slug, WorkerId, WorkflowSlug
from callsheet.wire.scaling import ScalingState
from callsheet.wire.worker import Reason, WorkerRequest, whole_text

# Stands in addresses, so it has no slash; an instance id, a host name, a UUID.
WorkflowSlugs = Annotated[list[WorkflowSlug], Field(max_length=1000)]


OVERLAP_SECONDS = 86_400
LONGEST_OVERLAP_SECONDS = 90 * 86_400
Count = Annotated[int, Field(ge=0, le=1_000_000), WHOLE]


class RegisterRequest(WorkerRequest):
    """With the shared secret either `fleet_slug` and `stage`, or `workflow_slugs`. A registration token says which
    fleet it is: then all three may be left out, and `workflow_slugs` name those of the fleet's that it serves."""

    worker_id: WorkerId
    display_name: OptionalLine | None = None
    max_concurrency: int | None = Field(None, ge=1, le=10_000, description="Jobs it runs at once. Default: 1.")
    capabilities: Document | None = Field(None, description="Whatever else is worth knowing: GPU, engine, versions.")
    capacity_type: Literal["spot", "on-demand"] | None = None
    instance_type: OptionalLine | None = None
    providers: Annotated[list[Provider], Field(max_length=50)] | None = Field(
        None, description="Who it can run jobs with. Default: self_hosted."
    )
    fleet_slug: Slug | None = Field(None, description="It serves the workflows of this fleet, now and as they change.")
    stage: Slug | None = Field(None, description="Default: that of the registration token, or production.")
    workflow_slugs: WorkflowSlugs | None = Field(
        None,
        description="Or it serves these workflows, one at least; with a registration token, of those of its fleet.",
    )
    environment: Environment | None = Field(
        None, description="What its engines can run. Without it, it gets jobs of all its workflows."
    )


class Registered(Answer):
    worker_id: str
    token: str = Field(description="Sent as `Authorization: Bearer …` from now on. It is shown this once.")
    workflows_assigned: list[str]
    fleet_slug: str | None = None
    stage: str
    is_approved: bool = Field(description="Until an admin has approved it, it gets no jobs.")
    cannot_run: list[CannotRun] = Field(
        default_factory=list,
        description="Those of `workflows_assigned` that it gets no jobs of, because of the environment that it sent.",
    )


class DeregisterRequest(WorkerRequest):
    reason: Annotated[Reason, BeforeValidator(whole_text)] | None = None


class WorkerLease(Answer):
    """A job a worker has in hand."""

    dispatch_id: int
    tenant_id: UUID
    job_id: UUID
    workflow: str
    attempts: int
    leased_at: datetime
    run_started_at: datetime | None = None
    heartbeat_at: datetime | None = None
    lease_expires_at: datetime


class WorkerSession(Answer):
    """One registration of a worker. Stays when the worker is gone."""

    id: int
    worker_id: str
    fleet_slug: str | None = None
    stage: str
    capacity_type: str | None = None
    instance_type: str | None = None
    started_at: datetime
    ended_at: datetime | None = None
    end_reason: str | None = None
    busy_seconds: float = Field(description="The time of all its leases together, from lease to report.")
    jobs_completed: int
    jobs_failed: int
    jobs_requeued: int


class Worker(Answer):
    worker_id: str
    is_registered: bool = Field(
        description="False for a drained worker that is away: its values are those of its last session."
    )
    display_name: str
    registration_source: Literal["fleet", "workflows"]
    fleet_id: int | None = None
    fleet_slug: str | None = None
    fleet_token_id: int | None = Field(
        None, description="The registration token it came with; null: it came with the shared secret."
    )
    stage: str
    providers: list[str]
    workflows: list[str] = Field(description="Slugs of the active workflows it gets jobs of.")
    max_concurrency: int = Field(description="Jobs it runs at once; 0 while it is not registered.")
    current_load: int = Field(description="Jobs it has in hand.")
    capabilities: dict[str, Any]
    capacity_type: str | None = None
    instance_type: str | None = None
    is_live: bool = Field(description="Whether it was seen in the last 90 seconds.")
    is_approved: bool
    asg_unverified: bool = Field(
        False, description="Whether AWS could not be asked about the instance when it registered."
    )
    is_draining: bool = Field(description="Whether it gets no new jobs, until an admin undoes the drain.")
    drained_since: datetime | None = None
    drained_by: str | None = None
    drain_reason: str | None = None
    rotation_pending: bool = Field(description="Whether it was given a new token that it has not used yet.")
    revoked_at: datetime | None = None
    session_id: int | None = None
    registered_at: datetime
    last_seen_at: datetime = Field(description="Exact to about a second.")


class WorkerDetails(Worker):
    cannot_run: list[CannotRun] = Field(
        description="Workflows that it is assigned but gets no jobs of, and what its engines lack; twenty at most."
    )
    leases: list[WorkerLease]
    sessions: list[WorkerSession] = Field(description="Its last ten.")


class DrainRequest(UserRequest):
    reason: OptionalLine | None = Field(None, description="Why, for other admins.")


class RevokeWorkerRequest(UserRequest):
    with_token: Switch = Field(
        False,
        description="Whether to revoke the registration token it came with, too, so that it cannot come back "
        "under another id.",
    )


class AssignWorkflowsRequest(UserRequest):
    workflow_slugs: WorkflowSlugs = Field(description="All of them: those left out are taken away.")


class WorkerEvent(Answer):
    """A line of the workers' log."""

    id: int
    at: datetime
    worker_id: str
    session_id: int | None = None
    event: str
    actor: str
    dispatch_id: int | None = None
    details: dict[str, Any]


class CreateFleetRequest(UserRequest):
    slug: Slug
    stage: Slug = "production"
    name: Line | None = Field(None, description="Default: the slug.")
    workflow_slugs: WorkflowSlugs = Field(default_factory=list)
    desired_workers: Count | None = Field(None, description="How many workers there should be; null: nobody says.")


class UpdateFleetRequest(UserRequest):
    """Only what is given changes."""

    name: Line | None = None
    is_active: Switch | None = Field(None, description="Workers of a fleet that is switched off get no jobs.")
    desired_workers: Count | None = Field(
        None, description="How many workers there should be, said by whoever scales it; null: nobody says."
    )


class Fleet(Answer):
    id: int
    slug: str
    stage: str
    name: str
    is_active: bool
    desired_workers: int | None = None
    workflows: list[str] = Field(description="Slugs of its workflows; jobs come of the active ones.")
    workers: int = Field(description="Workers registered.")
    live_workers: int = Field(description="Of these, approved, not draining, and seen in the last 90 seconds.")
    scaling: ScalingState | None = Field(None, description="How the autoscaler sees it; null: nothing scales it.")
    created_at: datetime


class FleetMetric(Answer):
    """What an autoscaler outside, such as KEDA, needs to know of a fleet."""

    fleet_slug: str
    stage: str
    queued_jobs: int = Field(description="Jobs that a worker of the fleet could take now.")
    queued_seconds: float = Field(description="How long these run one after the other, from measured times.")
    running_jobs: int = Field(description="Jobs that the fleet's workers hold.")
    jobs: int = Field(description="Queued and running jobs together.")
    needed_workers: int = Field(
        description="Workers that bring the backlog to the target, and never fewer than are at work; 0 without work."
    )


class CreateFleetTokenRequest(UserRequest):
    name: Line | None = Field(None, description="What it is for, such as a machine image. Default: workers.")


class RotateFleetTokenRequest(UserRequest):
    overlap_seconds: Annotated[int, Field(ge=0, le=LONGEST_OVERLAP_SECONDS), WHOLE] = Field(
        OVERLAP_SECONDS, description="How long the old token is accepted, too. Default: a day."
    )


class FleetToken(Answer):
    """What workers of a fleet register with. It is shown once, when it is created."""

    id: int
    fleet_id: int
    fleet_slug: str
    stage: str
    name: str
    prefix: str = Field(description="How it begins.")
    is_accepted: bool = Field(description="Whether workers can register with it now.")
    replaces: int | None = Field(None, description="The token it took the place of.")
    workers: int = Field(description="Workers that are registered and came with it.")
    created_by: str
    created_at: datetime
    expires_at: datetime | None = Field(None, description="Until when it is accepted, since it was rotated.")
    revoked_at: datetime | None = None
    last_used_at: datetime | None = Field(None, description="When a worker registered with it last.")
    last_used_by: str | None = Field(None, description="The id of that worker.")


class CreatedFleetToken(FleetToken):
    token: str = Field(description="Workers send it as X-Fleet-Secret when they register. It is shown this once.")
