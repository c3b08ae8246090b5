"""Names of uploads, their allowed types, and the detection by their first bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.media.names import bare_type, is_allowed, safe_name, upload_key
from callsheet.media.sniffing import actual_type, contradiction
from callsheet.media.storage.keys import validate_key
from callsheet.toolbox.ids import uuid7
from callsheet.wire.errors import InvalidRequest

TYPES = st.sampled_from(["video/mp4", "image/png", "audio/mpeg", "video/x-unheard-of", "application/pdf"])


@given(st.text(max_size=300), TYPES)
def test_every_name_makes_a_key_that_cannot_leave_its_folder(name: str, mime_type: str) -> None:
    key = upload_key(uuid7(), uuid7(), name, mime_type)
    assert validate_key(key) == key
    assert key.count("/") == 4
    stem, _, extension = key.rpartition("/")[2].rpartition(".")
    assert stem
    assert extension


@pytest.mark.parametrize(
    ("name", "mime_type", "expected"),
    [
        ("clip.mp4", "video/mp4", "clip.mp4"),
        ("CLIP.MOV", "video/quicktime", "CLIP.mov"),
        ("photo.jpg", "image/jpeg", "photo.jpg"),
        ("photo.unheardof", "image/jpeg", "photo.unheardof"),
        # Engines go by the extension: it must not say something else than the type.
        ("clip.exe", "video/mp4", "clip.mp4"),
        ("clip.png", "video/mp4", "clip.mp4"),
        ("clip", "video/x-unheard-of", "clip.bin"),
        ("voice", "audio/flac", "voice.flac"),
        ("voice.txt", "audio/mpeg", "voice.mp3"),
        # One container holds either.
        ("voice.webm", "audio/webm", "voice.webm"),
        ("voice.mp4", "audio/mp4", "voice.mp4"),
        ("voice.png", "audio/mp4", "voice.m4a"),
        (".htaccess", "image/png", "file.htaccess"),
        ("...", "image/png", "file.png"),
        ("a  b\t(1).webm", "video/webm", "a-b-1.webm"),
    ],
)
def test_a_name_in_storage_resembles_the_original_name(name: str, mime_type: str, expected: str) -> None:
    assert safe_name(name, mime_type) == expected


@pytest.mark.parametrize("mime_type", ["video/mp4", "VIDEO/MP4", "video/mp4; codecs=avc1", 'video/mp4;codecs="a, b"'])
def test_a_media_type_is_known_without_its_parameters(mime_type: str) -> None:
    assert bare_type(mime_type) == "video/mp4"


@pytest.mark.parametrize("mime_type", ["", "video", "video/", "/mp4", "video/mp4/x", "video/*", "vidéo/mp4", "a/b\n"])
def test_an_invalid_media_type_is_refused(mime_type: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        bare_type(mime_type)
    assert refusal.value.errors[0].field == "mime_type"


def test_a_type_is_allowed_by_its_name_or_by_its_kind() -> None:
    assert is_allowed("video/webm", ["image/png", "video/*"])
    assert is_allowed("image/png", ["image/png", "video/*"])
    assert not is_allowed("image/jpeg", ["image/png", "video/*"])
    assert not is_allowed("videos/x", ["video/*"])
    assert not is_allowed("image/png", [])


@given(st.binary(max_size=200), TYPES)
def test_detecting_the_type_of_bytes_never_fails(beginning: bytes, mime_type: str) -> None:
    found = contradiction(mime_type, beginning)
    assert found is None or found


@pytest.mark.parametrize(
    ("mime_type", "beginning", "found"),
    [
        ("video/mp4", b"\x00\x00\x00\x20ftypisom", None),
        ("video/quicktime", b"\x00\x00\x00\x14ftypqt  ", None),
        ("video/webm", b"\x1aE\xdf\xa3" + bytes(30), None),
        ("audio/webm", b"\x1aE\xdf\xa3" + bytes(30), None),
        ("video/x-msvideo", b"RIFF\x00\x00\x00\x00AVI LIST", None),
        ("image/webp", b"RIFF\x00\x00\x00\x00WEBPVP8 ", None),
        ("video/mp4", b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image/webp"),
        ("image/jpeg", b"\xff\xd8\xff\xe0\x00\x10JFIF", None),
        ("image/jpeg", b"\x89PNG\r\n\x1a\n", None),
        ("audio/mpeg", b"\x89PNG\r\n\x1a\n", "image/png"),
        ("image/png", b"<html>", "text/html"),
        ("image/svg+xml", b"<html>", "text/html"),
        ("image/png", b"#!/bin/sh", "a program"),
        ("video/mp4", b"", "an empty file"),
        ("video/mp4", b"0123456789", "text"),
        ("audio/mpeg", "Grüße".encode("latin-1"), "text"),
        ("image/x-portable-pixmap", b"P3 1 1 255 0 0 0", None),
        ("video/mp4", b"\x01\x02 nobody knows what this is", "no known format of audio or video"),
        ("video/mp4", bytes(8192), "zeros only"),
        ("application/zip", b"<html>", "text/html"),
    ],
)
def test_only_content_of_the_declared_kind_is_accepted(mime_type: str, beginning: bytes, found: str | None) -> None:
    assert contradiction(mime_type, beginning) == found


HLS = b"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nfile:///etc/passwd\n"
SDP = b"v=0\r\no=- 0 0 IN IP4 10.0.0.1\r\ns=x\r\nc=IN IP4 10.0.0.1\r\nm=video 5000 RTP/AVP 96\r\n"
TAG = b"ID3\x04\x00\x00\x00\x00\x00\x05title"
MP4 = b"\x00\x00\x00\x20ftypisom"


@pytest.mark.parametrize("mime_type", ["video/mp4", "audio/mpeg", "image/png", "audio/x-mpegurl"])
@pytest.mark.parametrize(
    ("beginning", "found"),
    [
        (HLS, "an HLS playlist (m3u8)"),
        (b"\xef\xbb\xbf\n " + HLS, "an HLS playlist (m3u8)"),
        (HLS + bytes(100), "an HLS playlist (m3u8)"),
        (TAG + HLS, "an HLS playlist (m3u8)"),
        (b"ffconcat version 1.0\nfile '/etc/passwd'\n", "a list of files for FFmpeg (ffconcat)"),
        (TAG + b"ffconcat version 1.0\nfile x\n" + bytes(9), "a list of files for FFmpeg (ffconcat)"),
        (SDP, "a session description (SDP)"),
        (SDP + bytes(100), "a session description (SDP)"),
        (b"\x80\x81\x82\nc=IN IP4 10.0.0.1\n", "a session description (SDP)"),
        (TAG + SDP, "a session description (SDP)"),
        (b"\x80\x81<MPD profiles='urn:mpeg:dash:profile:isoff-live:2011'>\0", "a DASH manifest"),
        (b"[playlist]\nFile1=http://10.0.0.1/\n", "a playlist"),
        (b"[Reference]\nRef1=http://10.0.0.1/\n", "a playlist"),
    ],
)
def test_a_playlist_is_not_accepted_as_media_whatever_its_type(mime_type: str, beginning: bytes, found: str) -> None:
    assert contradiction(mime_type, beginning) == found
    assert actual_type(mime_type, beginning) == "application/octet-stream"


def test_a_video_that_contains_a_line_of_a_manifest_is_accepted() -> None:
    assert contradiction("video/mp4", MP4 + b"\nc=IN IP4 10.0.0.1\n<MPD>") is None


@pytest.mark.parametrize("manifest", [b"<MPD>", b"<?xml version='1.0'?><MPD/>", b"<asx version='3.0'>", b"<smil>"])
def test_a_manifest_in_xml_is_not_accepted_as_a_video(manifest: bytes) -> None:
    assert contradiction("video/mp4", manifest) is not None


@pytest.mark.parametrize(
    ("mime_type", "beginning", "actual"),
    [
        ("video/mp4", MP4, "video/mp4"),
        ("audio/mp4", MP4, "audio/mp4"),
        ("video/webm", MP4, "video/mp4"),
        ("video/mp4", b"\x89PNG\r\n\x1a\n", "image/png"),
        ("image/png", b"\xff\xd8\xff\xe0", "image/jpeg"),
        ("text/html", b"\x89PNG\r\n\x1a\n", "image/png"),
        ("application/octet-stream", b"fLaC", "audio/flac"),
        ("image/png", b"<!doctype html><script>", "application/octet-stream"),
        ("video/mp4", b"MZ\x90", "application/octet-stream"),
        ("audio/mpeg", TAG + b"\xff\xfb\x90\x64" + bytes(100), "audio/mpeg"),
        ("image/svg+xml", b"<svg/>", "image/svg+xml"),
        ("text/plain", b"a caption", "text/plain"),
        ("model/gltf-binary", b"glTF\x02", "model/gltf-binary"),
    ],
)
def test_the_type_of_a_result_is_what_its_bytes_are(mime_type: str, beginning: bytes, actual: str) -> None:
    assert actual_type(mime_type, beginning) == actual
