"""One control plane for all tests that leave nothing behind; `started` gives a test one of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from callsheet.app import ControlPlane, running_control_plane
from callsheet.plumbing.embedded import EmbeddedPostgres
from callsheet.settings import S3Settings, Settings
from callsheet.settings.tasks import COSTS
from tests.support.installation import changed, installation, isolate
from tests.support.ports import free_port
from tests.support.seaweedfs import S3Server
from tests.support.troupe import Troupe, open_troupe
from tests.support.workshop import Workshop, open_workshop

Started = Callable[..., AbstractAsyncContextManager[tuple[ControlPlane, httpx.AsyncClient]]]


@asynccontextmanager
async def _shared_plane(
    postgres: EmbeddedPostgres, templates: dict[str, str], directory: Path, **sections: dict[str, Any]
) -> AsyncIterator[ControlPlane]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        isolate(monkeypatch, directory)
        async with installation(postgres, templates, directory / "home") as settings:
            limits: dict[str, dict[str, Any]] = {
                "identity": {"login_attempts_per_address": 100_000},
                "fleet": {"max_workers": 100_000, "secret_attempts_per_address": 100_000},
            }
            generous = changed(settings, **limits | sections)
            async with running_control_plane(generous) as plane:
                yield plane


@pytest.fixture(scope="session")
async def plane(
    postgres: EmbeddedPostgres, templates: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ControlPlane]:
    """Starting one takes half a second, and most requests of these tests are refused and change nothing."""
    async with _shared_plane(postgres, templates, tmp_path_factory.mktemp("shared")) as plane:
        yield plane


@pytest.fixture(scope="session")
async def s3_plane(
    postgres: EmbeddedPostgres,
    templates: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
    s3_server: S3Server,
) -> AsyncIterator[ControlPlane]:
    """The same with its objects on a real S3 server."""
    storage = {"backend": "s3", "s3": S3Settings.model_validate(s3_server.settings)}
    async with _shared_plane(postgres, templates, tmp_path_factory.mktemp("shared"), storage=storage) as plane:
        yield plane


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.thorough)])
def stored_plane(request: pytest.FixtureRequest) -> ControlPlane:
    """One after the other: a control plane with local storage, and one with S3."""
    chosen: ControlPlane = request.getfixturevalue("plane" if request.param == "local" else "s3_plane")
    return chosen


@pytest.fixture
def started(settings: Settings) -> Started:
    """`async with started(identity={…}) as (plane, client)`: a control plane of the test's own installation."""

    @asynccontextmanager
    async def start(**sections: dict[str, Any]) -> AsyncIterator[tuple[ControlPlane, httpx.AsyncClient]]:
        sections["server"] = {"port": free_port(), **sections.get("server", {})}
        chosen = changed(settings, **sections)
        address = f"http://127.0.0.1:{chosen.server.port}"
        async with (
            running_control_plane(chosen) as plane,
            httpx.AsyncClient(base_url=address, trust_env=False, timeout=30) as client,
        ):
            yield plane, client

    return start


@pytest.fixture(scope="session")
async def _troupe(
    postgres: EmbeddedPostgres, templates: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Troupe]:
    directory = tmp_path_factory.mktemp("troupe")
    tasks = {"in_process": 4, "queues": ("fast",), "costs": {**COSTS, "echo": 3, "painter": 5}}
    with pytest.MonkeyPatch.context() as monkeypatch:
        isolate(monkeypatch, directory)
        async with (
            installation(postgres, templates, directory / "home") as settings,
            open_troupe(changed(settings, tasks=tasks, jobs={"active_per_user": 20})) as troupe,
        ):
            yield troupe


@pytest.fixture
def troupe(_troupe: Troupe) -> Troupe:
    """A control plane that runs tasks itself, of actors that do what a test says."""
    for player in _troupe.players.values():
        player.gate.set()
        player.begun.clear()
    return _troupe


@pytest.fixture
async def shop(plane: ControlPlane) -> AsyncIterator[Workshop]:
    async with open_workshop(plane) as shop:
        yield shop
