"""`callsheet lightbox` as a user starts and stops it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.support.graphs import node, picture_graph
from tests.support.lightbox import lightbox_process, render


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_it_stops_when_told_even_in_the_middle_of_a_run(number: int, tmp_path: Path) -> None:
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
        assert await process.end(number) == 0, "".join(process.said)
        assert list((tmp_path / "engine" / "output").iterdir()) == []


async def test_probes_are_not_offered_unless_asked_for(tmp_path: Path) -> None:
    async with (
        lightbox_process(tmp_path / "engine", probes=False) as process,
        httpx.AsyncClient(base_url=process.url, timeout=30) as client,
    ):
        names = (await client.get("/object_info")).json().keys()
        assert not [name for name in names if name.startswith("Probe")]
        assert {"LoadImage", "LoadVideo", "SaveVideo", "LightboxTextToImage"} <= names


async def test_files_of_any_name_go_in_and_come_out(tmp_path: Path) -> None:
    async with (
        lightbox_process(tmp_path / "engine") as process,
        httpx.AsyncClient(base_url=process.url, timeout=30) as client,
    ):
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
            entry = await render(client, picture_graph(uploaded["name"], prefix=f"out {name}"))
            (file,) = entry["outputs"]["save"]["images"]
            assert (await client.get("/view", params=file)).status_code == 200, name


async def test_a_taken_port_is_said_in_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = await asyncio.to_thread(run, tmp_path, "lightbox", "--port", str(port))
    assert result.returncode == 1
    assert result.stderr.strip().endswith(f"Lightbox cannot listen on 127.0.0.1:{port}: Address already in use.")


def test_without_its_packages_the_command_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "aiohttp.py").write_text("raise ModuleNotFoundError(\"No module named 'aiohttp'\", name='aiohttp')")
    result = run(tmp_path, "lightbox", PYTHONPATH=str(tmp_path))
    assert result.returncode == 1
    assert "pip install '.[lightbox]'" in result.stderr
    assert run(tmp_path, "version", PYTHONPATH=str(tmp_path)).returncode == 0


def test_the_command_line_starts_without_loading_the_renderer(tmp_path: Path) -> None:
    code = "import sys, callsheet.cli.main; print({'aiohttp', 'av', 'numpy', 'PIL'} & sys.modules.keys())"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert result.stdout.strip() == "set()"


def run(directory: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "callsheet", *arguments],
        capture_output=True,
        text=True,
        cwd=directory,
        env={**os.environ, **environment},
        timeout=300,
        check=False,
    )
