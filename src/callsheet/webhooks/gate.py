"""Records a call before the worker gets the job, so that no call is unknown; and records the outcome of the call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple
from uuid import UUID

from callsheet.dispatch.facts import Criteria, Lease
from callsheet.jobs.lease.provider_gate import CallReport, Pause
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import statements
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.providers.errors import ProviderUnavailable
from callsheet.providers.media import Finish
from callsheet.toolbox.logs import get_logger
from callsheet.webhooks.breaker_rules import Call
from callsheet.webhooks.breakers import Breakers
from callsheet.webhooks.callback_urls import CallbackUrls, hash_of
from callsheet.wire.worker.protocol import CallbackAddress

SQL = statements("callsheet.webhooks")
log = get_logger(__name__)


class IntentRow(NamedTuple):
    # How often the job was handed to a worker.
    hand_overs: int
    callback_hash: bytes


class CallGate:
    def __init__(
        self,
        databases: Databases,
        breakers: Breakers,
        urls: CallbackUrls,
        finishes: Mapping[str, Finish],
        first_poll_seconds: float,
        deferred: Callable[[], None],
    ):
        """`finishes`: every provider that is called, and how its calls end. `deferred`: called when a call starts to
        wait for its callback."""
        self._databases = databases
        self._breakers = breakers
        self._urls = urls
        self._finishes = finishes
        self._first_poll_seconds = first_poll_seconds
        self._deferred = deferred

    def narrowed(self, criteria: Criteria) -> Criteria:
        if not self._breakers.any_shut:
            return criteria
        called = tuple(provider for provider in criteria.providers if not self._breakers.is_shut(provider))
        return criteria if len(called) == len(criteria.providers) else criteria._replace(providers=called)

    def pause_of(self, provider: str, tenant_id: UUID) -> Pause | None:
        return self._breakers.pause_of(provider, tenant_id)

    def concerns(self, provider: str) -> bool:
        return provider in self._finishes

    async def admit(self, lease: Lease) -> CallbackAddress | None:
        calls_back = self._finishes[lease.provider] is Finish.WEBHOOK
        async with self._databases.central.transaction() as connection:
            await self._breakers.admit(
                connection, Call(lease.provider, lease.tenant_id, lease.dispatch_id, lease.lease_seq)
            )
            if not calls_back:
                return None
            callback_id = self._urls.id_of(lease.cycle)
            intent = await SQL["record_intent"].row(
                connection,
                IntentRow,
                tenant_id=lease.tenant_id,
                job_id=lease.job_id,
                charge_cycle=lease.charge_cycle,
                dispatch_id=lease.dispatch_id,
                lease_seq=lease.lease_seq,
                provider=lease.provider,
                callback_hash=hash_of(callback_id),
                poll_seconds=self._first_poll_seconds,
            )
        await hit(Failpoint.WEBHOOK_INTENT_BEFORE_RESPONSE)
        assert intent is not None
        url = self._urls.url_of(lease.provider, lease.cycle, intent.callback_hash)
        return CallbackAddress(url=url, may_exist=intent.hand_overs > 1)

    async def record_stray(self, dispatch_id: int, provider_job_id: str) -> None:
        async with self._databases.central.connection() as connection:
            found = await SQL["add_stray"].run(connection, dispatch_id=dispatch_id, provider_job_id=provider_job_id)
        if found:
            log.warning("webhook.stray", dispatch_id=dispatch_id)
            self._deferred()

    async def record(self, report: CallReport) -> None:
        settled = report.settled
        call = Call(settled.provider, settled.tenant_id, settled.dispatch_id, settled.lease_seq)
        if report.happened == "failed":
            # Every other error has its cause in the job or in this installation, not in the provider.
            if report.error_type == ProviderUnavailable.TYPE:
                await self._breakers.failed(call, report.error or "The provider did not respond.")
            return
        if report.happened == "deferred":
            await hit(Failpoint.WEBHOOK_DEFER_BEFORE_CALL)
            async with self._databases.central.connection() as connection:
                await SQL["schedule_first_poll"].run(
                    connection, dispatch_id=settled.dispatch_id, poll_seconds=self._first_poll_seconds
                )
            self._deferred()
        await self._breakers.succeeded(call)
