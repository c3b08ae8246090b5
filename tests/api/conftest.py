"""Control planes for many tests: `plane`, `strict_plane` with its `neighbour_plane`; `started` starts another one."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from callsheet.app.control_plane import ControlPlane, running_control_plane
from callsheet.plumbing.embedded import EmbeddedPostgres
from callsheet.settings import S3Settings, Settings
from callsheet.settings.tasks import COSTS
from tests.support.database.installation import changed, isolated_installation
from tests.support.http.actor_harness import ActorHarness, open_actor_harness
from tests.support.http.worker_harness import WorkerHarness, open_worker_harness
from tests.support.media.seaweedfs import S3Server
from tests.support.run.ports import free_port

Started = Callable[..., AbstractAsyncContextManager[tuple[ControlPlane, httpx.AsyncClient]]]

SHOP = "https://shop.example.com"
# What tests of settings look at, all at once: none is in the way of the others.
STRICT: dict[str, dict[str, Any]] = {
    # Windows are cut at fixed times: of a day's length, so that none ends in the middle of a test.
    "identity": {"login_attempts": 2, "login_attempts_per_address": 1, "login_window_seconds": 86_400},
    "fleet": {
        "secret": SecretStr("sixteen-or-more!"),
        "auto_approve": True,
        "secret_attempts_per_address": 3,
        "output_validation": "warn",
    },
    "jobs": {"streams_per_user": 2},
    "media": {
        "allowed_types": ("image/png", "audio/*", "video/mp4"),
        "pending_uploads_per_user": 3,
        "retention_days": 30,
        "previews": True,
    },
    "storage": {"max_upload_bytes": 4000},
}
STRICT_SERVER: dict[str, Any] = {
    "cors_origins": (SHOP, "http://localhost:5173"),
    "metrics_token": SecretStr("open sesame"),
    "trusted_proxies": (ip_network("127.0.0.0/8"), ip_network("10.0.0.0/8")),
}
_addresses = itertools.count(1)


def new_ip_address() -> str:
    """An IP address that no other test uses. Sent as X-Forwarded-For, it has its own counters if proxies are trusted.

    One subscriber of IPv6 has a whole /64, and one site a /48.
    """
    high, low = divmod(next(_addresses), 65_536)
    return f"2001:db8:{low:x}:{high:x}::1"


@asynccontextmanager
async def shared_plane(
    postgres: EmbeddedPostgres, templates: dict[str, str], directory: Path, **sections: dict[str, Any]
) -> AsyncIterator[ControlPlane]:
    """Of an installation of its own, for many tests: with limits that they do not meet, unless the sections say so."""
    limits: dict[str, dict[str, Any]] = {
        "identity": {"login_attempts_per_address": 100_000},
        "fleet": {"max_workers": 100_000, "secret_attempts_per_address": 100_000},
    }
    async with (
        isolated_installation(postgres, templates, directory) as settings,
        running_control_plane(changed(settings, **limits | sections)) as plane,
    ):
        # It would log the alerts of these tests into other tests of the process that look at the log.
        [alerts] = [loop for loop in plane.loops if loop.name == "alerts"]
        await alerts.stop()
        yield plane


@asynccontextmanager
async def calling(plane: ControlPlane) -> AsyncIterator[httpx.AsyncClient]:
    """A client with an IP address of its own."""
    forwarded = {"x-forwarded-for": new_ip_address()}
    address = plane.settings.public_url
    async with httpx.AsyncClient(base_url=address, headers=forwarded, trust_env=False, timeout=30) as client:
        yield client


@pytest.fixture(scope="session")
async def api_plane(
    postgres: EmbeddedPostgres, templates: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ControlPlane]:
    """Starting one takes half a second, and most requests of these tests are refused and change nothing."""
    async with shared_plane(postgres, templates, tmp_path_factory.mktemp("shared")) as plane:
        yield plane


@pytest.fixture
def plane(api_plane: ControlPlane) -> ControlPlane:
    """The control plane that these tests share, instead of one per test."""
    return api_plane


@pytest.fixture(scope="session")
async def s3_plane(
    postgres: EmbeddedPostgres,
    templates: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
    s3_server: S3Server,
) -> AsyncIterator[ControlPlane]:
    """The same with its objects on a real S3 server."""
    storage = {"backend": "s3", "s3": S3Settings.model_validate(s3_server.settings)}
    async with shared_plane(postgres, templates, tmp_path_factory.mktemp("shared"), storage=storage) as plane:
        yield plane


@pytest.fixture(scope="session")
async def strict_plane(
    postgres: EmbeddedPostgres, templates: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ControlPlane]:
    """With the settings of STRICT. Its user is known to no other test, and has a client of its own.

    Its loops do not run, nor do those of its neighbour: they would take processor time until the last test of all.
    """
    server = {"port": free_port(), **STRICT_SERVER}
    directory = tmp_path_factory.mktemp("strict")
    async with shared_plane(postgres, templates, directory, server=server, **STRICT) as plane:
        await plane.loops.stop()
        yield plane


@pytest.fixture
async def strict_client(strict_plane: ControlPlane) -> AsyncIterator[httpx.AsyncClient]:
    async with calling(strict_plane) as client:
        yield client


@pytest.fixture(scope="session")
async def neighbour_plane(strict_plane: ControlPlane) -> AsyncIterator[ControlPlane]:
    """Another control plane of the installation of `strict_plane`, whose pages may also use the cookie.

    Tests may take its databases away if they give them back.
    """
    server = {"port": free_port(), "cors_credentials": True}
    async with running_control_plane(changed(strict_plane.settings, server=server)) as plane:
        await plane.loops.stop()
        yield plane


@pytest.fixture
async def neighbour_client(neighbour_plane: ControlPlane) -> AsyncIterator[httpx.AsyncClient]:
    async with calling(neighbour_plane) as client:
        yield client


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
async def _actor_harness(
    postgres: EmbeddedPostgres, templates: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ActorHarness]:
    directory = tmp_path_factory.mktemp("actors")
    tasks = {"in_process": 4, "queues": ("fast",), "costs": {**COSTS, "echo": 3, "painter": 5}}
    # A fleet may name the command. Nothing runs it.
    scaling = {"autoscaler": False, "commands": {"rent": ("rent-gpus",)}}
    async with (
        isolated_installation(postgres, templates, directory) as settings,
        open_actor_harness(
            changed(settings, tasks=tasks, jobs={"active_per_user": 20}, scaling=scaling)
        ) as actor_harness,
    ):
        yield actor_harness


@pytest.fixture
def actor_harness(_actor_harness: ActorHarness) -> ActorHarness:
    """A control plane that runs tasks itself, of actors that do what a test says."""
    for actor in _actor_harness.actors.values():
        actor.gate.set()
        actor.tasks.clear()
    return _actor_harness


@pytest.fixture
async def worker_harness(plane: ControlPlane) -> AsyncIterator[WorkerHarness]:
    async with open_worker_harness(plane) as worker_harness:
        yield worker_harness
