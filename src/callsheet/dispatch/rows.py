"""The rows of the queue's statements that are used only in this room."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from callsheet.dispatch.facts import EndStatus, Lane, Lease


class LaneHead(NamedTuple):
    """A dispatch and its lane."""

    lane: Lane
    dispatch_id: int


class EnqueuedRow(NamedTuple):
    """A new dispatch. If none was created, there is one row, and only `without_lane` has a value."""

    lane: Lane | None
    dispatch_id: int | None
    # The number of entries whose lane does not exist.
    without_lane: int


class RouteRow(NamedTuple):
    workflow_id: int
    stage: str
    provider: str


class MovedRow(NamedTuple):
    """A queued dispatch in the lane of its new priority."""

    lane: Lane
    dispatch_id: int
    tenant_id: UUID
    job_id: UUID
    charge_cycle: int
    not_before: datetime | None
    old_priority: int


class TakenRow(NamedTuple):
    """A lease with its lane, poller and user queue. If no job was leased, there is one row with nulls in these
    columns. Only one row has values in `found_queues`, `found_counts` and `found_next`.
    """

    lease: Lease | None
    lane_id: int
    # Counted from 1.
    poller: int
    user_queue: int
    # The number of pollers that are not drained.
    pollers: int
    found_queues: list[int] | None
    found_counts: list[int] | None
    found_next: list[int | None] | None


class NewLeaseRow(NamedTuple):
    """A dispatch that was leased when it was created. If none was created, only `without_lane` has a value."""

    lease: Lease | None
    lane_id: int
    without_lane: int


class EndedDispatch(NamedTuple):
    """An open dispatch of a job that has ended."""

    dispatch_id: int
    status: str
    job_status: EndStatus


class BoundUse(NamedTuple):
    """How many jobs of a bound are in flight. `max_concurrent` is the limit of an identifier."""

    identifier: str | None
    tenant_id: UUID | None
    user_id: UUID | None
    max_concurrent: int | None
    in_use: int


class TenantTerms(NamedTuple):
    """The terms that an operator set for a tenant."""

    tenant_id: UUID
    weight: float
    max_running: int | None
    max_running_per_user: int | None
