"""Polls providers whose callback is missing, and cancels calls of canceled jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from random import Random
from typing import TypeVar

from callsheet.jobs.lease.progress import JobProgressWriter, ProgressReport
from callsheet.jobs.lease.provider_gate import ProviderPaused
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.providers.errors import ProviderError, ProviderUnavailable
from callsheet.providers.media import Callback, Prediction, WebhookProvider
from callsheet.settings import WebhookSettings
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.outages import backoff_seconds
from callsheet.webhooks.breaker_rules import Call
from callsheet.webhooks.breakers import TRIAL_SECONDS, Breakers
from callsheet.webhooks.callback_urls import CallbackUrls
from callsheet.webhooks.worklist import ClaimedCall, Worklist

log = get_logger(__name__)
RANDOM = Random()  # noqa: S311 - spreads load, guards nothing
Result = TypeVar("Result")

# Shorter than the time that a breaker waits for a call of the control plane.
CALL_SECONDS = TRIAL_SECONDS / 2
PAUSED_SECONDS = 10.0
CANCEL_BASE_SECONDS = 5.0
CANCEL_CAP_SECONDS = 600.0
# More than an hour in total. Outputs that are made later are not downloaded in any case.
MAX_CANCELS = 12


class CallFollower:
    def __init__(
        self,
        worklist: Worklist,
        providers: Mapping[str, WebhookProvider],
        breakers: Breakers,
        urls: CallbackUrls,
        progress: JobProgressWriter,
        settings: WebhookSettings,
    ):
        self._worklist = worklist
        self._providers = providers
        self._breakers = breakers
        self._urls = urls
        self._progress = progress
        self._settings = settings

    async def follow(self, call: ClaimedCall) -> None:
        if call.is_finished or call.status is None:
            await self._worklist.postpone(call, 0, work="cancel")
        elif call.status != "waiting" or call.provider_job_id is None:
            # A worker is about to submit the prediction, or to report that it did.
            await self._worklist.postpone(call, self._settings.first_poll_seconds)
        else:
            with suppress(ProviderPaused, ProviderUnavailable):  # the next look tries again
                await self._cancel_strays(call)
            await self._poll(call, call.provider_job_id)

    async def _poll(self, call: ClaimedCall, provider_job_id: str) -> None:
        try:
            prediction = await self._ask(call, lambda: self._providers[call.provider].get(provider_job_id))
        except ProviderPaused:
            await self._worklist.postpone(call, PAUSED_SECONDS)
            return
        except ProviderError as error:
            # The prediction may be lost, or only this request. If it stays so, the job expires.
            log.warning("webhook.poll_failed", provider=call.provider, job_id=str(call.job_id), reason=str(error))
            await self._worklist.postpone(call, self._next_poll(call), counted=True, error=str(error))
            return
        if prediction.status == "running":
            await self._record_progress(call, prediction)
            await self._worklist.postpone(call, self._next_poll(call), counted=True)
            return
        log.info("webhook.callback_missed", provider=call.provider, job_id=str(call.job_id), status=prediction.status)
        await hit(Failpoint.WEBHOOK_STATUS_BEFORE_RECORD)
        await self._worklist.take(call, prediction)

    def _next_poll(self, call: ClaimedCall) -> float:
        """Doubles with each look, with a random part, so that calls of the same moment are not all polled together."""
        doubled = self._settings.first_poll_seconds * 2.0 ** min(call.failures, 20)
        return min(doubled, self._settings.max_poll_seconds) * RANDOM.uniform(0.8, 1.2)

    async def _record_progress(self, call: ClaimedCall, prediction: Prediction) -> None:
        if prediction.percent is not None:
            report = ProgressReport(percent=prediction.percent)
            await self._progress.record(call.cycle, call.lease_seq, report)

    async def cancel(self, call: ClaimedCall) -> None:
        """Cancels the prediction of a job that was canceled. Its outputs are not downloaded, even if this fails."""
        try:
            await self._cancel_strays(call)
            if call.status == "completed":
                # The worker completed the job without a callback, or long ago: only strays were left.
                await self._worklist.end(call)
                return
            provider_job_id = call.provider_job_id or await self._find(call)
            if provider_job_id is not None:
                await self._cancel(call, provider_job_id)
        except ProviderPaused:
            await self._worklist.postpone(call, PAUSED_SECONDS)
            return
        except ProviderUnavailable as error:
            await self._cancel_later(call, error)
            return
        except ProviderError as error:
            # The provider refuses: the prediction has ended, or does not exist.
            log.info("webhook.not_canceled", provider=call.provider, job_id=str(call.job_id), reason=str(error))
            await self._worklist.end(call, str(error))
            return
        await hit(Failpoint.WEBHOOK_CANCEL_BEFORE_END)
        log.info("webhook.canceled", provider=call.provider, job_id=str(call.job_id), known=provider_job_id is not None)
        await self._worklist.end(call)

    async def _cancel_stray(self, call: ClaimedCall, stray: str) -> None:
        """Cancels a prediction that a worker without a lease reported. It is checked first, because it may belong to
        another job or tenant."""
        prediction = await self._ask(call, lambda: self._providers[call.provider].get(stray))
        own = self._url_of(call)
        if prediction.callback_url not in (None, own):
            log.warning("webhook.stray_refused", provider=call.provider, job_id=str(call.job_id))
        elif prediction.status == "running":
            await self._cancel(call, stray)
            log.info("webhook.stray_canceled", provider=call.provider, job_id=str(call.job_id))

    async def _cancel(self, call: ClaimedCall, provider_job_id: str) -> None:
        await self._ask(call, lambda: self._providers[call.provider].cancel(provider_job_id))

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

    async def _find(self, call: ClaimedCall) -> str | None:
        """Finds a prediction that a worker submitted before it crashed, without a report."""
        callback = Callback(self._url_of(call), may_exist=True)
        found = await self._ask(call, lambda: self._providers[call.provider].find(callback))
        return None if found is None else found.id

    def _url_of(self, call: ClaimedCall) -> str:
        return self._urls.url_of(call.provider, call.cycle, call.callback_hash)

    async def _cancel_later(self, call: ClaimedCall, error: ProviderUnavailable) -> None:
        if call.failures + 1 >= MAX_CANCELS:
            log.error("webhook.cancel_given_up", provider=call.provider, job_id=str(call.job_id), reason=str(error))
            await self._worklist.end(call, f"Not canceled: {error}")
            return
        delay = backoff_seconds(call.failures + 1, CANCEL_BASE_SECONDS, CANCEL_CAP_SECONDS, RANDOM)
        await self._worklist.postpone(call, delay, counted=True, error=str(error))

    async def _ask(self, call: ClaimedCall, ask: Callable[[], Awaitable[Result]]) -> Result:
        """Calls the provider if its breaker permits, and counts the outcome there. Raises ProviderPaused."""
        own = Call(call.provider, call.tenant_id, call.dispatch_id)
        await self._breakers.permit(own)
        try:
            async with asyncio.timeout(CALL_SECONDS):
                response = await ask()
        except TimeoutError:
            error = ProviderUnavailable(call.provider, f"{call.provider} did not respond in time.")
            await self._breakers.failed(own, error.message)
            raise error from None
        except ProviderUnavailable as error:
            await self._breakers.failed(own, error.message)
            raise
        except ProviderError:
            # The provider responds, although with an error.
            await self._breakers.succeeded(own)
            raise
        await self._breakers.succeeded(own)
        return response
