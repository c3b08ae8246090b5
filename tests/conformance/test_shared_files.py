"""A file that many runs use is sent to an engine once, and again where the engine lost it."""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

from callsheet.providers.comfy.files import DAY_SECONDS, remove_unused
from callsheet.providers.comfy.http import EngineHttp
from callsheet.providers.comfy.self_hosted import ComfyUI
from callsheet.providers.engine import Engine
from tests.support.comfyui.engine_setups import EngineSetup, LightboxServer, new_run, open_engine_setup
from tests.support.comfyui.graphs import node
from tests.support.comfyui.replaying_engine import replaying

COLOUR = (1, 200, 3)


def _png() -> bytes:
    Image.new("RGB", (8, 8), COLOUR).save(encoded := io.BytesIO(), "PNG")
    return encoded.getvalue()


IMAGE = _png()
NAME = f"{hashlib.sha256(IMAGE).hexdigest()}.png"


@pytest.fixture
def image_file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(IMAGE)
    return path


@pytest.fixture
def uploads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The URLs of the engines that were sent a file, in order."""
    sent: list[str] = []
    upload = EngineHttp.upload

    async def counted(self: EngineHttp, *arguments: Any, **options: Any) -> httpx.Response:
        sent.append(self.url)
        return await upload(self, *arguments, **options)

    monkeypatch.setattr(EngineHttp, "upload", counted)
    return sent


async def share(engine: Engine, path: Path) -> str:
    return await engine.share(path, NAME)


def content(engine_setup: EngineSetup, reference: str) -> bytes | None:
    if isinstance(engine_setup.engine_server, LightboxServer):
        path = engine_setup.engine_server.directory / "input" / reference
        return path.read_bytes() if path.exists() else None
    folder, _, name = reference.rpartition("/")
    return engine_setup.recorded.files.get(("input", folder, name))


def lose_files(engine_setup: EngineSetup) -> None:
    if isinstance(engine_setup.engine_server, LightboxServer):
        for path in (engine_setup.engine_server.directory / "input").iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    else:
        engine_setup.recorded.files.clear()


async def renders(engine_setup: EngineSetup, reference: str, tmp_path: Path) -> None:
    """Where it renders at all."""
    if engine_setup.is_recorded:
        return
    graph = {"1": node("LoadImage", image=reference), "2": node("SaveImage", images=["1", 0], filename_prefix="x")}
    [output] = await engine_setup.engine.run(new_run(graph), engine_setup.seen)
    await engine_setup.engine.fetch(output, tmp_path / "rendered")
    with Image.open(tmp_path / "rendered") as rendered:
        assert rendered.convert("RGB").getpixel((0, 0)) == COLOUR


async def test_a_file_that_the_engine_has_is_not_sent_again(
    engine_setup: EngineSetup, image_file: Path, tmp_path: Path, uploads: list[str]
) -> None:
    first = await share(engine_setup.engine, image_file)
    await renders(engine_setup, first, tmp_path)
    assert await share(engine_setup.engine, image_file) == first
    assert len(uploads) == 1
    assert (first == f"callsheet/assets/{NAME}") is not engine_setup.as_cloud
    assert content(engine_setup, first) == IMAGE
    await renders(engine_setup, first, tmp_path)


async def test_runs_that_want_the_same_file_at_once_send_it_once(
    engine_setup: EngineSetup, image_file: Path, uploads: list[str]
) -> None:
    references = await asyncio.gather(*(share(engine_setup.engine, image_file) for _ in range(5)))
    assert len(set(references)) == len(uploads) == 1


async def test_an_engine_that_lost_its_files_gets_them_again(
    engine_setup: EngineSetup, image_file: Path, tmp_path: Path, uploads: list[str]
) -> None:
    first = await share(engine_setup.engine, image_file)
    lose_files(engine_setup)
    assert await share(engine_setup.engine, image_file) == first
    assert len(uploads) == 2
    await renders(engine_setup, first, tmp_path)


async def test_a_restarted_engine_still_has_the_shared_file(
    engine_setup: EngineSetup, image_file: Path, tmp_path: Path, uploads: list[str]
) -> None:
    first = await share(engine_setup.engine, image_file)
    await engine_setup.kill()
    await engine_setup.start()
    assert await share(engine_setup.engine, image_file) == first
    assert len(uploads) == 1
    await renders(engine_setup, first, tmp_path)


async def test_every_engine_gets_its_own_copy_of_a_shared_file(image_file: Path, uploads: list[str]) -> None:
    async with replaying() as one, replaying() as other:
        engines = [ComfyUI(server.url) for server in (one, other)]
        for engine in (*engines, *engines):
            await share(engine, image_file)
        assert uploads == [one.url, other.url]
        for engine in engines:
            await engine.close()


@pytest.fixture
async def own_engine_setup(engine_kind: str, tmp_path: Path, short_pauses: None) -> Any:
    """A ComfyUI of ours."""
    async with open_engine_setup("self_hosted", engine_kind, tmp_path) as engine_setup:
        yield engine_setup


async def test_the_next_agent_of_the_same_engine_finds_the_shared_file(
    own_engine_setup: EngineSetup, image_file: Path, uploads: list[str]
) -> None:
    first = await share(own_engine_setup.engine, image_file)
    assert await share(own_engine_setup.with_patience(), image_file) == first
    assert len(uploads) == 1


async def test_two_agents_that_send_the_same_file_at_once_do_not_disturb_each_other(
    own_engine_setup: EngineSetup, image_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither overwrites, which would empty the file that a run of the other reads already."""
    upload, both_found_none, sent = EngineHttp.upload, asyncio.Barrier(2), []

    async def together(self: EngineHttp, address: str, fields: Mapping[str, str], *file: Any) -> httpx.Response:
        sent.append(dict(fields))
        await both_found_none.wait()
        return await upload(self, address, fields, *file)

    monkeypatch.setattr(EngineHttp, "upload", together)
    agents = [own_engine_setup.engine, own_engine_setup.with_patience()]
    one, other = await asyncio.gather(*(share(engine, image_file) for engine in agents))
    assert one == other
    assert sent == [{"subfolder": "callsheet/assets", "type": "input"}] * 2
    assert content(own_engine_setup, one) == IMAGE
    await renders(own_engine_setup, one, tmp_path)


