"""Callbacks of providers: accepted only with the provider's signature, recorded, and acknowledged at once.

All refusals have the same response. The reason is in the log and in the row of the call.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import NamedTuple
from uuid import UUID

from callsheet.dispatch.facts import JobCycle
from callsheet.jobs.lease.progress import JobProgressWriter, ProgressReport
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.errors import DATABASE_AWAY
from callsheet.plumbing.database.sql import statements
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.providers.errors import ProviderError
from callsheet.providers.media import CallbackRefused, Prediction, WebhookProvider
from callsheet.toolbox.clock import Clock
from callsheet.toolbox.logs import get_logger
from callsheet.webhooks.callback_urls import CallbackUrls, hash_of
from callsheet.webhooks.metrics import CallbackOutcome, CallMetrics
from callsheet.webhooks.worklist import Work, as_row
from callsheet.wire.errors import NotFound, Unavailable

SQL = statements("callsheet.webhooks")
log = get_logger(__name__)
MAX_REASON_LENGTH = 300
# Enough characters to distinguish callbacks in a log, and too few to send one.
SHOWN_OF_ID = 6


class FoundCallRow(NamedTuple):
    call_id: int
    tenant_id: UUID
    job_id: UUID
    charge_cycle: int
    lease_seq: int
    work: Work | None
    callback_hash: bytes
    provider_job_id: str | None

    @property
    def cycle(self) -> JobCycle:
        return JobCycle(self.tenant_id, self.job_id, self.charge_cycle)


class CallbackRow(NamedTuple):
    # Whether this callback ended the call, and how often it was delivered.
    is_taken: bool
    deliveries: int


class Callbacks:
    def __init__(
        self,
        databases: Databases,
        providers: Mapping[str, WebhookProvider],
        urls: CallbackUrls,
        progress: JobProgressWriter,
        metrics: CallMetrics,
        clock: Clock,
        arrived: Callable[[], None],
    ):
        """`arrived`: called when outputs can be downloaded."""
        self._databases = databases
        self._providers = providers
        self._urls = urls
        self._progress = progress
        self._metrics = metrics
        self._clock = clock
        self._arrived = arrived

    async def receive(self, provider: str, callback_id: str, headers: Mapping[str, str], body: bytes) -> None:
        """Returns after the callback is recorded. Raises NotFound if the callback is not accepted."""
        shown = f"{callback_id[:SHOWN_OF_ID]}…"
        call = await self.expect(provider, callback_id)
        found = self._providers[provider]
        try:
            prediction = await found.read_callback(headers, body, self._clock.now().timestamp())
            self._check(call, provider, prediction)
        except CallbackRefused as why:
            await self._record_refusal(call.call_id, str(why))
            raise self._refused(provider, shown, str(why), job_id=str(call.job_id)) from why
        except ProviderError as error:
            # The signature cannot be checked now. The provider sends the callback again.
            log.warning("webhook.postponed", provider=provider, callback=shown, reason=str(error))
            raise Unavailable("The callback cannot be verified now.") from error
        if prediction.status == "running":
            self._metrics.callback(provider, "progress")
            await self._record_progress(call, prediction)
            return
        await self._take(call, provider, prediction, delivery_of(headers, body))

    async def expect(self, provider: str, callback_id: str) -> FoundCallRow:
        """The call that a callback belongs to. Raises NotFound if there is none."""
        shown = f"{callback_id[:SHOWN_OF_ID]}…"
        callback_hash = hash_of(callback_id)
        if provider not in self._providers or callback_hash is None:
            raise self._refused(provider, shown, "no such provider, or no id of ours")
        async with self._databases.central.connection() as connection:
            call = await SQL["find_call"].row(connection, FoundCallRow, callback_hash=callback_hash, provider=provider)
        if call is None:
            raise self._refused(provider, shown, "the id is not known")
        return call

    def _check(self, call: FoundCallRow, provider: str, prediction: Prediction) -> None:
        if call.provider_job_id not in (None, prediction.id):
            raise CallbackRefused("it is about another prediction")
        own = self._urls.url_of(provider, call.cycle, call.callback_hash)
        if prediction.callback_url not in (None, own):
            raise CallbackRefused("it is about a prediction that calls back elsewhere")

    async def _take(self, call: FoundCallRow, provider: str, prediction: Prediction, delivery: str) -> None:
        async with self._databases.central.connection() as connection:
            row = await SQL["take_prediction"].row(
                connection,
                CallbackRow,
                call_id=call.call_id,
                prediction=as_row(prediction),
                delivery_id=delivery,
                status=prediction.status,
            )
        assert row is not None
        await hit(Failpoint.WEBHOOK_CALLBACK_BEFORE_RESPONSE)
        outcome: CallbackOutcome = "taken" if row.is_taken else "duplicate" if row.deliveries > 1 else "late"
        self._metrics.callback(provider, outcome)
        log.info(
            "webhook.received",
            provider=provider,
            job_id=str(call.job_id),
            charge_cycle=call.charge_cycle,
            status=prediction.status,
            outcome=outcome,
        )
        if row.is_taken:
            self._arrived()

    async def _record_progress(self, call: FoundCallRow, prediction: Prediction) -> None:
        # Progress that arrives after the final prediction was sent before it.
        if call.work != "follow" or prediction.percent is None:
            return
        report = ProgressReport(percent=prediction.percent)
        try:
            await self._progress.record(call.cycle, call.lease_seq, report)
        except DATABASE_AWAY as error:  # the next progress comes soon, and this one is not sent again
            log.warning("progress.lost", job_id=str(call.job_id), error=repr(error))

    async def _record_refusal(self, call_id: int, reason: str) -> None:
        async with self._databases.central.connection() as connection:
            await SQL["record_refusal"].run(connection, call_id=call_id, reason=reason[:MAX_REASON_LENGTH])

    def _refused(self, provider: str, shown: str, reason: str, **known: str) -> NotFound:
        self._metrics.callback(provider if provider in self._providers else "unknown", "refused")
        log.warning(
            "webhook.refused", provider=provider[:64], callback=shown, reason=reason[:MAX_REASON_LENGTH], **known
        )
        return NotFound()


def delivery_of(headers: Mapping[str, str], body: bytes) -> str:
    """The id of a delivery, which is the same if the delivery is repeated. Without an id, the hash of the body."""
    given = headers.get("webhook-id", "")[:200].replace("\0", "")
    return given or hashlib.sha256(body).hexdigest()
