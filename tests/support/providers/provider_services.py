"""Providers that are external services, used as the queue uses them, with the Replicate of the tests."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_network
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest
from aiohttp import web

from callsheet.providers.config import ProvidersConfig
from callsheet.providers.context import Clients, PluginContext
from callsheet.providers.downloads import DownloadLimits, download
from callsheet.providers.errors import ProviderError
from callsheet.providers.media import Callback, Finish, Generation, MediaProvider, SyncProvider, WebhookProvider
from callsheet.providers.registry import lacking_of_provider
from callsheet.toolbox.http.client import GuardedClient
from tests.support.providers.media_providers import DOCUMENT
from tests.support.providers.replicate_server import TOKEN, ReplicateServer, Scenario
from tools.check_examples import blocks_of

# Only this IP address: other processes may use the rest of 127.0.0.0/8.
LOCAL = ip_network("127.0.0.1/32")
# Timeout of downloads that must succeed: long enough for a slow machine.
MAX_BYTES, PATIENCE_SECONDS = 1_000_000, 60.0
# Timeout of downloads that must fail.
HASTE_SECONDS = 0.5


def service_settings(server: ReplicateServer) -> ProvidersConfig:
    """Replicate itself, and the same server as a polled HTTP service of the settings: once with a long
    download timeout, and once with a short one.
    """
    described: dict[str, Any] = {
        "base_url": server.url,
        "secret": TOKEN,
        "headers": {"Authorization": "Bearer {secret}"},
        "actions": {
            "txt2img": {
                "path": "/models/owner/name/predictions",
                "body": {"input": {"prompt": "{prompt}", "seed": "{params.seed}"}},
                "id": "id",
                "params": {"seed": {"type": "integer"}},
            }
        },
        "poll": {
            "path": "/predictions/{id}",
            "status": "status",
            "done": ["succeeded"],
            "failed": ["failed", "canceled", "aborted"],
            "outputs": "output",
            "error": "error",
            "every_seconds": 0.02,
        },
        "cancel": {"path": "/predictions/{id}/cancel"},
        "download": {"max_bytes": MAX_BYTES, "limit_seconds": PATIENCE_SECONDS},
    }
    replicate = {"token": TOKEN, "url": server.url, "models": {"txt2img": {"model": "owner/name"}}}
    hasty = described | {"download": {"max_bytes": MAX_BYTES, "limit_seconds": HASTE_SECONDS}}
    return ProvidersConfig.model_validate({"replicate": replicate, "http": {"described": described, "hasty": hasty}})


def documented_webhook_provider(server: ReplicateServer, clients: Clients) -> MediaProvider:
    """The complete provider that the documentation shows, with this server as its service."""
    [example] = [code for _, code in blocks_of(DOCUMENT) if "class StudioProvider" in code]
    module = ModuleType("studio")
    exec(compile(example, str(DOCUMENT), "exec"), vars(module))
    settings = {"url": server.url, "token": TOKEN, "webhook_secret": server.secret}
    made: MediaProvider = module.StudioProvider(PluginContext(settings, clients))
    assert lacking_of_provider(made) == []
    return made


@dataclass
class CallbackReceiver:
    """Receives the callbacks."""

    url: str = ""
    received: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    _arrived: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def take(self, request: web.Request) -> web.Response:
        headers = {name.lower(): value for name, value in request.headers.items()}
        async with self._arrived:
            self.received.append((str(request.url), headers, await request.read()))
            self._arrived.notify_all()
        return web.Response()

    async def at(self, url: str) -> tuple[dict[str, str], bytes]:
        async with asyncio.timeout(120), self._arrived:
            while True:
                for address, headers, body in self.received:
                    if address == url:
                        return headers, body
                await self._arrived.wait()


@dataclass
class ServiceSetup:
    """A provider that is an external service, its server, and the receiver of its callbacks."""

    server: ReplicateServer
    callback_receiver: CallbackReceiver
    provider: MediaProvider
    directory: Path
    file_seconds: float = PATIENCE_SECONDS
    progress: list[tuple[float | None, str | None]] = field(default_factory=list)

    @property
    def calls_back(self) -> bool:
        return self.provider.finish is Finish.WEBHOOK

    def callback(self, *, may_exist: bool = False) -> Callback:
        return Callback(f"{self.callback_receiver.url}/{secrets.token_urlsafe(16)}", may_exist)

    async def make(self, scenario: Scenario | None = None, **params: Any) -> list[bytes]:
        """Makes the result as the queue does: retryable errors are retried, with three attempts in all."""
        callback = self.callback()
        for _ in range(2):
            try:
                return await self.once(callback, scenario, **params)
            except ProviderError as error:
                if not error.retryable:
                    raise
            callback = Callback(callback.url, may_exist=True)
        return await self.once(callback, scenario, **params)

    async def once(self, callback: Callback, scenario: Scenario | None = None, **params: Any) -> list[bytes]:
        self.server.scenario = scenario or self.server.scenario
        generation = Generation("txt2img", "a cat", params)
        assert list(self.provider.problems(generation)) == []
        if not self.calls_back:
            made = await cast("SyncProvider", self.provider).generate(
                generation, self.directory, lambda percent, message: self.progress.append((percent, message))
            )
            assert made.provider_job_id in self.server.predictions
            return [each.path.read_bytes() for each in made.files]
        return await self._called_back(cast("WebhookProvider", self.provider), generation, callback)

    async def _called_back(self, provider: WebhookProvider, generation: Generation, callback: Callback) -> list[bytes]:
        found = await provider.find(callback) if callback.may_exist else None
        submitted = found or await provider.submit(generation, callback)
        ended = await provider.read_callback(*await self.callback_receiver.at(callback.url), time.time())
        assert (ended.id, ended.callback_url) == (submitted.id, callback.url)
        # A poll returns the same as the callback.
        assert await provider.get(submitted.id) == ended
        if ended.status != "succeeded":
            raise ProviderError(ended.status, ended.error or "")
        limits = DownloadLimits(("image/*", "video/*", "audio/*"), MAX_BYTES, self.file_seconds)
        async with GuardedClient(allow_networks=[LOCAL]) as client:
            files = [
                await download(client, provider.name, url, self.directory, f"made-{number}", limits, {})
                for number, url in enumerate(ended.outputs)
            ]
        return [each.path.read_bytes() for each in files]

    async def refused(self, scenario: Scenario | None = None) -> ProviderError:
        with pytest.raises(ProviderError) as refused:
            await self.make(scenario)
        assert list(self.directory.iterdir()) == []
        return refused.value


@asynccontextmanager
async def open_callback_receiver() -> AsyncIterator[CallbackReceiver]:
    callback_receiver = CallbackReceiver()
    app = web.Application()
    app.router.add_post("/{id}", callback_receiver.take)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    callback_receiver.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield callback_receiver
    finally:
        await runner.cleanup()
