"""Results lose the graph that made them, and nothing else."""

from __future__ import annotations

import hashlib
import json
import struct
import threading
import zlib
from pathlib import Path

import av
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from callsheet.providers.engine import EngineError, FetchedOutput
from callsheet.providers.stripping import GraphRemains, pieces, strip, without_graph
from callsheet.providers.stripping.pieces import BLOCK, Search, Stopped
from tests.support.media.files_with_graphs import (
    DOCUMENTS,
    IMAGES,
    ORIENTATION,
    SECRET,
    SIDEWAYS,
    TEXT,
    VIDEOS,
    packets,
    shown,
)

ALL = {**IMAGES, **VIDEOS, **DOCUMENTS}


def stripped(path: Path) -> FetchedOutput | None:
    return strip(path, threading.Event())


def has_secret(path: Path) -> bool:
    content = path.read_bytes()
    unpacked = b"".join(_unpacked(content)) if content.startswith(b"\x89PNG") else b""
    words = [each for word in (SECRET, "class_type") for each in (word.encode(), word.encode("utf-16-le"))]
    return any(word in content or word in unpacked for word in words)


def _unpacked(content: bytes) -> list[bytes]:
    """The compressed texts of a PNG."""
    found, at = [], 8
    while at < len(content):
        length, name = struct.unpack_from(">I4s", content, at)
        if name == b"zTXt":
            found.append(zlib.decompress(content[at + 8 : at + 8 + length].partition(b"\0")[2][1:]))
        at += 12 + length
    return found