async def test_a_file_of_another_size_is_not_used(
    own_engine_setup: EngineSetup, image_file: Path, tmp_path: Path, uploads: list[str]
) -> None:
    first = await share(own_engine_setup.engine, image_file)
    torn = IMAGE[:20]
    if isinstance(own_engine_setup.engine_server, LightboxServer):
        (own_engine_setup.engine_server.directory / "input" / first).write_bytes(torn)
    else:
        own_engine_setup.recorded.files["input", "callsheet/assets", NAME] = torn
    for engine in (own_engine_setup.engine, own_engine_setup.engine, own_engine_setup.with_patience()):
        reference = await share(engine, image_file)
        assert content(own_engine_setup, reference) == IMAGE
        await renders(own_engine_setup, reference, tmp_path)
    # One per agent: what the engine calls the whole one is remembered.
    assert len(uploads) == 3


async def test_files_of_a_run_are_removed_and_shared_files_only_after_days_without_use(
    tmp_path: Path, image_file: Path, uploads: list[str]
) -> None:
    async with open_engine_setup("self_hosted", "lightbox", tmp_path) as engine_setup:
        assert isinstance(engine_setup.engine_server, LightboxServer)
        folder = engine_setup.engine_server.directory / "input"
        engine = ComfyUI(engine_setup.line.url, directory=engine_setup.engine_server.directory, asset_days=2)
        engine_setup.others.append(engine)
        own = await engine.upload(image_file, "in.png", "run-1")
        shared = await share(engine, image_file)
        await engine.forget("run-1")
        assert [(folder / each).exists() for each in (own, shared)] == [False, True]

        three_days_ago = time.time() - 3 * DAY_SECONDS
        other = folder / "callsheet/assets" / "other.png"
        for path in (folder / shared, other):
            path.touch()
            os.utime(path, (three_days_ago, three_days_ago))
        # Used again just now, unlike the other.
        assert await share(engine, image_file) == shared
        await engine.forget("run-2")
        assert [(folder / shared).exists(), other.exists()] == [True, False]
        assert len(uploads) == 2


def test_a_file_whose_use_cannot_be_marked_is_not_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "theirs").touch()
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    remove_unused(tmp_path, 1, now=time.time() + 10 * DAY_SECONDS)
    remove_unused(tmp_path / "nowhere", 1)
    assert (tmp_path / "theirs").exists()
