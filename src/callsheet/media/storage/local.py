"""Objects as files under the data directory, handed out through signed URLs of the control plane."""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from io import FileIO
from itertools import islice
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from callsheet.media.storage import sweeping
from callsheet.media.storage.calls import StorageCalls
from callsheet.media.storage.disk import Blob, Disk, Draft, Pointer
from callsheet.media.storage.file_threads import FileThreads, Operation, Start, in_batches, run_together
from callsheet.media.storage.keys import (
    clean_name,
    validate_content_type,
    validate_folder,
    validate_key,
    validate_seconds,
    validate_sha256,
    validate_size,
)
from callsheet.media.storage.local_parts import LocalParts
from callsheet.media.storage.port import DeletionGuard, ObjectEntry, ObjectInfo, SignedRequest
from callsheet.media.storage.signed_urls import Grant, UrlSigner
from callsheet.plumbing.failpoints import Failpoint, hit, hit_in_thread
from callsheet.toolbox.batching import Batcher
from callsheet.toolbox.clock import Clock, SystemClock
from callsheet.toolbox.disk_space import read_space
from callsheet.toolbox.signing import Master
from callsheet.wire.errors import (
    ContentMismatch,
    FieldProblem,
    InsufficientStorage,
    NotFound,
    RangeNotSatisfiable,
    Unavailable,
)
from callsheet.wire.plurals import counted

# Served through granian, 1 MiB per hop gives 3.0 GB/s, 64 KiB 0.55 GB/s, and its own pathsend 1.9 GB/s, which
# moreover opens the file by name after the headers are out, when it may have been replaced.
CHUNK_BYTES = 1 << 20
THREADS = 8
CHANGES_AT_ONCE = 64
ENTRIES_PER_HOP = 256
KEEP_RUBBISH = timedelta(hours=24)

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class OpenObject:
    """An object held open: what happens to its key meanwhile does not change these bytes. Must be closed."""

    info: ObjectInfo
    file: FileIO

    def close(self) -> None:
        self.file.close()


