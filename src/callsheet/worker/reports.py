"""Reports on disk, until the control plane has answered them.

From the moment of a lease there is one: first a will that puts the job back, should this process be killed; at the end
what really came of it. The next agent on this directory sends whatever it finds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from callsheet.providers.errors import ProviderError
from callsheet.toolbox.logs import get_logger
from callsheet.wire.worker import WorkerJob
from callsheet.worker.plane import Plane, Refused, Unreachable
from callsheet.worker.private_files import read_private, write_private

log = get_logger(__name__)

KINDS = ("complete", "fail", "requeue")


@dataclass(frozen=True, slots=True)
class Report:
    kind: str
    body: dict[str, Any]


class ContentMismatch(Exception):
    """The control plane does not find the files as they were reported: upload them again."""


class ReportBox:
    def __init__(self, directory: Path, plane: Plane):
        self._directory = directory
        self._plane = plane

    def write_will(self, job: WorkerJob) -> None:
        self.write(job, Report("requeue", {**lease_of(job), "reason": "its worker was killed"}))

    def write(self, job: WorkerJob, report: Report) -> None:
        write_private(self._path(job), {"kind": report.kind, "body": report.body})

    def tear_up(self, job: WorkerJob) -> None:
        """Nobody wants to hear of this lease any more."""
        self._path(job).unlink(missing_ok=True)

    async def send(self, job: WorkerJob, report: Report) -> str | None:
        """Writes it down, then repeats it until it was answered. None: the lease was somebody else's by then."""
        self.write(job, report)
        try:
            return await self._send(report, self._path(job))
        except ContentMismatch:
            self.write_will(job)
            raise

    async def send_left_over(self) -> int:
        """What an earlier agent could not send any more."""
        sent = 0
        for path, report in list(self._left_over()):
            try:
                status = await self._send(report, path)
            except ContentMismatch:
                # The files went with that agent.
                again = Report("requeue", {**report.body, "reason": "its worker was killed while it uploaded"})
                status = await self._send(again, path)
            log.info("report.sent_late", kind=report.kind, dispatch_id=report.body.get("dispatch_id"), status=status)
            sent += 1
        return sent

    @property
    def is_empty(self) -> bool:
        return not any(self._left_over())

    async def _send(self, report: Report, path: Path) -> str | None:
        failures = 0
        while True:
            try:
                status = await self._plane.report(report.kind, report.body)
            except Unreachable as error:
                failures += 1
                log.warning("report.not_sent", kind=report.kind, reason=str(error), failures=failures)
                await asyncio.sleep(self._plane.pause(failures, error))
                continue
            except Refused as refused:
                if refused.code == "content_mismatch":
                    raise ContentMismatch(refused.detail) from None
                log.warning("report.refused", kind=report.kind, code=refused.code, reason=refused.detail)
                status = None
            _remove(path)
            return status

    def _left_over(self) -> Iterator[tuple[Path, Report]]:
        for path in sorted(self._directory.glob("*.json")):
            found = read_private(path) or {}
            kind, body = found.get("kind"), found.get("body")
            if kind in KINDS and isinstance(body, dict):
                yield path, Report(kind, body)
            else:
                # Cut off in the middle, or of a version that wrote something else: nothing can be said with it.
                path.unlink(missing_ok=True)

    def _path(self, job: WorkerJob) -> Path:
        return self._directory / f"{job.dispatch_id}-{job.lease_token}.json"


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)


def lease_of(job: WorkerJob) -> dict[str, Any]:
    return {"dispatch_id": job.dispatch_id, "lease_token": str(job.lease_token)}


def failure(job: WorkerJob, error: ProviderError) -> Report:
    body: dict[str, Any] = {
        **lease_of(job),
        "error_message": error.message,
        "error": {
            "type": error.type,
            "message": error.message,
            "details": error.details,
            "traceback": error.traceback,
            "retryable": error.retryable,
        },
    }
    return Report("fail", body)
