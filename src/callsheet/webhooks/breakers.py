"""Circuit breakers of providers. Closed: calls are made. Open: no calls. Half open: one call tests the provider.

The database decides, so that any number of control planes agree. The state in memory only saves queries: polls do not
lease jobs that would be requeued at once. `breaker_rules` decides when a breaker opens, and for which tenants.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from callsheet.jobs.lease.provider_gate import Pause, ProviderPaused
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.notify import Notify
from callsheet.plumbing.database.sql import Connection, statements
from callsheet.settings import WebhookSettings
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.loops import Loop
from callsheet.toolbox.redaction.redaction import redact_start
from callsheet.webhooks.breaker_rules import Breaker, BreakerLimits, Call, after_failure
from callsheet.webhooks.metrics import CallMetrics

SQL = statements("callsheet.webhooks", "breaker_statements.sql")
log = get_logger(__name__)

CHANNEL = "providers"
# After this time a call of the control plane itself no longer counts as the test of a provider.
TRIAL_SECONDS = 60.0
# While another call tests the provider, its jobs are not leased for this time. The watch reads the state more often.
TRIED_SECONDS = 5.0
# The longest delay of a job whose tenant is paused: the pause may end early.
MAX_DELAY_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class _KnownPause:
    # Time of the monotonic clock.
    until: float
    is_tried: bool
    # The only tenant that the pause applies to.
    tenant_id: UUID | None = None


class LockedBreaker(NamedTuple):
    failures: int
    dispatches: Sequence[int]
    tenants: Sequence[UUID]
    pause_seconds: float | None
    trial_dispatch_id: int | None
    trial_lease_seq: int | None
    shut_for: UUID | None
    several_tenants: bool

    def breaker(self) -> Breaker:
        trial = (self.trial_dispatch_id, self.trial_lease_seq)
        return Breaker(
            failures=self.failures,
            dispatches=tuple(self.dispatches),
            tenants=tuple(self.tenants),
            pause_seconds=self.pause_seconds,
            trial=None if trial[0] is None or trial[1] is None else (trial[0], trial[1]),
            shut_for=self.shut_for,
        )


class BreakerState(NamedTuple):
    provider: str
    failures: int
    dispatches: Sequence[int]
    tenants: Sequence[UUID]
    pause_seconds: float | None
    open_until: datetime | None
    shut_for: UUID | None
    last_error: str | None
    last_error_at: datetime | None
    # Rest of the pause, 0 if it is over or if there is none.
    paused_seconds: float
    # A call tests the provider now.
    is_tried: bool


class Breakers:
    def __init__(
        self,
        databases: Databases,
        settings: WebhookSettings,
        notify: Notify,
        metrics: CallMetrics,
        is_back: Callable[[str], None],
    ):
        self._databases = databases
        self._limits = BreakerLimits(
            settings.breaker_failures, settings.breaker_pause_seconds, settings.breaker_max_pause_seconds
        )
        self._notify = notify
        self._metrics = metrics
        # Called when a provider that was paused may be called again.
        self._is_back = is_back
        self._pauses: dict[str, _KnownPause] = {}
        # Paused providers whose return is not yet announced to the waiting workers.
        self._unannounced: set[str] = set()

    def is_shut(self, provider: str) -> bool:
        """Whether the provider is paused for all tenants, so that none of its jobs needs to be leased."""
        pause = self._pauses.get(provider)
        return pause is not None and pause.tenant_id is None and pause.until > time.monotonic()

    @property
    def any_shut(self) -> bool:
        return bool(self._pauses)

    def pause_of(self, provider: str, tenant_id: UUID) -> Pause | None:
        pause = self._pauses.get(provider)
        if pause is None or pause.tenant_id not in (None, tenant_id):
            return None
        left = pause.until - time.monotonic()
        return Pause(None if pause.is_tried or left <= 0 else datetime.now(UTC) + timedelta(seconds=left))

    async def admit(self, connection: Connection, call: Call) -> None:
        """Run in the transaction that records the call, before the call is made. Raises ProviderPaused."""
        paused = await self._paused_seconds(connection, call)
        if paused is None:
            return
        if paused > 0:
            raise await self._refused(connection, call, paused, is_tried=False)
        await SQL["lock_breaker"].run(connection, provider=call.provider)
        if await self._take_trial(connection, call):
            log.info("provider.tried", provider=call.provider, dispatch_id=call.dispatch_id)
            return
        # The breaker was closed meanwhile, or another call tests the provider.
        if await self._paused_seconds(connection, call) is None:
            return
        raise await self._refused(connection, call, TRIED_SECONDS, is_tried=True)

    @staticmethod
    async def _paused_seconds(connection: Connection, call: Call) -> float | None:
        seconds: float | None = await SQL["paused_seconds"].value(
            connection, provider=call.provider, tenant_id=call.tenant_id
        )
        return seconds

    async def _refused(self, connection: Connection, call: Call, seconds: float, *, is_tried: bool) -> ProviderPaused:
        self._metrics.call(call.provider, "paused")
        only_for = await SQL["paused_tenant"].value(connection, provider=call.provider)
        self._pause(call.provider, seconds, is_tried=is_tried, tenant_id=only_for)
        # Jobs of other tenants are still leased. The delay keeps this job from being the next one again at once.
        return ProviderPaused(call.provider, 0.0 if only_for is None else min(seconds, MAX_DELAY_SECONDS))

    @staticmethod
    async def _take_trial(connection: Connection, call: Call) -> bool:
        taken = await SQL["take_trial"].value(
            connection,
            provider=call.provider,
            dispatch_id=call.dispatch_id,
            lease_seq=call.lease_seq,
            trial_seconds=TRIAL_SECONDS,
        )
        return taken is not None

    async def permit(self, call: Call) -> None:
        """Like `admit`, for a call that the control plane itself makes."""
        async with self._databases.central.transaction() as connection:
            await self.admit(connection, call)

    async def succeeded(self, call: Call) -> None:
        self._metrics.call(call.provider, "answered")
        async with self._databases.central.connection() as connection:
            was_failing = await SQL["count_success"].value(
                connection, provider=call.provider, dispatch_id=call.dispatch_id, lease_seq=call.lease_seq
            )
        if was_failing is not None:
            self._notify(CHANNEL, call.provider)
            await self.refresh([call.provider])

    async def failed(self, call: Call, error: str) -> None:
        self._metrics.call(call.provider, "failed")
        async with self._databases.central.transaction() as connection:
            await SQL["create_breaker"].run(connection, provider=call.provider)
            locked = await SQL["lock_breaker_state"].row(connection, LockedBreaker, provider=call.provider)
            assert locked is not None, "create_breaker wrote it"
            after, begins = after_failure(locked.breaker(), call, self._limits, several_tenants=locked.several_tenants)
            await SQL["count_failure"].run(
                connection,
                provider=call.provider,
                failures=after.failures,
                dispatches=list(after.dispatches),
                tenants=list(after.tenants),
                pause_seconds=after.pause_seconds,
                shut_for=after.shut_for,
                begins=begins,
                error=redact_start(error, 500),
            )
        log.warning(
            "provider.failed",
            provider=call.provider,
            failures=after.failures,
            tenant_id=str(call.tenant_id),
            error=error[:500],
        )
        if after.is_open:
            self._notify(CHANNEL, call.provider)
            await self.refresh([call.provider])

    async def refresh(self, providers: Collection[str]) -> None:
        """Reads the state of the breakers from the database."""
        states = {state.provider: state for state in await self.read(providers)}
        for provider in providers:
            self._remember(provider, states.get(provider))
            # Announced once. Workers that are woken every second would query the queue every second.
            if provider in self._unannounced and not self.is_shut(provider):
                self._unannounced.discard(provider)
                self._is_back(provider)

    def _remember(self, provider: str, state: BreakerState | None) -> None:
        if state is None or state.open_until is None:
            self._pauses.pop(provider, None)
            return
        seconds = TRIED_SECONDS if state.is_tried else state.paused_seconds
        self._pause(provider, seconds, is_tried=state.is_tried, tenant_id=state.shut_for)

    def _pause(self, provider: str, seconds: float, *, is_tried: bool, tenant_id: UUID | None) -> None:
        self._pauses[provider] = _KnownPause(time.monotonic() + seconds, is_tried, tenant_id)
        # During the pause of one tenant workers still get jobs of the provider; the tenant's jobs have a delay.
        if seconds > 0 and tenant_id is None:
            self._unannounced.add(provider)

    async def read(self, providers: Collection[str]) -> list[BreakerState]:
        async with self._databases.central.connection() as connection:
            return await SQL["read_breakers"].rows(connection, BreakerState, providers=list(providers))

    async def reset(self, connection: Connection, provider: str) -> None:
        """Closes the breaker in the caller's transaction. Call `announce_reset` after the commit."""
        await SQL["reset_breaker"].run(connection, provider=provider)

    async def announce_reset(self, provider: str) -> None:
        self._notify(CHANNEL, provider)
        await self.refresh([provider])


class ProviderWatch(Loop):
    """Reads which providers are paused. When a pause ends, it wakes the workers that wait for jobs of the provider."""

    name = "provider_watch"
    interval_seconds = 1.0

    def __init__(self, breakers: Breakers, providers: Collection[str]):
        super().__init__()
        self._breakers = breakers
        self._providers = providers

    async def tick(self, now: datetime) -> None:
        if self._providers:
            await self._breakers.refresh(self._providers)

    def received(self, payload: str | None) -> None:
        """Notification of another process: a breaker was opened or closed."""
        self.wake()
