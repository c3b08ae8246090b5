"""The run of one lease, from its start until the control plane has responded to the report."""

from __future__ import annotations

import asyncio
import shutil
import time
import traceback
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Literal
from uuid import UUID

import structlog

from callsheet.providers.comfy.graphs import refuse_foreign_files, with_files, with_own_outputs
from callsheet.providers.comfy.outputs import mime_type_of, public_names
from callsheet.providers.engine import (
    Engine,
    EngineError,
    EngineLacks,
    EngineRun,
    EngineStuck,
    EngineUnreachable,
    Graph,
    HasInventory,
    NotStarted,
    Output,
)
from callsheet.providers.stripping import without_graph
from callsheet.toolbox.concurrently import all_of
from callsheet.toolbox.logs import get_logger, note_failure
from callsheet.toolbox.outages import backoff_seconds
from callsheet.toolbox.private_files import make_closed
from callsheet.toolbox.redaction.redaction import redact_text
from callsheet.wire.plurals import counted
from callsheet.wire.worker.protocol import MAX_DELIVERED, WorkerJob
from callsheet.worker.agent.config import AgentConfig
from callsheet.worker.agent.control_plane import ControlPlaneClient
from callsheet.worker.agent.job_inputs import (
    AssetCache,
    ChecksumDiffers,
    EnginePayload,
    PayloadAsset,
    engine_payload,
    refreshed,
)
from callsheet.worker.agent.lease_keeper import LeaseKeeper
from callsheet.worker.agent.plane import RefusedRequest
from callsheet.worker.agent.reports import QueuedReport, ReportBox, RunOf, UploadMismatch, failure, lease_of, refusal
from callsheet.worker.agent.transfers import Deliverable, TransferFailed, Transfers, deliver
from callsheet.worker.engines.engine_choice import WarmModels, loaded_by
from callsheet.worker.engines.engines import DrivenEngine, EngineClaim, Engines, cancel_run, forget_run
from callsheet.worker.engines.environment import EnvironmentWatch

log = get_logger(__name__)

Stage = Literal["preparing", "waiting", "rendering", "delivering", "reporting"]
# Limit of refusals and of wrong checksums: a download may be truncated, but not three times.
DOWNLOAD_ATTEMPTS = 3
# If storage is unreachable for longer than this, the job is requeued: another worker may reach storage.
STORAGE_SECONDS = 600.0
RETRY_BASE_SECONDS, RETRY_CAP_SECONDS = 0.5, 10.0
DELIVERY_ATTEMPTS = 3
_random = Random()  # noqa: S311 (jitter)


class StorageAway(Exception):
    """Storage is unreachable, which is not the job's fault."""


@dataclass(frozen=True, slots=True)
class RunContext:
    """The parts that all runs of an agent share."""

    config: AgentConfig
    plane: ControlPlaneClient
    engines: Engines
    cache: AssetCache
    transfers: Transfers
    reports: ReportBox
    environment: EnvironmentWatch
    warm: WarmModels
    # The tokens of all leases of the agent.
    held: Callable[[], Sequence[UUID]]


