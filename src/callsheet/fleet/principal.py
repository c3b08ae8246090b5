"""Which worker is asking: found once per request, passed on as a value."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID


@dataclass(frozen=True, slots=True)
class HeldLease:
    """A lease the worker holds as far as the queue knows."""

    dispatch_id: int
    lease_token: UUID
    poll_id: str | None
    leased_seconds_ago: float
    # Whether the worker ever said that it has it.
    heartbeated: bool
    # Until it runs out, unless a heartbeat comes.
    left_seconds: float


@dataclass(frozen=True, slots=True)
class WorkerPrincipal:
    worker_id: str
    session_id: int
    stage: str
    providers: tuple[str, ...]
    # Jobs it runs at once now, as its last poll said.
    max_concurrency: int
    is_approved: bool
    is_draining: bool
    # The token that takes the place of the one the request came with; every answer carries it until it is used.
    rotated_token: str | None = None
    # Only for polls: active workflows assigned to it or to its active fleet, in ascending order; and what it holds.
    workflow_ids: tuple[int, ...] = ()
    held: tuple[HeldLease, ...] = ()
    # Whether it named its providers when it registered.
    names_providers: bool = True
    # What it registered with, the most it may say; None: the same as now.
    registered_concurrency: int | None = None

    @property
    def actor(self) -> str:
        return f"worker:{self.worker_id}"