class LocalStorage:
    def __init__(
        self,
        root: Path,
        *,
        public_url: str,
        secret: Master,
        url_seconds: int,
        max_upload_bytes: int,
        clock: Clock | None = None,
        guard: DeletionGuard | None = None,
        reserve_bytes: int = 0,
        calls: StorageCalls | None = None,
    ) -> None:
        self.calls = calls or StorageCalls()
        self._reserve_bytes = reserve_bytes
        self._guard = guard
        self._clock = clock or SystemClock()
        self._disk = Disk(root)
        self._threads = FileThreads(THREADS)
        self._changes: Batcher[Operation[Any], None] = Batcher(self._change_together, limit=CHANGES_AT_ONCE)
        self._url_seconds = url_seconds
        self._max_upload_bytes = max_upload_bytes
        self.url = public_url
        self.urls = UrlSigner(secret, public_url, self._clock)
        self.parts = LocalParts(self, self._disk, self._in_thread, reserve_bytes)

    async def put(
        self,
        key: str,
        content: AsyncIterable[bytes] | bytes,
        *,
        content_type: str,
        sha256: str | None = None,
        exact_bytes: int | None = None,
        leaves_reserve: bool = False,
        expected_bytes: int = 0,
    ) -> ObjectInfo:
        """With `sha256` or `exact_bytes`, bytes of another checksum or number are refused and nothing is stored.

        `leaves_reserve`: an object that would use the reserve of the disk is refused. `expected_bytes`: its size if
        that is known.
        """
        validate_key(key)
        validate_content_type(content_type)
        with self.calls.measured("write", is_timed=False):
            draft = self._disk.draft(key)
            async with self._discarded_on_failure(draft):
                await self._run_timed(draft.open)
                if leaves_reserve:
                    await self._in_thread(self._require_space, expected_bytes)
                async for batch in in_batches(content, CHUNK_BYTES):
                    await self._run_timed(self._write, draft, batch, leaves_reserve=leaves_reserve)
                _require_declared(draft, exact_bytes, sha256)
                await self._run_timed(draft.seal)
                now = self._clock.now().timestamp()
                pointer = Pointer(draft.name, draft.size, content_type, draft.sha256, now, draft.id)
                await hit(Failpoint.STORAGE_BEFORE_POINTER)
                await self._changed(lambda enter: self._disk.point(enter, key, pointer, draft))
                return _info(key, pointer)

    def _write(self, draft: Draft, batch: bytes, *, leaves_reserve: bool) -> None:
        # Measured for each megabyte, because many uploads may fill the disk together. It takes a microsecond.
        if leaves_reserve:
            self._require_space(len(batch))
        draft.write(batch)

    def _require_space(self, size: int) -> None:
        if read_space(self._disk.root).free_bytes - size < self._reserve_bytes:
            raise InsufficientStorage()

    @asynccontextmanager
    async def _discarded_on_failure(self, blob: Blob) -> AsyncIterator[None]:
        """A full disk must not be kept full for a day by what could not be stored."""
        try:
            yield
        except (Exception, asyncio.CancelledError):
            await self._in_thread(blob.discard)
            raise

    async def head(self, key: str) -> ObjectInfo | None:
        pointer = await self._run(self._disk.find, validate_key(key))
        return None if pointer is None else _info(key, pointer)

    async def peek(self, key: str, size: int) -> tuple[ObjectInfo, bytes] | None:
        found = await self._run(self._begin, validate_key(key), size)
        return None if found is None else (_info(key, found[0]), found[1])

    def _begin(self, key: str, size: int) -> tuple[Pointer, bytes] | None:
        found = self._disk.open(key)
        if found is None:
            return None
        pointer, file = found
        with file:
            return pointer, file.read(size)

    async def sha256_of(self, key: str) -> str | None:
        info = await self.head(key)
        return None if info is None else info.sha256

    async def open(self, key: str) -> OpenObject | None:
        found = await self._run(self._disk.open, validate_key(key))
        return None if found is None else OpenObject(_info(key, found[0]), found[1])

    async def chunks(self, opened: OpenObject, start: int, end: int) -> AsyncIterator[bytes]:
        while start < end:
            chunk = await self._run(os.pread, opened.file.fileno(), min(CHUNK_BYTES, end - start), start)
            if not chunk:
                raise Unavailable("The stored object is shorter than it was.")
            start += len(chunk)
            yield chunk

    async def stream(self, key: str, start: int = 0, end: int | None = None) -> AsyncGenerator[bytes]:
        opened = await self.open(key)
        if opened is None:
            raise NotFound()
        try:
            size = opened.info.size
            if start and start >= size:
                raise RangeNotSatisfiable(size)
            async for chunk in self.chunks(opened, start, size if end is None else min(end, size)):
                yield chunk
        finally:
            opened.close()

    async def read(self, key: str, max_bytes: int) -> bytes:
        opened = await self.open(key)
        if opened is None:
            raise NotFound()
        try:
            if opened.info.size > max_bytes:
                raise ContentMismatch(
                    f"The object has {counted(opened.info.size, 'byte')}, but the limit is {max_bytes}."
                )
            return b"".join([chunk async for chunk in self.chunks(opened, 0, opened.info.size)])
        finally:
            opened.close()

    @property
    def place(self) -> str:
        return str(self._disk.root)

    async def delete(self, key: str) -> None:
        await self.delete_many([key])

    async def delete_many(self, keys: Iterable[str]) -> None:
        valid = [validate_key(key) for key in keys]
        if valid and self._guard is not None:
            await self._guard.require(self)
        await self._change(lambda enter: self._disk.remove(enter, *valid))

    async def list(self, folder: str = "") -> AsyncIterator[ObjectEntry]:
        entries = self._disk.entries(validate_folder(folder))
        try:
            while batch := await self._run(lambda: [*islice(entries, ENTRIES_PER_HOP)]):
                for key, pointer in batch:
                    yield ObjectEntry(key, pointer.size, _when(pointer))
        finally:
            entries.close()

    async def copy(self, source: str, target: str) -> ObjectInfo:
        return (await self.copy_and_peek(source, target, 0))[0]

    async def copy_and_peek(self, source: str, target: str, size: int) -> tuple[ObjectInfo, bytes]:
        validate_key(source)
        validate_key(target)
        now = self._clock.now().timestamp()
        half_made = hit_in_thread(Failpoint.STORAGE_COPY_HALF_MADE)
        found = await self._change(
            lambda enter: self._disk.copy(enter, source, target, now, size, half_made), is_timed=False
        )
        if found is None:
            raise NotFound()
        pointer, beginning = found
        return _info(target, pointer), beginning

    def presign_get(
        self,
        key: str,
        *,
        seconds: int | None = None,
        download_name: str | None = None,
        content_type: str | None = None,
    ) -> SignedRequest:
        name = None if download_name is None else clean_name(download_name)
        served_as = "" if content_type is None else validate_content_type(content_type)
        grant = Grant("GET", validate_key(key), self._expires(seconds), content_type=served_as, download_name=name)
        return SignedRequest("GET", self.urls.url(grant), {}, grant.expires_at)

    def presign_put(
        self,
        key: str,
        *,
        content_type: str,
        size: int | None,
        seconds: int | None = None,
        sha256: str | None = None,
        is_exact: bool = False,
    ) -> SignedRequest:
        """With `is_exact`, a body that is shorter than `size` is refused, too."""
        grant = Grant(
            "PUT",
            validate_key(key),
            self._expires(seconds),
            content_type=validate_content_type(content_type),
            max_bytes=self._max_upload_bytes if validate_size(size) is None else size,
            is_exact=is_exact,
            sha256=validate_sha256(sha256),
        )
        return SignedRequest("PUT", self.urls.url(grant), {"Content-Type": content_type}, grant.expires_at)

    def _expires(self, seconds: int | None) -> int:
        lifetime = self._url_seconds if seconds is None else validate_seconds(seconds)
        return int(self._clock.now().timestamp()) + lifetime

    async def check(self) -> None:
        key, content = f"callsheet-check/{secrets.token_hex(8)}", secrets.token_bytes(64)
        try:
            await self.put(key, content, content_type="application/octet-stream")
            if await self.read(key, len(content)) != content:
                raise Unavailable("The storage returned other bytes than were written.")
            await self._change(lambda enter: self._disk.remove(enter, key))
        except Unavailable as refusal:
            raise Unavailable(f"{self._disk.root}: {refusal}") from refusal

    async def sweep(self, now: datetime) -> int:
        return await self._in_thread(sweeping.sweep, self._disk, (now - KEEP_RUBBISH).timestamp())

    async def close(self) -> None:
        await self.parts.close()
        self._threads.close()

    async def _change(self, start: Start[Result], *, is_timed: bool = True) -> Result:
        with self.calls.measured("write", is_timed=is_timed):
            return await self._changed(start)

    async def _changed(self, start: Start[Result]) -> Result:
        """Runs it with the changes that other callers make now. Waits for the end also when cancelled."""
        operation = Operation(start)
        ended = self._changes.add(operation)
        cancelled: asyncio.CancelledError | None = None
        while not ended.done():
            try:
                await asyncio.shield(ended)
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled
        try:
            return operation.result()
        except OSError as error:
            raise Unavailable(_sentence(error)) from error

    async def _change_together(self, operations: Sequence[Operation[Any]]) -> Sequence[None]:
        await self._threads.run(run_together, self._disk.root, operations)
        return [None] * len(operations)

    async def _run(
        self, function: Callable[Parameters, Result], *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> Result:
        with self.calls.measured("read"):
            return await self._in_thread(function, *args, **kwargs)

    async def _run_timed(
        self, function: Callable[Parameters, Result], *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> Result:
        with self.calls.timed("write"):
            return await self._in_thread(function, *args, **kwargs)

    async def _in_thread(
        self, function: Callable[Parameters, Result], *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> Result:
        try:
            return await self._threads.run(function, *args, **kwargs)
        except OSError as error:
            raise Unavailable(_sentence(error)) from error


def _require_declared(draft: Draft, exact_bytes: int | None, sha256: str | None) -> None:
    if exact_bytes is not None and draft.size != exact_bytes:
        reason = f"The body has {counted(draft.size, 'byte')}, but {exact_bytes} were declared."
        raise ContentMismatch(errors=[FieldProblem("size", reason)])
    if sha256 is not None and draft.sha256 != sha256:
        reason = f"The SHA-256 of the body is {draft.sha256}, but {sha256} was declared."
        raise ContentMismatch(errors=[FieldProblem("sha256", reason)])


def _info(key: str, pointer: Pointer) -> ObjectInfo:
    etag = f'"{pointer.sha256}"'
    return ObjectInfo(key, pointer.size, pointer.content_type, etag, pointer.sha256, _when(pointer))


def _when(pointer: Pointer) -> datetime:
    return datetime.fromtimestamp(pointer.modified_at, UTC)


def _sentence(error: OSError) -> str:
    """For the client: what is wrong, without the paths of this machine."""
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT | errno.EFBIG:
            return f"The storage is full ({error.strerror})."
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return f"The storage does not let Callsheet read or write ({error.strerror})."
        case errno.ELOOP | errno.ENOTDIR:
            return "The storage has a link or a file where its own folder must be."
        case _:
            return f"The storage cannot be used ({error.strerror or error})."
