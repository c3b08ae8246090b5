from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from callsheet.media.storage import LocalStorage, Storage, open_storage
from callsheet.media.storage.routes import storage_router
from callsheet.plumbing.http.routing import build
from callsheet.providers.context import Clients
from callsheet.providers.media import MediaProvider
from callsheet.providers.registry import ActorRegistry, open_registry
from callsheet.settings import Settings
from tests.support.comfyui.engine_setups import EngineSetup, open_engine_setup
from tests.support.http.asgi_server import serving
from tests.support.media.seaweedfs import S3Server
from tests.support.providers.provider_services import (
    LOCAL,
    CallbackReceiver,
    documented_webhook_provider,
    open_callback_receiver,
    service_settings,
)
from tests.support.providers.replicate_server import ReplicateServer, replicate_server
from tests.support.run.ports import free_port

SECRET = b"a secret of at least thirty-two bytes"


@pytest_asyncio.fixture(scope="session")
async def s3_storage(s3_server: S3Server) -> AsyncIterator[Storage]:
    storage = open_storage(s3_settings(s3_server), SECRET, None)
    yield storage
    await storage.close()


@pytest.fixture(scope="session")
def local_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest_asyncio.fixture(scope="session")
async def local_storage(local_home: Path) -> AsyncIterator[LocalStorage]:
    port = free_port()
    storage = open_storage(Settings.model_validate({"home": local_home, "server": {"port": port}}), SECRET, None)
    assert isinstance(storage, LocalStorage)
    async with serving(build(storage_router(storage).routes), port):
        yield storage
    await storage.close()


@pytest.fixture(params=["local", "s3"])
def storage(request: pytest.FixtureRequest) -> Storage:
    chosen: Storage = request.getfixturevalue(f"{request.param}_storage")
    return chosen


@pytest.fixture(params=["recorded", "lightbox"])
def engine_kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between attempts at an engine that is gone: nothing here takes longer to come back."""
    monkeypatch.setattr("callsheet.providers.comfy.http.backoff_seconds", lambda *_: 0.02)


@pytest.fixture(params=["self_hosted", "cloud"])
async def engine_setup(
    request: pytest.FixtureRequest, engine_kind: str, tmp_path: Path, short_pauses: None
) -> AsyncIterator[EngineSetup]:
    """Each provider with each engine it may drive."""
    async with open_engine_setup(request.param, engine_kind, tmp_path) as engine_setup:
        yield engine_setup


@pytest.fixture(params=["self_hosted", "cloud"])
async def recorded_engine_setup(
    request: pytest.FixtureRequest, tmp_path: Path, short_pauses: None
) -> AsyncIterator[EngineSetup]:
    """For what only the recordings show."""
    async with open_engine_setup(request.param, "recorded", tmp_path) as engine_setup:
        yield engine_setup


@pytest_asyncio.fixture(scope="session")
async def storage_client() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(timeout=30) as client:
        yield client


@pytest.fixture
def folder() -> str:
    """A folder no other test uses."""
    return f"tests/{secrets.token_hex(8)}"


@pytest.fixture(scope="session")
async def _replicate() -> AsyncIterator[ReplicateServer]:
    async with replicate_server() as server:
        yield server


@pytest.fixture
def replicate(_replicate: ReplicateServer) -> ReplicateServer:
    """One for all, as if it were new."""
    _replicate.forget()
    return _replicate


@pytest.fixture(scope="session")
async def provider_registry(_replicate: ReplicateServer) -> AsyncIterator[ActorRegistry]:
    registry = open_registry(service_settings(_replicate), allow_networks=[LOCAL])
    yield registry
    await registry.close()


@pytest.fixture(scope="session")
async def documented_provider(_replicate: ReplicateServer) -> AsyncIterator[MediaProvider]:
    """The provider of docs/how-to/add-a-provider.md."""
    clients = Clients([LOCAL])
    yield documented_webhook_provider(_replicate, clients)
    await clients.close()


@pytest.fixture(scope="session")
async def callback_receiver() -> AsyncIterator[CallbackReceiver]:
    """A server that keeps the callbacks it gets."""
    async with open_callback_receiver() as callback_receiver:
        yield callback_receiver


def s3_settings(server: S3Server, **changes: object) -> Settings:
    return Settings.model_validate({"storage": {"backend": "s3", "s3": {**server.settings, **changes}}})
