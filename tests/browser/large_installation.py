"""One installation of the size that operators have: two control planes on one database behind a load balancer, ten
workers that render nothing, the demo's engine, and 50,000 jobs of the last month."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from callsheet.plumbing.database.databases import open_installation
from callsheet.settings import load_settings
from tests.browser.balancer import Balancer, running_balancer
from tests.browser.failing_jobs import add_workflow
from tests.browser.job_history import databases_of, plant_history
from tests.browser.operator_actions import audited
from tests.browser.simulated_fleet import FAILS, SimulatedFleet, simulated_fleet
from tests.browser.stack import Account, Stack
from tests.browser.user_content import sell
from tests.support.jobs.invariants import violations
from tests.support.programs.control_plane_process import ControlPlaneProcess
from tests.support.run.ports import free_port
from tests.support.waiting import until

JOBS, WORKERS, ACCOUNTS = 50_000, 10, 10
FAILING = 1000
TOKENS = 100_000
FAILURE = "The engine ran out of memory while it rendered."
# At once, so that submissions do not take the processor from everything else.
SUBMITTERS = 4
# Thousands of requests on a machine that has much else to do.
PATIENCE_SECONDS = 1800.0
SETTINGS = {
    "CALLSHEET_JOBS__ACTIVE_PER_USER": "10000",
    # Only the workers of the test are counted.
    "CALLSHEET_TASKS__IN_PROCESS": "0",
}
QUEUE = """
SELECT count(*) FILTER (WHERE status = 'queued') AS waiting, count(*) FILTER (WHERE status = 'leased') AS running
FROM ai_job_dispatches
"""
ONLINE = """
SELECT count(*) FILTER (WHERE held.worker_id IS NOT NULL) AS busy, count(*) AS online
FROM comfyui_workers w LEFT JOIN (
    SELECT DISTINCT worker_id FROM ai_job_dispatches WHERE status = 'leased'
) held USING (worker_id)
WHERE w.is_approved AND w.revoked_at IS NULL
  AND NOT EXISTS (SELECT FROM worker_drains d WHERE d.worker_id = w.worker_id)
  AND (w.last_seen_at > clock_timestamp() - interval '90 seconds' OR held.worker_id IS NOT NULL)
"""
FINISHED = """
SELECT w.slug, count(*) FILTER (WHERE h.status = 'completed') AS completed,
    count(*) FILTER (WHERE h.status IN ('failed', 'expired')) AS failed
