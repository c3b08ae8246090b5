"""Downloads outputs from URLs that a service returned: with guards and limits, and with a check of their type."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from callsheet.providers.errors import ProviderError, ProviderUnavailable
from callsheet.providers.media import MadeFile
from callsheet.toolbox.http.client import AddressRefused, GuardedClient, OutgoingError, ResponseStream, TooLarge
from callsheet.toolbox.media_types import EXTENSIONS, SNIFFED_BYTES, is_one_of, media_type_of

PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
# A write of this size justifies a thread.
PIECE = 262_144


@dataclass(frozen=True, slots=True)
class DownloadLimits:
    types: Sequence[str]
    max_bytes: int
    seconds: float


async def download(
    client: GuardedClient,
    provider: str,
    url: str,
    directory: Path,
    stem: str,
    limits: DownloadLimits,
    headers: Mapping[str, str],
) -> MadeFile:
    """Downloads to a new file in `directory`, named `stem` with the extension of its type. Raises ProviderError."""
    unnamed = directory / f"{stem}.part"
    try:
        with _as_provider_errors(provider):
            async with client.stream(
                "GET",
                url,
                headers=headers,
                timeout_seconds=limits.seconds,
                max_bytes=limits.max_bytes,
            ) as response:
                media_type = await _saved(provider, response, unnamed, limits)
        name = f"{stem}.{EXTENSIONS[media_type]}"
        return MadeFile(unnamed.rename(directory / name), name, media_type)
    finally:
        unnamed.unlink(missing_ok=True)


async def _saved(provider: str, response: ResponseStream, target: Path, limits: DownloadLimits) -> str:
    if response.status in PASSING:
        raise ProviderUnavailable(provider, f"{provider} currently does not return its output.", status=response.status)
    if response.status != 200:
        message = f"{provider} did not return its output (status {response.status})."
        raise ProviderError("output_unreadable", message, details={"provider": provider, "status": response.status})
    media_type: str | None = None
    waiting = bytearray()
    with target.open("wb") as file:
        async for piece in response:
            waiting += piece
            if media_type is None and len(waiting) >= SNIFFED_BYTES:
                # This check comes before the rest is fetched, which may be a gigabyte of something else.
                media_type = checked_type(provider, bytes(waiting[:SNIFFED_BYTES]), limits.types)
            if len(waiting) >= PIECE:
                await _write(file, waiting)
        media_type = media_type or checked_type(provider, bytes(waiting[:SNIFFED_BYTES]), limits.types)
        await _write(file, waiting)
    return media_type


def checked_type(provider: str, beginning: bytes, allowed: Sequence[str]) -> str:
    found = media_type_of(beginning)
    if found is None or not is_one_of(found, allowed):
        wanted = ", ".join(allowed)
        message = f"{provider} returned {found or 'something else'}, but {wanted} was expected."
        raise ProviderError("output_not_media", message, details={"provider": provider, "found": found})
    return found


async def _write(file: IO[bytes], waiting: bytearray) -> None:
    # This runs in a thread: a slow disk would delay every heartbeat.
    await asyncio.to_thread(file.write, bytes(waiting))
    waiting.clear()


@contextmanager
def _as_provider_errors(provider: str) -> Iterator[None]:
    try:
        yield
    except AddressRefused as refused:
        message = f"{provider} returned a URL that must not be fetched."
        raise ProviderError(
            "output_refused", message, details={"provider": provider, "reason": str(refused)}
        ) from refused
    except TooLarge as large:
        message = f"{provider} made a file that is larger than the limit."
        raise ProviderError(
            "output_too_large", message, details={"provider": provider, "reason": str(large)}
        ) from large
    except OutgoingError as failed:
        message = f"The output of {provider} could not be fetched."
        raise ProviderUnavailable(provider, message, reason=str(failed)) from failed
