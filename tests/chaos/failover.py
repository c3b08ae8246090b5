"""Two control planes under load while the server of a database fails over.

async with open_failover("central", pair.dsn, settings, tmp_path) as failover:
    ...                                         # the primary is lost, another server accepts writes
    await failover.goes_on("killed")
await failover.lost_nothing()
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import httpx

from callsheet.app.control_plane import running_control_plane
from callsheet.fleet.registry.credentials import fleet_secret
from callsheet.plumbing.database.databases import Databases, open_databases
from callsheet.plumbing.installation.secrets import master_secret
from callsheet.settings import Settings
from callsheet.wire.jobs import TERMINAL
from tests.chaos.failover_load import Load
from tests.support.database.installation import Which, changed, installed_on
from tests.support.http.accounts import People
from tests.support.http.jobs_api import JobsApi
from tests.support.http.worker_harness import INPUT, engine_payload
from tests.support.jobs.core import open_core
from tests.support.programs.control_plane_process import control_plane_process
from tests.support.run.ports import free_port
from tests.support.waiting import until

# What was promised, and what a machine that runs other tests gets.
PROMISED_SECONDS, LIMIT_SECONDS = 10.0, 60.0
TOKENS = 1_000_000
# A pool takes the first claim of a central that was replaced after this time. Control planes that run do not wait.
SERVED_SECONDS = 60.0
# No client waits because the workers are slow, and the jobs are only for these workers.
VARIABLES = {"CALLSHEET_JOBS__ACTIVE_PER_USER": "100000", "CALLSHEET_TASKS__IN_PROCESS": "0"}


@dataclass
class Failover:
    """Two control planes and their load. `database` is the one whose server fails over."""

    settings: Settings
    database: str
    load: Load

    async def goes_on(self, case: str) -> None:
        """Called when the new primary accepts writes."""
        seconds = await self.load.goes_on()
        print(f"{self.database} {case}: {seconds:.1f} s of {PROMISED_SECONDS:.0f}, {dict(self.load.statuses)}")  # noqa: T201
        assert seconds < LIMIT_SECONDS

    async def lost_nothing(self) -> None:
        statuses = await self.ends()
        assert self.load.statuses[404] == 0
        assert {job: statuses.get(job) for job in self.load.acknowledged if statuses.get(job) not in TERMINAL} == {}

    async def ends(self) -> dict[str, str]:
        """Everything ends, and the invariants hold: each job ended once, and the ledger is exact. Returns the statuses
        of all jobs.
        """
        assert self.load.wrong == []
        databases = await open_databases(self.settings)
        try:
            await until(partial(_serves_pools, databases), SERVED_SECONDS)
            core = open_core(databases)
            reconciler = core.room.reconciler
            reconciler.settle_seconds = reconciler.confirm_seconds = 0
            for _ in range(4):
                await reconciler.tick(datetime.now(UTC))
            await core.drain()
            await core.check_drained()
            [pool] = databases.pools
            return {str(row["id"]): row["status"] for row in await core.rows(pool, "SELECT id, status FROM ai_jobs")}
        finally:
            await databases.close()


async def _serves_pools(databases: Databases) -> bool:
    await databases.refresh_pools()
    return not databases.unavailable


@asynccontextmanager
async def open_failover(
    which: Which, dsn_of: Callable[[str], str], settings: Settings, directory: Path
) -> AsyncIterator[Failover]:
    """Two control planes under load. Both have ended, with the load, when the block is left."""
    chosen = await installed_on(dsn_of, which, settings)
    async with running_control_plane(chosen) as plane, httpx.AsyncClient(base_url=chosen.public_url) as client:
        people = People(plane.rooms.identity.accounts, plane.rooms.identity.keys)
        jobs_api = await JobsApi.open(plane, client, people)
        person = await jobs_api.person(tokens=TOKENS)
        path = f"tenants/{person.tenant.id}/uploads/1/clip.mp4"
        await plane.rooms.storage.put(path, INPUT, content_type="video/mp4")
        request = jobs_api.request(person, payload=engine_payload(path), cost=1)
    planes = [changed(chosen, server={"port": free_port()}) for _ in range(2)]
    secret = fleet_secret(chosen.fleet, master_secret(chosen))
    load = Load([each.public_url for each in planes], jobs_api.admin.headers, request, secret)
    async with AsyncExitStack() as stack:
        for number, each in enumerate(planes):
            own = directory / f"plane_{number}"
            own.mkdir()
            await stack.enter_async_context(control_plane_process(each, own, **VARIABLES))
        await stack.enter_async_context(load.running())
        yield Failover(chosen, "central" if which == "central" else "pool_1", load)
