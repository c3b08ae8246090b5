"""The bytes of a file must be of the kind that was declared. Real files of every format are accepted."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image

from callsheet.media.sniffing import PROBED_BYTES, actual_type, contradiction
from callsheet.toolbox.media_types import media_type_of
from tests.support.media.clips import frame_at

IMAGES = {
    "image/png": "PNG",
    "image/jpeg": "JPEG",
    "image/gif": "GIF",
    "image/webp": "WEBP",
    "image/tiff": "TIFF",
    "image/bmp": "BMP",
    "image/avif": "AVIF",
    "image/jp2": "JPEG2000",
    "image/x-icon": "ICO",
    "image/vnd.microsoft.icon": "ICO",
    "image/x-portable-pixmap": "PPM",
    "image/vnd.ms-dds": "DDS",
    "image/x-pcx": "PCX",
    "image/x-tga": "TGA",
    "image/x-sgi": "SGI",
}
# The declared type, the muxer and the codec.
MOVING = [
    ("video/mp4", "mp4", "libx264"),
    ("video/quicktime", "mov", "libx264"),
    ("video/x-m4v", "mp4", "mpeg4"),
    ("video/webm", "webm", "libvpx"),
    ("video/x-matroska", "matroska", "libx264"),
    ("video/x-msvideo", "avi", "mpeg4"),
    ("video/mp2t", "mpegts", "mpeg2video"),
    ("video/mpeg", "mpeg", "mpeg2video"),
    ("video/x-flv", "flv", "flv1"),
    ("video/x-ms-wmv", "asf", "wmv2"),
    ("video/3gpp", "3gp", "mpeg4"),
    ("audio/mpeg", "mp3", "libmp3lame"),
    ("audio/mp3", "mp3", "libmp3lame"),
    ("audio/mpeg", "mp2", "mp2"),
    ("audio/mp4", "mp4", "aac"),
    ("audio/x-m4a", "ipod", "aac"),
    ("audio/aac", "adts", "aac"),
    ("audio/wav", "wav", "pcm_s16le"),
    ("audio/x-wav", "wav", "pcm_s24le"),
    ("audio/flac", "flac", "flac"),
    ("audio/ogg", "ogg", "libopus"),
    ("audio/opus", "ogg", "libopus"),
    ("audio/webm", "webm", "libopus"),
    ("audio/aiff", "aiff", "pcm_s16be"),
    ("audio/x-aiff", "aiff", "pcm_s16be"),
    ("audio/x-caf", "caf", "pcm_s16le"),
    ("audio/basic", "au", "pcm_mulaw"),
    ("audio/ac3", "ac3", "ac3"),
]
RATE = 48000


def image_bytes(form: str) -> bytes:
    stored = io.BytesIO()
    Image.fromarray(frame_at(0)).save(stored, form)
    return stored.getvalue()


def moving_bytes(path: Path, muxer: str, codec: str) -> bytes:
    with av.open(str(path), "w", format=muxer) as container:
        if av.Codec(codec, "w").type == "video":
            stream = container.add_stream(codec, rate=25)
            assert isinstance(stream, av.VideoStream)
            stream.width, stream.height = 176, 144
            stream.pix_fmt = "yuv420p"
            frames = [av.VideoFrame.from_ndarray(frame_at(each, 176, 144), format="rgb24") for each in range(5)]
            packets = [packet for frame in frames for packet in stream.encode(frame.reformat(format="yuv420p"))]
        else:
            stream = container.add_stream(codec, rate=RATE)
            assert isinstance(stream, av.AudioStream)
            formats = av.Codec(codec, "w").audio_formats
            assert formats
            sound = av.AudioFrame.from_ndarray(np.zeros((1, RATE // 5), np.int16), format="s16", layout="mono")
            sound.sample_rate = RATE
            resampler = av.AudioResampler(format=formats[0].name, layout=stream.layout.name, rate=RATE)
            packets = [packet for frame in resampler.resample(sound) for packet in stream.encode(frame)]
        container.mux([*packets, *stream.encode(None)])
    return path.read_bytes()


@pytest.mark.parametrize(("mime_type", "form"), IMAGES.items())
def test_a_real_image_is_accepted_as_its_type_and_as_no_video(mime_type: str, form: str) -> None:
    content = image_bytes(form)
    assert contradiction(mime_type, content) is None
    # Every usual format is accepted as another one.
    assert (contradiction("image/jpeg", content) is None) is (media_type_of(content) is not None)
    for other in ("video/mp4", "audio/mpeg", "image/svg+xml", "application/pdf", "application/zip", "text/plain"):
        assert contradiction(other, content) is not None


@pytest.mark.parametrize(("mime_type", "muxer", "codec"), MOVING)
def test_a_real_video_or_sound_is_accepted_as_its_type_and_as_no_image(
    tmp_path: Path, mime_type: str, muxer: str, codec: str
) -> None:
    content = moving_bytes(tmp_path / "file", muxer, codec)
    assert contradiction(mime_type, content) is None
    assert actual_type(mime_type, content).partition("/")[0] in {"audio", "video"}
    for other in ("image/png", "image/x-rare", "image/svg+xml", "application/pdf", "text/plain"):
        assert contradiction(other, content) is not None


@pytest.mark.parametrize(
    ("mime_type", "content"),
    [
        ("image/heic", b"\0\0\0\x20ftypmiaf\0\0\0\0MiHEheicmif1"),
        ("image/x-canon-cr3", b"\0\0\0\x18ftypcrx \0\0\0\1crx isom"),
        ("image/x-olympus-orf", b"IIRO\x08\0\0\0"),
        ("video/iso.segment", b"\0\0\0\x18stypmsdh\0\0\0\0msdhmsix"),
        ("image/tiff", b"II+\0\x08\0\0\0"),
        ("image/svg+xml", b"\xef\xbb\xbf<?xml version='1.0'?>\n<!-- a -->\n<svg xmlns='http://www.w3.org/2000/svg'/>"),
        ("image/svg+xml", b"<s:svg xmlns:s='http://www.w3.org/2000/svg'/>"),
        ("image/jxl", b"\xff\x0a\x10\x20\x30"),
        ("video/quicktime", b"\0\0\0\x08wide\0\0\x10\0mdat"),
        ("video/webm", b"\x1a\x45\xdf\xa3" + bytes(60) + b"\x42\x82\x84webm"),
        ("audio/mpeg", bytes(400) + b"\xff\xfb\x90\x64" + bytes(400)),
        ("audio/mpeg", b"ID3\x04\0\0\0\0\0\x0a" + bytes(10) + b"\xff\xfb\x90\x64"),
        ("audio/wav", b"RF64\xff\xff\xff\xffWAVEds64"),
        ("audio/amr", b"#!AMR\n\x3c"),
        ("application/json", b' {"a": 1}'),
        ("application/pdf", b"\n%PDF-1.7\n"),
        ("text/plain", "Grüße".encode()),
        ("text/plain", "Grüße".encode("utf-16")),
        ("text/csv", b"a,b\r\n1,2\r\n"),
        ("application/octet-stream", bytes(10)),
        ("application/x-own-format", b"\x01\x02\x03"),
    ],
)
def test_rare_and_old_beginnings_are_accepted(mime_type: str, content: bytes) -> None:
    assert contradiction(mime_type, content) is None


def archive() -> bytes:
    stored = io.BytesIO()
    with zipfile.ZipFile(stored, "w") as files:
        files.writestr("a.txt", "text")
    return stored.getvalue()


OTHERS = {
    "text": b"This is only a text.\n" * 20,
    "text like a bitmap": b"#define width 8\n" * 20,
    "text like a portable image": b"P1 is the first point of this list.\n" * 20,
    "zeros": bytes(5000),
    "nothing": b"",
    "html": b"<!doctype html><html><script>alert(1)</script>",
    "json": json.dumps({"a": [1, 2]}).encode(),
    "zip": archive(),
    "pdf": b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n",
    "program": b"\x7fELF\x02\x01\x01" + bytes(100),
    "script": b"#!/bin/sh\nexit 0\n",
    "noise": bytes(range(1, 256)) * 20,
    "playlist": b"#EXTM3U\n#EXTINF:1,\nhttp://10.0.0.1/\n",
}
DECLARED = ["image/png", "image/jpeg", "image/webp", "image/heic", "image/svg+xml", "video/mp4", "video/webm"]
DECLARED += ["video/quicktime", "audio/mpeg", "audio/wav", "audio/flac", "audio/ogg"]


@pytest.mark.parametrize("mime_type", DECLARED)
@pytest.mark.parametrize("kind", OTHERS)
def test_other_bytes_are_refused_as_media_and_the_result_says_what_they_are(mime_type: str, kind: str) -> None:
    found = contradiction(mime_type, OTHERS[kind])
    assert found is not None
    if kind in {"text", "zeros", "zip", "pdf", "html"}:
        assert {"zeros": "zeros only"}.get(kind, kind) in found
    assert actual_type(mime_type, OTHERS[kind]) == "application/octet-stream"


@pytest.mark.parametrize("mime_type", ["video/x-unheard-of", "audio/x-unheard-of", "image/x-unheard-of"])
@pytest.mark.parametrize("kind", ["text", "zeros", "nothing", "html", "json", "zip", "pdf", "program", "noise"])
def test_a_type_that_is_not_known_must_be_of_some_format_of_its_kind(mime_type: str, kind: str) -> None:
    assert contradiction(mime_type, OTHERS[kind]) is not None


@pytest.mark.parametrize(
    "mime_type",
    ["application/zip", "application/pdf", "application/json", "application/gzip", "text/plain", "application/xml"],
)
def test_documents_that_an_operator_allows_are_checked_too(mime_type: str) -> None:
    for kind in ("zeros", "nothing", "noise", "program"):
        assert contradiction(mime_type, OTHERS[kind]) is not None
    assert contradiction(mime_type, image_bytes("PNG")) == "image/png"


def test_sound_is_not_accepted_as_a_video() -> None:
    assert contradiction("video/mp4", b"RIFF\x24\0\0\0WAVEfmt ") == "audio/wav"
    assert contradiction("audio/wav", b"\0\0\0\x20ftypisom\0\0\x02\0isomiso2") is None


def test_beginnings_that_repeat_a_byte_are_checked_in_linear_time() -> None:
    for content in (
        bytes(PROBED_BYTES - 1) + b"x",
        b" " * PROBED_BYTES,
        b"<" * PROBED_BYTES,
        b"\n#" * (PROBED_BYTES // 2),
    ):
        for mime_type in (*DECLARED, "text/plain", "application/json"):
            contradiction(mime_type, content)
