"""What bytes are, by how they begin."""

from __future__ import annotations

from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from callsheet.toolbox.media_types import EXTENSIONS, SNIFFED_BYTES, is_one_of, media_type_of


@pytest.mark.parametrize(
    ("name", "media_type"),
    [
        ("PNG", "image/png"),
        ("JPEG", "image/jpeg"),
        ("GIF", "image/gif"),
        ("WEBP", "image/webp"),
        ("AVIF", "image/avif"),
        ("TIFF", "image/tiff"),
        ("BMP", "image/bmp"),
    ],
)
def test_the_type_of_written_images_is_recognized(name: str, media_type: str) -> None:
    written = BytesIO()
    Image.new("RGB", (3, 3)).save(written, name)
    assert media_type_of(written.getvalue()[:SNIFFED_BYTES]) == media_type
    assert media_type in EXTENSIONS


@pytest.mark.parametrize(
    ("beginning", "media_type"),
    [
        (b"\0\0\0\x20ftypisom\0\0\2\0isomiso2avc1mp41", "video/mp4"),
        (b"\0\0\0\x14ftypqt  \0\0\0\0qt  ", "video/quicktime"),
        (b"\0\0\0\x20ftypM4A \0\0\0\0", "audio/mp4"),
        (b"\x1aE\xdf\xa3\x9fB\x86\x81\x01B\xf7\x81\x01B\xf2\x81\x04B\xf3\x81\x08B\x82\x84webm", "video/webm"),
        (b"\x1aE\xdf\xa3\xa3B\x86\x81\x01B\xf7\x81\x01B\xf2\x81\x04B\xf3\x81\x08B\x82\x88matroska", "video/x-matroska"),
        (b"RIFF\x24\0\0\0WAVEfmt ", "audio/wav"),
        (b"RIFF\x24\0\0\0AVI LIST", "video/x-msvideo"),
        (b"ID3\x04\0\0\0\0\0\x23TSSE", "audio/mpeg"),
        (b"\xff\xfb\x90\x64\0\0", "audio/mpeg"),
        (b"\xff\xf1\x50\x80", "audio/aac"),
        (b"fLaC\0\0\0\x22", "audio/flac"),
        (b"OggS\0\2\0\0", "audio/ogg"),
    ],
)
def test_videos_and_sounds_are_recognized_by_their_first_bytes(beginning: bytes, media_type: str) -> None:
    assert media_type_of(beginning) == media_type
    assert media_type in EXTENSIONS


@pytest.mark.parametrize(
    "beginning",
    [
        b"",
        b"<!DOCTYPE html>",
        b"  <html>",
        b"<svg xmlns=",
        b'{"error": 1}',
        b"%PDF-1.7",
        b"PK\3\4",
        b"MZ\x90",
        b"\x7fELF",
        b"BMW is a car",
        b"GIF",
        b"\xff\xfe<\0h\0",
    ],
)
def test_bytes_that_are_not_media_have_no_media_type(beginning: bytes) -> None:
    assert media_type_of(beginning) is None


@given(st.text(st.characters(max_codepoint=127)))
def test_plain_text_does_not_count_as_media_unless_it_imitates_media(text: str) -> None:
    if not text.startswith(("GIF8", "RIFF", "fLaC", "OggS", "ID3", "II*", "MM", "BM")) and text[4:8] != "ftyp":
        assert media_type_of(text.encode()) is None


def test_kinds_hold_all_their_types() -> None:
    assert is_one_of("image/png", ("image/*",))
    assert is_one_of("image/png", ("video/mp4", "image/png"))
    assert not is_one_of("image/png", ("image/jpeg", "video/*"))
