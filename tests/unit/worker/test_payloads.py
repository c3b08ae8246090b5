"""A job's payload as the agent reads it."""

from __future__ import annotations

import pytest

from callsheet.worker.payloads import Asset, _extension


@pytest.mark.parametrize(
    ("name", "url", "extension"),
    [
        ("Clip.MP4", "https://storage.example/a/b", ".mp4"),
        ("clip", "https://storage.example/a/b.webm?signature=x.m3u8", ".webm"),
        ("../../etc/passwd", "https://storage.example/a", ""),
        ("clip.mp4/../../x", "https://storage.example/a", ""),
        ("list.m3u8", "https://storage.example/list.M3U8?x", ""),
        ("list.mpd", "https://storage.example/clip.mp4", ".mp4"),
    ],
)
def test_a_file_keeps_its_extension_unless_it_makes_it_a_list_of_other_files(
    name: str, url: str, extension: str
) -> None:
    assert _extension(name, url) == extension
    assert Asset("in/../put", "__X__", url, None, extension).file_name(1) == f"1-in-..-put{extension}"
