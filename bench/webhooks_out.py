"""From the commit of a job to the receivers of its event: 100 endpoints, one of which never responds.

The ceiling is aiohttp's client, which the sender uses, with bodies and headers that are ready: nothing is claimed,
checked, signed or recorded. The receiver is a process of its own and the same for both, and they take turns.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import cycle
from uuid import UUID

import aiohttp

from bench.installation import BenchInstallation, open_bench_installation
from bench.processes import ROOT
from bench.processor_time import processor_clock
from bench.results import Result
from callsheet.deliveries.room import DeliveriesRoom, open_deliveries
from callsheet.identity.access.principal import Principal
from callsheet.jobs.submit.new_jobs import NewJob
from callsheet.plumbing.database.notify import Listener
from callsheet.plumbing.failpoints import Failpoint, armed
from callsheet.settings import load_settings
from callsheet.toolbox.ids import uuid7
from callsheet.wire.identity import Role
from callsheet.wire.webhook_endpoints import CreateWebhookEndpoint, EndpointScope, WebhookEvent

name = "webhooks.out"
ENDPOINTS, HANGING = 100, 1
PER_JOB = ENDPOINTS - HANGING
# Jobs whose events are on their way at the same time.
JOBS = 8
USERS = 5000
SLICE_SECONDS = 2.0
RATE_TARGET, P99_TARGET_MS = 1000.0, 1000.0
# As long as the body of an event.
PADDING = "x" * 500


@dataclass(slots=True)
class Arrivals:
    """What the receiver reports: when each webhook of a job arrived."""

    url: str
    of_job: dict[str, asyncio.Future[list[float]]] = field(default_factory=dict)

    async def all_of(self, job: str) -> list[float]:
        async with asyncio.timeout(60):
            try:
                return await self._future(job)
            finally:
                del self.of_job[job]

    def note(self, line: bytes) -> None:
        job, times = json.loads(line)
        self._future(job).set_result(times)

    def _future(self, job: str) -> asyncio.Future[list[float]]:
        return self.of_job.setdefault(job, asyncio.get_running_loop().create_future())


@dataclass(slots=True)
class Sent:
    """What one contestant has sent in all its turns."""

    delays_ms: list[float] = field(default_factory=list)
    seconds: float = 0.0
    processor_seconds: float = 0.0

    @property
    def per_second(self) -> float:
        return len(self.delays_ms) / self.seconds

    @property
    def processor_microseconds(self) -> float:
        return 1e6 * self.processor_seconds / len(self.delays_ms)

    def delay_ms(self, share: float) -> float:
        return sorted(self.delays_ms)[int(len(self.delays_ms) * share)]


@asynccontextmanager
async def receiving() -> AsyncIterator[Arrivals]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.webhook_receiver", cwd=ROOT, stdin=PIPE, stdout=PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps({"per_job": PER_JOB}).encode() + b"\n")
    arrivals = Arrivals(f"http://127.0.0.1:{int(await process.stdout.readline())}")

    async def read(stream: asyncio.StreamReader) -> None:
        async for line in stream:
            arrivals.note(line)

    reading = asyncio.create_task(read(process.stdout))
    try:
        yield arrivals
    finally:
        process.stdin.close()
        await process.wait()
        await reading


@asynccontextmanager
async def sending(installation: BenchInstallation, url: str) -> AsyncIterator[None]:
    """A sender, and the endpoints of the tenant."""
    settings = load_settings(
        home=installation.home,
        deliveries={"endpoints_per_user": ENDPOINTS},
        outgoing={"allow_networks": "127.0.0.0/8"},
    )
    room = open_deliveries(installation.databases, settings, b"the secret key of a benchmark")
    listener = Listener(installation.central)
    room.listen(listener)
    await _add_endpoints(installation, room, url)
    listener.start()
    room.sender.start()
    try:
        yield
    finally:
        await room.sender.stop()
        await listener.stop()
        await room.close()


async def run(seconds: float) -> list[Result]:
    async with (
        open_bench_installation(listening=True) as installation,
        receiving() as arrivals,
        sending(installation, arrivals.url),
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session,
    ):
        # Each job has another user, as in a shop; the endpoints get the jobs of the tenant.
        users = cycle(await installation.add_users(USERS))
        clock = processor_clock(installation)
        ours, bare = Sent(), Sent()
        turns: list[tuple[Sent, Callable[[], Awaitable[list[float]]]]] = [
            (ours, lambda: _submitted(installation, users, arrivals)),
            (bare, lambda: _posted(session, arrivals)),
        ]
        for _, way in turns:
            await way()
        slice_seconds = min(SLICE_SECONDS, seconds / len(turns))
        for _ in range(max(1, round(seconds / (len(turns) * slice_seconds)))):
            for sent, way in turns:
                await _turn(sent, way, slice_seconds, clock)
    p50, p99 = ours.delay_ms(0.5), ours.delay_ms(0.99)
    return [
        Result(
            name=name,
            value=ours.per_second,
            unit="deliveries/s",
            ceiling=bare.per_second,
            target=RATE_TARGET,
            p50_ms=p50,
            p99_ms=p99,
        ),
        Result(name=f"{name}.p99", value=p99, unit="ms p99", target=P99_TARGET_MS),
        Result(
            name=f"{name}.processor",
            value=ours.processor_microseconds,
            unit="µs/delivery",
            ceiling=bare.processor_microseconds,
        ),
    ]


async def _turn(
    sent: Sent, way: Callable[[], Awaitable[list[float]]], seconds: float, clock: Callable[[], float]
) -> None:
    started, spent = time.perf_counter(), clock()

    async def caller() -> None:
        while time.perf_counter() < started + seconds:
            sent.delays_ms += await way()

    await asyncio.gather(*(caller() for _ in range(JOBS)))
    sent.seconds += time.perf_counter() - started
    sent.processor_seconds += clock() - spent


async def _submitted(installation: BenchInstallation, users: Iterator[UUID], arrivals: Arrivals) -> list[float]:
    """Milliseconds from the commit of a job to each endpoint but the one that hangs."""
    job = NewJob(installation.tenant_id, next(users), "bench", installation.workflow_id, {"prompt": "a cat"}, 1)
    times: list[float] = []

    async def note(point: Failpoint) -> None:
        times.append(time.perf_counter())

    with armed({Failpoint.SUBMIT_BEFORE_RELAY: note}):
        submitted = await installation.room.submission.submit(job)
    return [1000 * (at - times[0]) for at in await arrivals.all_of(str(submitted.job.id))]


async def _posted(session: aiohttp.ClientSession, arrivals: Arrivals) -> list[float]:
    """The same for as many requests with nothing around them."""
    job, started = str(uuid7()), time.perf_counter()
    body = json.dumps({"type": "job.accepted", "data": {"id": job, "padding": PADDING}}).encode()

    async def post(number: int) -> None:
        async with session.post(f"{arrivals.url}/hook-{number}", data=body) as response:
            await response.read()

    await asyncio.gather(*(post(number) for number in range(PER_JOB)))
    return [1000 * (at - started) for at in await arrivals.all_of(job)]


async def _add_endpoints(installation: BenchInstallation, room: DeliveriesRoom, url: str) -> None:
    principal = Principal(
        user_id=uuid7(),
        tenant_id=installation.tenant_id,
        tenant="bench",
        pool=installation.pool.name,
        email="bench@example.com",
        name="Bench",
        role=Role.TENANT_ADMIN,
        signed_in_with="api_key",
    )
    for number in range(ENDPOINTS):
        path = "hangs" if number < HANGING else f"hook-{number}"
        wanted = CreateWebhookEndpoint(url=f"{url}/{path}", events=[WebhookEvent.ACCEPTED], scope=EndpointScope.TENANT)
        await room.endpoints.create(principal, wanted)
