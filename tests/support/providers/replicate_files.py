"""Outputs of the Replicate of the tests: real files, and responses that only claim to be files."""

from __future__ import annotations

import asyncio
import io
import struct
import wave
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from aiohttp import web
from PIL import Image

from tests.support.media.clips import make_clip

HTML = b"<!doctype html><html><head><title>Sign in</title></head><body>Please sign in.</body></html>"
PIECE = bytes(65_536)
# Maps each name to the type that it is sent with.
FILES = {
    "picture.png": "image/png",
    "picture-2.png": "image/png",
    "film.mp4": "video/mp4",
    "sound.wav": "audio/wav",
    "words.txt": "text/plain",
    # Wrong content: an HTML page with the type of an image, and an HTML page with its own type.
    "page.png": "image/png",
    "page.html": "text/html",
    "empty.png": "image/png",
    "missing.png": "",
    # The first request gets a 500.
    "flaky.png": "image/png",
    # Slow and without end: one byte at a time.
    "slow.png": "image/png",
    # Without end, and without a length.
    "endless.png": "image/png",
    # Declares a length that is too large to read.
    "huge.png": "image/png",
    # The connection ends in the middle.
    "broken.png": "image/png",
}


@cache
def content_of(name: str) -> bytes:
    match name:
        case "film.mp4":
            with TemporaryDirectory() as directory:
                make_clip(path := Path(directory) / name, frames=6, width=64, height=48)
                return path.read_bytes()
        case "sound.wav":
            return _sound()
        case "words.txt":
            return b"Words that a model wrote.\n"
        case "page.png" | "page.html":
            return HTML
        case "empty.png":
            return b""
    return _image(name)


async def serve_file(request: web.Request, name: str, time: int) -> web.StreamResponse:
    if name not in FILES or name == "missing.png":
        raise web.HTTPNotFound
    if name == "flaky.png" and time == 1:
        raise web.HTTPInternalServerError
    if name in ("slow.png", "endless.png", "huge.png", "broken.png"):
        return await _misbehave(request, name)
    return web.Response(body=content_of(name), content_type=FILES[name])


async def _misbehave(request: web.Request, name: str) -> web.StreamResponse:
    content = content_of("picture.png")
    response = web.StreamResponse(headers={"content-type": "image/png"})
    if name == "huge.png":
        response.content_length = 2**40
    if name == "broken.png":
        response.content_length = len(content)
    with suppress(ConnectionError):
        await response.prepare(request)
        await response.write(content[:64])
        if name == "broken.png":
            assert request.transport is not None
            request.transport.close()
            return response
        while True:
            await response.write(b"\0" if name == "slow.png" else PIECE)
            await asyncio.sleep(0.05 if name == "slow.png" else 0)
    return response


def _image(name: str) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (48, 32), (len(name) * 7 % 256, 90, 160)).save(buffer, "PNG")
    return buffer.getvalue()


def _sound() -> bytes:
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        sound.writeframes(b"".join(struct.pack("<h", (step % 40 - 20) * 500) for step in range(800)))
    return buffer.getvalue()
