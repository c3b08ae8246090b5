"""Objects in any S3-compatible service: data through obstore, URLs through `s3_signing`."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta

import obstore
from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import S3Store

from callsheet.media.storage.calls import StorageCalls
from callsheet.media.storage.keys import (
    content_disposition,
    validate_content_type,
    validate_folder,
    validate_key,
    validate_seconds,
    validate_sha256,
    validate_size,
)
from callsheet.media.storage.port import DeletionGuard, ObjectEntry, ObjectInfo, SignedRequest
from callsheet.media.storage.s3_credentials import as_obstore_provider, open_credentials
from callsheet.media.storage.s3_parts import S3Parts
from callsheet.media.storage.s3_signing import S3Signer, checksum_header, endpoint_of
from callsheet.settings import S3Settings
from callsheet.toolbox.clock import Clock, SystemClock
from callsheet.wire.errors import ContentMismatch, NotFound, RangeNotSatisfiable, Refusal, Unavailable
from callsheet.wire.plurals import counted

# 10,000 parts of this size are 80 GB; four at a time are the memory one upload takes.
PART_BYTES = 8 << 20
PARTS_AT_ONCE = 4
CHUNK_BYTES = 1 << 20
UNKNOWN_TYPE = "application/octet-stream"


class S3Storage:
    def __init__(
        self,
        settings: S3Settings,
        *,
        url_seconds: int,
        clock: Clock | None = None,
        guard: DeletionGuard | None = None,
        calls: StorageCalls | None = None,
    ) -> None:
        self.calls = calls or StorageCalls()
        self._guard = guard
        self._clock = clock or SystemClock()
        self._url_seconds = url_seconds
        self.url = endpoint_of(settings, public=True)
        self._where = f"{endpoint_of(settings)}, bucket {settings.bucket}"
        self._credentials = open_credentials(settings)
        self._signer = S3Signer(settings, self._credentials)
        self.parts = S3Parts(settings, self._signer, self.calls, url_seconds=url_seconds, clock=self._clock)
        self._store = S3Store(
            settings.bucket,
            endpoint=endpoint_of(settings),
            region=settings.region,
            virtual_hosted_style_request=settings.addressing == "virtual",
            credential_provider=lambda: as_obstore_provider(self._credentials),
            # obstore's own 30 s cover a whole transfer and would cut every long video; what counts is that it moves.
            client_options={"allow_http": True, "timeout": "24h", "read_timeout": "30s", "connect_timeout": "5s"},
            # Its ten retries within three minutes would hold a request long after its caller left.
            retry_config={"max_retries": 3, "retry_timeout": timedelta(seconds=15)},
        )

    async def put(self, key: str, content: AsyncIterable[bytes] | bytes, *, content_type: str) -> ObjectInfo:
        """obstore signs the checksum of every part, so the service refuses bytes that changed on the way."""
        validate_key(key)
        with self.calls.measured("write", is_timed=isinstance(content, bytes)):
            return await self._put(key, content, content_type)

    async def _put(self, key: str, content: AsyncIterable[bytes] | bytes, content_type: str) -> ObjectInfo:
        counted = _MeasuredContent(content)
        try:
            with _refusals():
                result = await obstore.put_async(
                    self._store,
                    key,
                    content if isinstance(content, bytes) else counted,
                    attributes={"Content-Type": validate_content_type(content_type)},
                    chunk_size=PART_BYTES,
                    max_concurrency=PARTS_AT_ONCE,
                )
        except (NotFound, Unavailable) as refusal:
            if counted.failure is not None:
                raise counted.failure from None
            if isinstance(refusal, NotFound):
                raise Unavailable("The bucket does not exist.") from refusal.__cause__
            raise
        return ObjectInfo(key, counted.size, content_type, result["e_tag"] or "", None, self._clock.now())

    async def head(self, key: str) -> ObjectInfo | None:
        try:
            with self.calls.measured("read"), _refusals():
                found = await obstore.get_async(self._store, validate_key(key), options={"head": True})
        except NotFound:
            return None
        return _info(key, found)

    async def peek(self, key: str, size: int) -> tuple[ObjectInfo, bytes] | None:
        """One request instead of two. An empty object has no range that could be asked for, so it is asked again."""
        with self.calls.measured("read"):
            return await self._peek(key, size)

    async def _peek(self, key: str, size: int) -> tuple[ObjectInfo, bytes] | None:
        try:
            with _refusals():
                found = await obstore.get_async(self._store, validate_key(key), options={"range": (0, size)})
                return _info(key, found), bytes(await found.bytes_async())
        except NotFound:
            return None
        except Unavailable:
            info = await self.head(key)
            if info is None or info.size:
                raise
            return info, b""

    async def sha256_of(self, key: str) -> str | None:
        """Read and counted: the service's own checksum is there only for objects that were written with one, and
        obstore does not show it."""
        digest = hashlib.sha256()
        try:
            async for chunk in self.stream(key):
                await asyncio.to_thread(digest.update, chunk)
        except NotFound:
            return None
        return digest.hexdigest()

    async def stream(self, key: str, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        validate_key(key)
        with self.calls.measured("read", is_timed=False):
            try:
                with _refusals():
                    found = await obstore.get_async(self._store, key, options=_range(start, end))
                    async for chunk in found.stream(CHUNK_BYTES):
                        yield bytes(chunk)
            except Unavailable:
                await self._refuse_range(key, start)
                raise

    async def _refuse_range(self, key: str, start: int) -> None:
        """obstore has one error for everything; only the size shows whether it was the range."""
        info = await self.head(key) if start else None
        if info is not None and start >= info.size:
            raise RangeNotSatisfiable(info.size)

    async def read(self, key: str, max_bytes: int) -> bytes:
        validate_key(key)
        with self.calls.measured("read", is_timed=False), _refusals():
            found = await obstore.get_async(self._store, key)
            size = found.meta["size"]
            if size > max_bytes:
                raise ContentMismatch(f"The object has {counted(size, 'byte')}, but the limit is {max_bytes}.")
            return bytes(await found.bytes_async())

    @property
    def place(self) -> str:
        return self._where

    async def delete(self, key: str) -> None:
        await self.delete_many([key])

    async def delete_many(self, keys: Iterable[str]) -> None:
        valid = [validate_key(key) for key in keys]
        if valid and self._guard is not None:
            await self._guard.require(self)
        await self._remove(valid)

    async def _remove(self, keys: Sequence[str]) -> None:
        if keys:
            with self.calls.measured("write"), _refusals():
                await obstore.delete_async(self._store, keys)

    async def list(self, folder: str = "") -> AsyncIterator[ObjectEntry]:
        with self.calls.measured("read", is_timed=False), _refusals():
            async for batch in obstore.list(self._store, validate_folder(folder) or None):
                for meta in batch:
                    yield ObjectEntry(meta["path"], meta["size"], meta["last_modified"])

    async def copy(self, source: str, target: str) -> ObjectInfo:
        with self.calls.measured("write", is_timed=False), _refusals():
            await obstore.copy_async(self._store, validate_key(source), validate_key(target))
        info = await self.head(target)
        if info is None:
            raise NotFound()
        return info

    async def copy_and_peek(self, source: str, target: str, size: int) -> tuple[ObjectInfo, bytes]:
        with self.calls.measured("write", is_timed=False), _refusals():
            await obstore.copy_async(self._store, validate_key(source), validate_key(target))
        found = await self.peek(target, size)
        if found is None:
            raise Unavailable("The storage lost an object that was just copied.")
        return found

    def presign_get(
        self,
        key: str,
        *,
        seconds: int | None = None,
        download_name: str | None = None,
        content_type: str | None = None,
    ) -> SignedRequest:
        validate_key(key)
        lifetime = self._lifetime(seconds)
        expires_at = self._clock.now() + timedelta(seconds=lifetime)
        responded = {}
        if content_type is not None:
            responded["response-content-type"] = validate_content_type(content_type)
        if download_name is not None:
            responded["response-content-disposition"] = content_disposition(download_name)
        url = self._signer.get_as(key, lifetime, responded) if responded else self._signer.get(key, lifetime)
        return SignedRequest("GET", url, {}, expires_at)

    def presign_put(
        self, key: str, *, content_type: str, size: int | None, seconds: int | None = None, sha256: str | None = None
    ) -> SignedRequest:
        """The length is signed but not among the headers: every client sends it, and browsers do not let scripts set
        it."""
        lifetime = self._lifetime(seconds)
        expires_at = self._clock.now() + timedelta(seconds=lifetime)
        headers = {"Content-Type": validate_content_type(content_type)}
        if validate_sha256(sha256) is not None:
            headers |= checksum_header(str(sha256))
        url = self._signer.put(validate_key(key), lifetime, headers, validate_size(size))
        return SignedRequest("PUT", url, headers, expires_at)

    def _lifetime(self, seconds: int | None) -> int:
        return self._url_seconds if seconds is None else validate_seconds(seconds)

    async def check(self) -> None:
        key, content = f"callsheet-check/{secrets.token_hex(8)}", secrets.token_bytes(64)
        try:
            await self.put(key, content, content_type=UNKNOWN_TYPE)
            if await self.read(key, len(content)) != content:
                raise Unavailable("What was written is not what is read.")
            await self._remove([key])
        except Refusal as refusal:
            reason = str(refusal.__cause__ or refusal).splitlines()[0]
            raise Unavailable(f"{self._where}: {refusal} {reason}") from refusal

    async def sweep(self, now: datetime) -> int:
        """Nothing to do: obstore aborts what fails, and what a crash leaves of an output is for a lifecycle rule of the
        bucket. Uploads in parts are aborted with their files."""
        return 0

    async def close(self) -> None:
        self.parts.close()
        self._credentials.close()


class _MeasuredContent:
    """Counts the bytes of the caller, and keeps an error of the caller, which may look like one of the object store."""

    def __init__(self, content: AsyncIterable[bytes] | bytes) -> None:
        self._content = content
        self.size = len(content) if isinstance(content, bytes) else 0
        self.failure: Exception | None = None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        assert not isinstance(self._content, bytes)
        try:
            async for piece in self._content:
                self.size += len(piece)
                yield piece
        except Exception as error:
            self.failure = error
            raise


def _info(key: str, found: obstore.GetResult) -> ObjectInfo:
    content_type = found.attributes.get("Content-Type", UNKNOWN_TYPE)
    meta = found.meta
    return ObjectInfo(key, meta["size"], content_type, meta["e_tag"] or "", None, meta["last_modified"])


def _range(start: int, end: int | None) -> obstore.GetOptions:
    if end is not None:
        return {"range": (start, end)}
    return {"range": {"offset": start}} if start else {}


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise NotFound() from error
    except (PermissionDeniedError, UnauthenticatedError) as error:
        raise Unavailable("The object store refused Callsheet's credentials.") from error
    except BaseError as error:
        raise Unavailable("The object store cannot be used.") from error
