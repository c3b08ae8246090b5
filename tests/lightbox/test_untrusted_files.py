"""An untrusted file, name or graph cannot reach other files or use up the machine's memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import av
import httpx
import numpy as np
import pytest
from aiohttp import web
from PIL import Image, UnidentifiedImageError

from callsheet.toolbox.errors import OperatorError
from callsheet_lightbox.api.sockets import MAX_WAITING_BYTES, _Listener
from callsheet_lightbox.folders import Folders
from callsheet_lightbox.media.frames import MAX_PIXELS
from callsheet_lightbox.media.untrusted_files import opened_image
from callsheet_lightbox.server import RunningLightbox
from tests.support.comfyui.graphs import node
from tests.support.comfyui.lightbox import lightbox_here, render
from tests.support.media.clips import blank_png, make_clip


def error_of(entry: dict[str, Any]) -> str:
    """What a run that failed says."""
    assert entry["status"]["status_str"] == "error", entry
    return next(data["exception_message"] for event, data in entry["status"]["messages"] if event == "execution_error")


def video_saved(file: str) -> dict[str, Any]:
    return {
        "1": node("LoadVideo", file=file),
        "2": node("GetVideoComponents", video=["1", 0]),
        "3": node("CreateVideo", images=["2", 0], fps=24),
        "4": node("SaveVideo", video=["3", 0], filename_prefix="out", format="mp4", codec="auto"),
    }


def saved_image(**made: Any) -> dict[str, Any]:
    return {"1": made, "2": node("SaveImage", images=["1", 0], filename_prefix="out")}


@pytest.mark.parametrize(
    ("subfolder", "name"),
    [("../evil", "../input/x.png"), ("../../evil", "../engine/input/x.png"), ("/{root}/evil", "/{root}/input/x.png")],
)
async def test_an_upload_makes_no_folder_outside(
    lightbox_client: httpx.AsyncClient, lightbox_engine: RunningLightbox, subfolder: str, name: str
) -> None:
    root = str(lightbox_engine.folders.input.parent)[1:]
    form = b"".join(
        f"--b\r\ncontent-disposition: form-data; {head}\r\n\r\n{value.format(root=root)}\r\n".encode()
        for head, value in (
            (f'name="image"; filename="{name.format(root=root)}"', "bytes"),
            ('name="subfolder"', subfolder),
        )
    )
    response = await lightbox_client.post(
        "/upload/image", content=form + b"--b--\r\n", headers={"content-type": "multipart/form-data; boundary=b"}
    )
    assert response.status_code == 400
    assert not list(lightbox_engine.folders.input.parent.parent.rglob("evil"))


async def test_an_image_that_contains_a_program_is_served_as_an_image(lightbox_client: httpx.AsyncClient) -> None:
    program = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"
    await lightbox_client.post("/upload/image", files={"image": ("program.svg", program)})
    seen = await lightbox_client.get("/view", params={"filename": "program.svg", "type": "input"})
    assert seen.content == program
    assert seen.headers["content-type"] == "application/octet-stream"


async def test_a_file_that_references_other_files_does_not_load_them(
    lightbox_client: httpx.AsyncClient, lightbox_engine: RunningLightbox, tmp_path: Path
) -> None:
    make_clip(tmp_path / "secret.mp4", frames=3)
    make_clip(lightbox_engine.folders.input / "other.mp4", frames=3)
    playlists = {
        "list.m3u8": f"#EXTM3U\n#EXT-X-MEDIA-SEQUENCE:0\n#EXTINF:10,\nfile://{tmp_path}/secret.mp4\n#EXT-X-ENDLIST\n",
        "list.mp4": "ffconcat version 1.0\nfile other.mp4\n",
    }
    for name, text in playlists.items():
        (lightbox_engine.folders.input / name).write_text(text)
        assert f"{name} is not of an accepted type" in error_of(await render(lightbox_client, video_saved(name)))
    assert (await render(lightbox_client, video_saved("other.mp4")))["status"]["status_str"] == "success"


async def test_a_small_file_with_a_huge_image_is_refused_before_it_is_decoded(
    lightbox_client: httpx.AsyncClient, lightbox_engine: RunningLightbox
) -> None:
    side = int(MAX_PIXELS**0.5) + 100
    image = blank_png(side)
    (lightbox_engine.folders.input / "huge.png").write_bytes(image)
    printed = error_of(await render(lightbox_client, saved_image(**node("LoadImage", image="huge.png"))))
    assert f"{side}x{side} is too large; use at most {MAX_PIXELS:,} pixels" in printed
    view = {"filename": "huge.png", "type": "input", "preview": "webp"}
    assert (await lightbox_client.get("/view", params=view)).status_code == 500
    with av.open(str(lightbox_engine.folders.input / "huge.mov"), "w") as container:
        stream = container.add_stream("png", rate=1)
        assert isinstance(stream, av.VideoStream)
        stream.width = stream.height = side
        stream.pix_fmt = "gray"
        packet = av.Packet(image)
        packet.stream, packet.pts, packet.dts = stream, 0, 0
        container.mux(packet)
    assert error_of(await render(lightbox_client, video_saved("huge.mov")))


async def test_no_node_makes_an_image_that_is_too_large(lightbox_client: httpx.AsyncClient) -> None:
    huge = node("EmptyImage", width=16384, height=16384, batch_size=1, color=0)
    assert "16384x16384 is too large" in error_of(await render(lightbox_client, saved_image(**huge)))
    graph = {
        "small": node("EmptyImage", width=2000, height=2000, batch_size=1, color=0),
        **saved_image(**node("ImageScaleBy", image=["small", 0], upscale_method="area", scale_by=8.0)),
    }
    assert "16000x16000 is too large" in error_of(await render(lightbox_client, graph))


async def test_a_thin_strip_as_an_overlay_stays_within_the_image(
    lightbox_client: httpx.AsyncClient, lightbox_engine: RunningLightbox
) -> None:
    Image.new("RGB", (1, 60_000), (255, 0, 0)).save(lightbox_engine.folders.input / "strip.png")
    graph = {
        "below": node("EmptyImage", width=640, height=64, batch_size=1, color=0),
        "strip": node("LoadImage", image="strip.png"),
        **saved_image(
            **node(
                "LightboxOverlay", image=["below", 0], overlay=["strip", 0], position="center", size=1.0, opacity=1.0
            )
        ),
    }
    entry = await render(lightbox_client, graph)
    assert entry["status"]["status_str"] == "success"
    with Image.open(lightbox_engine.folders.output / entry["outputs"]["2"]["images"][0]["filename"]) as made:
        red = np.asarray(made)[..., 0] > 128
    assert red.any(axis=1).all()
    assert red.any(axis=0).sum() == 1


async def test_long_words_stay_within_the_image(
    lightbox_client: httpx.AsyncClient, lightbox_engine: RunningLightbox
) -> None:
    graph = {
        "below": node("EmptyImage", width=320, height=240, batch_size=1, color=0),
        **saved_image(
            **node(
                "LightboxTextOverlay",
                image=["below", 0],
                text="W" * 2000,
                position="top",
                size=0.1,
                color="white",
                opacity=1.0,
            )
        ),
    }
    entry = await render(lightbox_client, graph)
    with Image.open(lightbox_engine.folders.output / entry["outputs"]["2"]["images"][0]["filename"]) as made:
        written = np.asarray(made).max(axis=2) > 128
    assert written.any(axis=1).sum() > 120, "several lines of it"
    assert not written[:, :4].any(), "and the edges are free"
    assert not written[:, -4:].any()


def test_a_listener_that_does_not_read_has_a_bounded_buffer() -> None:
    listener = _Listener(web.WebSocketResponse())
    megabyte = b"x" * 1024 * 1024
    for _ in range(200):
        listener.put(megabyte)
    assert listener.waiting_bytes == MAX_WAITING_BYTES
    assert listener.waiting.qsize() == MAX_WAITING_BYTES // 1024 // 1024


def test_a_temp_folder_that_was_there_before_is_not_emptied_at_the_first_start(tmp_path: Path) -> None:
    dear = tmp_path / "temp" / "dear.txt"
    dear.parent.mkdir()
    dear.write_text("mine")
    Folders.under(tmp_path).prepare()
    assert dear.read_text() == "mine"


async def test_an_unusable_directory_or_host_is_reported_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OperatorError, match=r"cannot use the directory .*file: Not a directory"):
        async with lightbox_here(tmp_path / "file"):
            pass
    with pytest.raises(OperatorError, match=r"cannot listen on nowhere\.invalid:0: [A-Z]"):
        async with lightbox_here(tmp_path / "engine", host="nowhere.invalid"):
            pass


@pytest.mark.parametrize("content", [b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n%%EOF\n"])
def test_an_image_that_is_a_program_is_not_opened(tmp_path: Path, content: bytes) -> None:
    """Pillow would have Ghostscript run it."""
    (tmp_path / "x.png").write_bytes(content)
    with pytest.raises(UnidentifiedImageError), opened_image(tmp_path / "x.png"):
        pass
