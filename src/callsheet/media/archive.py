"""Writes a zip while it is sent. Only one piece of one file and the list of names are in memory."""

from __future__ import annotations

import zipfile
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime

from callsheet.media.files import Files
from callsheet.wire.errors import NotFound

# Larger files need the longer form of an entry, which must be chosen before the first byte.
LONG = 2**31 - 2**20
# The earliest time that the format can express. Earlier times are replaced by it.
EARLIEST = datetime(1980, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ArchiveEntry:
    name: str
    at: datetime
    content: AsyncIterable[bytes]
    size: int = 0
    """The size of the content, if it is known; otherwise 0."""
    packed: bool = False
    """Whether the content is already compressed, as images are."""


class _Sink:
    """Collects the bytes that the archive writes, until the response sends them."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, piece: bytes) -> int:
        self._pieces.append(bytes(piece))
        return len(piece)

    def flush(self) -> None:
        """Does nothing, because no bytes are buffered."""

    def taken(self) -> bytes:
        taken = b"".join(self._pieces)
        self._pieces.clear()
        return taken


async def zipped(entries: AsyncGenerator[ArchiveEntry, None]) -> AsyncIterator[bytes]:
    """The archive of these entries. Each entry is read when it is written."""
    sink = _Sink()
    with zipfile.ZipFile(sink, "w") as archive:  # type: ignore[call-overload]
        # The entries are closed at once even if the client disconnects, because they hold files open.
        async with aclosing(entries):
            async for entry in entries:
                with archive.open(_info(entry), "w", force_zip64=entry.size > LONG) as target:
                    async for piece in entry.content:
                        target.write(piece)
                        yield sink.taken()
    yield sink.taken()


async def opened_content(files: Files, path: str | None, disk: str | None) -> AsyncIterator[bytes] | None:
    """The bytes of a file; None if its object does not exist. The object is opened here, so that a missing object
    does not end the zip half-way.
    """
    if path is None or disk != files.disk:
        return None
    pieces = files.storage.stream(path)
    try:
        first = await anext(pieces, b"")
    except NotFound:
        return None
    return _chained(first, pieces)


async def _chained(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for piece in rest:
        yield piece


def _info(entry: ArchiveEntry) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(entry.name, max(entry.at, EARLIEST).timetuple()[:6])
    info.compress_type = zipfile.ZIP_DEFLATED if entry.packed else zipfile.ZIP_STORED
    info.external_attr = 0o644 << 16
    return info
