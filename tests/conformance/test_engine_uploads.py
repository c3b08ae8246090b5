"""ComfyUI accepts files up to a limit; larger files are not sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from callsheet.providers.comfy.files import FORM_BYTES
from callsheet.providers.comfy.self_hosted import ComfyUI
from callsheet.providers.engine import EngineError
from callsheet_lightbox.server import RunningLightbox
from tests.support.comfyui.lightbox import lightbox_here
from tests.support.comfyui.replaying_engine import replaying

LIMIT = 2**20


@pytest.fixture
async def lightbox(tmp_path: Path) -> AsyncIterator[RunningLightbox]:
    async with lightbox_here(tmp_path / "lightbox", max_upload_megabytes=1) as running:
        yield running


@pytest.fixture
async def engine(lightbox: RunningLightbox) -> AsyncIterator[ComfyUI]:
    engine = ComfyUI(lightbox.url)
    yield engine
    await engine.close()


async def file_of(size: int, directory: Path) -> Path:
    path = directory / "clip.mp4"
    await asyncio.to_thread(path.write_bytes, bytes(size))
    return path


async def test_a_file_that_the_engine_would_refuse_is_not_sent(
    engine: ComfyUI, lightbox: RunningLightbox, tmp_path: Path
) -> None:
    path = await file_of(LIMIT + 1, tmp_path)
    for attempt in (engine.upload(path, "clip.mp4", "run"), engine.share(path, "shared.mp4")):
        with pytest.raises(EngineError) as refused:
            await attempt
        error = refused.value
        assert (error.type, error.retryable) == ("input_too_large", False)
        assert f"{LIMIT + 1} bytes" in error.message
        assert (error.details["size"], error.details["limit"]) == (LIMIT + 1, LIMIT)
        assert "--max-upload-size" in error.details["advice"]
    assert [each for each in lightbox.folders.input.rglob("*") if each.is_file()] == []


async def test_a_file_within_the_limit_is_sent(engine: ComfyUI, lightbox: RunningLightbox, tmp_path: Path) -> None:
    path = await file_of(LIMIT - FORM_BYTES, tmp_path)
    name = await engine.upload(path, "clip.mp4", "run")
    assert (lightbox.folders.input / name).stat().st_size == LIMIT - FORM_BYTES


async def test_an_engine_that_does_not_say_its_limit_gets_the_file(tmp_path: Path) -> None:
    async with replaying() as recorded:
        engine = ComfyUI(recorded.url)
        await engine.upload(await file_of(2 * LIMIT, tmp_path), "clip.mp4", "run")
        await engine.close()
        assert [len(content) for content in recorded.files.values()] == [2 * LIMIT]
