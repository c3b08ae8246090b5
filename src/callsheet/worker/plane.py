"""What whoever runs jobs asks of a control plane: over HTTP from another machine, or within the same process."""

from __future__ import annotations

from typing import Any, Protocol

from callsheet.wire.worker import HeartbeatAnswer, PollAnswer, PollRequest


class Unreachable(Exception):
    """No answer, or one that says to come back later. Everything of the protocol may be repeated."""

    def __init__(self, reason: str, retry_after: float | None = None):
        super().__init__(reason)
        self.retry_after = retry_after


class Refused(Exception):
    """An answer that stays the same however often it is asked for."""

    def __init__(self, status: int, code: str, detail: str):
        super().__init__(f"{status} {code}: {detail}")
        self.status = status
        self.code = code
        self.detail = detail


class Plane(Protocol):
    """Every request raises Unreachable or Refused where it is not answered as wished."""

    @property
    def is_registered(self) -> bool: ...

    async def enter(self) -> None: ...

    async def poll(self, request: PollRequest) -> PollAnswer: ...

    async def heartbeat(self, request: dict[str, Any]) -> HeartbeatAnswer: ...

    async def report(self, kind: str, body: dict[str, Any]) -> str:
        """Sends one report; answers what its job's status is now."""
        ...

    async def leave(self, reason: str) -> None: ...

    def pause(self, failures: int, error: Exception | None = None) -> float:
        """How long to wait after so many failures in a row, in seconds."""
        ...
