"""A file is saved under a name that ends with the extension of its type."""

from __future__ import annotations

import pytest

from callsheet.media.storage.responses import served_type
from callsheet.toolbox.file_names import named_as


@pytest.mark.parametrize(
    ("name", "media_type", "expected"),
    [
        ("a.png", "video/mp4", "a.mp4"),
        ("a.PNG", "image/png", "a.PNG"),
        ("a.jpeg", "image/jpeg", "a.jpeg"),
        ("clip.m4v", "video/mp4", "clip.m4v"),
        ("sound.oga", "audio/ogg", "sound.oga"),
        ("sound.m4a", "audio/mp4", "sound.m4a"),
        ("sound", "audio/x-wav", "sound.wav"),
        ("clip.mkv", "video/x-matroska", "clip.mkv"),
        ("version 1.2", "image/png", "version 1.2.png"),
        ("", "image/png", ".png"),
        ("page.html", "application/octet-stream", "page.bin"),
        ("weights.safetensors", "application/octet-stream", "weights.safetensors"),
        ("script.mjs", "text/javascript", "script.mjs"),
        ("script.png", "text/javascript", "script.js"),
        ("page.htm", "text/html; charset=utf-8", "page.htm"),
        ("scene.glb", "model/gltf-binary", "scene.glb"),
        ("a.own", "application/x-own", "a.own"),
        ("a.png", "application/x-own", "a.bin"),
        ("a", "application/x-own", "a.bin"),
        ("a.png\n", "image/png", "a.png\n.png"),
    ],
)
def test_a_name_gets_the_extension_of_the_type_if_it_has_another(name: str, media_type: str, expected: str) -> None:
    assert named_as(name, media_type) == expected
    assert named_as(expected, media_type) == expected


@pytest.mark.parametrize(
    "unlisted",
    [
        "text/javascript",
        "application/javascript",
        "text/html",
        "text/css",
        "text/xml",
        "application/xhtml+xml",
        "image/svg+xml",
        "Image/SVG+XML; charset=utf-8",
        "application/wasm",
        "application/x-unheard-of",
        "text/html; a=image/png",
    ],
)
def test_a_type_that_is_not_listed_is_served_as_unknown(unlisted: str) -> None:
    assert served_type(unlisted) == "application/octet-stream"


@pytest.mark.parametrize("listed", ["image/png", "video/mp4", "audio/mpeg", "text/plain", "application/json"])
def test_a_listed_type_is_served_as_it_is(listed: str) -> None:
    assert served_type(listed) == listed
