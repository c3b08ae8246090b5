"""The whole paid job: submit and reserve, relay, lease, start, complete and consume, close; two databases, with events.

The ceiling is the same statements sent bare, without our layers: one job at a time on eight pairs of connections
(`jobs.full`), and as many jobs per statement as fit (`jobs.full.batched`, and in processor time
`jobs.full.processor`). The peer is Procrastinate's no-op, which reserves nothing, charges nothing and sends no events.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from uuid import UUID

from bench.alternating_queues import Drainable, take_turns
from bench.bare_jobs import Order, bare_jobs
from bench.database_counters import counter
from bench.installation import BenchInstallation, open_bench_installation
from bench.peers import procrastinate
from bench.processor_time import processor_clock
from bench.queues import TENANTS
from bench.results import Result
from callsheet.jobs.lease.outcomes import LeaseReport
from callsheet.jobs.submit.new_jobs import NewJob

name = "jobs.full"
CALLERS = 200
USERS = 500
PAYLOAD = {"prompt": "a cat on a skateboard, golden hour", "seed": 42, "strength": 0.75}
RESULT = {"files": ["output-1.mp4"], "metadata": {"frames": 120, "seconds": 4.8}}
COST = 3
BARE_AT_ONCE = 20
LOOPS = ("relay", "reaper", "deadlines", "lane_keeper")


class OurJobs:
    """Callers that each submit a job, lease one, and complete it."""

    def __init__(self, installation: BenchInstallation, members: list[tuple[UUID, UUID]], callers: int):
        self._ground = installation
        self._members = itertools.cycle(members)
        self._callers = callers

    async def fill(self, jobs: int) -> None:
        """Nothing: submitting is part of what is measured."""

    async def drain(self, jobs: int) -> int:
        left = iter(range(jobs))
        return sum(await asyncio.gather(*(self._call(f"worker-{n}", left) for n in range(self._callers))))

    async def _call(self, worker: str, left: Iterator[int]) -> int:
        room, done = self._ground.room, 0
        for _ in left:
            tenant, user = next(self._members)
            await room.submission.submit(NewJob(tenant, user, "bench", self._ground.workflow_id, PAYLOAD, COST))
            started = await room.starter.lease_and_start(self._ground.criteria, worker)
            # Each caller has just put one in, so there is one to take out.
            assert started is not None
            lease = started.lease
            outcome = await room.leases.complete(LeaseReport(lease.dispatch_id, lease.lease_token, worker), RESULT)
            done += outcome.status == "completed"
        return done


def _order(installation: BenchInstallation) -> Order:
    return Order(installation.tenant_id, installation.workflow_id, PAYLOAD, RESULT, COST)


async def run(seconds: float) -> list[Result]:
    async with (
        open_bench_installation(loops=LOOPS) as installation,
        counter(installation) as count,
        procrastinate(installation) as peer,
        bare_jobs(installation, _order(installation), await installation.add_users(USERS)) as bare,
    ):
        ours = OurJobs(installation, await installation.add_members(TENANTS), CALLERS)
        contestants: dict[str, Drainable] = {
            "bare": bare,
            "several": bare.at_once(BARE_AT_ONCE),
            "ours": ours,
            "peer": peer,
        }
        rates = await take_turns(contestants, seconds, processor_clock(installation))
        jobs = max(CALLERS, round(rates["ours"].per_second))
        before = await count.counts()
        await ours.drain(jobs)
        after = await count.counts()
    value = rates["ours"].per_second
    return [
        Result(
            name=name,
            value=value,
            unit="jobs/s",
            ceiling=rates["bare"].per_second,
            peer=rates["peer"].per_second,
        ),
        Result(name=f"{name}.batched", value=value, unit="jobs/s", ceiling=rates["several"].per_second),
        Result(
            name=f"{name}.processor",
            value=rates["ours"].processor_microseconds,
            unit="µs/job",
            ceiling=rates["several"].processor_microseconds,
            peer=rates["peer"].processor_microseconds,
        ),
        Result(name=f"{name}.statements", value=(after.statements - before.statements) / jobs, unit="statements/job"),
        Result(name=f"{name}.commits", value=(after.commits - before.commits) / jobs, unit="commits/job"),
    ]
