"""`callsheet lightbox` as a user starts and stops it."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from websockets.asyncio.client import connect

from tests.support.comfyui.graphs import image_graph, node
from tests.support.comfyui.lightbox import lightbox_process, render
from tests.support.programs.commands import Callsheet


@pytest.fixture(scope="module")
async def process_client(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[httpx.AsyncClient]:
    """Of an engine in a process of its own, started without options."""
    async with (
        lightbox_process(tmp_path_factory.mktemp("process") / "engine", probes=False) as process,
        httpx.AsyncClient(base_url=process.url, timeout=30) as client,
    ):
        yield client


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.thorough)])
async def test_a_signal_stops_the_engine_in_the_middle_of_a_run(number: int, tmp_path: Path) -> None:
    async with (
        lightbox_process(tmp_path / "engine") as process,
        httpx.AsyncClient(base_url=process.url, timeout=30) as client,
    ):
        graph = {
            "1": node("EmptyImage", width=640, height=480, batch_size=4096, color=7),
            "2": node("CreateVideo", images=["1", 0], fps=24.0),
            "3": node("SaveVideo", video=["2", 0], filename_prefix="cut", format="mp4", codec="auto"),
        }
        await client.post("/prompt", json={"prompt": graph})
        assert await process.end(number) == 0, "".join(process.printed)
        assert list((tmp_path / "engine" / "output").iterdir()) == []


@pytest.mark.thorough
async def test_a_result_that_is_not_json_stops_the_engine_if_a_client_listens(tmp_path: Path) -> None:
    async with (
        lightbox_process(tmp_path / "engine") as process,
        httpx.AsyncClient(base_url=process.url, timeout=30) as client,
        connect(f"{process.url.replace('http', 'ws')}/ws?clientId=me", proxy=None),
    ):
        graph = {
            "1": node("EmptyImage", width=8, height=8, batch_size=1, color=7),
            "2": node("ProbeUI", image=["1", 0], mode="numpy"),
        }
        await client.post("/prompt", json={"prompt": graph, "client_id": "me"})
        assert await process.ended() == 1, "".join(process.printed)


async def test_probes_are_not_offered_unless_asked_for(process_client: httpx.AsyncClient) -> None:
    names = (await process_client.get("/object_info")).json().keys()
    assert not [name for name in names if name.startswith("Probe")]
    assert {"LoadImage", "LoadVideo", "SaveVideo", "LightboxTextToImage"} <= names


async def test_files_of_any_name_go_in_and_come_out(process_client: httpx.AsyncClient) -> None:
    client = process_client
    made = await render(client, {"1": node("EmptyImage", width=8, height=8, batch_size=1, color=1),
                                 "2": node("SaveImage", images=["1", 0], filename_prefix="x")})  # fmt: skip
    content = (await client.get("/view", params=made["outputs"]["2"]["images"][0])).content
    for name in (
        "ü 日本 🎬.png",
        "a'b;c&d=e?f#g.png",
        "-rf.png",
        f"{'n' * 200}.png",
        "%2e%2e.png",
        ".hidden.png",
        "CON.png",
    ):
        uploaded = (await client.post("/upload/image", files={"image": (name, content)})).json()
        entry = await render(client, image_graph(uploaded["name"], prefix=f"out {name}"))
        (file,) = entry["outputs"]["save"]["images"]
        assert (await client.get("/view", params=file)).status_code == 200, name


async def test_a_port_in_use_is_reported_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # In this process, and so in a thread, where no signals can be listened for.
    monkeypatch.setattr(asyncio.SelectorEventLoop, "add_signal_handler", lambda *_: None)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = await asyncio.to_thread(Callsheet(tmp_path).call, "lightbox", "--port", str(port))
    assert result.sentence == f"Lightbox cannot listen on 127.0.0.1:{port}: Address already in use."


@pytest.mark.thorough
def test_the_command_names_missing_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    monkeypatch.delitem(sys.modules, "callsheet_lightbox.server", raising=False)
    sentence = Callsheet(tmp_path).call("lightbox").sentence
    assert sentence.startswith("Lightbox needs its packages (aiohttp is missing): ")
    assert "pip install '.[lightbox]'" in sentence
