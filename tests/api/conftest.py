"""One control plane for all tests that leave nothing behind; `started` gives a test one of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx
import pytest

from callsheet.app import ControlPlane, running_control_plane, with_free_port
from callsheet.plumbing.embedded import EmbeddedPostgres
from callsheet.settings import Settings
from tests.support.installation import changed, installation, isolate

Started = Callable[..., AbstractAsyncContextManager[tuple[ControlPlane, httpx.AsyncClient]]]


@pytest.fixture(scope="session")
async def plane(
    postgres: EmbeddedPostgres, templates: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ControlPlane]:
    """Starting one takes half a second, and most requests of these tests are refused and change nothing."""
    directory = tmp_path_factory.mktemp("shared")
    with pytest.MonkeyPatch.context() as monkeypatch:
        isolate(monkeypatch, directory)
        async with installation(postgres, templates, directory / "home") as settings:
            generous = changed(settings, identity={"login_attempts_per_address": 100_000})
            async with running_control_plane(generous) as plane:
                yield plane


@pytest.fixture
def started(settings: Settings) -> Started:
    """`async with started(identity={…}) as (plane, client)`: a control plane of the test's own installation."""

    @asynccontextmanager
    async def start(**sections: dict[str, Any]) -> AsyncIterator[tuple[ControlPlane, httpx.AsyncClient]]:
        sections["server"] = {"port": 0, **sections.get("server", {})}
        chosen = await with_free_port(changed(settings, **sections))
        address = f"http://127.0.0.1:{chosen.server.port}"
        async with (
            running_control_plane(chosen) as plane,
            httpx.AsyncClient(base_url=address, trust_env=False, timeout=30) as client,
        ):
            yield plane, client

    return start
