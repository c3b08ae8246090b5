"""Runs decoders in a sandbox: one process per file, with limits on time, memory and bytes that it reads.

The files are not trusted. A JPEG of 100 kB can need hours (a scan of the whole image every 75 bytes), a video can be
endless, and a decoder that crashes ends its process. The process has no environment variables and opens no other file.
It gets only the parts of the file that it requests, so a few megabytes of a video of gigabytes are read.
"""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Literal

from callsheet.media.previews import program
from callsheet.media.previews.program import BLOCK_BYTES, CLIP, FRAME, LARGE, LENGTH, SMALL, WANTED, NoPreview
from callsheet.wire.plurals import counted

Kind = Literal["image", "video", "audio"]
# Reads `length` bytes from `start` on, fewer at the end of the file.
Read = Callable[[int, int], Awaitable[bytes]]

# Maximum number of bytes that are read of one file. A decoder may read the same bytes several times.
MAX_READ_BYTES = 256 * 1024 * 1024
# Maximum size of a preview of each kind. A larger preview is refused.
MAX_BYTES = {SMALL: 256 * 1024, LARGE: 1024 * 1024, CLIP: 2 * 1024 * 1024}
MAX_REASON_LENGTH = 200
# How long to wait for the end of a process that has closed its output.
ENDING_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class ClipSize:
    """Size of the clip of a video: pixels of its longer side, and seconds."""

    side: int
    seconds: float


# The clip that lists show.
FOR_LISTS = ClipSize(480, 3.0)


class OutOfTime(Exception):
    """The preview was not made in time because the machine is busy or storage is slow, not because of the file."""


@dataclass(frozen=True, slots=True)
class Effort:
    """Limits for one file. More processor time is the fault of the file; more elapsed time is not."""

    seconds: float
    cpu_seconds: int = 30
    niceness: int = 0


# The process has the lowest priority. On a busy machine it gets a hundredth of a processor, and two seconds of work
# take minutes.
IN_BACKGROUND = Effort(seconds=300.0, niceness=10)
# The limits while a user waits for the response.
AWAITED = Effort(seconds=60.0)


@dataclass(frozen=True, slots=True)
class Previews:
    """The previews by name, and the size of the original. Sound has no width and height."""

    files: dict[str, bytes]
    width: int | None
    height: int | None
    duration_seconds: float | None


def kinds() -> tuple[Kind, ...]:
    """The kinds of files that get previews: videos and sound only if PyAV is installed."""
    return ("image", "video", "audio") if find_spec("av") is not None else ("image",)


async def make_previews(
    kind: Kind, size: int, read: Read, clip: ClipSize = FOR_LISTS, effort: Effort = IN_BACKGROUND
) -> Previews:
    """Makes previews. Raises NoPreview if this file cannot have one, and OutOfTime if a later attempt may succeed."""
    limits = {"cpu_seconds": effort.cpu_seconds, "niceness": effort.niceness}
    task = {"kind": kind, "size": size, "side": clip.side, "seconds": clip.seconds, **limits}
    process, connection = _start()
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(effort.seconds):
            reader, writer = await asyncio.open_connection(sock=connection)
            return await _Conversation(writer, reader, read, kind).run(task)
    except TimeoutError:
        raise OutOfTime(f"Making a preview took more than {counted(effort.seconds, 'second')}.") from None
    except (asyncio.IncompleteReadError, ConnectionError):
        if await asyncio.to_thread(_ending, process) == -signal.SIGXCPU:
            raise NoPreview(
                f"the file takes more than {counted(effort.cpu_seconds, 'second')} of processor time"
            ) from None
        raise NoPreview("the decoder crashed") from None
    finally:
        # This also runs if the waiting task is canceled.
        process.kill()
        (writer or connection).close()
        await asyncio.to_thread(process.wait)


def _start() -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Starts the process. Returns it with the socket that is its input and output.

    uvloop starts a process with fork, which copies the tables of all memory and stops the event loop for 14 ms in a
    control plane of 200 MB. `Popen` uses vfork, which takes 0.4 ms.
    """
    ours, theirs = socket.socketpair()
    with theirs:
        try:
            # The script is started by its path, so that no other module is loaded. It gets no environment, because that
            # may contain secrets.
            process = subprocess.Popen(  # noqa: S603 (fixed words)
                [sys.executable, "-I", "-B", program.__file__],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=subprocess.DEVNULL,
                env={},
            )
        except BaseException:
            ours.close()
            raise
    ours.setblocking(False)
    return process, ours


def _ending(process: subprocess.Popen[bytes]) -> int | None:
    with suppress(subprocess.TimeoutExpired):
        return process.wait(ENDING_SECONDS)
    return None


@dataclass(slots=True)
class _Conversation:
    """The messages to and from the process. The file may have taken over the process, so no message is trusted."""

    target: asyncio.StreamWriter
    source: asyncio.StreamReader
    read: Read
    kind: Kind
    read_bytes: int = 0
    files: dict[str, bytes] = field(default_factory=dict)

    async def run(self, task: Mapping[str, object]) -> Previews:
        self.target.write(json.dumps(task).encode() + b"\n")
        while True:
            letter, length = FRAME.unpack(await self.source.readexactly(FRAME.size))
            if length > max(MAX_BYTES.values()) + 100:
                raise NoPreview("the preview is too large")
            payload = await self.source.readexactly(length)
            match letter:
                case b"R" if length == WANTED.size:
                    await self._response(*WANTED.unpack(payload))
                case b"F":
                    self._keep(payload)
                case b"I":
                    return self._finished(payload)
                case b"N":
                    raise NoPreview(payload.decode("utf-8", "replace")[:MAX_REASON_LENGTH])
                case _:
                    raise NoPreview("the decoder crashed")

    async def _response(self, start: int, length: int) -> None:
        self.read_bytes += length
        if length > BLOCK_BYTES or self.read_bytes > MAX_READ_BYTES:
            raise NoPreview(f"the preview needs more than {MAX_READ_BYTES} bytes of the file")
        content = await self.read(start, length)
        self.target.write(LENGTH.pack(len(content)) + content)
        await self.target.drain()

    def _keep(self, payload: bytes) -> None:
        name, _, content = payload.partition(b"\0")
        named = name.decode("ascii", "replace")
        if len(content) > MAX_BYTES.get(named, 0):
            raise NoPreview("the preview is too large")
        self.files[named] = content

    def _finished(self, payload: bytes) -> Previews:
        try:
            facts = json.loads(payload)
            width, height = (None, None) if self.kind == "audio" else (int(facts["width"]), int(facts["height"]))
            seconds = facts.get("duration_seconds")
            sizes = [each for each in (width, height) if each is not None]
            if not {SMALL, LARGE} <= self.files.keys() or not all(0 < each < 2**31 for each in sizes):
                raise ValueError
            return Previews(self.files, width, height, None if seconds is None else float(seconds))
        except (ValueError, TypeError, KeyError):
            raise NoPreview("the decoder crashed") from None
