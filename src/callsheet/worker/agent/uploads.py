"""Uploads finished files to storage: announces size and checksum, then uploads to the URLs in the response."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from callsheet.providers.engine import EngineError
from callsheet.toolbox.logs import get_logger, note_failure
from callsheet.toolbox.retry import backoff_seconds
from callsheet.wire.worker.protocol import MAX_ANNOUNCED, AnnouncedOutput
from callsheet.worker.agent.lease_keeper import LeaseKeeper
from callsheet.worker.agent.plane import RefusedRequest
from callsheet.worker.agent.transfers import TransferFailed, Transfers

log = get_logger(__name__)

# Limit of refusals. While storage is unreachable, uploads are retried as long as the lease is held.
ATTEMPTS = 4
UPLOADS_AT_ONCE = 4
_random = Random()  # noqa: S311 (jitter)


@dataclass(frozen=True, slots=True)
class Deliverable:
    path: Path
    name: str
    mime_type: str
    size: int
    sha256: str

    def described(self) -> dict[str, Any]:
        return {"name": self.name, "mime_type": self.mime_type, "size": self.size, "sha256": self.sha256}


async def deliver(files: Sequence[Deliverable], keeper: LeaseKeeper, transfers: Transfers) -> list[dict[str, Any]]:
    """Returns the files as the complete report names them. Announces as many at a time as a heartbeat accepts."""
    waiting, refusals, failures = list(files), 0, 0
    while waiting:
        left, errors = await _attempt(waiting[:MAX_ANNOUNCED], keeper, transfers)
        waiting = left + waiting[MAX_ANNOUNCED:]
        if not errors:
            continue
        failures += 1
        refusals += not errors[0].is_passing
        note_failure(log, failures)(
            "job.upload_failed", reason=str(errors[0]), status=errors[0].status, files=len(waiting)
        )
        if refusals >= ATTEMPTS:
            message = "The result could not be stored."
            raise EngineError("upload_failed", message, retryable=True, details={"status": errors[0].status})
        await asyncio.sleep(backoff_seconds(failures, 0.5, 10.0, _random))
    return [file.described() for file in files]


async def _attempt(
    files: Sequence[Deliverable], keeper: LeaseKeeper, transfers: Transfers
) -> tuple[list[Deliverable], list[TransferFailed]]:
    """Announces the files in each attempt, because URLs expire. Returns the files that failed, and the errors."""
    try:
        response = await keeper.announce([AnnouncedOutput.model_validate(file.described()) for file in files])
    except RefusedRequest as refused:
        if keeper.ending == "lease_lost":
            raise
        if refused.code == "empty_output":
            # Another machine may have the disk space that this one lacks.
            raise EngineError("empty_output", refused.detail, retryable=True) from None
        raise EngineError(
            "output_refused", "Storage did not accept the result.", details={"reason": refused.detail}
        ) from None
    uploads = {upload.name: upload for upload in response.uploads or []}
    at_once = asyncio.Semaphore(UPLOADS_AT_ONCE)

    async def upload(file: Deliverable) -> TransferFailed | None:
        address = uploads.get(file.name)
        if address is None:
            return TransferFailed("no URL was given", 0)
        async with at_once:
            try:
                await transfers.upload(address.url, address.headers, file.path)
            except TransferFailed as failed:
                return failed
        return None

    results = await asyncio.gather(*(upload(file) for file in files))
    left = [file for file, failed in zip(files, results, strict=True) if failed is not None]
    return left, [failed for failed in results if failed is not None]
