"""Files in the control plane's storage for previews, and files that are made to use too much time or memory."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import av
import numpy as np
from PIL import Image

from callsheet.media.previews.sandbox import FOR_LISTS, ClipSize, Effort, Kind, Previews, make_previews
from tests.support.media.clips import make_clip

# A long limit for busy machines: no verdict depends on durations.
PATIENCE = Effort(seconds=300.0)


async def previews_of(
    content: bytes, kind: Kind = "video", clip: ClipSize = FOR_LISTS, effort: Effort = PATIENCE
) -> Previews:
    async def read(start: int, length: int) -> bytes:
        return content[start : start + length]

    return await make_previews(kind, len(content), read, clip, effort)


def image(width: int, height: int, kind: str = "PNG", colour: str = "green", **options: object) -> bytes:
    target = io.BytesIO()
    Image.new("RGB", (width, height), colour).save(target, kind, **options)
    return target.getvalue()


def clip(path: Path, frames: int = 24, **options: object) -> bytes:
    make_clip(path, frames, **options)  # type: ignore[arg-type]
    return path.read_bytes()


def opened(webp: bytes) -> Image.Image:
    return Image.open(io.BytesIO(webp))


def video_tracks(tracks: int = 1) -> bytes:
    """A Matroska file of this many video tracks, with a frame in each."""
    target = io.BytesIO()
    with av.open(target, "w", format="matroska") as container:
        streams = [container.add_stream("mjpeg", rate=1) for _ in range(tracks)]
        for stream in streams:
            stream.width, stream.height, stream.pix_fmt = 16, 16, "yuvj420p"
        for stream in streams:
            frame = av.VideoFrame.from_ndarray(np.zeros((16, 16, 3), np.uint8), format="rgb24")
            container.mux(stream.encode(frame.reformat(format="yuvj420p")))
            container.mux(stream.encode(None))
    return target.getvalue()


def patched(content: bytes, change: Callable[[bytearray], None]) -> bytes:
    copy = bytearray(content)
    change(copy)
    return bytes(copy)


def of_size(width: int, height: int) -> Callable[[bytearray], None]:
    """The size in the header of a JPEG, here of one that is a frame of a video."""

    def change(content: bytearray) -> None:
        header = content.index(b"\xff\xc0\x00\x11\x08")
        content[header + 5 : header + 9] = struct.pack(">HH", height, width)

    return change


def with_tracks(mp4: bytes, tracks: int) -> bytes:
    """An MP4 whose index, at its end, has its only track this many times."""
    moov, trak = mp4.index(b"moov") - 4, mp4.index(b"trak") - 4
    (size,) = struct.unpack(">I", mp4[trak : trak + 4])
    track = mp4[trak : trak + size]
    index = mp4[moov + 8 : trak] + track * tracks + mp4[trak + size :]
    return mp4[:moov] + struct.pack(">I4s", len(index) + 8, b"moov") + index


def square_png(side: int, depth: int, colour: int, row: bytes) -> bytes:
    """A PNG that repeats one row. Decoded it needs hundreds of megabytes, so the test does not decode it."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    packer = zlib.compressobj(1)
    packed = b"".join(packer.compress(b"\0" + row) for _ in range(side)) + packer.flush()
    header = struct.pack(">IIBBBBB", side, side, depth, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", packed) + chunk(b"IEND", b"")


def endless_jpeg() -> bytes:
    """A JPEG that repeats its last scan of a few bytes 100,000 times. Each scan covers all 16 million pixels."""
    plain = image(4000, 4000, "JPEG", "red", progressive=True)
    end, scan = plain.rindex(b"\xff\xd9"), plain.rindex(b"\xff\xda")
    return plain[:end] + plain[scan:end] * 100_000 + plain[end:]


def million_frames() -> bytes:
    """A GIF that repeats its only frame a million times."""
    target = io.BytesIO()
    Image.new("P", (8, 8)).save(target, "GIF")
    plain = target.getvalue()
    frame = plain[plain.index(b"\x2c\x00") : -1]
    return plain[:-1] + frame * 1_000_000 + plain[-1:]
