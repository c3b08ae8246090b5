"""Reports on disk, until the control plane has responded to them.

Each lease has a report from its start: first a fallback report, which requeues the job if this process is killed; at
the end the actual outcome. The next agent on this directory sends the reports it finds, and ends their runs on the
engines.
"""

from __future__ import annotations

import asyncio
import fcntl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from uuid import UUID

from pydantic import ValidationError

from callsheet.providers.engine import EngineLacks
from callsheet.providers.errors import MAX_KEPT_ID_LENGTH, ProviderError
from callsheet.toolbox.errors import OperatorError
from callsheet.toolbox.logs import get_logger, note_failure
from callsheet.toolbox.private_files import make_closed, read_private, write_private
from callsheet.toolbox.redaction.redaction import redact_json, redact_text
from callsheet.wire.worker.protocol import (
    MAX_REFUSED,
    CompleteRequest,
    FailRequest,
    LeaseRequest,
    RequeueRequest,
    WorkerJob,
)
from callsheet.worker.agent.plane import Plane, RefusedRequest, Unreachable

log = get_logger(__name__)

KINDS: dict[str, type[LeaseRequest]] = {"complete": CompleteRequest, "fail": FailRequest, "requeue": RequeueRequest}


@dataclass(frozen=True, slots=True)
class RunOf:
    """Identifies the run of a job on an engine."""

    provider: str
    run_id: str


@dataclass(frozen=True, slots=True)
class QueuedReport:
    kind: str
    body: dict[str, Any]
    run: RunOf | None = None


class UploadMismatch(Exception):
    """The files in storage are not as reported: upload them again."""


class ReportBox:
    def __init__(self, directory: Path, plane: Plane):
        self._directory = directory
        self._plane = plane

    def save_fallback_report(self, job: WorkerJob, run_id: str) -> None:
        body = {**lease_of(job), "reason": "its worker was killed"}
        self.write(job, QueuedReport("requeue", body, RunOf(job.provider, run_id)))

    def write(self, job: WorkerJob, report: QueuedReport) -> None:
        """Saves the report without fsync, which takes milliseconds: the file survives a crash of this process. If the
        machine crashes, the lease expires, which requeues the job, too.
        """
        self._write(self._path(job), report, survives_machine_crash=False)

    def _write(self, path: Path, report: QueuedReport, *, survives_machine_crash: bool) -> None:
        kept: dict[str, Any] = {"kind": report.kind, "body": report.body}
        if report.run is not None:
            kept["run"] = {"provider": report.run.provider, "id": report.run.run_id}
        try:
            write_private(path, kept, survives_machine_crash=survives_machine_crash)
        except OSError as error:  # A full disk must not prevent the report.
            log.error("report.not_kept", dispatch_id=report.body.get("dispatch_id"), reason=str(error))

    def delete(self, job: WorkerJob) -> None:
        """Removes the report of a lost lease: the control plane needs none."""
        self._path(job).unlink(missing_ok=True)

    async def send(self, job: WorkerJob, report: QueuedReport) -> str | None:
        """Saves the report, then retries until the control plane responds. Returns None if the lease is lost."""
        self.write(job, report)
        return await self._send(report, self._path(job))

    async def send_left_over(self) -> list[RunOf]:
        """Sends the reports that an earlier agent left; returns the runs that it may have left on an engine."""
        runs = []
        for path, report in list(self._left_over()):
            try:
                status = await self._send(report, path)
            except UploadMismatch:
                # The files of that agent are deleted.
                again = QueuedReport("requeue", {**report.body, "reason": "its worker was killed while it uploaded"})
                status = await self._send(again, path)
            log.info("report.sent_late", kind=report.kind, dispatch_id=report.body.get("dispatch_id"), status=status)
            if report.run is not None:
                runs.append(report.run)
        return runs

    @property
    def is_empty(self) -> bool:
        return not any(self._left_over())

    async def _send(self, report: QueuedReport, path: Path) -> str | None:
        failures = 0
        while True:
            try:
                status = await self._plane.report(report.kind, report.body)
            except Unreachable as error:
                failures += 1
                if failures == 1:
                    # Sending may take long now, and the result must not be rendered again.
                    self._write(path, report, survives_machine_crash=True)
                note_failure(log, failures)("report.not_sent", kind=report.kind, reason=str(error), failures=failures)
                await asyncio.sleep(self._plane.pause(failures, error))
                continue
            except RefusedRequest as refused:
                if refused.code == "content_mismatch":
                    raise UploadMismatch(refused.detail) from None
                log.warning("report.refused", kind=report.kind, code=refused.code, reason=refused.detail)
                status = None
            _remove(path)
            return status

    def _left_over(self) -> Iterator[tuple[Path, QueuedReport]]:
        for path in sorted(self._directory.glob("*.json")):
            report = report_in(read_private(path) or {})
            if report is not None:
                yield path, report
            else:
                # The file is truncated or from another version, so it cannot be sent.
                log.warning("report.unreadable", file=path.name)
                _remove(path)

    def _path(self, job: WorkerJob) -> Path:
        return self._directory / f"{job.dispatch_id}-{job.lease_token}.json"