FROM dispatch_history h JOIN workflows w ON w.id = h.workflow_id
WHERE h.finished_at >= date_trunc('minute', clock_timestamp()) - interval '59 minutes'
GROUP BY w.slug
"""
OPEN = "SELECT count(*) FROM ai_jobs WHERE completed_at IS NULL AND id = ANY ($1::uuid[])"
HELD = "SELECT coalesce(sum(cost), 0) FROM ai_jobs WHERE completed_at IS NULL"
ACCEPTED = "SELECT status, count(*) AS jobs FROM ai_jobs WHERE id = ANY ($1::uuid[]) GROUP BY status"
# Of a user without an active job: what was paid in, without what completed jobs cost.
OVERCHARGED = """
SELECT w.owner_id, w.balance, paid.tokens AS credited, done.tokens AS spent
FROM token_wallets w
CROSS JOIN LATERAL (
    SELECT coalesce(sum(amount), 0) AS tokens FROM token_transactions t
    WHERE t.tenant_id = w.tenant_id AND t.user_id = w.owner_id AND t.type = 'PAYMENT_CREDIT'
) paid
CROSS JOIN LATERAL (
    SELECT coalesce(sum(cost) FILTER (WHERE status = 'completed'), 0) AS tokens,
        count(*) FILTER (WHERE completed_at IS NULL) AS active
    FROM ai_jobs j WHERE j.tenant_id = w.tenant_id AND j.user_id = w.owner_id
) done
WHERE done.active = 0 AND w.balance <> paid.tokens - done.tokens
"""


class Truth(NamedTuple):
    """What the databases say at this moment."""

    waiting: int
    running: int
    busy_workers: int
    online_workers: int
    tokens_held: int
    # Completed and failed jobs of the last hour, by workflow.
    finished: dict[str, tuple[int, int]]


@dataclass
class LargeInstallation:
    stack: Stack
    balancer: Balancer
    second: ControlPlaneProcess
    fleet: SimulatedFleet
    accounts: Sequence[Account]
    # The slug of the effect that the workers run, and of its workflow.
    effect: str
    # The workflow of jobs that fail.
    failing: str
    accepted: list[str] = field(default_factory=list)
    has_failing: bool = False

    @property
    def second_url(self) -> str:
        return self.second.settings.public_url

    async def submit(self, count: int) -> None:
        """Jobs of the effect, of all accounts in turn, through both control planes if both run."""
        body = {"effect_id": self.effect, "input_payload": {"prompt": "a lighthouse in the fog"}}
        requests = [("/api/ai-jobs", body, self.accounts[number % len(self.accounts)]) for number in range(count)]
        await self._submit([(path, json, account.headers) for path, json, account in requests])

    async def submit_failing(self) -> None:
        """1,000 jobs that fail when a worker has them, of all accounts in turn. Once: the next scenario finds them."""
        if self.has_failing:
            return
        self.has_failing = True
        requests = []
        for number in range(FAILING):
            account = self.accounts[number % len(self.accounts)]
            body = {"user_id": account.id, "workflow": self.failing, "payload": {FAILS: FAILURE}, "cost": 1}
            requests.append(("/api/admin/jobs", body, self.stack.operator))
        await self._submit(requests)

    async def _submit(self, requests: list[tuple[str, dict[str, Any], dict[str, str]]]) -> None:
        async def work(url: str) -> None:
            async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=60) as client:
                while requests:
                    path, body, headers = requests.pop()
                    created = await client.post(path, json=body, headers=headers)
                    assert created.status_code == 201, created.text
                    self.accepted.append(created.json()["id"])

        urls = (self.stack.own_url, self.stack.own_url if self.second.is_over else self.second_url)
        await asyncio.gather(*(work(urls[number % 2]) for number in range(SUBMITTERS)))

    async def truth(self) -> Truth:
        async with databases_of(self.stack) as (central, pool):
            queue, online = await central.fetchrow(QUEUE), await central.fetchrow(ONLINE)
            finished = {row["slug"]: (row["completed"], row["failed"]) for row in await central.fetch(FINISHED)}
            assert queue is not None
            assert online is not None
            return Truth(*queue, *online, int(await pool.fetchval(HELD)), finished)

    async def all_held(self) -> None:
        """Until every worker has a job that it keeps."""

        async def are_busy() -> bool:
            return (await self.truth()).busy_workers >= sum(not worker.left.is_set() for worker in self.fleet.workers)

        await until(are_busy, PATIENCE_SECONDS, every=0.2)

    async def all_ended(self) -> None:
        """Until no job that was accepted is active."""

        async def have_ended() -> bool:
            async with databases_of(self.stack) as (_, pool):
                return bool(await pool.fetchval(OPEN, self.accepted) == 0)

        await until(have_ended, PATIENCE_SECONDS, every=0.5)

    async def check(self) -> None:
        """No job is lost, nothing is charged twice, every balance is the sum of its lines."""
        async with databases_of(self.stack) as (_, pool):
            by_status = {row["status"]: row["jobs"] for row in await pool.fetch(ACCEPTED, self.accepted)}
            assert sum(by_status.values()) == len(self.accepted) == len(set(self.accepted))
            assert by_status.keys() <= {"completed", "failed", "canceled", "queued"}, by_status
            assert [dict(row) for row in await pool.fetch(OVERCHARGED)] == []
        assert len(self.fleet.completed) == len(set(self.fleet.completed))
        await audited(self.stack)
        databases = await open_installation(load_settings(home=self.stack.home))
        try:
            assert await violations(databases) == []
        finally:
            await databases.close()


@asynccontextmanager
async def large_installation(directory: Path) -> AsyncIterator[LargeInstallation]:
    async with running_balancer() as balancer:
        stack = Stack(directory / "home", settings=SETTINGS, public_url=balancer.url)
        balancer.targets.append(stack.port)
        await stack.start()
        try:
            async with _second_plane(stack, directory) as second:
                balancer.targets.append(second.settings.server.port)
                accounts = [await stack.new_account(TOKENS) for _ in range(ACCOUNTS)]
                await plant_history(stack, accounts, JOBS)
                effect = await sell(stack, "Lighthouse", is_served=False)
                await add_workflow(stack, "out-of-memory")
                urls = (stack.own_url, second.settings.public_url)
                async with simulated_fleet(stack, urls, [effect, "out-of-memory"], WORKERS) as fleet:
                    fleet.release()
                    installation = LargeInstallation(
                        stack, balancer, second, fleet, accounts, effect, failing="out-of-memory"
                    )
                    yield installation
                    fleet.release()
                    await installation.all_ended()
                await installation.check()
        finally:
            await stack.stop()


@asynccontextmanager
async def _second_plane(stack: Stack, directory: Path) -> AsyncIterator[ControlPlaneProcess]:
    settings = load_settings(home=stack.home, server={"port": free_port()})
    second = ControlPlaneProcess(settings, directory, stack.variables)
    await second.start()
    try:
        yield second
    finally:
        await second.kill()
