"""Latency of a signed-in user and fifty workers while clients without credentials hold connections.

These clients send slowly, too much or nothing. Slices without them and with them take turns. Reported are the latencies
with these clients over the latencies without them, and the memory that they make the control plane use.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from bench.http_me import HOST, Target, create_user
from bench.http_protocol import DRAINING, FLEET_SECRET, WORKERS, Site, open_site
from bench.installation import unread_logs
from bench.processes import ROOT, fresh_home, resident_mb, serving
from bench.results import Result
from callsheet.plumbing.database.databases import open_databases
from callsheet.plumbing.http.server import free_address
from callsheet.settings import load_settings

name = "http.slow_clients"
seconds = 60.0
short = {"connections": 50, "jobs": 50}
LATENCY_TARGET, MEMORY_TARGET_MB = 2.0, 100.0
POLL_SECONDS = 0.2


@dataclass(slots=True)
class Side:
    """What was measured without the slow clients, or with them."""

    user_ms: list[float] = field(default_factory=list)
    worker_ms: list[float] = field(default_factory=list)
    user_p99_ms: list[float] = field(default_factory=list)
    worker_p99_ms: list[float] = field(default_factory=list)

    async def measure(self, me: Target, site: Site, jobs: int, seconds: float) -> None:
        await me.slice(seconds)
        self.user_ms.append(me.loads[-1].p50_ms)
        self.user_p99_ms.append(me.loads[-1].p99_ms)
        await site.fill(jobs)
        report = await site.simulate("pairs", jobs, WORKERS)
        self.worker_ms.append(report["p50_ms"])
        self.worker_p99_ms.append(report["p99_ms"])


async def run(seconds: float, connections: int = 2000, jobs: int = 500) -> list[Result]:
    with fresh_home() as home, unread_logs():
        databases = await open_databases(load_settings(home=home, database={"dsn": None}))
        try:
            _, key = await create_user(databases)
            port = (await free_address(HOST, 0))[1]
            settings = {"CALLSHEET_FLEET__SECRET": FLEET_SECRET, "CALLSHEET_FLEET__MAX_WORKERS": str(DRAINING)}
            async with serving(home, port, settings) as plane:
                site = await open_site(databases, plane.pid, port)
                me = Target(plane.pid, port, "/api/me", {"Authorization": f"Bearer {key}"})
                return await _take_turns(site, me, seconds, connections, jobs)
        finally:
            await databases.close()


async def _take_turns(site: Site, me: Target, seconds: float, connections: int, jobs: int) -> list[Result]:
    quiet, crowded, peaks = Side(), Side(), list[float]()
    slice_seconds = min(3.0, seconds)
    await Side().measure(me, site, jobs, slice_seconds)
    idle_mb = resident_mb(site.pid)
    for _ in range(max(1, round(seconds / 20))):
        await quiet.measure(me, site, jobs, slice_seconds)
        # What the work itself takes is not the slow clients' doing.
        idle_mb = max(idle_mb, resident_mb(site.pid))
        async with _slow_clients(site.port, connections), _peak_memory(site.pid, peaks):
            await crowded.measure(me, site, jobs, slice_seconds)
    unit = f"times the latency without {connections} slow clients"
    return [
        _ratio(f"{name}.user", quiet.user_ms, crowded.user_ms, crowded.user_p99_ms, unit),
        _ratio(f"{name}.workers", quiet.worker_ms, crowded.worker_ms, crowded.worker_p99_ms, unit),
        Result(
            name=f"{name}.memory",
            value=max(0.0, max(peaks) - idle_mb),
            unit=f"MB more with {connections} slow clients",
            target=MEMORY_TARGET_MB,
        ),
    ]


def _ratio(
    name: str, quiet_ms: Sequence[float], crowded_ms: Sequence[float], p99_ms: Sequence[float], unit: str
) -> Result:
    without, with_them = statistics.median(quiet_ms), statistics.median(crowded_ms)
    return Result(
        name=name,
        value=with_them / without,
        unit=unit,
        target=LATENCY_TARGET,
        p50_ms=with_them,
        p99_ms=statistics.median(p99_ms),
    )


@asynccontextmanager
async def _slow_clients(port: int, connections: int) -> AsyncIterator[None]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.slow_clients", cwd=ROOT, stdin=PIPE, stdout=PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    order = {"host": HOST, "port": port, "connections": connections}
    process.stdin.write(json.dumps(order).encode() + b"\n")
    try:
        if await process.stdout.readline() != b"open\n":
            raise RuntimeError("the slow clients could not connect; what they said is above")
        yield
    finally:
        process.stdin.close()
        await process.wait()


@asynccontextmanager
async def _peak_memory(pid: int, peaks: list[float]) -> AsyncIterator[None]:
    async def sample() -> None:
        while True:
            peaks.append(resident_mb(pid))
            await asyncio.sleep(POLL_SECONDS)

    sampling = asyncio.create_task(sample())
    try:
        yield
    finally:
        peaks.append(resident_mb(pid))
        sampling.cancel()
