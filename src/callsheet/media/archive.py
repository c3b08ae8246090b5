"""A zip that is written while it is sent: what is in memory is one piece of one file, and the list of names."""

from __future__ import annotations

import zipfile
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime

from callsheet.media.files import Files
from callsheet.wire.errors import NotFound

# More than this needs the longer form of an entry, which must be chosen before the first byte.
LONG = 2**31 - 2**20
# What the format cannot say is said as the nearest it can.
EARLIEST = datetime(1980, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Entry:
    name: str
    at: datetime
    content: AsyncIterable[bytes]
    size: int = 0
    """As far as it is known."""
    packed: bool = False
    """Images are packed already."""


class _Sink:
    """Takes what the archive writes, for the response that sends it on."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, piece: bytes) -> int:
        self._pieces.append(bytes(piece))
        return len(piece)

    def flush(self) -> None:
        """Nothing is kept back."""

    def taken(self) -> bytes:
        taken = b"".join(self._pieces)
        self._pieces.clear()
        return taken


async def zipped(entries: AsyncGenerator[Entry, None]) -> AsyncIterator[bytes]:
    """The archive of these entries, each of which is read when its turn has come."""
    sink = _Sink()
    with zipfile.ZipFile(sink, "w") as archive:  # type: ignore[call-overload]
        # Also where the client disconnects: what the entries hold open is closed then and not some time.
        async with aclosing(entries):
            async for entry in entries:
                with archive.open(_info(entry), "w", force_zip64=entry.size > LONG) as target:
                    async for piece in entry.content:
                        target.write(piece)
                        yield sink.taken()
    yield sink.taken()


async def opened_content(files: Files, path: str | None, disk: str | None) -> AsyncIterator[bytes] | None:
    """The bytes of a file; None if its object does not exist. The object is opened here, so that a missing one does not
    end a zip half-way."""
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


def _info(entry: Entry) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(entry.name, max(entry.at, EARLIEST).timetuple()[:6])
    info.compress_type = zipfile.ZIP_DEFLATED if entry.packed else zipfile.ZIP_STORED
    info.external_attr = 0o644 << 16
    return info
