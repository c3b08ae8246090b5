"""Renews one lease until the control plane has responded to its report, and notices when the lease is over.

Heartbeats carry the engine's progress: only the latest, and not more than one per second.
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Literal
from uuid import UUID

from callsheet.providers.comfy.run_messages import MAX_PERCENT
from callsheet.providers.engine import NodeState
from callsheet.toolbox.logs import get_logger, note_failure
from callsheet.wire.worker.fields import MAX_PREVIEW_BYTES, REASON
from callsheet.wire.worker.protocol import UPLOADING, AnnouncedOutput, HeartbeatResponse, WorkerJob
from callsheet.wire.worker.traces import MAX_NODE_ID_LENGTH
from callsheet.worker.agent.plane import Plane, RefusedRequest, Unreachable, named_leases
from callsheet.worker.agent.run_trace import RunTrace

log = get_logger(__name__)

Body = dict[str, Any]
Ending = Literal["lease_lost", "canceled", "run_limit", "interrupted"]
_PREVIEW_TYPES = ("image/jpeg", "image/png", "image/webp", "image/gif")
# Heartbeats within the lease's TTL: two may be lost.
RENEWALS = 3.0
# A run that is shorter needs no heartbeat of its own for its start.
START_SECONDS = 0.05
# Status codes of a heartbeat whose lease is over or belongs to another worker.
GONE = (404, 409)


class LeaseKeeper:
    """`over` is set when the run must stop; `ending` is the reason. The keeper is also the engine's `Watcher`."""

    def __init__(
        self,
        job: WorkerJob,
        plane: Plane,
        heartbeat_seconds: float,
        progress_seconds: float,
        run_limit_seconds: float | None = None,
        held: Callable[[], Sequence[UUID]] | None = None,
    ):
        """`held`: the tokens of all leases of this worker, which every heartbeat names."""
        self.over = asyncio.Event()
        self.ending: Ending | None = None
        self._job = job
        self._plane = plane
        self._held = held
        self._heartbeat_seconds = heartbeat_seconds
        self._progress_seconds = progress_seconds
        # The worker may have a limit of its own. The shorter limit counts.
        self.run_limit_seconds = min(job.run_limit_seconds, run_limit_seconds or job.run_limit_seconds)
        self._ttl = job.lease_ttl_seconds
        self._started_at: float | None = None
        self._start_is_reported = False
        self._progress: Body | None = None
        self._preview: Body | None = None
        # When each part of the run happened, and the node that runs now.
        self.trace = RunTrace()
        self._node: str | None = None
        self._news = asyncio.Event()
        # Called when the engine has ended the run.
        self.on_freed: Callable[[], None] | None = None
        self._is_reporting = False
        self._task: asyncio.Task[None] | None = None
        self._limit: asyncio.TimerHandle | None = None
        self._id_at_provider: Callable[[], str] | None = None
        self._reported_id: str | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._keep())

    async def stop(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def end(self, ending: Ending) -> None:
        """The first reason counts, but `lease_lost` replaces it: a lost lease needs no report."""
        if self.ending is None or ending == "lease_lost":
            self.ending = ending
        self.over.set()

    def reporting(self, is_under_way: bool) -> None:
        """Marks that a report is being sent. Its response decides about the lease. A heartbeat that arrives after
        the report is refused, and the refusal is ignored.
        """
        self._is_reporting = is_under_way

    @property
    def has_started(self) -> bool:
        """Whether the engine has started the run."""
        return self._started_at is not None

    def started(self) -> None:
        """Starts the run limit, which does not include the wait in the engine's queue."""
        if self._started_at is None:
            self._started_at = time.monotonic()
            self.trace.run_started()
            self.counts()
            self._news.set()

    def submitted(self, id_at_provider: Callable[[], str]) -> None:
        """The next heartbeat reports the id of the run: it is kept even if this worker disappears."""
        self._id_at_provider = id_at_provider

    @property
    def provider_job_id(self) -> str | None:
        """The id of the run at the engine, if it was submitted."""
        return None if self._id_at_provider is None else self._id_at_provider()

    def counts(self) -> None:
        """Starts the run limit, also of a run whose start was not seen."""
        if self._limit is None:
            self._limit = asyncio.get_running_loop().call_later(self.run_limit_seconds, self.end, "run_limit")

    def progressed(self, percent: float | None, message: str | None) -> None:
        self._progress = self._progress_of(percent, message)
        self._news.set()

    def _progress_of(self, percent: float | None, message: str | None) -> Body:
        elapsed = round((time.monotonic() - self._started_at) * 1000) if self._started_at is not None else None
        text = (message or "")[:REASON] or None
        progress = {"percent": percent, "message": text, "elapsed_ms": elapsed, "node_id": self._node}
        return {name: value for name, value in progress.items() if value is not None}

    def freed(self) -> None:
        if self.on_freed is not None:
            self.on_freed()

    def at_node(self, node_id: str, state: NodeState) -> None:
        self.trace.at_node(node_id, state)
        if state == "started":
            self._node = node_id[:MAX_NODE_ID_LENGTH]
        elif self._node == node_id[:MAX_NODE_ID_LENGTH]:
            self._node = ""

    def previewed(self, mime_type: str, image: bytes) -> None:
        if mime_type in _PREVIEW_TYPES and len(image) <= MAX_PREVIEW_BYTES:
            self._preview = {"mime_type": mime_type, "data": base64.b64encode(image).decode("ascii")}
            self._news.set()

    async def announce(self, outputs: Sequence[AnnouncedOutput]) -> HeartbeatResponse:
        """Gets the URLs to upload to; retries while the control plane is unreachable. Discards unsent progress of the
        engine, which would otherwise be sent after this."""
        self._progress = None
        if self._node is not None:
            self._node = ""
        progress = self._progress_of(MAX_PERCENT, UPLOADING)
        response = await self._send_with_retries(
            self._message(
                outputs=[each.model_dump(mode="json") for each in outputs],
                progress=progress,
                run_started=True if self._started_at is not None and not self._start_is_reported else None,
            )
        )
        self._start_is_reported = self._start_is_reported or self._started_at is not None
        return response

    async def refresh(self) -> HeartbeatResponse:
        """Gets new URLs of the inputs."""
        return await self._send_with_retries(self._message(refresh_inputs=True))

    async def _keep(self) -> None:
        failures, sent = 0, 0.0
        while True:
            await self._wait(failures, sent)
            sent = time.monotonic()
            request = self._with_news()
            try:
                self._apply_response(await self._plane.heartbeat(request))
                failures = 0
            except Unreachable as error:
                failures += 1
                note_failure(log, failures)("lease.not_renewed", dispatch_id=self._job.dispatch_id, reason=str(error))
            except RefusedRequest as refused:
                if self._is_reporting and refused.status in GONE:
                    return
                self._refused(refused)
                if self.ending == "lease_lost":
                    return
                failures += 1
            except (TypeError, ValueError) as error:
                # The progress cannot be serialized. The lease is renewed without it.
                log.warning("lease.news_not_written", dispatch_id=self._job.dispatch_id, exc_info=error)

    async def _wait(self, failures: int, sent: float) -> None:
        usual = min(self._heartbeat_seconds, self._ttl / RENEWALS)
        if failures:
            await asyncio.sleep(min(usual, self._plane.pause(failures)))
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(usual):
                await self._news.wait()
                if self._started_at is not None and not self._start_is_reported:
                    # The announcement of a short run's result reports the start, too.
                    await asyncio.sleep(min(START_SECONDS, self._progress_seconds))
                else:
                    await asyncio.sleep(max(0.0, sent + self._progress_seconds - time.monotonic()))

    def _with_news(self) -> Body:
        self._news.clear()
        starts = self._started_at is not None and not self._start_is_reported
        waits = self._limit is None
        known = self.provider_job_id
        request = self._message(
            run_started=starts or None,
            run_waiting=waits or None,
            progress=self._progress,
            preview=self._preview,
            provider_job_id=known if known != self._reported_id else None,
        )
        self._reported_id = known
        self._progress = self._preview = None
        return request

    def _apply_response(self, response: HeartbeatResponse) -> None:
        self._start_is_reported = self._start_is_reported or self._started_at is not None
        self._apply_lease(response)

    def _refused(self, refused: RefusedRequest) -> None:
        if refused.status in GONE:
            log.warning("lease.lost", dispatch_id=self._job.dispatch_id, code=refused.code)
            self.end("lease_lost")
        else:
            log.warning("lease.heartbeat_refused", code=refused.code, reason=refused.detail)

    async def _send_with_retries(self, request: Body) -> HeartbeatResponse:
        failures = 0
        while True:
            try:
                response = await self._plane.heartbeat(request)
            except Unreachable as error:
                failures += 1
                await asyncio.sleep(self._plane.pause(failures, error))
                continue
            except RefusedRequest as refused:
                self._refused(refused)
                raise
            self._apply_lease(response)
            return response

    def _apply_lease(self, response: HeartbeatResponse) -> None:
        self._ttl = response.lease_ttl_seconds or self._ttl
        if response.cancel_requested:
            self.end("canceled")

    def _message(self, **fields: object) -> Body:
        held = None if self._held is None else named_leases(self._held())
        if held is not None:
            fields["active_leases"] = list(map(str, held))
        given = {name: value for name, value in fields.items() if value is not None}
        return {"dispatch_id": self._job.dispatch_id, "lease_token": str(self._job.lease_token), **given}
