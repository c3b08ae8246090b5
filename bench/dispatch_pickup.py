"""From the commit of a job to the response that hands it, started, to a poller that was waiting."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable

from bench.installation import BenchInstallation, open_bench_installation
from bench.pollers import Pollers, waiting_pollers
from bench.results import Result
from callsheet.jobs.lease.outcomes import LeaseReport
from callsheet.jobs.submit.new_jobs import NewJob
from callsheet.plumbing.failpoints import Failpoint, armed

name = "dispatch.pickup"
POLLERS = 10
P50_TARGET_MS, P99_TARGET_MS = 15.0, 60.0
# All workers wait before each job arrives. The other benchmarks measure a queue under load.
BETWEEN_JOBS_SECONDS = 0.01
LOOPS = ("relay", "reaper", "deadlines", "lane_keeper")


async def run(seconds: float) -> list[Result]:
    async with (
        open_bench_installation(listening=True, loops=LOOPS) as installation,
        waiting_pollers(installation, POLLERS) as pollers,
    ):
        user = (await installation.add_users(1))[0]
        job = NewJob(installation.tenant_id, user, "bench", installation.workflow_id, {"prompt": "a cat"}, 1)
        await _pickup(installation, pollers, job)
        delays = []
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            delays.append(1000 * await _pickup(installation, pollers, job))
            await asyncio.sleep(BETWEEN_JOBS_SECONDS)
    delays.sort()
    p50, p99 = statistics.median(delays), delays[int(len(delays) * 0.99)]
    return [
        Result(name=name, value=p50, unit="ms p50", target=P50_TARGET_MS, p50_ms=p50, p99_ms=p99),
        Result(name=f"{name}.p99", value=p99, unit="ms p99", target=P99_TARGET_MS),
    ]


async def _pickup(installation: BenchInstallation, pollers: Pollers, job: NewJob) -> float:
    committed: list[float] = []
    with armed({Failpoint.SUBMIT_BEFORE_RELAY: _note_time(committed)}):
        submitting = asyncio.create_task(installation.room.submission.submit(job))
    responded, started = await pollers.next_start()
    submitted = await submitting
    if started.lease.job_id != submitted.job.id:
        raise RuntimeError("a poller was given another job")
    report = LeaseReport(started.lease.dispatch_id, started.lease.lease_token, started.lease.worker_id)
    await installation.room.leases.complete(report, {})
    return responded - committed[0]


def _note_time(times: list[float]) -> Callable[[Failpoint], Awaitable[None]]:
    async def note(point: Failpoint) -> None:
        times.append(time.perf_counter())

    return note
