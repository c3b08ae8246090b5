"""Copies the outputs of a provider to our storage, in chunks, from URLs that are checked and up to a size limit.

An error page must not become an image, so the first bytes are inspected before anything is stored.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal
from uuid import UUID, uuid4

from callsheet.jobs.machine.transition_requests import JobOutputFile
from callsheet.media.storage import Storage
from callsheet.toolbox.http.client import AddressRefused, GuardedClient, OutgoingError, ResponseStream, TooLarge
from callsheet.toolbox.ids import uuid7
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.media_types import EXTENSIONS, SNIFFED_BYTES, media_type_of
from callsheet.wire.errors import Refusal, Unavailable
from callsheet.wire.plurals import counted

log = get_logger(__name__)

RETRYABLE_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})
# Outputs of one job.
MAX_OUTPUTS = 100


class Unusable(Exception):
    """The outputs cannot be used, and a retry does not help. The message is for users and names no URL."""


class TryLater(Exception):
    """The download may succeed later. The message is for the log."""


@dataclass(frozen=True, slots=True)
class JobKey:
    tenant_id: UUID
    job_id: UUID


class OutputDownloads:
    def __init__(self, client: GuardedClient, storage: Storage, disk: Literal["local", "s3"]):
        self._client = client
        self._storage = storage
        self._disk = disk

    async def fetch(self, job: JobKey, urls: Sequence[str]) -> list[JobOutputFile]:
        """Copies all outputs or none: if one fails, the others are deleted. Raises Unusable or TryLater."""
        if len(urls) > MAX_OUTPUTS:
            raise Unusable(f"The provider made {counted(len(urls), 'file')}, but at most {MAX_OUTPUTS} are accepted.")
        fetched: list[JobOutputFile] = []
        try:
            for place, url in enumerate(urls, 1):
                name = "output" if len(urls) == 1 else f"output-{place}"
                fetched.append(await self._fetch_one(job, url, name))
        except BaseException:
            # The sweeper of outputs deletes the rest after the job has ended.
            await asyncio.shield(self.discard(fetched))
            raise
        return fetched

    async def discard(self, outputs: Iterable[JobOutputFile]) -> None:
        paths = [output.path for output in outputs]
        if paths:
            try:
                await self._storage.delete_many(paths)
            except Refusal as refusal:
                log.warning("webhook.outputs_left", objects=len(paths), reason=str(refusal))

    async def _fetch_one(self, job: JobKey, url: str, name: str) -> JobOutputFile:
        with _translated_errors():
            async with self._client.stream("GET", url) as response:
                _check_status(response.status)
                first_bytes = await _beginning(response)
                media_type = media_type_of(first_bytes[:SNIFFED_BYTES])
                if media_type is None:
                    kind = response.headers.get("content-type", "")[:100] or "something unknown"
                    raise Unusable(
                        f"The provider delivered {_printable(kind)}, which is not an image, a video or sound."
                    )
                extension = EXTENSIONS[media_type]
                # Each attempt has a new name, so a process that lost its claim cannot overwrite an accepted output.
                key = f"tenants/{job.tenant_id}/ai-jobs/{job.job_id}/output-{uuid4()}.{extension}"
                measured = _MeasuredStream(first_bytes, response)
                await self._storage.put(key, measured, content_type=media_type)
        return JobOutputFile(
            file_id=uuid7(),
            disk=self._disk,
            path=key,
            name=f"{name}.{extension}",
            mime_type=media_type,
            size=measured.size,
            sha256=measured.sha256,
        )


class _MeasuredStream:
    """Passes the chunks of a response on and computes their size and hash."""

    def __init__(self, first_bytes: bytes, response: ResponseStream):
        self._first_bytes = first_bytes
        self._response = response
        self._hash = hashlib.sha256()
        self.size = 0

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._count(self._first_bytes)
        async for piece in self._response:
            yield self._count(piece)

    def _count(self, piece: bytes) -> bytes:
        self._hash.update(piece)
        self.size += len(piece)
        return piece


async def _beginning(response: ResponseStream) -> bytes:
    first_bytes = bytearray()
    async for piece in response:
        first_bytes += piece
        if len(first_bytes) >= SNIFFED_BYTES:
            break
    if not first_bytes:
        raise Unusable("The provider delivered an empty file.")
    return bytes(first_bytes)


def _check_status(status: int) -> None:
    if status in RETRYABLE_STATUSES:
        raise TryLater(f"its URL returned the status {status}")
    if status != 200:
        raise Unusable(f"The provider does not return its output (status {status}).")


@contextmanager
def _translated_errors() -> Iterator[None]:
    try:
        yield
    except AddressRefused as refused:
        raise Unusable("The provider returned a URL that must not be fetched.") from refused
    except TooLarge as large:
        raise Unusable("The provider made a file that is larger than is accepted.") from large
    except OutgoingError as failed:
        raise TryLater(str(failed)) from failed
    except Unavailable as away:
        raise TryLater(f"our storage: {away}") from away


def _printable(text: str) -> str:
    return "".join(character for character in text if character.isprintable())
