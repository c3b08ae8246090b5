"""The interface that jobs and fleet call before and after a provider is called. A higher room implements it.

A provider that failed too often in a row is paused, either for all tenants or for the tenant whose jobs failed. Its
jobs stay in the queue. A provider that calls back gets a callback URL.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol
from uuid import UUID

from callsheet.dispatch.facts import Criteria, Lease
from callsheet.jobs.lease.outcomes import Settlement
from callsheet.wire.worker.protocol import CallbackAddress

PAUSED = "The provider is paused."


class ProviderPaused(Exception):
    """The provider is paused. The job goes back to the queue for `delay_seconds`, and the attempt does not count."""

    def __init__(self, provider: str, delay_seconds: float = 0.0):
        super().__init__(provider)
        self.delay_seconds = delay_seconds


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause of a provider. `until`: when the provider is tried again; None while a single job tests the provider."""

    until: datetime | None


@dataclass(frozen=True, slots=True)
class CallReport:
    """A worker's report about its call of the provider."""

    happened: Literal["deferred", "completed", "failed"]
    settled: Settlement
    error_type: str | None = None
    error: str | None = None


class ProviderGate(Protocol):
    def narrowed(self, criteria: Criteria) -> Criteria:
        """The criteria without providers that this process knows as paused. Called at every attempt to lease."""
        ...

    def pause_of(self, provider: str, tenant_id: UUID) -> Pause | None: ...

    def concerns(self, provider: str) -> bool:
        """Whether calls of the provider are counted. Calls of engines beside workers are not counted, and `admit` is
        not called for them.
        """
        ...

    async def admit(self, lease: Lease) -> CallbackAddress | None:
        """Records the call before the worker gets the job. Returns the callback URL if the provider calls back.
        Raises ProviderPaused.
        """
        ...

    async def record(self, report: CallReport) -> None:
        """Records the outcome of a call."""
        ...

    async def record_stray(self, dispatch_id: int, provider_job_id: str) -> None:
        """Records a provider job that a worker reported after its lease had ended."""
        ...
