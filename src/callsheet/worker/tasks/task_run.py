"""The run of one task: runs the actor, renews the lease, delivers files and sends the report.

Nothing is saved for the next process: a task whose worker was killed is recovered when its lease of half a minute
expires, sooner than an operator starts the worker again.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from callsheet.providers.actor import Actor, Deferred, Done, Task
from callsheet.providers.errors import ProviderError
from callsheet.providers.media import Callback, MadeFile
from callsheet.toolbox.logs import get_logger, note_failure
from callsheet.toolbox.redaction.redaction import redact_text
from callsheet.toolbox.redaction.sanitizing import clean_line
from callsheet.wire.errors import InvalidRequest
from callsheet.wire.plurals import counted
from callsheet.wire.tasks import task_id_of
from callsheet.wire.worker.protocol import WorkerJob
from callsheet.worker.agent.lease_keeper import LeaseKeeper
from callsheet.worker.agent.plane import Plane, RefusedRequest, Unreachable
from callsheet.worker.agent.reports import QueuedReport, failure, lease_of
from callsheet.worker.agent.transfers import Deliverable, Transfers, deliver

log = get_logger(__name__)

PIECE = 1 << 20
# Time for a cancelled actor to release its resources.
LET_GO_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class TaskContext:
    """The parts that all tasks of a worker share."""

    plane: Plane
    actors: Mapping[str, Actor]
    transfers: Transfers
    # Contains one directory per task.
    directory: Path
    # The tokens of all leases of the worker.
    held: Callable[[], Sequence[UUID]]
    heartbeat_seconds: float = 5.0
    progress_seconds: float = 1.0


class TaskRun:
    def __init__(self, job: WorkerJob, context: TaskContext):
        self.job = job
        self._context = context
        self._keeper = LeaseKeeper(
            job, context.plane, context.heartbeat_seconds, context.progress_seconds, held=context.held
        )
        self._reason = ""

    def interrupt(self, reason: str) -> None:
        """Requeues the task because the worker leaves. The attempt does not count."""
        self._reason = reason
        self._keeper.end("interrupted")

    async def execute(self) -> None:
        """Never raises. Ends when the control plane has responded to the report, or the lease is lost."""
        self._keeper.start()
        try:
            report = await self._outcome()
            if report is not None:
                await self._send_report(report)
            else:
                log.info("task.dropped", job_id=str(self.job.job_id), reason=self._keeper.ending)
        finally:
            await self._keeper.stop()

    async def _outcome(self) -> QueuedReport | None:
        """Returns the report of the task, or None if the lease is lost."""
        work = asyncio.create_task(self._work())
        over = asyncio.create_task(self._keeper.over.wait())
        try:
            await asyncio.wait({work, over}, return_when=asyncio.FIRST_COMPLETED)
            if work.done() and not self._keeper.over.is_set():
                error = _error_of(work)
                return work.result() if error is None else self._failed(error)
            await self._let_go(work)
            return _deferred_by(work) or self._stopped()
        finally:
            over.cancel()
            await asyncio.gather(over, return_exceptions=True)
            await self._let_go(work)

    async def _let_go(self, work: asyncio.Task[QueuedReport]) -> None:
        """Cancels the actor. An actor that does not stop is abandoned: its slot and the process do not wait for it."""
        if work.done() or work.cancelling():
            return
        work.add_done_callback(_error_of)
        work.cancel()
        await asyncio.wait({work}, timeout=LET_GO_SECONDS)
        if not work.done():
            log.error("task.would_not_stop", job_id=str(self.job.job_id), actor=self.job.actor)

    async def _work(self) -> QueuedReport:
        actor = self._context.actors.get(self.job.actor or "")
        if actor is None:
            # Another worker may have the actor: this one was started before the actor was added.
            message = f"This worker has no actor {self.job.actor!r}."
            raise ProviderError("no_actor", message, retryable=True)
        directory = self._context.directory / str(self.job.lease_token)
        directory.mkdir(mode=0o700)
        try:
            self._keeper.started()
            try:
                result = await actor.run(self._task(directory))
            except SystemExit as error:
                # The exit fails this task only, not the other tasks of the process.
                raise RuntimeError("the actor called sys.exit()") from error
            return await self._report_of(result)
        finally:
            await _removed(directory)

    def _task(self, directory: Path) -> Task:
        job = self.job
        callback = Callback(job.callback.url, job.callback.may_exist) if job.callback else None
        return Task(
            id=task_id_of(job.job_id),
            payload=job.input_payload,
            attempt=job.attempt,
            directory=directory,
            report_progress=self._keeper.progressed,
            callback=callback,
            input_url=job.input_url,
        )

    async def _report_of(self, result: Done | Deferred) -> QueuedReport:
        if isinstance(result, Deferred):
            expires_at = datetime.now(UTC) + timedelta(seconds=result.expires_seconds)
            deferral = {"provider_job_id": result.provider_job_id, "expires_at": expires_at.isoformat()}
            return QueuedReport("defer", {**lease_of(self.job), **deferral})
        body: dict[str, Any] = {**lease_of(self.job), "result": dict(result.result)}
        if result.provider_job_id is not None:
            body["provider_job_id"] = result.provider_job_id
        if result.files:
            files = await asyncio.to_thread(lambda: [_deliverable(file) for file in result.files])
            body["outputs"] = await deliver(files, self._keeper, self._context.transfers)
        return QueuedReport("complete", body)

    def _failed(self, error: BaseException) -> QueuedReport | None:
        if isinstance(error, RefusedRequest) and self._keeper.ending == "lease_lost":
            return None
        # Operators read where an expected error was raised, too.
        lines = redact_text("".join(traceback.format_exception(error)))
        if isinstance(error, InvalidRequest):
            # The control plane's validation accepted the payload, but the actor did not. A retry does not help.
            error = ProviderError("invalid_payload", str(error))
        if isinstance(error, ProviderError):
            log.warning("task.failed", job_id=str(self.job.job_id), type=error.type, reason=error.message)
            return failure(self.job, error, lines)
        log.error("task.crashed", job_id=str(self.job.job_id), exc_info=error)
        details = {"exception": type(error).__name__}
        message = clean_line("".join(traceback.format_exception_only(error)))
        return failure(
            self.job, ProviderError("actor_error", message, retryable=True, details=details, traceback=lines)
        )

    def _stopped(self) -> QueuedReport | None:
        match self._keeper.ending:
            case "interrupted":
                return QueuedReport("requeue", {**lease_of(self.job), "reason": self._reason})
            case "run_limit":
                limit = f"The task took longer than {counted(self.job.run_limit_seconds, 'second')}."
                return failure(self.job, ProviderError("run_limit", limit))
            case "canceled":
                return failure(self.job, ProviderError("canceled", "The task was canceled."))
        return None

    async def _send_report(self, report: QueuedReport) -> None:
        """Sends the report. Retries until the control plane responds, as long as the lease is held."""
        failures, is_bare = 0, False
        while True:
            try:
                status = await self._context.plane.report(report.kind, report.body)
            except Unreachable as error:
                failures += 1
                note_failure(log, failures)("report.not_sent", kind=report.kind, reason=str(error), failures=failures)
                await asyncio.sleep(self._context.plane.pause(failures, error))
            except RefusedRequest as refused:
                log.warning("report.refused", kind=report.kind, code=refused.code, reason=refused.detail)
                if is_bare or refused.status in (404, 409):
                    return
                # The report was refused (too large, not JSON, files not found). The task must not wait until its lease
                # expires.
                report, is_bare = self._bare(report, refused.detail), True
            except (TypeError, ValueError, RecursionError) as error:
                log.warning("report.not_written", kind=report.kind, exc_info=error)
                if is_bare:
                    return
                report, is_bare = self._bare(report, "The result is not valid JSON."), True
            else:
                log.debug("task.reported", job_id=str(self.job.job_id), kind=report.kind, status=status)
                return

    def _bare(self, report: QueuedReport, reason: str) -> QueuedReport:
        """A short failure report that replaces a report that cannot be sent."""
        if report.kind == "fail":
            error = report.body["error"]
            return failure(self.job, ProviderError(error["type"], error["message"], retryable=error["retryable"]))
        return failure(self.job, ProviderError("result_refused", f"The control plane refused the result: {reason}"))


def _deferred_by(work: asyncio.Task[QueuedReport]) -> QueuedReport | None:
    """Returns the report of an actor that submitted to a provider while it was cancelled. It is always sent: the
    provider's job is paid for, and no other component knows its id."""
    if not work.done() or _error_of(work) is not None:
        return None
    report = work.result()
    return report if report.kind == "defer" else None


def _error_of(work: asyncio.Task[Any]) -> BaseException | None:
    if work.cancelled():
        # The actor canceled itself, or something that it waited for was canceled.
        return RuntimeError("the actor canceled itself")
    return work.exception()


def _deliverable(file: MadeFile) -> Deliverable:
    digest, size = hashlib.sha256(), 0
    with file.path.open("rb") as stream:
        while piece := stream.read(PIECE):
            digest.update(piece)
            size += len(piece)
    return Deliverable(file.path, file.name, file.mime_type, size, digest.hexdigest())


async def _removed(directory: Path) -> None:
    try:
        os.rmdir(directory)  # Most tasks write nothing, and a thread costs more than this.
    except OSError:
        await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)
