"""What jobs and fleet ask before a provider is called, and tell afterwards. Who answers stands above them.

A provider that failed too often in a row is paused, for all tenants or for the one whose jobs failed: the jobs stay in
the queue. One that calls back is told where.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol
from uuid import UUID

from callsheet.dispatch.facts import Criteria, Lease
from callsheet.jobs.reports import Settled
from callsheet.wire.worker import CallbackAddress

PAUSED = "its provider is paused"


class ProviderPaused(Exception):
    """The provider is not called now: the lease goes back to the queue for `delay_seconds`, and no attempt counts."""

    def __init__(self, provider: str, delay_seconds: float = 0.0):
        super().__init__(provider)
        self.delay_seconds = delay_seconds


@dataclass(frozen=True, slots=True)
class Pause:
    """`until`: when it is tried again; None while a single job tries it."""

    until: datetime | None


@dataclass(frozen=True, slots=True)
class CallReport:
    """What a worker said about the call it was handed."""

    happened: Literal["deferred", "completed", "failed"]
    settled: Settled
    error_type: str | None = None
    error: str | None = None


class ProviderGate(Protocol):
    def narrowed(self, criteria: Criteria) -> Criteria:
        """Without the providers that are paused, as far as this process knows. Asked at every attempt to lease."""
        ...

    def pause_of(self, provider: str, tenant_id: UUID) -> Pause | None: ...

    def concerns(self, provider: str) -> bool:
        """Whether its calls are counted at all. Engines beside workers are not: nothing is asked for their jobs."""
        ...

    async def admit(self, lease: Lease) -> CallbackAddress | None:
        """Before the job is handed over: records the call, and answers where the provider shall call back, if it does.

        Raises ProviderPaused.
        """
        ...

    async def told(self, report: CallReport) -> None: ...

    async def strayed(self, dispatch_id: int, provider_job_id: str) -> None:
        """Submitted by a worker whose lease was over when it said so."""
        ...


class EveryProvider:
    """The gate of an installation that calls none."""

    def narrowed(self, criteria: Criteria) -> Criteria:
        return criteria

    def pause_of(self, provider: str, tenant_id: UUID) -> Pause | None:
        return None

    def concerns(self, provider: str) -> bool:
        return False

    async def admit(self, lease: Lease) -> CallbackAddress | None:
        return None

    async def told(self, report: CallReport) -> None:
        return

    async def strayed(self, dispatch_id: int, provider_job_id: str) -> None:
        return
