"""Downloads and uploads files by signed URLs: in chunks, with checksums, and never with the worker's token."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import httpx

from callsheet.toolbox.concurrently import off_loop
from callsheet.toolbox.http.certificates import certificates
from callsheet.toolbox.http.redirects import refuse_unsafe_redirect

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
