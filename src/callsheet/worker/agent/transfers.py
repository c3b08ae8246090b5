"""Downloads and uploads files by signed URLs: in chunks, with checksums, and never with the worker's token.

The upload of finished files announces their sizes and checksums first, and gets URLs in the response.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import httpx

from callsheet.providers.engine import EngineError
from callsheet.toolbox.concurrently import off_loop
from callsheet.toolbox.http.certificates import certificates
from callsheet.toolbox.http.redirects import refuse_unsafe_redirect
from callsheet.toolbox.logs import get_logger, note_failure
from callsheet.toolbox.outages import backoff_seconds
from callsheet.wire.worker.protocol import MAX_ANNOUNCED, AnnouncedOutput
from callsheet.worker.agent.lease_keeper import LeaseKeeper
from callsheet.worker.agent.plane import RefusedRequest

PIECE = 262_144
SECONDS = httpx.Timeout(60.0, connect=10.0)


class TransferFailed(Exception):
    """Storage refused or did not respond. `status` is None without a response; for an expired URL it is 403 or 410."""

    def __init__(self, reason: str, status: int | None = None):
        super().__init__(reason)
        self.status = status

    @property
    def is_passing(self) -> bool:
        """Whether a retry may help: storage is unreachable or busy."""
        return self.status is None or self.status in (408, 429) or self.status >= 500


class Transfers:
    def __init__(self) -> None:
        hooks = {"response": [refuse_unsafe_redirect]}
        self._client = httpx.AsyncClient(
            timeout=SECONDS, trust_env=False, verify=certificates(), follow_redirects=True, event_hooks=hooks
        )

    async def close(self) -> None:
        await self._client.aclose()

    async def download(self, url: str, target: Path) -> str:
        """Downloads a file. Returns the SHA-256 of the written file."""
        digest = hashlib.sha256()
        try:
            async with self._client.stream("GET", url) as response:
                if response.status_code != httpx.codes.OK:
                    raise TransferFailed("storage did not return the file", response.status_code)
                with target.open("wb") as file:
                    async for piece in response.aiter_bytes(PIECE):
                        await off_loop(len(piece), file.write, piece)
                        digest.update(piece)
        except (httpx.RequestError, httpx.InvalidURL) as error:
            raise _failed(error) from error
        return digest.hexdigest()

    async def upload(self, url: str, headers: Mapping[str, str], path: Path) -> None:
        # The request has a length, because signed URLs of S3 accept no chunked body.
        sent = {**headers, "content-length": str(_size(path))}
        try:
            response = await self._client.put(url, headers=sent, content=_pieces(path))
        except (httpx.RequestError, httpx.InvalidURL) as error:
            raise _failed(error) from error
        if not response.is_success:
            raise TransferFailed("storage did not accept the file", response.status_code)


def _failed(error: Exception) -> TransferFailed:
    # A wrong URL or redirect is permanent; a transport error may pass.
    passing = isinstance(error, httpx.TransportError)
    return TransferFailed(f"storage cannot be reached ({type(error).__name__})", None if passing else 0)


def _size(path: Path) -> int:
    return path.stat().st_size


async def _pieces(path: Path) -> AsyncIterator[bytes]:
    left = _size(path)
    with path.open("rb") as file:
        while piece := await off_loop(min(left, PIECE), file.read, PIECE):
            left -= len(piece)
            yield piece


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
