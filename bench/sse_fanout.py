"""Thousands of users watch live streams, each on a separate stream, through one control-plane process.

Events are written by another process, as a second control plane would. No reader may miss one or get it twice; the
delay is from the clock in the event, set before its commit, to the reader's socket.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

from bench.http_me import HOST, create_user
from bench.installation import TOKENS, unread_logs
from bench.processes import ROOT, cpu_seconds, fresh_home, serving
from bench.results import Result
from callsheet.dispatch.facts import JobCycle
from callsheet.jobs.machine.states import Transition
from callsheet.jobs.machine.transition_requests import TransitionRequest
from callsheet.jobs.room import JobsRoom
from callsheet.jobs.submit.new_jobs import NewJob
from callsheet.plumbing.database.databases import open_databases
from callsheet.plumbing.database.notify import Notifier
from callsheet.plumbing.http.server import free_address
from callsheet.settings import JobSettings, load_settings
from callsheet.wallet.ledger import credit
from tests.support.rooms import jobs_room

name = "sse.fanout"
seconds = 60.0
short = {"clients": 50, "per_second": 50}
CLIENTS, PER_SECOND = 5000, 500
# The interval between batches of events: short enough to spread them, long enough to cost little.
STEP_SECONDS = 0.02
SETTINGS = {
    "CALLSHEET_JOBS__ACTIVE_PER_USER": "100000",
    "CALLSHEET_JOBS__SUBMITS_PER_MINUTE": "1000000",
    "CALLSHEET_JOBS__STREAMS_PER_USER": "100000",
    "CALLSHEET_LOG__LEVEL": "warning",
    "CALLSHEET_TASKS__IN_PROCESS": "0",
}


async def run(seconds: float, clients: int = CLIENTS, per_second: int = PER_SECOND) -> list[Result]:
    with fresh_home() as home, unread_logs():
        settings = load_settings(home=home)
        databases = await open_databases(settings)
        try:
            user_id, key = await create_user(databases)
            port = (await free_address(HOST, 0))[1]
            notifier = Notifier(databases.central)
            room = jobs_room(
                databases,
                JobSettings(active_per_user=100_000, submits_per_minute=None),
                notify=notifier.notify,
            )
            async with databases.central.connection() as connection:
                tenant_id = await connection.fetchval("SELECT id FROM tenants WHERE slug = 'bench'")
                workflow_id = await connection.fetchval(
                    "INSERT INTO workflows (slug, name) VALUES ('bench', 'Bench') RETURNING id"
                )
            await credit(databases.pools[0], tenant_id, user_id, TOKENS, "bench")
            new = NewJob(tenant_id, user_id, "effect", workflow_id, {}, 1)
            submitted = await asyncio.gather(*(room.submission.submit(new) for _ in range(clients)))
            jobs = [each.job.id for each in submitted]
            async with serving(home, port, SETTINGS) as plane, watching(port, key, jobs) as readers:
                before, started_at = cpu_seconds(plane.pid), time.monotonic()
                expected = await write_events(room, tenant_id, jobs, seconds, per_second)
                took = time.monotonic() - started_at
                # The last events may still be in transit.
                await asyncio.sleep(2.0)
                busy = (cpu_seconds(plane.pid) - before) / took
                report = await readers.report()
                return results(report, expected, clients, took, busy, peak_mb(plane.pid))
        finally:
            await databases.close()


async def write_events(
    room: JobsRoom, tenant_id: UUID, jobs: list[UUID], seconds: float, per_second: int
) -> dict[UUID, int]:
    """Writes events by leasing and requeueing one job after the other. Returns the number of events per job."""
    events, leases = dict.fromkeys(jobs, 2), dict.fromkeys(jobs, 0)
    until, written, turn = time.monotonic() + seconds, 0, 0
    started_at = time.monotonic()
    while time.monotonic() < until:
        due = int((time.monotonic() - started_at) * per_second) - written
        chosen = [jobs[(turn + place) % len(jobs)] for place in range(min(due, len(jobs)))]
        turn, written = turn + len(chosen), written + len(chosen)
        await asyncio.gather(*(_change(room, tenant_id, job, events, leases) for job in chosen))
        await asyncio.sleep(STEP_SECONDS)
    return events


async def _change(room: JobsRoom, tenant_id: UUID, job: UUID, events: dict[UUID, int], leases: dict[UUID, int]) -> None:
    cycle = JobCycle(tenant_id, job, 1)
    if events[job] % 2 == 0:
        leases[job] += 1
        request = TransitionRequest(cycle, "bench", new_lease_seq=leases[job])
        changed: object = await room.transitions.start(Transition.START, request)
    else:
        request = TransitionRequest(cycle, "bench", lease_seq=leases[job])
        changed = await room.transitions.apply(Transition.REQUEUE, request)
    if changed is None:
        raise RuntimeError("the status of a job could not be changed")
    events[job] += 1


class Readers:
    def __init__(self, process: Process):
        self._process = process

    async def report(self) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"report\n")
        report: dict[str, Any] = json.loads(await self._process.stdout.readline())
        return report


@asynccontextmanager
async def watching(port: int, key: str, jobs: list[UUID]) -> AsyncIterator[Readers]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bench.sse_clients",
        stdin=PIPE,
        stdout=PIPE,
        cwd=ROOT,
        env=dict(os.environ),
        limit=1 << 28,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    order = {"host": HOST, "port": port, "key": key, "jobs": [str(job) for job in jobs]}
    try:
        process.stdin.write(json.dumps(order).encode() + b"\n")
        if await process.stdout.readline() != b"open\n":
            raise RuntimeError("the readers could not open their streams; what they said is above")
        yield Readers(process)
    finally:
        process.kill()
        await process.wait()


def results(
    report: dict[str, Any], expected: dict[UUID, int], clients: int, took: float, busy: float, peak: float
) -> list[Result]:
    seen: dict[str, dict[str, float]] = report["seen"]
    missed = sum(events - len(seen[str(job)]) for job, events in expected.items())
    # The first two were written before a client watched.
    delays = sorted(delay for each in seen.values() for place, delay in each.items() if int(place) > 2)
    if missed or report["ended"] or not delays:
        raise RuntimeError(f"{missed} events were missed, {report['ended']} streams ended, {len(delays)} came")
    return [
        Result(
            name=name,
            value=len(delays) / took,
            unit=f"events/s to {clients} clients; 0 missed, none twice",
            p50_ms=1000 * delays[len(delays) // 2],
            p99_ms=1000 * delays[int(len(delays) * 0.99)],
        ),
        Result(name=f"{name}.p99", value=1000 * delays[int(len(delays) * 0.99)], unit="ms", target=500.0),
        Result(name=f"{name}.memory", value=peak, unit=f"MB peak, {clients} clients", target=400.0),
        Result(name=f"{name}.cpu", value=busy, unit="cores busy"),
    ]


def peak_mb(pid: int) -> float:
    """The peak memory of the process."""
    status = Path(f"/proc/{pid}/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) / 1000
