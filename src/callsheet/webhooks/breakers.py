"""Whether a provider is called: closed, it is; open, it is not; half open, by one call alone.

The database decides, so that any number of control planes agree. What is kept in memory only saves questions: it keeps
polls from leasing jobs that would go straight back. `breaker_rules` decides when a breaker opens, and for which
tenants.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

import asyncpg

from callsheet.jobs.provider_gate import Pause, ProviderPaused
from callsheet.plumbing.databases import Databases
from callsheet.plumbing.notify import Notify
from callsheet.plumbing.sql import Connection, statements
from callsheet.settings import WebhookSettings
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.loops import Loop
from callsheet.toolbox.redaction import redact_start
from callsheet.webhooks.breaker_rules import Breaker, Call, Limits, after_failure
from callsheet.webhooks.metrics import CallMetrics

SQL = statements("callsheet.webhooks", "breaker_statements.sql")
log = get_logger(__name__)

CHANNEL = "providers"
# A call of our own that is not back after this long is not waited for.
TRIAL_SECONDS = 60.0
# While another call tries the provider, its jobs are not leased for so long; the watch looks more often.
TRIED_SECONDS = 5.0
# A job of the tenant that a pause is for comes back after so long at the latest: the pause may have ended early.
LONGEST_DELAY_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class _Shut:
    # By the monotonic clock.
    until: float
    is_tried: bool
    # The only tenant it is for.
    tenant_id: UUID | None = None


class Breakers:
    def __init__(
        self,
        databases: Databases,
        settings: WebhookSettings,
        notify: Notify,
        metrics: CallMetrics,
        is_back: Callable[[str], None] = lambda provider: None,
    ):
        self._databases = databases
        self._limits = Limits(
            settings.breaker_failures, settings.breaker_pause_seconds, settings.breaker_longest_pause_seconds
        )
        self._notify = notify
        self._metrics = metrics
        # Called when a provider that was paused may be called again.
        self._is_back = is_back
        self._shut: dict[str, _Shut] = {}
        # Providers that may be called again; waiting workers are not notified yet.
        self._untold: set[str] = set()

    def is_shut(self, provider: str) -> bool:
        """For all tenants: none of its jobs need be leased."""
        shut = self._shut.get(provider)
        return shut is not None and shut.tenant_id is None and shut.until > time.monotonic()

    @property
    def any_shut(self) -> bool:
        return bool(self._shut)

    def pause_of(self, provider: str, tenant_id: UUID) -> Pause | None:
        shut = self._shut.get(provider)
        if shut is None or shut.tenant_id not in (None, tenant_id):
            return None
        left = shut.until - time.monotonic()
        return Pause(None if shut.is_tried or left <= 0 else datetime.now(UTC) + timedelta(seconds=left))

    async def admit(self, connection: Connection, call: Call) -> None:
        """In a transaction, before the call is made. Raises ProviderPaused."""
        paused = await self._paused_seconds(connection, call)
        if paused is None:
            return
        if paused > 0:
            raise await self._refused(connection, call, paused, is_tried=False)
        await SQL["lock_breaker"].run(connection, provider=call.provider)
        if await self._take_trial(connection, call):
            log.info("provider.tried", provider=call.provider, dispatch_id=call.dispatch_id)
            return
        # Closed meanwhile, or tried by another call.
        if await self._paused_seconds(connection, call) is None:
            return
        raise await self._refused(connection, call, TRIED_SECONDS, is_tried=True)

    @staticmethod
    async def _paused_seconds(connection: Connection, call: Call) -> float | None:
        seconds: float | None = await SQL["gate"].value(connection, provider=call.provider, tenant_id=call.tenant_id)
        return seconds

    async def _refused(self, connection: Connection, call: Call, seconds: float, *, is_tried: bool) -> ProviderPaused:
        self._metrics.call(call.provider, "paused")
        only_for = await SQL["shut_for"].value(connection, provider=call.provider)
        self._shut_for(call.provider, seconds, is_tried=is_tried, tenant_id=only_for)
        # The jobs of one tenant are leased among those of others: this one must not come first again at once.
        return ProviderPaused(call.provider, 0.0 if only_for is None else min(seconds, LONGEST_DELAY_SECONDS))

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
        """The same for a call of our own."""
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
            await SQL["open_breaker"].run(connection, provider=call.provider)
            row = await SQL["hold_breaker"].row(connection, provider=call.provider)
            assert row is not None, "it was just written"
            after, begins = after_failure(_breaker(row), call, self._limits, several_tenants=row["several_tenants"])
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
        """What the database says about them now."""
        rows = {row["provider"]: row for row in await self.read(providers)}
        for provider in providers:
            self._see(provider, rows.get(provider))
            # Once: woken each second, they would ask the queue each second.
            if provider in self._untold and not self.is_shut(provider):
                self._untold.discard(provider)
                self._is_back(provider)

    def _see(self, provider: str, row: asyncpg.Record | None) -> None:
        if row is None or row["open_until"] is None:
            self._shut.pop(provider, None)
            return
        seconds = TRIED_SECONDS if row["is_tried"] else row["paused_seconds"]
        self._shut_for(provider, seconds, is_tried=row["is_tried"], tenant_id=row["shut_for"])

    def _shut_for(self, provider: str, seconds: float, *, is_tried: bool, tenant_id: UUID | None) -> None:
        self._shut[provider] = _Shut(time.monotonic() + seconds, is_tried, tenant_id)
        # Where one tenant alone waits, workers go on, and its jobs come back when their delay is over.
        if seconds > 0 and tenant_id is None:
            self._untold.add(provider)

    async def read(self, providers: Collection[str]) -> list[asyncpg.Record]:
        async with self._databases.central.connection() as connection:
            return await SQL["read_breakers"].rows(connection, providers=list(providers))

    async def reset(self, connection: Connection, provider: str) -> None:
        """In the caller's transaction; `told_of_reset` follows the commit."""
        await SQL["reset_breaker"].run(connection, provider=provider)

    async def told_of_reset(self, provider: str) -> None:
        self._notify(CHANNEL, provider)
        await self.refresh([provider])


def _breaker(row: asyncpg.Record) -> Breaker:
    is_tried = row["trial_dispatch_id"] is not None
    return Breaker(
        failures=row["failures"],
        dispatches=tuple(row["dispatches"]),
        tenants=tuple(row["tenants"]),
        pause_seconds=row["pause_seconds"],
        trial=(row["trial_dispatch_id"], row["trial_lease_seq"]) if is_tried else None,
        shut_for=row["shut_for"],
    )


class ProviderWatch(Loop):
    """Learns which providers are paused, and when one may be called again notifies the workers that wait for its
    jobs."""

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
        """Another process has seen one open or close."""
        self.wake()
