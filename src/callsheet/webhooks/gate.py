"""The hand-over of a call, and what came of it: the intent is written before anybody can make the call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from uuid import UUID

from callsheet.dispatch.facts import Criteria, Lease
from callsheet.jobs.provider_gate import CallReport, Pause
from callsheet.plumbing.databases import Databases
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.plumbing.sql import statements
from callsheet.providers.errors import ProviderUnavailable
from callsheet.providers.media import Finish
from callsheet.toolbox.logs import get_logger
from callsheet.webhooks.addresses import CallbackAddresses, hash_of
from callsheet.webhooks.breaker_rules import Call
from callsheet.webhooks.breakers import Breakers
from callsheet.wire.worker import CallbackAddress

SQL = statements("callsheet.webhooks")
log = get_logger(__name__)


class CallGate:
    def __init__(
        self,
        databases: Databases,
        breakers: Breakers,
        addresses: CallbackAddresses,
        finishes: Mapping[str, Finish],
        first_look_seconds: float,
        deferred: Callable[[], None],
    ):
        """`finishes`: every provider that is called, and how it ends. `deferred`: called when a call waits for its
        callback."""
        self._databases = databases
        self._breakers = breakers
        self._addresses = addresses
        self._finishes = finishes
        self._first_look_seconds = first_look_seconds
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
            callback_id = self._addresses.id_of(lease.tenant_id, lease.job_id, lease.charge_cycle)
            intended = await SQL["intend"].row(
                connection,
                tenant_id=lease.tenant_id,
                job_id=lease.job_id,
                charge_cycle=lease.charge_cycle,
                dispatch_id=lease.dispatch_id,
                lease_seq=lease.lease_seq,
                provider=lease.provider,
                callback_hash=hash_of(callback_id),
                look_seconds=self._first_look_seconds,
            )
        await hit(Failpoint.WEBHOOK_INTENT_BEFORE_ANSWER)
        assert intended is not None
        url = self._addresses.url_of(
            lease.provider, lease.tenant_id, lease.job_id, lease.charge_cycle, intended["callback_hash"]
        )
        return CallbackAddress(url=url, may_exist=intended["hand_overs"] > 1)

    async def strayed(self, dispatch_id: int, provider_job_id: str) -> None:
        async with self._databases.central.connection() as connection:
            found = await SQL["add_stray"].run(connection, dispatch_id=dispatch_id, provider_job_id=provider_job_id)
        if found:
            log.warning("webhook.stray", dispatch_id=dispatch_id)
            self._deferred()

    async def record(self, report: CallReport) -> None:
        settled = report.settled
        call = Call(settled.provider, settled.tenant_id, settled.dispatch_id, settled.lease_seq)
        if report.happened == "failed":
            # Anything else went wrong on our side, or is the job's own fault: the provider may be well.
            if report.error_type == ProviderUnavailable.TYPE:
                await self._breakers.failed(call, report.error or "It did not answer.")
            return
        if report.happened == "deferred":
            await hit(Failpoint.WEBHOOK_DEFER_BEFORE_CALL)
            async with self._databases.central.connection() as connection:
                await SQL["deferred"].run(
                    connection, dispatch_id=settled.dispatch_id, look_seconds=self._first_look_seconds
                )
            self._deferred()
        await self._breakers.succeeded(call)
