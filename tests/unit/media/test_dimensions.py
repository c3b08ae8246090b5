"""The size of an image by its header, for every format that people upload; nothing is decoded."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import pytest
from PIL import Image

from callsheet.media.dimensions import Dimensions, dimensions_of


async def read_from(content: bytes) -> Dimensions | None:
    async def read(start: int, length: int) -> bytes:
        return content[start : start + length]

    return await dimensions_of(read)


def image(kind: str, size: tuple[int, int] = (33, 21), **options: Any) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", size, "teal").save(file, kind, **options)
    return file.getvalue()


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("PNG", {}),
        ("JPEG", {}),
        ("JPEG", {"progressive": True}),
        # Metadata of 200 kB are in front of the size.
        ("JPEG", {"icc_profile": bytes(200_000), "comment": b"c" * 60_000}),
        ("GIF", {}),
        ("BMP", {}),
        ("TIFF", {}),
        ("WEBP", {}),
        ("WEBP", {"lossless": True}),
        ("WEBP", {"exif": b"Exif\0\0" + bytes(40)}),
        ("AVIF", {}),
    ],
    ids=str,
)
async def test_the_size_is_what_a_decoder_would_find(kind: str, options: dict[str, Any]) -> None:
    assert await read_from(image(kind, **options)) == (33, 21)


@pytest.mark.parametrize("order", ["<", ">"])
async def test_a_directory_at_the_end_of_a_tiff_is_found(order: str) -> None:
    mark = b"II*\0" if order == "<" else b"MM\0*"
    offset = 300_000
    entries = struct.pack(f"{order}HHHIHH", 2, 256, 3, 1, 30_000, 0) + struct.pack(f"{order}HHII", 257, 4, 1, 40_000)
    content = (mark + struct.pack(f"{order}I", offset)).ljust(offset, b"\0") + entries
    assert await read_from(content) == (30_000, 40_000)


def png_header(width: int, height: int) -> bytes:
    """A few bytes that ask a decoder for `width * height` pixels."""
    data = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I", 13) + data + struct.pack(">I", zlib.crc32(data))
    return b"\x89PNG\r\n\x1a\n" + chunk


async def test_the_size_of_a_huge_image_is_read_from_its_header() -> None:
    found = await read_from(png_header(30_000, 30_000))
    assert found is not None
    assert found.pixels == 900_000_000


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x89PNG\r\n\x1a\n",
        b"\xff\xd8\xff",
        b"\xff\xd8\xff\xe0\x00\x00" * 1000,
        b"\xff\xd8" + b"\xff" * 5000,
        b"II*\0\xff\xff\xff\xff",
        b"II*\0\x08\0\0\0\x02\0",
        b"RIFF\0\0\0\0WEBPVP8L",
        b"RIFF\0\0\0\0WEBPABCD".ljust(40),
        b"\0\0\0\x20ftypisom".ljust(100, b"\0"),
        b"BM",
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
    ],
    ids=repr,
)
async def test_a_file_without_a_readable_header_has_no_size(content: bytes) -> None:
    assert await read_from(content) is None


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "AVIF"])
async def test_a_truncated_file_causes_no_error(kind: str) -> None:
    whole = image(kind)
    for length in range(0, min(len(whole), 400), 3):
        found = await read_from(whole[:length])
        assert found is None or found.width == 33
