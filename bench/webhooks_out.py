"""From the commit of a job to the receivers of its event: 100 endpoints, one of which never responds."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import cycle
from uuid import UUID

from bench.installation import BenchInstallation, open_bench_installation
from bench.results import Result
from callsheet.deliveries.room import open_deliveries
from callsheet.identity.access.principal import Principal
from callsheet.jobs.submit.new_jobs import NewJob
from callsheet.plumbing.database.notify import Listener
from callsheet.plumbing.failpoints import Failpoint, armed
from callsheet.settings import load_settings
from callsheet.toolbox.ids import uuid7
from callsheet.wire.identity import Role
from callsheet.wire.webhook_endpoints import CreateWebhookEndpoint, EndpointScope, WebhookEvent

name = "webhooks.out"
ENDPOINTS = 100
# Jobs whose events are on their way at the same time.
JOBS = 8
USERS = 5000
RATE_TARGET, P99_TARGET_MS = 1000.0, 1000.0
RESPONSE = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"


@dataclass(slots=True)
class Receiver:
    """The least that a server has to do, in the process of the benchmark."""

    arrivals: list[tuple[UUID, float]] = field(default_factory=list)
    waiting: dict[UUID, int] = field(default_factory=dict)
    arrived: dict[UUID, asyncio.Event] = field(default_factory=dict)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
                length = int(head.partition("content-length:")[2].partition("\r\n")[0])
                body = await reader.readexactly(length)
                if head.startswith("post /hangs "):
                    await asyncio.sleep(3600)
                writer.write(RESPONSE)
                self._arrived(UUID(json.loads(body)["data"]["id"]))
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            writer.close()

    def _arrived(self, job_id: UUID) -> None:
        self.arrivals.append((job_id, time.perf_counter()))
        self.waiting[job_id] = self.waiting.get(job_id, ENDPOINTS - 1) - 1
        if self.waiting[job_id] == 0:
            self.arrived.setdefault(job_id, asyncio.Event()).set()


@asynccontextmanager
async def receiving() -> AsyncIterator[tuple[Receiver, str]]:
    receiver = Receiver()
    server = await asyncio.start_server(receiver.handle, "127.0.0.1")
    try:
        yield receiver, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


async def run(seconds: float) -> list[Result]:
    async with open_bench_installation(listening=True) as installation, receiving() as (receiver, url):
        room = open_deliveries(
            installation.databases,
            load_settings(
                home=installation.home,
                deliveries={"endpoints_per_user": ENDPOINTS},
                outgoing={"allow_networks": "127.0.0.0/8"},
            ),
            b"the secret key of a benchmark",
        )
        listener = Listener(installation.central)
        room.listen(listener)
        # Each job has another user, as in a shop; the endpoints get the jobs of the tenant.
        users = cycle(await installation.add_users(USERS))
        for number in range(ENDPOINTS):
            path = "hangs" if number == 0 else f"hook-{number}"
            wanted = CreateWebhookEndpoint(
                url=f"{url}/{path}", events=[WebhookEvent.ACCEPTED], scope=EndpointScope.TENANT
            )
            await room.endpoints.create(_principal(installation), wanted)
        listener.start()
        room.sender.start()
        committed: dict[UUID, float] = {}
        try:
            await _submit(installation, next(users), receiver, {})
            receiver.arrivals.clear()
            started = time.perf_counter()
            await asyncio.gather(
                *(_submit_until(started + seconds, installation, users, receiver, committed) for _ in range(JOBS))
            )
            took = time.perf_counter() - started
        finally:
            await room.sender.stop()
            await listener.stop()
            await room.close()
    delays = sorted(1000 * (at - committed[job_id]) for job_id, at in receiver.arrivals)
    p50, p99 = delays[len(delays) // 2], delays[int(len(delays) * 0.99)]
    rate = len(delays) / took
    return [
        Result(name=name, value=rate, unit="deliveries/s", target=RATE_TARGET, p50_ms=p50, p99_ms=p99),
        Result(name=f"{name}.p99", value=p99, unit="ms p99", target=P99_TARGET_MS),
    ]


async def _submit_until(
    end: float, installation: BenchInstallation, users: Iterator[UUID], receiver: Receiver, committed: dict[UUID, float]
) -> None:
    while time.perf_counter() < end:
        await _submit(installation, next(users), receiver, committed)


async def _submit(
    installation: BenchInstallation, user: UUID, receiver: Receiver, committed: dict[UUID, float]
) -> None:
    """Returns when every endpoint but the one that hangs has the event."""
    job = NewJob(installation.tenant_id, user, "bench", installation.workflow_id, {"prompt": "a cat"}, 1)
    times: list[float] = []

    async def note(point: Failpoint) -> None:
        times.append(time.perf_counter())

    with armed({Failpoint.SUBMIT_BEFORE_RELAY: note}):
        submitted = await installation.room.submission.submit(job)
    committed[submitted.job.id] = times[0]
    event = receiver.arrived.setdefault(submitted.job.id, asyncio.Event())
    async with asyncio.timeout(60):
        await event.wait()


def _principal(installation: BenchInstallation) -> Principal:
    return Principal(
        user_id=uuid7(),
        tenant_id=installation.tenant_id,
        tenant="bench",
        pool=installation.pool.name,
        email="bench@example.com",
        name="Bench",
        role=Role.TENANT_ADMIN,
        signed_in_with="api_key",
    )
