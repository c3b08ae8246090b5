from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio

from callsheet_lightbox.server import RunningLightbox
from tests.support.comfyui.lightbox import lightbox_here


@pytest_asyncio.fixture(scope="module")
async def lightbox_engine(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningLightbox]:
    async with lightbox_here(tmp_path_factory.mktemp("lightbox") / "engine") as running:
        yield running


@pytest_asyncio.fixture(scope="module")
async def lightbox_client(lightbox_engine: RunningLightbox) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=lightbox_engine.url, timeout=60, trust_env=False) as opened:
        yield opened
