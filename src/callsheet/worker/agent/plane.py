"""The requests of a worker to a control plane: over HTTP from another machine, or within the same process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol
from uuid import UUID

from callsheet.wire.worker.protocol import MAX_ACTIVE_LEASES, HeartbeatResponse, PollRequest, PollResponse


class Unreachable(Exception):
    """There was no response, or the response says to retry later. Every request of the protocol may be repeated."""

    def __init__(self, reason: str, retry_after: float | None = None):
        super().__init__(reason)
        self.retry_after = retry_after


class RefusedRequest(Exception):
    """An error response that a retry does not change."""

    def __init__(self, status: int, code: str, detail: str):
        super().__init__(f"{status} {code}: {detail}")
        self.status = status
        self.code = code
        self.detail = detail


class Plane(Protocol):
    """Every request raises Unreachable or Refused if it does not succeed."""

    @property
    def is_registered(self) -> bool: ...

    async def enter(self) -> None: ...

    async def poll(self, request: PollRequest) -> PollResponse: ...

    async def heartbeat(self, request: dict[str, Any]) -> HeartbeatResponse: ...

    async def report(self, kind: str, body: dict[str, Any]) -> str:
        """Sends one report; returns the job's new status."""
        ...

    async def leave(self, reason: str) -> None: ...

    def pause(self, failures: int, error: Exception | None = None) -> float:
        """Seconds to wait after this many failures in a row."""
        ...


def named_leases(tokens: Sequence[UUID]) -> list[UUID] | None:
    """The leases that polls and heartbeats name: all or none. A lease that is missing goes back to the queue."""
    return list(tokens) if len(tokens) <= MAX_ACTIVE_LEASES else None
