"""Everything that happened to one job, with durations, as operators see it."""

from __future__ import annotations

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import Field

from callsheet.wire.base import ResponseModel
from callsheet.wire.jobs import JobEvent, JobProgress, JobStatus, WhyWaiting
from callsheet.wire.money.wallet import Transaction

SpanKind = Literal["accepted", "queued", "attempt", "phase", "node", "provider", "callback", "ended"]


class OperatorEvent(JobEvent):
    """One line of a job's history, with the user and the request that caused it."""

    actor_email: str | None = Field(
        None, description="E-mail address of the user who acted. Null if the actor is not a user, or was deleted."
    )
    request_id: str | None = Field(
        None,
        description="Id of the HTTP request that caused the event. The lines of this request in the log have the same "
        "id. Only for operators. Null if a background loop caused the event.",
    )


class Span(ResponseModel):
    """A part of a job's life. `accepted`: it has no queue entry yet. `queued`: it waits for a worker. `attempt`: a
    worker holds its lease. `phase` and `node`: parts of an attempt, as its worker measured them. `provider`: a provider
    that calls back has it. `callback`: a callback arrived. `ended`: the job ended."""

    id: str = Field(description="Unique in this response.")
    parent_id: str | None = Field(None, description="The span that this one is a part of.")
    kind: SpanKind
    name: str = Field(
        description="Name of the phase, id of the node, name of the provider, or the status that the span ended with."
    )
    started_at: datetime
    ended_at: datetime | None = Field(None, description="Null while it goes on.")
    duration_ms: int = Field(description="Duration so far, if it goes on.")
    charge_cycle: int
    attempt: int | None = Field(None, description="Number of the attempt. 1 is the first of the job.")
    worker_id: str | None = None
    request_id: str | None = Field(
        None, description="Id of the HTTP request that started the span: see `events`. Only for operators."
    )
    outcome: str | None = Field(None, description="Status of the job after the span, or of a callback.")
    reason: str | None = None
    cached: bool = Field(
        False, description="For a node: whether the engine had its outputs in the cache and did not run it."
    )
    deliveries: int | None = Field(None, description="For a callback: how often the provider delivered it.")


class Waterfall(ResponseModel):
    """Spans in the order in which they started; the parts of a span follow it."""

    job_id: UUID
    tenant_id: UUID
    status: JobStatus
    charge_cycle: int
    started_at: datetime = Field(description="When the job was accepted.")
    ended_at: datetime | None = Field(None, description="Null while the job is active.")
    now: datetime = Field(description="The control plane's clock.")
    progress: JobProgress | None = Field(None, description="Progress of a running job.")
    why_waiting: WhyWaiting | None = Field(None, description="Why an active job is not running.")
    spans: list[Span]
    nodes_left_out: int = Field(0, description="Executions of nodes beyond what a worker reports.")
    events: list[OperatorEvent] = Field(description="The job's history. Of a very long one only the newest events.")
    transactions: list[Transaction] = Field(
        description="The transactions of the job in the wallet of its user, oldest first."
    )
