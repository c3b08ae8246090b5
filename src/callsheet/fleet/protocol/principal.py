"""The worker that sent a request. It is found once per request and passed on as a value.

These are named tuples, because each poll creates several, and a frozen dataclass takes seven times as long to create.
"""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID


class LeaseOfWorker(NamedTuple):
    """A lease that the worker holds according to the queue."""

    dispatch_id: int
    lease_token: UUID
    poll_id: str | None
    leased_seconds_ago: float
    # Whether the worker ever sent a heartbeat for the lease.
    heartbeated: bool
    # Time until the lease expires, unless a heartbeat extends it.
    left_seconds: float


class WorkerPrincipal(NamedTuple):
    worker_id: str
    session_id: int
    stage: str
    providers: tuple[str, ...]
    # Jobs that the worker runs at once, according to its last poll.
    max_concurrency: int
    is_approved: bool
    is_draining: bool
    # The token that replaces the token of the request; every response carries it until the worker uses it.
    rotated_token: str | None = None
    # Only for polls: active workflows of the worker or its active fleet, in ascending order; and the worker's leases.
    workflow_ids: tuple[int, ...] = ()
    held: tuple[LeaseOfWorker, ...] = ()
    # Whether the registration named providers.
    names_providers: bool = True
    # The registered value, which is the upper limit; None: the same as max_concurrency.
    registered_concurrency: int | None = None

    @property
    def actor(self) -> str:
        return f"worker:{self.worker_id}"
