"""The parts that call providers and receive their callbacks, and their routes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import cast

from prometheus_client.registry import Collector
from starlette.requests import Request

from callsheet.identity.access.authentication import Authentication
from callsheet.jobs.room import JobsRoom
from callsheet.media.storage import Storage
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.notify import Listener, Notify
from callsheet.plumbing.http.edge import CallerCheck
from callsheet.plumbing.http.routing import Router
from callsheet.plumbing.room import Room
from callsheet.providers.media import Finish, MediaProvider, WebhookProvider
from callsheet.settings import Settings
from callsheet.toolbox.clock import SystemClock
from callsheet.toolbox.http.client import GuardedClient
from callsheet.toolbox.loops import Loop
from callsheet.toolbox.signing import Master
from callsheet.webhooks.breakers import CHANNEL, Breakers, ProviderWatch
from callsheet.webhooks.call_follower import CallFollower
from callsheet.webhooks.call_loop import CallLoop
from callsheet.webhooks.callback_urls import CallbackUrls
from callsheet.webhooks.callbacks import Callbacks
from callsheet.webhooks.downloads import OutputDownloads
from callsheet.webhooks.gate import CallGate
from callsheet.webhooks.metrics import CallMetrics
from callsheet.webhooks.operations import ProviderOperations
from callsheet.webhooks.result_collector import ResultCollector
from callsheet.webhooks.routes import admin_provider_router, callback_router
from callsheet.webhooks.worklist import CallSweeper, Worklist


@dataclass(frozen=True, slots=True)
class WebhooksRoom(Room):
    gate: CallGate
    breakers: Breakers
    callbacks: Callbacks
    operations: ProviderOperations
    calls: CallLoop
    watch: ProviderWatch
    sweeper: CallSweeper
    call_metrics: CallMetrics
    client: GuardedClient

    @property
    def loops(self) -> tuple[Loop, ...]:
        return (self.calls, self.watch, self.sweeper)

    @property
    def metrics(self) -> tuple[Collector, ...]:
        return (self.call_metrics,)

    def listen(self, listener: Listener) -> None:
        listener.subscribe(CHANNEL, self.watch.received)

    async def close(self) -> None:
        await self.client.aclose()


def open_webhooks(
    databases: Databases,
    storage: Storage,
    jobs: JobsRoom,
    notify: Notify,
    settings: Settings,
    secret: Master,
    media: Mapping[str, MediaProvider],
    others: Iterable[str],
) -> WebhooksRoom:
    """`others`: providers without media, whose calls end with their response."""
    finishes = dict.fromkeys(others, Finish.SYNC)
    # Providers whose jobs run on engines beside workers are not called.
    finishes |= {name: provider.finish for name, provider in media.items() if provider.finish is not Finish.WORKER}
    called_back = {
        name: cast("WebhookProvider", provider) for name, provider in media.items() if provider.finish is Finish.WEBHOOK
    }
    chosen = settings.webhooks
    urls = CallbackUrls(secret, settings.public_url)
    metrics = CallMetrics()
    breakers = Breakers(databases, chosen, notify, metrics, jobs.dispatch.waiters.provider_resumed)
    worklist = Worklist(databases)
    client = GuardedClient(
        allow_networks=settings.outgoing.allow_networks,
        timeout_seconds=chosen.fetch_seconds,
        max_bytes=settings.outgoing.max_bytes,
    )
    downloads = OutputDownloads(client, storage, settings.storage.backend)
    collector = ResultCollector(worklist, jobs.routing, jobs.leases, downloads, chosen.fetch_window_seconds)
    follower = CallFollower(worklist, called_back, breakers, urls, jobs.progress, chosen)
    calls = CallLoop(
        worklist,
        called_back,
        {"follow": follower.follow, "collect": collector.collect, "cancel": follower.cancel},
        chosen.calls_at_once,
    )
    return WebhooksRoom(
        gate=CallGate(databases, breakers, urls, finishes, chosen.first_poll_seconds, calls.wake),
        breakers=breakers,
        callbacks=Callbacks(databases, called_back, urls, jobs.progress, metrics, SystemClock(), calls.wake),
        operations=ProviderOperations(databases, breakers, worklist, finishes),
        calls=calls,
        watch=ProviderWatch(breakers, finishes),
        sweeper=CallSweeper(databases, chosen.keep_days),
        call_metrics=metrics,
        client=client,
    )


CALLBACKS = "/api/webhooks/"


def webhook_routers(webhooks: WebhooksRoom, authentication: Authentication) -> list[Router]:
    return [callback_router(webhooks.callbacks), admin_provider_router(webhooks.operations, authentication)]


def check_of_callbacks(callbacks: Callbacks) -> CallerCheck:
    """Large bodies are read only for a callback that is expected."""

    async def check_caller(request: Request) -> None:
        provider, _, callback_id = request.scope["path"].removeprefix(CALLBACKS).partition("/")
        await callbacks.expect(provider, callback_id)

    return check_caller
