"""What a provider made is copied to our storage: from a URL it named, guarded, bounded, looked at, piece by piece.

A page with an error on it must not become an image, so the first bytes are read before anything is stored.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal
from uuid import UUID, uuid4

from callsheet.jobs.transition_requests import Output
from callsheet.media.storage import Storage
from callsheet.toolbox.http_client import AddressRefused, GuardedClient, OutgoingError, ResponseStream, TooLarge
from callsheet.toolbox.ids import uuid7
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.media_types import EXTENSIONS, SNIFFED_BYTES, media_type_of
from callsheet.wire.errors import Refusal, Unavailable

log = get_logger(__name__)

PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
# Highest number of files of one job.
MOST_OUTPUTS = 100


class Unusable(Exception):
    """What the provider made cannot be had, and trying again will not help. For users: names no URL."""


class NotNow(Exception):
    """It may be there in a moment. For the log."""


@dataclass(frozen=True, slots=True)
class Whose:
    tenant_id: UUID
    job_id: UUID


class Downloads:
    def __init__(self, client: GuardedClient, storage: Storage, disk: Literal["local", "s3"]):
        self._client = client
        self._storage = storage
        self._disk = disk

    async def fetch(self, whose: Whose, addresses: Sequence[str]) -> list[Output]:
        """All of them, or none: what was stored before one failed is removed again. Raises Unusable or NotNow."""
        if len(addresses) > MOST_OUTPUTS:
            raise Unusable(f"The provider made {len(addresses)} files; at most {MOST_OUTPUTS} are taken.")
        fetched: list[Output] = []
        try:
            for place, address in enumerate(addresses, 1):
                name = "output" if len(addresses) == 1 else f"output-{place}"
                fetched.append(await self._fetch_one(whose, address, name))
        except BaseException:
            # What this cannot remove, the sweeper of outputs does once the job has ended.
            await asyncio.shield(self.discard(fetched))
            raise
        return fetched

    async def discard(self, outputs: Iterable[Output]) -> None:
        paths = [output.path for output in outputs]
        if paths:
            try:
                await self._storage.delete_many(paths)
            except Refusal as refusal:
                log.warning("webhook.outputs_left", objects=len(paths), reason=str(refusal))

    async def _fetch_one(self, whose: Whose, address: str, name: str) -> Output:
        with _translated_errors():
            async with self._client.stream("GET", address) as answer:
                _check_status(answer.status)
                begun = await _beginning(answer)
                media_type = media_type_of(begun[:SNIFFED_BYTES])
                if media_type is None:
                    kind = answer.headers.get("content-type", "")[:100] or "something unknown"
                    raise Unusable(
                        f"The provider delivered {_printable(kind)}, which is not an image, a video or sound."
                    )
                extension = EXTENSIONS[media_type]
                # A new name for each try: a process that lost its claim can never overwrite what was accepted.
                key = f"tenants/{whose.tenant_id}/ai-jobs/{whose.job_id}/output-{uuid4()}.{extension}"
                counted = _Counted(begun, answer)
                await self._storage.put(key, counted, content_type=media_type)
        return Output(
            file_id=uuid7(),
            disk=self._disk,
            path=key,
            name=f"{name}.{extension}",
            mime_type=media_type,
            size=counted.size,
            sha256=counted.sha256,
        )


class _Counted:
    """Goes through to storage piece by piece; counted on the way."""

    def __init__(self, begun: bytes, answer: ResponseStream):
        self._begun = begun
        self._answer = answer
        self._hash = hashlib.sha256()
        self.size = 0

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._count(self._begun)
        async for piece in self._answer:
            yield self._count(piece)

    def _count(self, piece: bytes) -> bytes:
        self._hash.update(piece)
        self.size += len(piece)
        return piece


async def _beginning(answer: ResponseStream) -> bytes:
    begun = bytearray()
    async for piece in answer:
        begun += piece
        if len(begun) >= SNIFFED_BYTES:
            break
    if not begun:
        raise Unusable("The provider delivered an empty file.")
    return bytes(begun)


def _check_status(status: int) -> None:
    if status in PASSING:
        raise NotNow(f"its URL returned the status {status}")
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
        raise NotNow(str(failed)) from failed
    except Unavailable as away:
        raise NotNow(f"our storage: {away}") from away


def _printable(text: str) -> str:
    return "".join(character for character in text if character.isprintable())