class JobRun:
    def __init__(self, job: WorkerJob, context: RunContext):
        self.job = job
        self.stage: Stage = "preparing"
        self.run_id = str(uuid.uuid4())
        self._context = context
        config = context.config
        self._keeper = LeaseKeeper(
            job,
            context.plane,
            config.heartbeat_seconds,
            config.progress_seconds,
            config.run_limit_seconds,
            held=context.held,
        )
        self._folder = config.directory / "work" / str(job.lease_token)
        # The job's engine. It does not change until the end of the run.
        self._driven: DrivenEngine | None = None
        self._submitted = False
        # Whether the engine may have a file of the user, also from an incomplete upload.
        self._uploaded = False
        self._made: list[Deliverable] | None = None
        self._reason = ""

    def save_fallback_report(self) -> None:
        """Saves a report that requeues the job. If this process is killed during the run, the next agent sends it."""
        self._context.reports.save_fallback_report(self.job, self.run_id)

    def interrupt(self, reason: str) -> None:
        """Requeues the job because the agent leaves. A report that is being sent is not stopped."""
        if self.stage != "reporting":
            self._reason = reason
            self._keeper.end("interrupted")

    async def execute(self) -> None:
        """Runs the job. Never raises. Ends when the control plane has responded to the report, or the lease is lost."""
        structlog.contextvars.bind_contextvars(job_id=str(self.job.job_id), dispatch_id=self.job.dispatch_id)
        self._keeper.start()
        try:
            for _ in range(DELIVERY_ATTEMPTS):
                if await self._send_report(await self._outcome()):
                    return
            lost = EngineError("upload_failed", "The result could not be stored.", retryable=True)
            await self._send_report(failure(self.job, lost))
        finally:
            await self._keeper.stop()
            await self._forgotten()
            await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    async def _send_report(self, report: QueuedReport | None) -> bool:
        """Sends the report. Returns False if the files must be uploaded again."""
        if report is None:
            self._context.reports.delete(self.job)
            log.info("job.dropped", reason=self._keeper.ending)
            return True
        before, self.stage = self.stage, "reporting"
        self._keeper.reporting(True)
        try:
            body = {**report.body, "trace": self._keeper.trace.as_report()}
            if self._keeper.provider_job_id is not None:
                body.setdefault("provider_job_id", self._keeper.provider_job_id)
            run = RunOf(self.job.provider, self.run_id)
            status = await self._context.reports.send(self.job, replace(report, body=body, run=run))
        except UploadMismatch as mismatch:
            log.warning("job.files_not_found", reason=str(mismatch))
            self.save_fallback_report()
            self._keeper.reporting(False)
            self.stage = before
            return False
        log.info("job.reported", kind=report.kind, status=status)
        return True

    async def _outcome(self) -> QueuedReport | None:
        """Returns the report of the run, or None if the lease is lost."""
        work = asyncio.create_task(self._work())
        over = asyncio.create_task(self._keeper.over.wait())
        try:
            await asyncio.wait({work, over}, return_when=asyncio.FIRST_COMPLETED)
            if work.done() and (not self._keeper.over.is_set() or self._finished_before_stop(work)):
                return self._report_of(work)
            return await self._stopped(work)
        finally:
            for task in (work, over):
                task.cancel()
            await asyncio.gather(work, over, return_exceptions=True)

    def _finished_before_stop(self, work: asyncio.Task[QueuedReport]) -> bool:
        """Whether the run finished at the same moment as it was stopped."""
        return self._keeper.ending in ("interrupted", "run_limit") and work.exception() is None

    def _report_of(self, work: asyncio.Task[QueuedReport]) -> QueuedReport | None:
        error = work.exception()
        return work.result() if error is None else self._failed(error)

    def _failed(self, error: BaseException) -> QueuedReport | None:
        if isinstance(error, RefusedRequest) and self._keeper.ending == "lease_lost":
            return None
        if isinstance(error, EngineStuck | EngineUnreachable):
            self._suspect_engine(str(error))
            if not self._submitted:
                return self._requeue(error.message)
            if isinstance(error, EngineStuck) and not self._keeper.has_started:
                return self._requeue("The engine is stuck on another run.")
        if isinstance(error, NotStarted):
            self._suspect_engine(error.message)
            if not self._keeper.has_started:
                return self._requeue(error.message)
        if isinstance(error, StorageAway):
            return self._requeue("Storage cannot be reached.")
        if isinstance(error, EngineLacks) and self._is_reported_engine:
            log.warning("job.refused_by_engine", reason=error.message)
            return refusal(self.job, error)
        if isinstance(error, EngineError):
            log.warning("run.failed", type=error.type, reason=error.message, retryable=error.retryable)
            return failure(self.job, error)
        log.error("job.crashed", exc_info=error)
        lines = "".join(traceback.format_exception(error))
        unknown = EngineError("worker_error", "The worker failed.", retryable=True, traceback=redact_text(lines))
        return failure(self.job, unknown)

    @property
    def _is_reported_engine(self) -> bool:
        """Whether the control plane knows what the engine has."""
        return self._driven is not None and isinstance(self._driven.engine, HasInventory)

    async def _stopped(self, work: asyncio.Task[QueuedReport]) -> QueuedReport | None:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        match self._keeper.ending:
            case "interrupted":
                return self._requeue(self._reason)
            case "run_limit":
                limit = f"The run took longer than {counted(self._keeper.run_limit_seconds, 'second')}."
                return failure(self.job, EngineError("run_limit", limit))
            case "canceled":
                return failure(self.job, EngineError("canceled", "The job was canceled."))
        return None

    def _suspect_engine(self, reason: str) -> None:
        if self._driven is not None:
            self._driven.health.suspect(reason)

    async def _work(self) -> QueuedReport:
        make_closed(self._folder)
        if self._made is None:
            self._made = await self._make(engine_payload(self.job))
        assert self._driven is not None
        self.stage = "delivering"
        with self._keeper.trace.phase("upload"):
            outputs = await deliver(self._made, self._keeper, self._context.transfers)
        body = {
            **lease_of(self.job),
            "provider_job_id": self._driven.engine.id_of(self.run_id),
            "outputs": outputs,
            "metadata": {"engine": self._driven.health.version},
        }
        return QueuedReport("complete", body)

    async def _make(self, payload: EnginePayload) -> list[Deliverable]:
        trace = self._keeper.trace
        if payload.assets:
            with trace.phase("download"):
                files = await self._all_downloaded(payload)
        else:
            files = []
        self.stage = "waiting"
        with trace.phase("engine_wait"):
            claim = await self._context.engines.claim(self.job.provider, loaded_by(payload.graph))
        self._driven = claim.driven
        try:
            outputs = await self._run_at(claim, payload, files)
            # The engine is free for the next job. The run limit includes the remaining work.
            self._keeper.counts()
            if len(outputs) > MAX_DELIVERED:
                message = f"The run made {counted(len(outputs), 'file')}. A job may deliver at most {MAX_DELIVERED}."
                raise EngineError("too_many_outputs", message, details={"outputs": len(outputs)})
            with trace.phase("fetch"):
                return await self._fetched(claim.driven.engine, outputs, keep_metadata=payload.keep_metadata)
        finally:
            claim.end()

    async def _run_at(self, claim: EngineClaim, payload: EnginePayload, files: Sequence[Path]) -> Sequence[Output]:
        trace = self._keeper.trace
        names: dict[str, str] = {}
        if payload.assets:
            with trace.phase("engine_upload"):
                names = await self._uploaded_to(claim.driven.engine, payload, files)
        graph = with_files(payload.graph, names)
        refuse_foreign_files(graph)
        try:
            with trace.phase("engine_wait"):
                await claim.hold()
            # The next job of the engine starts while the result of this one is read.
            self._keeper.on_freed = claim.release
            return await self._rendered(claim.driven, graph, payload)
        finally:
            claim.release()

    async def _rendered(self, driven: DrivenEngine, graph: Graph, payload: EnginePayload) -> Sequence[Output]:
        engine, health = driven.engine, driven.health
        run = EngineRun(
            self.run_id,
            with_own_outputs(graph, self.run_id),
            payload.output_node,
            payload.extra_data,
            is_suspect=self.job.wedges > 0,
        )
        self.stage = "rendering"
        self._submitted = True
        self._keeper.submitted(lambda: engine.id_of(self.run_id))
        self._context.warm.ran(run.graph)
        try:
            with self._keeper.trace.at_engine():
                return await engine.run(run, self._keeper)
        except asyncio.CancelledError:
            if self._keeper.over.is_set() and not await cancel_run(engine, self.run_id):
                # The next job must not wait behind this run.
                health.suspect("A run did not stop.")
            raise
        except EngineLacks:
            if self._is_reported_engine:
                # Before the job goes back. Otherwise this worker gets it again.
                await self._context.environment.renew(self._context.plane)
            raise
        except (EngineStuck, EngineUnreachable, NotStarted) as error:
            # This runs before the next job gets the slot.
            health.suspect(str(error))
            raise

    async def _all_downloaded(self, payload: EnginePayload) -> list[Path]:
        """Downloads every file of the job to its folder."""
        paths = [self._folder / asset.file_name(number) for number, asset in enumerate(payload.assets, start=1)]
        await all_of(self._downloaded(asset, path) for asset, path in zip(payload.assets, paths, strict=True))
        return paths

    async def _uploaded_to(self, engine: Engine, payload: EnginePayload, files: Sequence[Path]) -> dict[str, str]:
        """Uploads every file of the job to the engine. Returns the engine's file name of each placeholder."""
        names = await all_of(
            self._at_engine(engine, asset, path) for asset, path in zip(payload.assets, files, strict=True)
        )
        return dict(zip((asset.placeholder for asset in payload.assets), names, strict=True))

    async def _at_engine(self, engine: Engine, asset: PayloadAsset, path: Path) -> str:
        try:
            if asset.shared_name is not None:
                return await engine.share(path, asset.shared_name)
            self._uploaded = True
            return await engine.upload(path, path.name, self.run_id)
        finally:
            # The file may be as large as the disk allows, and the run takes long.
            await asyncio.to_thread(path.unlink, missing_ok=True)

    async def _downloaded(self, asset: PayloadAsset, path: Path) -> None:
        download = self._context.transfers.download
        url, refusals, failures, started_at = asset.url, 0, 0, time.monotonic()
        while True:
            try:
                await self._context.cache.fetch(asset.content_hash, path, partial(download, url))
                return
            except (TransferFailed, ChecksumDiffers) as error:
                failures += 1
                note_failure(log, failures)("job.download_failed", key=asset.key, reason=str(error), failures=failures)
                if isinstance(error, TransferFailed) and error.is_passing:
                    if time.monotonic() - started_at > STORAGE_SECONDS:
                        raise StorageAway from error
                else:
                    refusals += 1
                if refusals >= DOWNLOAD_ATTEMPTS:
                    raise EngineError(
                        "input_unreadable", "A file of the job could not be fetched.", retryable=True
                    ) from error
                await asyncio.sleep(backoff_seconds(failures, RETRY_BASE_SECONDS, RETRY_CAP_SECONDS, _random))
                url = refreshed(asset, await self._keeper.refresh())

    async def _fetched(self, engine: Engine, outputs: Sequence[Output], *, keep_metadata: bool) -> list[Deliverable]:
        fetched = []
        for number, (output, name) in enumerate(zip(outputs, public_names(outputs), strict=True), start=1):
            path = self._folder / f"output-{number}"
            got = await engine.fetch(output, path)
            # A text is the result itself, without metadata.
            if output.text is None and not keep_metadata:
                got = await without_graph(path, name, got)
            fetched.append(Deliverable(path, name, mime_type_of(name), got.size, got.sha256))
        return fetched

    async def _forgotten(self) -> None:
        if (self._submitted or self._uploaded) and self._driven is not None:
            await forget_run(self._driven.engine, self.run_id)

    def _requeue(self, reason: str) -> QueuedReport:
        return QueuedReport("requeue", {**lease_of(self.job), "reason": reason})