@pytest.fixture
def tagged(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / f"result.{request.param}"
    ALL[request.param](path)
    assert has_secret(path)
    return path


def check_described(path: Path, fetched: FetchedOutput | None) -> None:
    content = path.read_bytes()
    assert fetched == FetchedOutput(len(content), hashlib.sha256(content).hexdigest())
    assert not has_secret(path)
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("tagged", IMAGES, indirect=True)
def test_an_image_loses_the_graph_and_shows_the_same(tagged: Path) -> None:
    before = shown(tagged)
    check_described(tagged, stripped(tagged))
    assert shown(tagged) == before
    # There is nothing left to remove.
    after = tagged.read_bytes()
    stripped(tagged)
    assert tagged.read_bytes() == after


@pytest.mark.parametrize("tagged", ["png", "jpg", "webp"], indirect=True)
def test_an_image_keeps_its_orientation_and_its_colours(tagged: Path) -> None:
    stripped(tagged)
    with Image.open(tagged) as image:
        assert dict(image.getexif()) == {ORIENTATION: SIDEWAYS}
        assert image.info["icc_profile"]


@pytest.mark.few_forms
@pytest.mark.parametrize("tagged", VIDEOS, indirect=True)
def test_a_video_or_a_sound_loses_the_graph_and_keeps_every_packet(tagged: Path) -> None:
    before = packets(tagged)
    check_described(tagged, stripped(tagged))
    assert packets(tagged) == before
    with av.open(str(tagged)) as file:
        assert not {"prompt", "workflow", "comment"} & {key.lower() for key in file.metadata}


@pytest.mark.parametrize("tagged", DOCUMENTS, indirect=True)
def test_a_document_loses_the_graph_and_keeps_the_rest(tagged: Path) -> None:
    before = tagged.read_bytes()
    check_described(tagged, stripped(tagged))
    after = tagged.read_bytes()
    match tagged.suffix:
        case ".glb":
            length = struct.unpack_from("<I", after, 12)[0]
            assert json.loads(after[20 : 20 + length]) == {"asset": {"version": "2.0"}, "buffers": [{"byteLength": 8}]}
            assert (len(after), after[20 + length :]) == (len(before), before[20 + length :])
        case ".latent":
            length = struct.unpack_from("<Q", after)[0]
            document = json.loads(after[8 : 8 + length])
            assert (document["__metadata__"], document["latent_tensor"]["shape"]) == ({"format": "pt"}, [2])
            assert after[8 + length :] == bytes(range(8))
        case _:
            assert after == before.replace(before[before.index(b"<metadata") : before.index(b"<circle")], b"")


@pytest.mark.few_forms
@pytest.mark.parametrize("tagged", ALL, indirect=True)
def test_a_file_that_is_cut_off_anywhere_is_never_delivered_with_the_graph(tagged: Path) -> None:
    content = tagged.read_bytes()
    for cut in sorted({*range(0, len(content), max(1, len(content) // 40)), *range(64)}):
        tagged.write_bytes(content[:cut])
        try:
            stripped(tagged)
        except GraphRemains:
            tagged.unlink()
        else:
            assert b"class_type" not in tagged.read_bytes()
        assert not list(tagged.parent.glob("*.stripped"))


@pytest.mark.parametrize("content", [b"", b"\x89PNG\r\n\x1a\n" + bytes(range(256)), b"nothing in particular"])
def test_a_file_of_an_unknown_or_broken_kind_without_a_graph_stays_as_it_is(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "result"
    path.write_bytes(content)
    assert stripped(path) is None
    assert path.read_bytes() == content


async def test_a_graph_in_a_file_of_an_unknown_kind_fails_the_job_and_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "output-1"
    path.write_bytes(b"EXR" + TEXT.encode("utf-16-le"))
    with pytest.raises(EngineError) as failed:
        await without_graph(path, "scene.exr", FetchedOutput(3, ""))
    assert (failed.value.type, failed.value.retryable) == ("graph_in_result", False)
    assert "scene.exr" in failed.value.message
    assert "keep_metadata" in failed.value.details["advice"]
    assert "--disable-metadata" in failed.value.details["advice"]


def test_a_graph_after_the_end_of_an_image_is_removed_or_refused(tmp_path: Path) -> None:
    behind = tmp_path / "result.png"
    IMAGES["png"](behind)
    behind.write_bytes(behind.read_bytes() + TEXT.encode())
    assert stripped(behind) is not None
    assert not has_secret(behind)
    photo = tmp_path / "result.jpg"
    IMAGES["jpg"](photo)
    photo.write_bytes(photo.read_bytes() + TEXT.encode())
    with pytest.raises(GraphRemains):
        stripped(photo)


def test_a_compressed_graph_in_an_image_that_is_cut_off_is_found(tmp_path: Path) -> None:
    path = tmp_path / "result.png"
    info = PngInfo()
    info.add_text("workflow", TEXT, zip=True)
    Image.new("RGB", (8, 8)).save(path, "PNG", pnginfo=info)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(GraphRemains):
        stripped(path)


def test_a_graph_is_found_across_two_blocks() -> None:
    for split in range(1, len("class_type")):
        search = Search()
        for block in (bytes(BLOCK - split) + b"class_type"[:split], b"class_type"[split:] + bytes(10)):
            search.add(block)
        assert search.found


def test_reading_stops_in_a_file_with_too_many_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "MAX_STEPS", 1000)
    path = tmp_path / "result.png"
    dropped = struct.pack(">I4sI", 0, b"tEXt", 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + dropped * 2000 + struct.pack(">I4sI", 0, b"IEND", 0))
    assert stripped(path) is None
    monkeypatch.setattr(pieces, "MAX_STEPS", 5000)
    assert stripped(path) is not None


def test_a_file_with_too_many_pieces_is_not_assembled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "MAX_PIECES", 100)
    path = tmp_path / "result.png"
    pair = struct.pack(">I4sI", 0, b"tEXt", 0) + struct.pack(">I4sI", 0, b"tIME", 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + pair * 200 + struct.pack(">I4sI", 0, b"IEND", 0))
    assert stripped(path) is None


def test_stripping_stops_when_the_job_is_canceled(tmp_path: Path) -> None:
    path = tmp_path / "result.mp4"
    VIDEOS["mp4"](path)
    stop = threading.Event()
    stop.set()
    with pytest.raises(Stopped):
        strip(path, stop)
