"""Calls whose callback has not come: the provider is asked now and then; canceled jobs are canceled there too."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from random import Random
from typing import TypeVar

from callsheet.jobs.progress import Progress, ProgressReport
from callsheet.jobs.provider_gate import ProviderPaused
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.providers.errors import ProviderError, ProviderUnavailable
from callsheet.providers.media import Callback, Prediction, WebhookProvider
from callsheet.settings import WebhookSettings
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.retry import backoff_seconds
from callsheet.webhooks.addresses import CallbackAddresses
from callsheet.webhooks.breaker_rules import Call
from callsheet.webhooks.breakers import TRIAL_SECONDS, Breakers
from callsheet.webhooks.worklist import ClaimedCall, Worklist

log = get_logger(__name__)
RANDOM = Random()  # noqa: S311 - spreads load, guards nothing
Answer = TypeVar("Answer")

# Shorter than a breaker waits for a call of ours.
CALL_SECONDS = TRIAL_SECONDS / 2
PAUSED_SECONDS = 10.0
CANCEL_BASE_SECONDS = 5.0
CANCEL_CAP_SECONDS = 600.0
# An hour and more, all in all; whatever it makes after that is not fetched anyway.
MOST_CANCELS = 12


class Following:
    def __init__(
        self,
        worklist: Worklist,
        providers: Mapping[str, WebhookProvider],
        breakers: Breakers,
        addresses: CallbackAddresses,
        progress: Progress,
        settings: WebhookSettings,
    ):
        self._worklist = worklist
        self._providers = providers
        self._breakers = breakers
        self._addresses = addresses
        self._progress = progress
        self._settings = settings

    async def follow(self, call: ClaimedCall) -> None:
        if call.is_finished or call.status is None:
            await self._worklist.postpone(call, 0, work="cancel")
        elif call.status != "waiting" or call.provider_job_id is None:
            # A worker is about to submit it, or to report that it did.
            await self._worklist.postpone(call, self._settings.first_look_seconds)
        else:
            with suppress(ProviderPaused, ProviderUnavailable):  # the next look takes them along
                await self._cancel_strays(call)
            await self._look(call, call.provider_job_id)

    async def _look(self, call: ClaimedCall, provider_job_id: str) -> None:
        try:
            prediction = await self._asked(call, lambda: self._providers[call.provider].get(provider_job_id))
        except ProviderPaused:
            await self._worklist.postpone(call, PAUSED_SECONDS)
            return
        except ProviderError as error:
            # Lost for good or for a moment: it expires if it stays so.
            log.warning("webhook.look_failed", provider=call.provider, job_id=str(call.job_id), reason=str(error))
            await self._worklist.postpone(call, self._next_look(call), counted=True, error=str(error))
            return
        if prediction.status == "running":
            await self._say_progress(call, prediction)
            await self._worklist.postpone(call, self._next_look(call), counted=True)
            return
        log.info("webhook.callback_missed", provider=call.provider, job_id=str(call.job_id), status=prediction.status)
        await hit(Failpoint.WEBHOOK_LOOK_BEFORE_RECORD)
        await self._worklist.take(call, prediction)

    def _next_look(self, call: ClaimedCall) -> float:
        """Each time twice as long, with some luck in it: calls that were made together are not looked at together."""
        doubled = self._settings.first_look_seconds * 2.0 ** min(call.failures, 20)
        return min(doubled, self._settings.longest_look_seconds) * RANDOM.uniform(0.8, 1.2)

    async def _say_progress(self, call: ClaimedCall, prediction: Prediction) -> None:
        if prediction.percent is not None:
            report = ProgressReport(percent=prediction.percent)
            await self._progress.record(call.tenant_id, call.job_id, call.charge_cycle, call.lease_seq, report)

    async def cancel(self, call: ClaimedCall) -> None:
        """The job was canceled. What it makes nevertheless is not fetched, whatever comes of this."""
        try:
            await self._cancel_strays(call)
            if call.status == "completed":
                # By its worker itself without a callback, or long ago: only strays were left.
                await self._worklist.end(call)
                return
            provider_job_id = call.provider_job_id or await self._found(call)
            if provider_job_id is not None:
                await self._cancel(call, provider_job_id)
        except ProviderPaused:
            await self._worklist.postpone(call, PAUSED_SECONDS)
            return
        except ProviderUnavailable as error:
            await self._cancel_later(call, error)
            return
        except ProviderError as error:
            # It says no: the prediction has ended, or is not there.
            log.info("webhook.not_canceled", provider=call.provider, job_id=str(call.job_id), reason=str(error))
            await self._worklist.end(call, str(error))
            return
        await hit(Failpoint.WEBHOOK_CANCEL_BEFORE_END)
        log.info("webhook.canceled", provider=call.provider, job_id=str(call.job_id), known=provider_job_id is not None)
        await self._worklist.end(call)

    async def _cancel_stray(self, call: ClaimedCall, stray: str) -> None:
        """The worker that named it has no lease, so it is checked first: it might be another job's, or another
        tenant's."""
        prediction = await self._asked(call, lambda: self._providers[call.provider].get(stray))
        own = self._url_of(call)
        if prediction.callback_url not in (None, own):
            log.warning("webhook.stray_refused", provider=call.provider, job_id=str(call.job_id))
        elif prediction.status == "running":
            await self._cancel(call, stray)
            log.info("webhook.stray_canceled", provider=call.provider, job_id=str(call.job_id))

    async def _cancel(self, call: ClaimedCall, provider_job_id: str) -> None:
        await self._asked(call, lambda: self._providers[call.provider].cancel(provider_job_id))

    async def _cancel_strays(self, call: ClaimedCall) -> None:
        for stray in call.strays:
            if stray != call.provider_job_id:
                try:
                    await self._cancel_stray(call, stray)
                except ProviderUnavailable:
                    raise
                except ProviderError as error:
                    log.info("webhook.not_canceled", provider=call.provider, job_id=str(call.job_id), reason=str(error))
            await self._worklist.forget(call, [stray])

    async def _found(self, call: ClaimedCall) -> str | None:
        """Its worker may have submitted it and died before it could say so."""
        callback = Callback(self._url_of(call), may_exist=True)
        found = await self._asked(call, lambda: self._providers[call.provider].find(callback))
        return None if found is None else found.id

    def _url_of(self, call: ClaimedCall) -> str:
        return self._addresses.url_of(call.provider, call.tenant_id, call.job_id, call.charge_cycle, call.callback_hash)

    async def _cancel_later(self, call: ClaimedCall, error: ProviderUnavailable) -> None:
        if call.failures + 1 >= MOST_CANCELS:
            log.error("webhook.cancel_given_up", provider=call.provider, job_id=str(call.job_id), reason=str(error))
            await self._worklist.end(call, f"Not canceled: {error}")
            return
        delay = backoff_seconds(call.failures + 1, CANCEL_BASE_SECONDS, CANCEL_CAP_SECONDS, RANDOM)
        await self._worklist.postpone(call, delay, counted=True, error=str(error))

    async def _asked(self, call: ClaimedCall, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """Every call counts in the provider's breaker, and asks it first. Raises ProviderPaused."""
        own = Call(call.provider, call.tenant_id, call.dispatch_id)
        await self._breakers.permit(own)
        try:
            async with asyncio.timeout(CALL_SECONDS):
                answer = await ask()
        except TimeoutError:
            error = ProviderUnavailable(call.provider, f"{call.provider} did not answer in time.")
            await self._breakers.failed(own, error.message)
            raise error from None
        except ProviderUnavailable as error:
            await self._breakers.failed(own, error.message)
            raise
        except ProviderError:
            # It responds, although with an error.
            await self._breakers.succeeded(own)
            raise
        await self._breakers.succeeded(own)
        return answer
