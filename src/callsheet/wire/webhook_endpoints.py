"""Webhook endpoints of users, and the deliveries to them."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

from pydantic import Field, StringConstraints

from callsheet.wire.base import WHOLE, Line, Moment, OptionalLine, ResponseModel, Switch, UserRequest

MAX_FILTERS = 20


class WebhookEvent(StrEnum):
    ACCEPTED = "job.accepted"
    STARTED = "job.started"
    COMPLETED = "job.completed"
    FAILED = "job.failed"
    CANCELED = "job.canceled"
    EXPIRED = "job.expired"
    BATCH_FINISHED = "batch.finished"
    RUN_GATE = "run.gate"
    RUN_FINISHED = "run.finished"
    CANDIDATE_CREATED = "candidate.created"
    WALLET_LOW = "wallet.low"
    BUDGET_REACHED = "budget.reached"


ENDS = (WebhookEvent.COMPLETED, WebhookEvent.FAILED, WebhookEvent.CANCELED, WebhookEvent.EXPIRED)


class EndpointScope(StrEnum):
    USER = "user"
    TENANT = "tenant"
    JOB = "job"


class DeliveryStatus(StrEnum):
    WAITING = "waiting"
    DELIVERED = "delivered"
    GIVEN_UP = "given_up"


EndpointUrl = Annotated[str, StringConstraints(strip_whitespace=True, min_length=8, max_length=2000)]
Events = Annotated[list[WebhookEvent], Field(min_length=1, max_length=len(WebhookEvent))]
EffectIds = Annotated[list[UUID], Field(max_length=MAX_FILTERS)]
LowBalance = Annotated[int, Field(ge=1, le=2**53), WHOLE]
References = Annotated[list[Line], Field(max_length=MAX_FILTERS)]


class CreateWebhookEndpoint(UserRequest):
    url: EndpointUrl = Field(
        description="Where events are sent by POST. It starts with https://. http:// is accepted for this machine, and "
        "elsewhere if the operator allows it."
    )
    events: Events = Field(
        default_factory=lambda: list(ENDS), description="The events to send. Default: those that end a job."
    )
    scope: EndpointScope = Field(
        EndpointScope.USER,
        description="`user`: events of your own jobs, runs and tokens. `tenant`: all events of your tenant, for its "
        "administrators. `job`: your jobs with a `webhook_url` that starts with this URL; they are sent to that URL.",
    )
    description: OptionalLine = Field("", description="What the endpoint is for.")
    effect_ids: EffectIds = Field(
        default_factory=list,
        description="Only jobs and candidates of these effects. Empty: all. Events about tokens are always sent.",
    )
    client_references: References = Field(
        default_factory=list,
        description="Only jobs, runs and batches with one of these references. Empty: all. Events about tokens are "
        "always sent.",
    )
    low_balance: LowBalance = Field(
        100,
        description="`wallet.low` is sent when a balance falls below this number of tokens, once until it has risen "
        "again.",
    )


class ChangeWebhookEndpoint(UserRequest):
    """Fields that are left out stay as they are."""

    url: EndpointUrl | None = None
    events: Events | None = None
    description: OptionalLine | None = None
    effect_ids: EffectIds | None = None
    client_references: References | None = None
    low_balance: LowBalance | None = None
    enabled: Switch | None = Field(
        None,
        description="`false`: no event is written for the endpoint any more. `true` also ends the state `disabled`: "
        "events of the last 24 hours that wait are then sent.",
    )


class WebhookEndpoint(ResponseModel):
    id: UUID
    url: str
    events: list[WebhookEvent]
    scope: EndpointScope
    description: str
    effect_ids: list[UUID]
    client_references: list[str]
    low_balance: int
    enabled: bool = Field(description="False: its user switched it off.")
    created_at: datetime
    failures: int = Field(description="Requests in a row that were not accepted.")
    failing_since: datetime | None = None
    last_error: str | None = Field(None, description="Why the last request was not accepted.")
    disabled_at: datetime | None = Field(
        None, description="When it was disabled because it failed for too long. Set `enabled` to true to go on."
    )
    disabled_reason: str | None = None


class CreatedWebhookEndpoint(WebhookEndpoint):
    secret: str = Field(description="Secret that signs the requests. It is shown only this once.")


class RotatedSecret(ResponseModel):
    secret: str = Field(description="The new secret. It is shown only this once.")
    old_secret_until: datetime = Field(description="Until then, each request is also signed with the old secret.")


class Delivery(ResponseModel):
    """An event for an endpoint, with the last attempt to send it."""

    id: int = Field(description="Number of the delivery. Events about one subject are sent in this order.")
    webhook_id: str = Field(description="The header webhook-id. It stays the same when the event is sent again.")
    event: str
    subject_id: UUID | None = Field(
        None, description="The job, run, batch, user or budget that the event is about. Null: a test."
    )
    url: str | None = Field(None, description="The `webhook_url` of the job. Null: the URL of the endpoint.")
    status: DeliveryStatus
    created_at: datetime
    attempts: int
    attempted_at: datetime | None = None
    next_attempt_at: datetime | None = Field(None, description="When it is tried again, if it waits.")
    ended_at: datetime | None = Field(None, description="When it was accepted or given up.")
    body: dict[str, Any] = Field(description="The JSON that is sent.")
    response_status: int | None = Field(None, description="Status of the last response. Null: there was none.")
    response_text: str | None = Field(None, description="The first 4 kB of the last response.")
    error: str | None = Field(None, description="Why the last attempt was not accepted.")
    milliseconds: int | None = Field(None, description="Duration of the last attempt.")


class ReplayRange(UserRequest):
    since: Moment = Field(description="Events that were written at this time or later.")
    until: Moment | None = Field(None, description="And before this time. Default: now.")
    only_failed: Switch = Field(False, description="Only events that were given up.")


class Replayed(ResponseModel):
    deliveries: int = Field(description="Number of events that are sent again, in their order per subject.")
    has_more: bool = Field(description="True: the range has more events. Repeat the request with the next one.")
    next_since: datetime | None = Field(None, description="`since` of the next request.")
