"""Everything that has to do with providers being called and calling back, put together once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import cast

from callsheet.jobs.room import JobsRoom
from callsheet.media.storage import Storage
from callsheet.plumbing.databases import Databases
from callsheet.plumbing.notify import Listener, Notify
from callsheet.providers.media import Finish, MediaProvider, WebhookProvider
from callsheet.settings import Settings
from callsheet.toolbox.clock import Clock, SystemClock
from callsheet.toolbox.http_client import GuardedClient
from callsheet.toolbox.loops import Loop
from callsheet.toolbox.signing import Master
from callsheet.webhooks.addresses import CallbackAddresses
from callsheet.webhooks.breakers import CHANNEL, Breakers, ProviderWatch
from callsheet.webhooks.call_loop import CallLoop
from callsheet.webhooks.callbacks import Callbacks
from callsheet.webhooks.collecting import Collecting
from callsheet.webhooks.downloads import Downloads
from callsheet.webhooks.following import Following
from callsheet.webhooks.gate import CallGate
from callsheet.webhooks.metrics import CallMetrics
from callsheet.webhooks.operations import ProviderOperations
from callsheet.webhooks.sweeper import CallSweeper
from callsheet.webhooks.worklist import Worklist


@dataclass(frozen=True, slots=True)
class WebhooksRoom:
    gate: CallGate
    breakers: Breakers
    callbacks: Callbacks
    operations: ProviderOperations
    calls: CallLoop
    watch: ProviderWatch
    sweeper: CallSweeper
    metrics: CallMetrics
    client: GuardedClient

    @property
    def loops(self) -> tuple[Loop, ...]:
        return (self.calls, self.watch, self.sweeper)

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
    others: Iterable[str] = (),
    clock: Clock | None = None,
) -> WebhooksRoom:
    """`others`: providers that are called and waited for, and make no media."""
    finishes = dict.fromkeys(others, Finish.SYNC)
    # Those whose jobs are leased by agents beside engines are not called.
    finishes |= {name: provider.finish for name, provider in media.items() if provider.finish is not Finish.WORKER}
    called_back = {
        name: cast("WebhookProvider", provider) for name, provider in media.items() if provider.finish is Finish.WEBHOOK
    }
    chosen = settings.webhooks
    addresses = CallbackAddresses(secret, settings.public_url)
    metrics = CallMetrics()
    breakers = Breakers(databases, chosen, notify, metrics, jobs.waiters.provider_is_back)
    worklist = Worklist(databases)
    client = GuardedClient(
        allow_networks=settings.outgoing.allow_networks,
        timeout_seconds=chosen.fetch_seconds,
        max_bytes=settings.outgoing.max_bytes,
    )
    downloads = Downloads(client, storage, settings.storage.backend)
    collecting = Collecting(worklist, jobs.lease_reports, downloads, chosen.fetch_window_seconds)
    following = Following(worklist, called_back, breakers, addresses, jobs.progress, chosen)
    calls = CallLoop(
        worklist,
        called_back,
        {"follow": following.follow, "collect": collecting.collect, "cancel": following.cancel},
        chosen.calls_at_once,
    )
    return WebhooksRoom(
        gate=CallGate(databases, breakers, addresses, finishes, chosen.first_look_seconds, calls.wake),
        breakers=breakers,
        callbacks=Callbacks(
            databases, called_back, addresses, jobs.progress, metrics, clock or SystemClock(), calls.wake
        ),
        operations=ProviderOperations(databases, breakers, worklist, finishes),
        calls=calls,
        watch=ProviderWatch(breakers, finishes),
        sweeper=CallSweeper(databases, chosen.keep_days),
        metrics=metrics,
        client=client,
    )