def report_in(found: Mapping[str, Any]) -> QueuedReport | None:
    """Reads a saved report; returns None if the control plane could not accept it."""
    kind, body = found.get("kind"), found.get("body")
    if not isinstance(kind, str) or kind not in KINDS or not isinstance(body, dict):
        return None
    try:
        KINDS[kind].model_validate(body)
    except ValidationError:
        return None
    return QueuedReport(kind, body, _run_in(found.get("run")))


def _run_in(found: object) -> RunOf | None:
    # The id names folders that are removed, so only a UUID is accepted.
    if not isinstance(found, dict) or not isinstance(found.get("provider"), str):
        return None
    try:
        return RunOf(found["provider"], str(UUID(found.get("id"))))
    except (ValueError, TypeError, AttributeError):
        return None


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        log.warning("report.not_removed", file=path.name, reason=str(error))


def lease_of(job: WorkerJob) -> dict[str, Any]:
    return {"dispatch_id": job.dispatch_id, "lease_token": str(job.lease_token)}


def failure(job: WorkerJob, error: ProviderError, traceback: str | None = None) -> QueuedReport:
    """The report of a failed run. `traceback`: for an error that has none."""
    described = _described(error, traceback)
    body = {**lease_of(job), "error_message": described["message"], "error": described}
    known = error.details.get("provider_job_id")
    if isinstance(known, str) and 0 < len(known) <= MAX_KEPT_ID_LENGTH and known.isprintable():
        body["provider_job_id"] = known
    return QueuedReport("fail", body)


def refusal(job: WorkerJob, error: EngineLacks) -> QueuedReport:
    """Gives a job back that the engine refused, because another engine may have what this one lacks."""
    described = _described(error)
    inputs = [
        {"node_id": each.node_id, "node_class": each.node_class, "input_name": each.input_name, "value": each.value}
        for each in error.lacks[:MAX_REFUSED]
    ]
    refused = {"error": described, "inputs": inputs}
    return QueuedReport("requeue", {**lease_of(job), "reason": described["message"], "refusal": refused})


def _described(error: ProviderError, traceback: str | None = None) -> dict[str, Any]:
    traceback = error.traceback or traceback
    # Messages of services may contain lone surrogates, which must not prevent the report.
    message = redact_text(error.message.encode("utf-8", "replace").decode())
    return {
        "type": error.type,
        "message": message,
        "details": redact_json(error.details),
        "traceback": None if traceback is None else redact_text(traceback),
        "retryable": error.retryable,
    }


def claim(directory: Path) -> IO[str]:
    """Locks the directory for this process: two agents would send each other's reports. The caller keeps the returned
    file open, because closing it releases the lock."""
    make_closed(directory.parent)
    make_closed(directory)
    file = (directory / "agent.lock").open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise OperatorError(
            f"Another worker already uses {directory}. Set CALLSHEET_WORKER__ID to another id for this worker."
        ) from None
    return file
