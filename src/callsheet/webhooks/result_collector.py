"""Ends jobs whose provider reported the end: downloads the outputs and completes the job, or fails it."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple

from callsheet.identity.accounts.tenant_pools import TenantRouting
from callsheet.jobs.lease.leases import Leases
from callsheet.jobs.lease.outcomes import Failure
from callsheet.jobs.machine.transition_requests import JobOutputFile
from callsheet.plumbing.database.sql import statements
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.providers.ads.actors import promised_types
from callsheet.providers.media import Prediction
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.media_types import is_one_of
from callsheet.toolbox.outages import backoff_seconds
from callsheet.toolbox.redaction.redaction import redact_start
from callsheet.toolbox.redaction.sanitizing import clean_line
from callsheet.webhooks.downloads import JobKey, OutputDownloads, TryLater, Unusable
from callsheet.webhooks.worklist import ClaimedCall, Worklist
from callsheet.wire.errors import NotFound
from callsheet.wire.worker.errors import LeaseLost

SQL = statements("callsheet.jobs.lease")
log = get_logger(__name__)
RANDOM = Random()  # noqa: S311 - spreads load, guards nothing
RETRY_BASE_SECONDS = 2.0
RETRY_CAP_SECONDS = 300.0
# The worker has not yet reported that it submitted the prediction. Its report makes the call due at once.
BEFORE_DEFER_SECONDS = 5.0
FAILED = "The provider could not make the output."
CANCELED = "The job was canceled at the provider."


class ActorAndAction(NamedTuple):
    """The actor of a task, and the action of a media task."""

    actor: str | None
    action: str | None


class ResultCollector:
    def __init__(
        self,
        worklist: Worklist,
        routing: TenantRouting,
        leases: Leases,
        downloads: OutputDownloads,
        window_seconds: float,
    ):
        """`window_seconds`: how long after the final prediction the download of outputs is retried."""
        self._worklist = worklist
        self._routing = routing
        self._leases = leases
        self._downloads = downloads
        self._window_seconds = window_seconds

    async def collect(self, call: ClaimedCall) -> None:
        prediction = call.prediction
        if prediction is None or call.is_finished or call.status is None:
            # The job has ended in another way. The outputs are too late and are not downloaded.
            await self._worklist.end(call)
        elif call.status != "waiting":
            await self._worklist.postpone(call, BEFORE_DEFER_SECONDS)
        elif call.provider_job_id != prediction.id:
            # The callback came before the worker reported its prediction, and is about another one.
            log.warning("webhook.refused", provider=call.provider, job_id=str(call.job_id), reason="another prediction")
            await self._worklist.postpone(call, 0, work="follow", error="The callback is about another prediction.")
        elif prediction.status == "succeeded":
            await self._complete(call, prediction)
        else:
            default = CANCELED if prediction.status == "canceled" else FAILED
            message = clean_line(prediction.error or "") or default
            await self._fail(call, Failure(f"provider_{prediction.status}", message))

    async def _complete(self, call: ClaimedCall, prediction: Prediction) -> None:
        try:
            outputs = await self._fetch(call, prediction)
        except TryLater as why:
            await self._again_or_fail(call, str(why))
            return
        except Unusable as why:
            log.warning("webhook.output_refused", provider=call.provider, job_id=str(call.job_id), reason=_cause(why))
            await self._fail(call, Failure("output_unusable", str(why), {"reason": _cause(why)}))
            return
        await hit(Failpoint.WEBHOOK_COLLECT_BEFORE_COMPLETE)
        result = result_of(call.provider, prediction, outputs)
        try:
            outcome = await self._leases.complete_callback(call.dispatch_id, call.cycle, result, _actor(call), outputs)
        except (LeaseLost, NotFound):
            outcome = None
        await hit(Failpoint.WEBHOOK_COMPLETE_BEFORE_END)
        if outcome is None or outcome.settled is None:
            # Another process ended the job meanwhile, perhaps with its own copies of the same outputs.
            await self._downloads.discard(outputs)
        await self._worklist.end(call)

    async def _fetch(self, call: ClaimedCall, prediction: Prediction) -> list[JobOutputFile]:
        """Downloads the outputs. Raises Unusable if they are not of the promised type: text instead of an image."""
        if not prediction.outputs and prediction.text is None:
            raise Unusable("The provider delivered nothing.")
        promised = promised_types(*await self._actor_and_action(call), call.provider)
        if promised and not prediction.outputs:
            raise Unusable(f"The provider returned text and delivered no {_kinds(promised)}.")
        outputs = await self._downloads.fetch(JobKey(call.tenant_id, call.job_id), prediction.outputs)
        if promised and not any(is_one_of(output.mime_type, promised) for output in outputs):
            await self._downloads.discard(outputs)
            delivered = ", ".join(sorted({output.mime_type for output in outputs}))
            raise Unusable(f"The provider delivered {delivered} and no {_kinds(promised)}.")
        return outputs

    async def _actor_and_action(self, call: ClaimedCall) -> ActorAndAction:
        pool = await self._routing.pool_of_tenant(call.tenant_id)
        async with pool.connection() as connection:
            row = await SQL["get_actor_and_action"].row(
                connection, ActorAndAction, tenant_id=call.tenant_id, job_id=call.job_id
            )
        return row or ActorAndAction(None, None)

    async def _again_or_fail(self, call: ClaimedCall, reason: str) -> None:
        log.warning("webhook.output_missing", provider=call.provider, job_id=str(call.job_id), reason=reason)
        if (call.reported_seconds_ago or 0.0) >= self._window_seconds:
            message = "The outputs of the provider could not be downloaded in time."
            await self._fail(call, Failure("output_unusable", message, {"reason": reason}))
            return
        delay = backoff_seconds(call.failures + 1, RETRY_BASE_SECONDS, RETRY_CAP_SECONDS, RANDOM)
        await self._worklist.postpone(call, delay, counted=True, error=reason)

    async def _fail(self, call: ClaimedCall, failure: Failure) -> None:
        try:
            await self._leases.fail_callback(call.dispatch_id, call.cycle, failure, _actor(call))
        except (LeaseLost, NotFound):
            log.warning("webhook.overtaken", job_id=str(call.job_id), charge_cycle=call.charge_cycle)
        await hit(Failpoint.WEBHOOK_COMPLETE_BEFORE_END)
        await self._worklist.end(call, failure.message)


def result_of(provider: str, prediction: Prediction, outputs: Sequence[JobOutputFile]) -> dict[str, Any]:
    """The result that the job's user reads."""
    result: dict[str, Any] = {
        "outputs": [
            {
                "file_id": str(output.file_id),
                "name": output.name,
                "mime_type": output.mime_type,
                "size": output.size,
                "sha256": output.sha256,
            }
            for output in outputs
        ],
        "metadata": {"provider": provider, "provider_job_id": prediction.id},
    }
    return result if prediction.text is None else {**result, "result": {"text": prediction.text}}


def _actor(call: ClaimedCall) -> str:
    return f"provider:{call.provider}"


def _kinds(promised: Sequence[str]) -> str:
    return promised[0].partition("/")[0]


def _cause(why: Unusable) -> str:
    """The reason for admins, with URLs that users do not see."""
    return redact_start(str(why.__cause__ or why), 300)
