"""Two control planes under load while the server of a database fails over.

async with open_failover("central", pair.dsn, settings, tmp_path) as failover:
    ...                                         # the primary is lost, another server accepts writes
    await failover.goes_on("killed")
await failover.lost_nothing()
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from callsheet.app.control_plane import ControlPlane, running_control_plane
from callsheet.fleet.registry.credentials import fleet_secret
from callsheet.plumbing.database.databases import Databases, open_databases
from callsheet.plumbing.installation.secrets import master_secret
from callsheet.settings import Settings
from callsheet.wire.jobs import TERMINAL
from tests.chaos.failover_load import Batches, Load
from tests.support.database.installation import Which, changed, installed_on
from tests.support.http.accounts import People, Person
from tests.support.http.catalog_api import PROMPT, CatalogApi
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
VARIABLES = {
    "CALLSHEET_JOBS__ACTIVE_PER_USER": "100000",
    "CALLSHEET_JOBS__BATCHES_PER_MINUTE": "100000",
    "CALLSHEET_TASKS__IN_PROCESS": "0",
}
ITEMS = 3
PAINTED = {
    "1": {"class_type": "PaintVideo", "inputs": {"text": "{{prompt}}"}},
    "9": {"class_type": "SaveVideo", "inputs": {"video": ["1", 0]}},
}
# Every token that left the wallet of a user whose jobs have ended was taken of the budget of its tenant, and each batch
# has counted all its jobs.
WRONG_BUDGETS = """
SELECT w.tenant_id, sum(w.balance) AS left, (SELECT sum(taken) FROM budget_periods p WHERE p.tenant_id = w.tenant_id)
    AS taken
FROM token_wallets w WHERE EXISTS (SELECT FROM budgets b WHERE b.tenant_id = w.tenant_id)
GROUP BY w.tenant_id
HAVING sum(w.balance) + (SELECT coalesce(sum(taken), 0) FROM budget_periods p WHERE p.tenant_id = w.tenant_id) <> $1
"""
WRONG_BATCHES = """
SELECT b.id FROM batches b
WHERE b.items <> $1 OR b.active <> 0 OR b.completed + b.failed + b.canceled + b.expired <> b.items
   OR (SELECT count(*) FROM ai_jobs j WHERE j.tenant_id = b.tenant_id AND j.batch_id = b.id) <> b.items
"""


@dataclass(frozen=True, slots=True)
class Writes:
    """Requests that write more than a job: method, path, body and headers. `written` finds what they left."""

    requests: Sequence[tuple[str, str, dict[str, Any], dict[str, str]]]
    written: str


@dataclass
class Failover:
    """Two control planes and their load. `database` is the one whose server fails over."""

    settings: Settings
    database: str
    load: Load
    writes: Writes
    stored_batches: set[str] = field(default_factory=set)

    async def goes_on(self, case: str) -> None:
        """Called when the new primary accepts writes."""
        seconds = await self.load.goes_on()
        print(f"{self.database} {case}: {seconds:.1f} s of {PROMISED_SECONDS:.0f}, {dict(self.load.statuses)}")  # noqa: T201
        assert seconds < LIMIT_SECONDS

    async def refuses_writes(self) -> None:
        """Called while the server of the pool accepts no writes. Clients get 503 with Retry-After."""
        async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
            for method, path, body, headers in self.writes.requests:
                response = await client.request(method, self.load.plane() + path, json=body, headers=headers)
                assert response.status_code == 503, f"{path}: {response.status_code} {response.text}"
                assert int(response.headers["retry-after"]) > 0, path

    async def lost_nothing(self) -> None:
        statuses = await self.ends()
        assert self.load.statuses[404] == 0
        assert self.load.batches - self.stored_batches == set()
        assert {job: statuses.get(job) for job in self.load.acknowledged if statuses.get(job) not in TERMINAL} == {}

    async def ends(self) -> dict[str, str]:
        """Everything ends, and the invariants hold: each job ended once, the ledger and the budget are exact, and each
        batch has all its jobs. Returns the statuses of all jobs.
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
            assert await core.rows(pool, WRONG_BUDGETS, TOKENS) == []
            assert await core.rows(pool, WRONG_BATCHES, ITEMS) == []
            assert await core.rows(pool, self.writes.written) == []
            self.stored_batches = {str(row["id"]) for row in await core.rows(pool, "SELECT id FROM batches")}
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
        batches = await _batches(plane, client, people, person)
        writes = await _writes(client, jobs_api, person, batches)
    planes = [changed(chosen, server={"port": free_port()}) for _ in range(2)]
    secret = fleet_secret(chosen.fleet, master_secret(chosen))
    load = Load([each.public_url for each in planes], jobs_api.admin.headers, request, secret, batches)
    async with AsyncExitStack() as stack:
        for number, each in enumerate(planes):
            own = directory / f"plane_{number}"
            own.mkdir()
            await stack.enter_async_context(control_plane_process(each, own, **VARIABLES))
        await stack.enter_async_context(load.running())
        yield Failover(chosen, "central" if which == "central" else "pool_1", load, writes)


async def _batches(plane: ControlPlane, client: httpx.AsyncClient, people: People, person: Person) -> Batches:
    """Batches of the same user, whose tokens are also taken of a budget of the tenant."""
    catalog_api = await CatalogApi.open(plane, client, people)
    workflow = await catalog_api.workflow(graph=PAINTED, properties=[PROMPT])
    effect = await catalog_api.effect(workflow["slug"], credits_cost=1)
    budget = {"name": "all jobs", "period": "month", "limit": TOKENS}
    await catalog_api.made(f"/api/admin/tenants/{person.tenant.id}/budgets", budget)
    items = [{"input_payload": {"prompt": f"cat {number}"}} for number in range(ITEMS)]
    return Batches({"effect_id": effect["slug"], "items": items}, person.headers, workflow["slug"])


async def _writes(client: httpx.AsyncClient, jobs_api: JobsApi, person: Person, batches: Batches) -> Writes:
    upload = {"name": "large.mp4", "mime_type": "video/mp4", "size": 200 * 2**20}
    created = await client.post("/api/videos/uploads", json={**upload, "resume_key": "first"}, headers=person.headers)
    assert created.status_code == 201, created.text
    parts = {"parts": [{"number": 1, "sha256": "0" * 64}]}
    path = f"/api/videos/uploads/{created.json()['file']['id']}/parts"
    budgets = f"/api/admin/tenants/{person.tenant.id}/budgets"
    budget = {"name": "refused", "period": "day", "limit": 1}
    [known] = (await client.get(budgets, headers=jobs_api.admin.headers)).json()["items"]
    return Writes(
        requests=(
            ("POST", "/api/batches", {**batches.request, "client_reference": "refused"}, person.headers),
            ("POST", "/api/videos/uploads", {**upload, "name": "refused", "resume_key": "second"}, person.headers),
            ("POST", path, parts, person.headers),
            ("POST", budgets, budget, jobs_api.admin.headers),
            ("PATCH", f"{budgets}/{known['id']}", {"name": "refused"}, jobs_api.admin.headers),
        ),
        written="""SELECT 'batch' FROM batches WHERE client_reference = 'refused'
            UNION ALL SELECT 'file' FROM files WHERE name = 'refused'
            UNION ALL SELECT 'part' FROM upload_parts
            UNION ALL SELECT 'budget' FROM budgets WHERE name = 'refused'""",
    )
