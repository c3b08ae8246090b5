"""The operations of a storage backend. Rooms see this port only, never a backend."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from callsheet.media.storage.calls import StorageCalls
from callsheet.toolbox.logs import get_logger
from callsheet.wire.errors import Unavailable

# The limit of S3; the local backend keeps the same bound so that a backend can be changed without surprises.
MAX_URL_SECONDS = 604_800


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    key: str
    size: int
    content_type: str
    etag: str
    sha256: str | None
    """Hexadecimal; None where the backend does not say."""
    modified_at: datetime


@dataclass(frozen=True, slots=True)
class ObjectEntry:
    """One line of a listing."""

    key: str
    size: int
    modified_at: datetime


@dataclass(frozen=True, slots=True)
class SignedRequest:
    """A request that a client without credentials may make until `expires_at`, with exactly these headers."""

    method: Literal["GET", "PUT"]
    url: str
    headers: Mapping[str, str]
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class StoredPart:
    """A part that has arrived."""

    number: int
    size: int


class PartStorage(Protocol):
    """Objects that are uploaded in parts, each with a signed URL of its own. No URL can write to the joined object."""

    async def start(self, key: str, *, content_type: str) -> str:
        """Returns the id of the upload at the storage."""
        ...

    def presign(self, key: str, upload_id: str, number: int, *, size: int, sha256: str) -> SignedRequest:
        """Writing this part: exactly these bytes."""
        ...

    async def arrived(self, key: str, upload_id: str) -> Sequence[StoredPart] | None:
        """In no order. None if the storage has no such upload: its parts were joined, or removed by the service."""
        ...

    async def join(self, key: str, upload_id: str, checksums: Sequence[str], *, content_type: str) -> None:
        """Makes the object of its parts, whose checksums are given in order. All have arrived; raises NotFound if they
        are gone. Afterwards no URL of a part works, or what it writes does not belong to the object."""
        ...

    async def abort(self, key: str) -> None:
        """Removes all parts of this object that were not joined."""
        ...

    async def missing_rights(self) -> Sequence[str]:
        """The rights that these calls need at the storage and do not have, by trying them. Raises Unavailable if the
        storage accepts a part with a wrong checksum."""
        ...


class DeletionGuard(Protocol):
    async def require(self, storage: Storage) -> None:
        """Raises Unavailable where nothing may be deleted in this storage."""
        ...


class WriteGuard(Protocol):
    async def require(self, key: str) -> None:
        """Raises WrongState if a valid signed URL must not store this object any more."""
        ...


class Storage(Protocol):
    @property
    def calls(self) -> StorageCalls:
        """How many of its calls failed or were slow."""
        ...

    @property
    def parts(self) -> PartStorage: ...

    @property
    def place(self) -> str:
        """Where it is, for people."""
        ...

    @property
    def url(self) -> str:
        """The common start of the URLs that it signs: at least their origin."""
        ...

    async def put(self, key: str, content: AsyncIterable[bytes] | bytes, *, content_type: str) -> ObjectInfo:
        """Stores the object whole or not at all; one that was there before is replaced at once."""
        ...

    async def head(self, key: str) -> ObjectInfo | None: ...

    async def peek(self, key: str, size: int) -> tuple[ObjectInfo, bytes] | None:
        """The object and its first bytes, in one request: up to `size` bytes, one at least."""
        ...

    async def sha256_of(self, key: str) -> str | None:
        """The checksum of the bytes that are there, hexadecimal; None where there is no object.

        A backend that does not keep it reads the whole object.
        """
        ...

    def stream(self, key: str, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """The bytes from `start` up to, not including, `end`."""
        ...

    async def read(self, key: str, max_bytes: int) -> bytes:
        """The whole object; one that is larger than `max_bytes` is refused, not cut."""
        ...

    async def delete(self, key: str) -> None:
        """Afterwards it is gone, whether or not it was there. Refused in storage of another installation."""
        ...

    async def delete_many(self, keys: Iterable[str]) -> None: ...

    def list(self, folder: str = "") -> AsyncIterator[ObjectEntry]:
        """Every object below a folder, in no order. `a/b` lists `a/b/c`, neither `a/b` itself nor `a/bc`."""
        ...

    async def copy(self, source: str, target: str) -> ObjectInfo:
        """Raises NotFound where there is no object to copy."""
        ...

    async def copy_and_peek(self, source: str, target: str, size: int) -> tuple[ObjectInfo, bytes]:
        """Like `copy`, then `peek` at the copy, in one go."""
        ...

    def presign_get(
        self,
        key: str,
        *,
        seconds: int | None = None,
        download_name: str | None = None,
        content_type: str | None = None,
    ) -> SignedRequest:
        """Reading; with `download_name` a browser saves it under that name.

        With `content_type` that is what it is served as, whatever type it was written with.
        """
        ...

    def presign_put(
        self, key: str, *, content_type: str, size: int | None, seconds: int | None = None, sha256: str | None = None
    ) -> SignedRequest:
        """Writing bytes of this type and, if given, this checksum. `size` is the exact length on S3, the most here.

        None, where the length is not known yet: any length on S3, the largest upload the settings allow here.
        """
        ...

    async def check(self) -> None:
        """Writes, reads and deletes an object; raises Unavailable with a sentence that says what is wrong."""
        ...

    async def sweep(self, now: datetime) -> int:
        """Removes what interrupted writes left behind long ago; returns how many pieces."""
        ...

    async def close(self) -> None: ...


log = get_logger(__name__)


async def discard_parts(storage: Storage, keys: Collection[str]) -> None:
    """Like `discard`, for the parts of these objects."""
    for key in keys:
        try:
            await storage.parts.abort(key)
        except Unavailable as error:
            log.warning("media.parts_left_to_sweep", error=repr(error))


async def discard(storage: Storage, keys: Collection[str]) -> None:
    """Deletes them if the storage can be used. A sweep finds the other ones by rows that callers have left."""
    if keys:
        try:
            await storage.delete_many(keys)
        except Unavailable as error:
            log.warning("media.objects_left_to_sweep", objects=len(keys), error=repr(error))
