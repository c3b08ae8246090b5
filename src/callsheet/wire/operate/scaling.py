"""Scaled fleets: the rules that admins set, and the state of the autoscaler."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from callsheet.wire.base import WHOLE, Document, ResponseModel, UserRequest
from callsheet.wire.forms import Provider

MAX_WORKERS = 1000
Workers = Annotated[int, Field(ge=0, le=MAX_WORKERS), WHOLE]
Seconds = Annotated[float, Field(ge=0, le=7 * 86_400, allow_inf_nan=False)]
DriverName = Annotated[str, Field(min_length=1, max_length=63)]


class ScalingRequest(UserRequest):
    """All scaling rules of a fleet. Fields that you leave out get their defaults."""

    driver: DriverName = Field(description="Driver that starts and ends the workers, for example command.")
    options: Document = Field(default_factory=dict, description="Options of the driver for this fleet.")
    providers: Annotated[list[Provider], Field(min_length=1, max_length=50)] = Field(
        ["self_hosted"],
        description="Providers whose jobs the workers run. They count also while the fleet has no worker.",
    )
    minimum: Workers = Field(0, description="Smallest number of workers.")
    maximum: Annotated[int, Field(ge=1, le=MAX_WORKERS), WHOLE] = Field(
        1, description="Largest number of workers, including draining ones."
    )
    target_seconds: Annotated[float, Field(ge=1, le=7 * 86_400, allow_inf_nan=False)] = Field(
        120.0,
        description="Target backlog per slot, in seconds of work. This is about how long the last job in the queue "
        "waits.",
    )
    warm_up_seconds: Seconds = Field(
        180.0, description="Time within which an ordered worker is expected to register, in seconds."
    )
    scale_out_cooldown_seconds: Seconds = Field(
        30.0, description="Smallest time between two orders of workers, in seconds."
    )
    scale_in_cooldown_seconds: Seconds = Field(
        300.0, description="Smallest time after the last change before workers are removed, in seconds."
    )
    idle_seconds: Seconds = Field(
        300.0, description="A worker is removed if it was not needed at any moment within this time, in seconds."
    )
    on_demand_minimum: Workers = Field(0, description="Number of workers that are on-demand instead of spot.")
    spot_share: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = Field(
        1.0, description="Share of spot workers above on_demand_minimum, from 0 to 1."
    )


class ScalingDriver(ResponseModel):
    """A driver that can start and end the workers of a fleet."""

    name: str
    about: str = Field(description="Which workers the driver starts and ends, as a sentence.")
    options: dict[str, Any] = Field(description="JSON schema of the options that a fleet with this driver has.")


class ScalingDecision(ResponseModel):
    """A decision of the autoscaler: the number of wanted workers, and why."""

    id: int
    fleet_id: int
    at: datetime
    cause: str = Field(description="Cause of the decision in one word, for example backlog, idle or at_maximum.")
    reason: str
    wanted: int
    on_demand: int = Field(description="Number of wanted workers that are on-demand.")
    serving: int = Field(description="Number of workers that took work at that time.")
    coming: int = Field(description="Number of workers that were ordered and had not registered yet.")
    queued_jobs: int
    queued_seconds: float = Field(description="Seconds of waiting work, by measured run times.")
    drained: list[str] = Field(description="Ids of workers that were drained.")
    undrained: list[str] = Field(description="Ids of workers that take work again.")
    ended: list[str] = Field(description="Ids of workers whose end was ordered; they were drained and held nothing.")


class ScalingState(ResponseModel):
    """State of a scaled fleet at the autoscaler's last check."""

    driver: str
    minimum: int
    maximum: int
    wanted: int | None = Field(None, description="Wanted number of workers. Null before the first check.")
    actual: int | None = Field(None, description="Workers that take work.")
    coming: int | None = Field(None, description="Workers that were ordered and have not registered yet.")
    draining: int | None = Field(None, description="Workers that exist and take no work.")
    existing: int | None = Field(None, description="Number of workers that exist according to the driver.")
    queued_jobs: int | None = Field(None, description="Jobs that wait for this fleet and could be taken now.")
    queued_seconds: float | None = Field(None, description="Seconds of work in them, by measured run times.")
    cause: str | None = None
    reason: str | None = Field(None, description="Why this number is wanted, as a sentence.")
    checked_at: datetime | None = None
    driver_error: str | None = Field(None, description="Why the driver fails. Null: it works.")
    driver_failing_since: datetime | None = None
    decisions: list[ScalingDecision] = Field(description="The last three decisions, newest first.")


class FleetScaling(ScalingState):
    """Scaling rules and state of a fleet."""

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
