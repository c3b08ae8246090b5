"""Fleets that follow their queues: rules that admins set, and what the autoscaler made of them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from callsheet.wire.base import WHOLE, Answer, Document, UserRequest
from callsheet.wire.forms import Provider

MOST_WORKERS = 1000
Workers = Annotated[int, Field(ge=0, le=MOST_WORKERS), WHOLE]
Seconds = Annotated[float, Field(ge=0, le=7 * 86_400, allow_inf_nan=False)]
DriverName = Annotated[str, Field(min_length=1, max_length=63)]


class ScalingRequest(UserRequest):
    """All of a fleet's rules: what is left out has its default."""

    driver: DriverName = Field(description="What starts and ends the workers, for example command.")
    options: Document = Field(default_factory=dict, description="What the driver needs to know of this fleet.")
    providers: Annotated[list[Provider], Field(min_length=1, max_length=50)] = Field(
        ["self_hosted"], description="Providers whose jobs its workers take; counted while it has no worker, too."
    )
    minimum: Workers = Field(0, description="Workers it always has.")
    maximum: Annotated[int, Field(ge=1, le=MOST_WORKERS), WHOLE] = Field(
        1, description="Workers it never has more of, draining ones included."
    )
    target_seconds: Annotated[float, Field(ge=1, le=7 * 86_400, allow_inf_nan=False)] = Field(
        120.0,
        description="Wanted backlog per slot, in seconds of work: about how long the last job of the queue waits.",
    )
    warm_up_seconds: Seconds = Field(
        180.0, description="Within this time a worker that was ordered is expected to register."
    )
    scale_out_cooldown_seconds: Seconds = Field(30.0, description="Least time between two orders of workers.")
    scale_in_cooldown_seconds: Seconds = Field(
        300.0, description="Least time after the last change before workers are let go."
    )
    idle_seconds: Seconds = Field(
        300.0, description="A worker is let go when the busiest moment of this time did without it."
    )
    on_demand_minimum: Workers = Field(0, description="Workers that are on-demand and not spot.")
    spot_share: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = Field(
        1.0, description="Share of spot workers above on_demand_minimum, from 0 to 1."
    )


class ScalingDecision(Answer):
    """What the autoscaler wanted from this moment on, and why."""

    id: int
    fleet_id: int
    at: datetime
    cause: str = Field(description="A word for what led to it, for example backlog, idle or at_maximum.")
    reason: str
    wanted: int
    on_demand: int = Field(description="How many of the wanted are on-demand.")
    serving: int = Field(description="Workers that took work then.")
    coming: int = Field(description="Workers that had been ordered and had not registered yet.")
    queued_jobs: int
    queued_seconds: float = Field(description="Seconds of work that waited, by measured run times.")
    drained: list[str] = Field(description="Ids of workers that were drained.")
    undrained: list[str] = Field(description="Ids of workers that take work again.")
    ended: list[str] = Field(description="Ids of workers whose end was ordered; they were drained and held nothing.")


class ScalingState(Answer):
    """How a scaled fleet stands, as of the autoscaler's last look."""

    driver: str
    minimum: int
    maximum: int
    wanted: int | None = Field(None, description="Workers it should have; null before the first look.")
    actual: int | None = Field(None, description="Workers that take work.")
    coming: int | None = Field(None, description="Workers that were ordered and have not registered yet.")
    draining: int | None = Field(None, description="Workers that exist and take no work.")
    existing: int | None = Field(None, description="Workers that exist, as the driver says.")
    queued_jobs: int | None = Field(None, description="Jobs that wait for this fleet and could be taken now.")
    queued_seconds: float | None = Field(None, description="Seconds of work in them, by measured run times.")
    cause: str | None = None
    reason: str | None = Field(None, description="Why so many are wanted, as a sentence.")
    looked_at: datetime | None = None
    driver_error: str | None = Field(None, description="Why the driver fails; null: it works.")
    driver_failing_since: datetime | None = None
    decisions: list[ScalingDecision] = Field(description="The last three decisions, newest first.")


class FleetScaling(ScalingState):
    """A fleet's rules and how it stands."""

    fleet_id: int
    fleet_slug: str
    stage: str
    options: dict[str, object]
    providers: list[str]
    target_seconds: float
    warm_up_seconds: float
    scale_out_cooldown_seconds: float
    scale_in_cooldown_seconds: float
    idle_seconds: float
    on_demand_minimum: int
    spot_share: float
    updated_by: str
    updated_at: datetime
