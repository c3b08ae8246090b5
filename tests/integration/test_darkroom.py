"""Pictures that are made to hurt: each costs itself its thumbnail, and nothing else (a decoder sits behind walls)."""

from __future__ import annotations

import io
import os
import struct
import zlib
from pathlib import Path

import pytest
from PIL import Image

from callsheet.pipelines import pictures
from callsheet.pipelines.darkroom import developed
from callsheet.pipelines.pictures import SIDE, NoPicture


def encoded(image: Image.Image, kind: str, **options: object) -> bytes:
    target = io.BytesIO()
    image.save(target, kind, **options)
    return target.getvalue()


def square_png(side: int, depth: int, colour: int, row: bytes) -> bytes:
    """Of one row again and again: decoded it takes hundreds of megabytes, which a test process need not have."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    packer = zlib.compressobj(1)
    packed = b"".join(packer.compress(b"\0" + row) for _ in range(side)) + packer.flush()
    header = struct.pack(">IIBBBBB", side, side, depth, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", packed) + chunk(b"IEND", b"")


def endless_jpeg() -> bytes:
    """Its last scan, of a few bytes, a hundred thousand times: each goes over all sixteen million pixels."""
    plain = encoded(Image.new("RGB", (4000, 4000), "red"), "JPEG", progressive=True)
    end, scan = plain.rindex(b"\xff\xd9"), plain.rindex(b"\xff\xda")
    return plain[:end] + plain[scan:end] * 100_000 + plain[end:]


def million_frames() -> bytes:
    """A GIF that repeats its only frame a million times."""
    plain = encoded(Image.new("P", (8, 8)), "GIF")
    frame = plain[plain.index(b"\x2c\x00") : -1]
    return plain[:-1] + frame * 1_000_000 + plain[-1:]


async def test_the_largest_picture_that_is_taken_fits_into_the_memory_of_a_decoder() -> None:
    made = await developed(square_png(7000, 8, 6, bytes((255, 0, 0, 9)) * 7000), 300)
    assert Image.open(io.BytesIO(made)).size == (SIDE, SIDE)


async def test_of_a_million_frames_one_is_looked_at() -> None:
    made = await developed(million_frames(), 300)
    assert Image.open(io.BytesIO(made)).size == (8, 8)


async def test_a_picture_that_takes_for_ever_is_given_up() -> None:
    with pytest.raises(NoPicture, match="more than 2 seconds"):
        await developed(endless_jpeg(), seconds=2)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "no picture"),
        (b"<html><script>alert(1)</script></html>", "no picture"),
        (b'<svg xmlns="http://www.w3.org/2000/svg"/>', "no picture"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "no picture"),
        (encoded(Image.effect_noise((300, 300), 80), "PNG")[:9000], "cannot be read"),
        (square_png(20_000, 1, 0, bytes(2500)), "pixels"),
    ],
    ids=["nothing", "html", "svg", "eps", "truncated", "bomb"],
)
async def test_what_is_no_picture_says_why(content: bytes, reason: str) -> None:
    with pytest.raises(NoPicture, match=reason):
        await developed(content, 300)


async def test_a_decoder_that_crashes_takes_nobody_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "crash.py"
    program.write_text("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    monkeypatch.setattr(pictures, "__file__", str(program))
    with pytest.raises(NoPicture, match="died"):
        await developed(b"x" * 10_000_000, 300)


async def test_a_decoder_is_told_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "tell.py"
    program.write_text("import os, sys; sys.stdin.buffer.read(); sys.stdout.write(repr(dict(os.environ)))")
    monkeypatch.setattr(pictures, "__file__", str(program))
    monkeypatch.setenv("CALLSHEET_SECRET", "told-to-nobody")
    told = (await developed(b"", 300)).decode()
    assert "told-to-nobody" not in told
    assert os.environ["PATH"] not in told
