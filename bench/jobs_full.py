"""The whole paid job: submit and reserve, relay, lease, start, complete and consume, close; two databases, with events.

The ceiling is the same statements sent bare, without our layers: one job at a time on eight pairs of connections
(`jobs.full`), and as many jobs per statement as fit (`jobs.full.batched`, and in processor time
`jobs.full.processor`). The peer is Procrastinate's no-op, which reserves nothing, charges nothing and sends no events.

The tenants of `jobs.full.integrated` have a webhook endpoint and a budget: each change of a job writes an event, and
each submit takes from the budget. It takes turns with `jobs.full` after the others, because what it writes would cost
them, too. Its ceiling is `jobs.full`. Nothing is sent: `webhooks.out` measures that.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from uuid import UUID

from bench.alternating_queues import Drainable, take_turns
from bench.bare_jobs import Order, bare_jobs
from bench.database_counters import counter
from bench.installation import TOKENS, BenchInstallation, open_bench_installation
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
INTEGRATE = """
WITH endpoint AS (
    INSERT INTO webhook_endpoints (tenant_id, id, user_id, scope, url, description, events, effect_ids,
        client_references, sealed_secret, sealed_with)
    SELECT t, gen_random_uuid(), t, 'tenant', 'https://shop.example.com/hook', '',
        '{job.accepted,job.started,job.completed,wallet.low}', '{}', '{}', '', ''
    FROM unnest($1::uuid[]) AS t
)
INSERT INTO budgets (tenant_id, id, name, period, time_zone, token_limit)
SELECT t, gen_random_uuid(), 'Bench', 'month', 'UTC', $2 FROM unnest($1::uuid[]) AS t
"""
TAKEN = "SELECT sum(taken) FROM budget_periods"
# A job that is accepted, started and completed.
EVENTS = 3


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


class IntegratedJobs(OurJobs):
    async def fill(self, jobs: int) -> None:
        """Forgets the events of the last turn, as if they had been sent and deleted."""
        async with self._ground.pool.connection() as connection:
            await connection.execute("TRUNCATE webhook_deliveries")


async def _integrated(installation: BenchInstallation) -> OurJobs:
    members = await installation.add_members(TENANTS)
    async with installation.pool.connection() as connection:
        await connection.execute(INTEGRATE, [tenant for tenant, _ in members], TOKENS)
    return IntegratedJobs(installation, members, CALLERS)


async def _check_that_it_is_integrated(integrated: OurJobs, installation: BenchInstallation, jobs: int) -> None:
    async with installation.pool.connection() as connection:
        before = await connection.fetchval(TAKEN)
        await integrated.fill(jobs)
        await integrated.drain(jobs)
        assert await connection.fetchval("SELECT count(*) FROM webhook_deliveries") == jobs * EVENTS
        assert await connection.fetchval(TAKEN) == before + jobs * COST


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
        integrated = await _integrated(installation)
        both = await take_turns({"plain": ours, "integrated": integrated}, seconds / 2, processor_clock(installation))
        await _check_that_it_is_integrated(integrated, installation, CALLERS)
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
        Result(
            name=f"{name}.integrated",
            value=both["integrated"].per_second,
            unit="jobs/s",
            ceiling=both["plain"].per_second,
        ),
        Result(
            name=f"{name}.integrated.processor",
            value=both["integrated"].processor_microseconds,
            unit="µs/job",
            ceiling=both["plain"].processor_microseconds,
        ),
        Result(name=f"{name}.statements", value=(after.statements - before.statements) / jobs, unit="statements/job"),
        Result(name=f"{name}.commits", value=(after.commits - before.commits) / jobs, unit="commits/job"),
    ]
