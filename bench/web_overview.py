"""The overview of operators, as its page requests it over HTTP: a million finished jobs, a queue, 10,000 workers.

`web.overview.1h` and so on are how long each request of the page takes, one after the other; beside it `/api/me`, which
reads one row by key. `.page` sends all requests of the page of a month at once and ends with the last response.
`.cpu` is the processor time of one round of these requests, in the control plane and in PostgreSQL.
`web.overview.keeping` is the share of one processor that counting and sampling need: the work of a minute over sixty
seconds.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import httpx

from bench.http_me import HOST
from bench.installation import BenchInstallation, open_bench_installation
from bench.large_installation import fill
from bench.processes import serving
from bench.processor_time import processor_clock
from bench.results import Result
from callsheet.identity.access.keys import Keys
from callsheet.identity.access.passwords import Passwords
from callsheet.identity.accounts.accounts import Accounts
from callsheet.identity.accounts.quotas import Quotas
from callsheet.operate.statistics.keeper import StatisticsKeeper
from callsheet.operate.statistics.spend_keeper import SpendKeeper
from callsheet.plumbing.http.server import free_address
from callsheet.settings import QuotaSettings
from callsheet.wire.identity import CreateKeyRequest, CreateUserRequest, Role

name = "web.overview"
JOBS, WORKERS = 1_000_000, 10_000
REQUESTS = {
    "1h": "/api/admin/statistics?range=1h",
    "24h": "/api/admin/statistics?range=24h",
    "30d": "/api/admin/statistics?range=30d",
    "metrics": "/api/admin/metrics",
    "alerts": "/api/admin/alerts?fresh=false",
}
PAGE = ("1h", "30d", "metrics", "alerts")
PLAIN = "/api/me"
TARGET_MS = 100.0
# The share of one processor.
TARGET_PERCENT = 1.0
MINUTES = 10
WARM_UP = 3
short = {"jobs": 5_000, "workers": 50}


async def run(seconds: float, jobs: int = JOBS, workers: int = WORKERS) -> list[Result]:
    async with open_bench_installation() as installation:
        await fill(installation, jobs, workers)
        await _catch_up(installation)
        keeping = await _keep(installation, workers)
        key = await _operator(installation)
        port = (await free_address(HOST, 0))[1]
        async with (
            serving(installation.home, port) as plane,
            httpx.AsyncClient(
                base_url=f"http://{HOST}:{port}",
                headers={"authorization": f"Bearer {key}"},
                trust_env=False,
                timeout=60,
            ) as client,
        ):
            results = [await _time(client, kind, path, seconds / 6) for kind, path in REQUESTS.items()]
            return [*results, *await _time_page(installation, client, plane.pid, seconds / 6), keeping]


async def _time(client: httpx.AsyncClient, kind: str, path: str, seconds: float) -> Result:
    ours: list[float] = []
    plain: list[float] = []
    for _ in range(WARM_UP):
        await _get(client, path)
        await _get(client, PLAIN)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(ours) < WARM_UP:
        ours.append(await _get(client, path))
        plain.append(await _get(client, PLAIN))
    return _result(kind, ours, plain)


async def _time_page(
    installation: BenchInstallation, client: httpx.AsyncClient, pid: int, seconds: float
) -> list[Result]:
    clock = processor_clock(installation, pid)
    pages: list[float] = []
    plain: list[float] = []
    spent: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(pages) < WARM_UP:
        before, started = clock(), time.perf_counter()
        await asyncio.gather(*(_get(client, REQUESTS[kind]) for kind in PAGE))
        pages.append((time.perf_counter() - started) * 1000)
        spent.append((clock() - before) * 1000)
        plain.append(await _get(client, PLAIN))
    return [
        _result("page", pages, plain),
        Result(name=f"{name}.cpu", value=statistics.mean(spent), unit="ms CPU"),
    ]


async def _get(client: httpx.AsyncClient, path: str) -> float:
    started = time.perf_counter()
    response = await client.get(path)
    response.raise_for_status()
    return (time.perf_counter() - started) * 1000


def _result(kind: str, ours: list[float], plain: list[float]) -> Result:
    return Result(
        name=f"{name}.{kind}",
        value=statistics.median(ours),
        unit="ms",
        ceiling=statistics.median(plain),
        target=TARGET_MS,
        p50_ms=statistics.median(ours),
        p99_ms=sorted(ours)[int(len(ours) * 0.99)],
    )


async def _catch_up(installation: BenchInstallation) -> None:
    for keeper in (StatisticsKeeper(installation.databases, days=400), SpendKeeper(installation.databases)):
        while await keeper.tick(datetime.now(UTC)):
            pass


async def _keep(installation: BenchInstallation, workers: int) -> Result:
    """The processor time of one minute: one tick that samples, five that only count, and one tick of the spending."""
    clock = processor_clock(installation)
    spending = SpendKeeper(installation.databases)
    sampling_ticks: list[float] = []
    counting_ticks: list[float] = []
    spending_ticks: list[float] = []
    while len(sampling_ticks) < MINUTES:
        minute = await _minute_without_sample(installation)
        sampled = await _sampled_minutes(installation)
        # A new object has not sampled yet.
        keeper = StatisticsKeeper(installation.databases, days=400)
        times = [await _cost(clock, keeper) for _ in range(6)]
        times.append(await _cost(clock, spending))
        if datetime.now(UTC) >= minute + timedelta(minutes=1):
            # The next minute has started in the meantime, so it is not known which tick sampled.
            continue
        if await _sampled_minutes(installation) != sampled + workers:
            raise RuntimeError("the tick did not sample all workers")
        sampling_ticks.append(times[0])
        counting_ticks.append(sum(times[1:6]))
        spending_ticks.append(times[6])
    minutes = (statistics.mean(ticks) for ticks in (sampling_ticks, counting_ticks, spending_ticks))
    return Result(name=f"{name}.keeping", value=sum(minutes) / 60 * 100, unit="% of a core", target=TARGET_PERCENT)


async def _cost(clock: Callable[[], float], keeper: StatisticsKeeper | SpendKeeper) -> float:
    before = clock()
    await keeper.tick(datetime.now(UTC))
    return clock() - before


async def _minute_without_sample(installation: BenchInstallation) -> datetime:
    """Restores the state of this minute before its first tick."""
    async with installation.central.connection() as connection:
        minute: datetime = await connection.fetchval("SELECT date_trunc('minute', clock_timestamp())")
        for table in ("fleet_samples", "queue_samples"):
            await connection.execute(f"DELETE FROM {table} WHERE step_seconds = 60 AND at >= $1", minute)
    return minute


async def _sampled_minutes(installation: BenchInstallation) -> int:
    async with installation.central.connection() as connection:
        minutes: int = await connection.fetchval("SELECT coalesce(sum(minutes), 0)::bigint FROM worker_hours")
    return minutes


async def _operator(installation: BenchInstallation) -> str:
    """The API key of an operator."""
    account = CreateUserRequest(
        tenant="bench", email="bench@example.com", password="not a real password", role=Role.OPERATOR
    )
    user = await Accounts(installation.databases, Passwords()).create_user(account)
    return (
        await Keys(installation.databases, Quotas(installation.databases, QuotaSettings())).create(
            user.id, CreateKeyRequest(name="bench")
        )
    ).key
