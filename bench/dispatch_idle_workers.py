"""A thousand pollers that wait: they ask the database nothing, and one job that arrives wakes one or two of them."""

from __future__ import annotations

import asyncio

from bench.database_counters import Counter, counter
from bench.installation import BenchInstallation, open_bench_installation
from bench.pollers import waiting_pollers
from bench.results import Result
from callsheet.jobs.lease.long_poll import LongPoll
from callsheet.jobs.submit.new_jobs import NewJob
from tests.support.rooms import EveryProvider

name = "dispatch.idle_workers"
POLLERS = 1000
MAX_PER_REPOLL, MAX_PER_ARRIVAL = 2.0, 3.0
ARRIVALS = 20
short = {"pollers": 100}


async def run(seconds: float, pollers: int = POLLERS) -> list[Result]:
    # Without the loops, which ask on their own account: what is counted is the pollers' alone.
    async with open_bench_installation(listening=True) as installation, counter(installation) as count:
        waited = await _statements_while_waiting(installation, count, pollers, seconds)
        repoll = await _statements_per_repoll(installation, count, pollers)
        arrival = await _leases_per_arrival(installation, count, pollers)
    return [
        Result(name=f"{name}.waiting", value=waited, unit=f"statements in {seconds:g} s"),
        Result(name=f"{name}.repoll", value=repoll, unit="statements/re-poll", target=MAX_PER_REPOLL),
        Result(name=f"{name}.arrival", value=arrival, unit="lease statements/job", target=MAX_PER_ARRIVAL),
    ]


async def _statements_while_waiting(
    installation: BenchInstallation, count: Counter, pollers: int, seconds: float
) -> float:
    async with waiting_pollers(installation, pollers):
        before = await count.statements()
        await asyncio.sleep(seconds)
        return float(await count.statements() - before)


async def _statements_per_repoll(installation: BenchInstallation, count: Counter, pollers: int) -> float:
    """Each asks once, waits until its time is over, and asks again, as a worker does whose long poll ended."""
    polling = LongPoll(installation.room.starter, installation.room.dispatch.waiters, EveryProvider())
    before = await count.statements()
    for _ in range(2):
        await asyncio.gather(*(polling.next_job(installation.criteria, f"worker-{n}", 0.05) for n in range(pollers)))
    return (await count.statements() - before) / (2 * pollers)


async def _leases_per_arrival(installation: BenchInstallation, count: Counter, pollers: int) -> float:
    """The worst of several jobs, one after the other; each ends up with exactly one poller."""
    user = (await installation.add_users(1))[0]
    worst = 0
    async with waiting_pollers(installation, pollers) as waiting:
        for _ in range(ARRIVALS):
            before = await count.leases()
            job = NewJob(installation.tenant_id, user, "bench", installation.workflow_id, {}, 1)
            submitted = await installation.room.submission.submit(job)
            _, started = await waiting.next_start()
            if started.lease.job_id != submitted.job.id:
                raise RuntimeError("a poller was given another job")
            # A worker that was woken for nothing has looked at the queue by then.
            await waiting.all_wait()
            worst = max(worst, await count.leases() - before)
            await installation.room.cancellation.cancel(installation.tenant_id, submitted.job.id, actor="bench")
    return float(worst)
