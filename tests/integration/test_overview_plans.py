"""Looking at jobs and the queue costs no more when there are many (G11): places, lists, progress, reconciliation.

As in test_core_plans: blocks are counted. Each statement is planned three times: while the tables are empty, when they
are full, and after they were analyzed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass

import pytest

from callsheet.dispatch.loops import SQL as HISTORY_RETENTION
from callsheet.dispatch.operate.lists import SQL as OPERATE
from callsheet.dispatch.positions import SQL as POSITIONS
from callsheet.dispatch.repair import SQL as REPAIR
from callsheet.operate.alerts.current import FACTS_SQL as ALERT_FACTS
from callsheet.plumbing.database.databases import Databases, open_databases
from callsheet.plumbing.database.sql import Connection, Statement
from callsheet.plumbing.embedded import EmbeddedPostgres
from tests.support.database.full_databases import (
    HELD,
    TENANT,
    fill_central,
    fill_pool,
    job_id,
    user_id,
    without_autovacuum,
)
from tests.support.database.installation import installation, isolate
from tests.support.database.plans import Seen, explain, pairs, prepare
from tests.support.database.room_statements import statements_of_room

FLEET = statements_of_room("fleet")
JOBS = statements_of_room("jobs")

pytestmark = pytest.mark.thorough

SMALL = 2000
# As in test_core_plans.
LARGE = [30_000, pytest.param(200_000, marks=pytest.mark.thorough)]
WHENS = ("planned while empty", "planned when full", "analyzed")
BIG = {"ai_job_dispatches", "dispatch_history", "ai_jobs", "job_events", "job_progress", "outbox"}
HISTORY = """
INSERT INTO dispatch_history (dispatch_id, tenant_id, tenant_job_id, charge_cycle, workflow_id, stage, provider,
    concurrency_identifier, priority, kind, status, attempts, requeues, lease_seq, past_lease_tokens, created_at,
    finished_at, duration_seconds)
SELECT n, tenant_id, tenant_job_id, 2, workflow_id, stage, provider, '', 0, 'effect', 'completed', 1, 0, 1, '{}',
    created_at, now() - make_interval(secs => %(rows)s - dispatch_id), 3
FROM ai_job_dispatches, LATERAL (SELECT dispatch_id AS n) one WHERE dispatch_id <= %(rows)s
"""
PROGRESS = """
INSERT INTO job_progress (tenant_id, job_id, user_id, charge_cycle, lease_seq, percent)
SELECT tenant_id, id, user_id, 1, 1, 50 FROM ai_jobs WHERE status = 'processing';
INSERT INTO retention_marks
SELECT 'job_events', completed_at, id FROM ai_jobs WHERE completed_at IS NOT NULL ORDER BY completed_at, id LIMIT 1;
"""
OUTLOOK = {"max_rows": 1001, "running_per_tenant": None, "running_per_user": None}


@dataclass(frozen=True, slots=True)
class Case:
    statement: Statement
    values: dict[str, object]
    max_buffers: int
    # Whether what it reads is bounded by a limit that the small crowd does not reach.
    grows_to_its_limit: bool = False

    def __post_init__(self) -> None:
        # While tests are collected, so that a new parameter is noticed by every run.
        missing = set(self.statement.parameters) - self.values.keys()
        assert not missing, f"{self.statement.name} needs {missing}"

    @property
    def kind(self) -> str:
        return self.statement.database

    @property
    def arguments(self) -> list[object]:
        return [self.values[parameter] for parameter in self.statement.parameters]


def keys(*numbers: int) -> dict[str, object]:
    return {
        "tenant_ids": [TENANT] * len(numbers),
        "job_ids": [job_id(number) for number in numbers],
        "cycles": [1] * len(numbers),
    }


def first_of_its_lane(rows: int) -> int:
    """Behind the saturated tenth, the first in a lane of the highest priority, in whichever order lanes were made."""
    return next(number for number in range(rows // 10 + 1, rows) if number % 3 == 2 and number % 150 > 110)


def cases(rows: int) -> Mapping[str, Case]:
    anything = {"status": None, "workflow": None, "tenant_id": None, "before": None, "limit": 51}
    several = range(rows // 2, rows // 2 + 500)
    running = [job_id(200 * number) for number in range(1, 6)]
    central = {
        # 1,001 rows of two lanes, and what their index has between them.
        "place of the last": Case(POSITIONS["outlook"], {**keys(rows), **OUTLOOK}, 3000, grows_to_its_limit=True),
        "place of the first": Case(POSITIONS["outlook"], {**keys(first_of_its_lane(rows)), **OUTLOOK}, 300),
        "places of five": Case(
            POSITIONS["outlook"],
            {**keys(*range(rows - 5, rows)), **OUTLOOK},
            15_000,
            grows_to_its_limit=True,
        ),
        "place of a saturated one": Case(
            POSITIONS["outlook"], {**keys(rows // 10), **OUTLOOK}, 3000, grows_to_its_limit=True
        ),
        "place of one that runs": Case(POSITIONS["outlook"], {**keys(rows + 7), **OUTLOOK}, 30),
        "what a new job finds": Case(
            POSITIONS["route_loads"],
            {
                "workflow_ids": [1, 2, 3],
                "stages": ["production"] * 3,
                "providers": ["self_hosted"] * 3,
                "tenant_id": TENANT,
                "user_id": user_id(1),
                "is_fair": False,
                "max_rows": 200,
            },
            2500,
            grows_to_its_limit=True,
        ),
        "window_of_queue": Case(OPERATE["window_of_queue"], {"before": None, "max_rows": 1000}, 300),
        "list_queue": Case(OPERATE["list_queue"], {**anything, "from_id": rows - 500}, 3000),
        "list_queue, nothing matches": Case(
            OPERATE["list_queue"], {**anything, "workflow": "no-such", "from_id": rows - 500}, 3000
        ),
        "list_queue of a tenant": Case(
            OPERATE["list_queue"], {**anything, "tenant_id": TENANT, "status": "queued", "from_id": rows - 500}, 3000
        ),
        "list_held": Case(OPERATE["list_held"], anything, HELD + 500, grows_to_its_limit=True),
        "list_held_by_worker": Case(OPERATE["list_held_by_worker"], {**anything, "worker_id": "worker-7"}, 200),
        "window_of_history": Case(OPERATE["window_of_history"], {"before": None, "max_rows": 1000}, 300),
        "list_finished": Case(OPERATE["list_finished"], {**anything, "worker_id": None, "from_id": rows - 1000}, 3000),
        "get_open": Case(OPERATE["get_open"], {"dispatch_id": 5}, 20),
        "get_finished": Case(OPERATE["get_finished"], {"dispatch_id": 5}, 20),
        "dispatch_of_job": Case(
            OPERATE["dispatch_of_job"], {"tenant_id": TENANT, "job_id": job_id(5), "charge_cycle": 1}, 20
        ),
        "change_priority": Case(OPERATE["change_priority"], {"dispatch_id": rows - 1, "priority": 2}, 100),
        "raise_lease_seq": Case(
            REPAIR["raise_lease_seq"],
            {"tenant_id": TENANT, "job_id": job_id(5), "charge_cycle": 1, "lease_seq": 3, "token": None},
            60,
        ),
        "central_states": Case(REPAIR["central_states"], {**keys(*several), "settle_seconds": 60}, 7000),
        "open_dispatches": Case(REPAIR["open_dispatches"], {"after": 100, "limit": 500, "settle_seconds": 60}, 100),
        "list_limits": Case(OPERATE["list_limits"], {"after": None, "limit": 51}, 400),
        "queue_heads": Case(FLEET["queue_heads"], {}, 3000),
        "queue_depth": Case(FLEET["queue_depth"], {"max_rows": 1000}, 250_000, grows_to_its_limit=True),
        # The rows of held jobs; there are as many in a small and in a large queue.
        "workers_of_workflows": Case(FLEET["workers_of_workflows"], {"alive_seconds": 90}, HELD + 500),
        "finished_lately": Case(FLEET["finished_lately"], {"max_rows": 1000}, 300),
        "delete_old_history": Case(HISTORY_RETENTION["delete_old_history"], {"days": 0, "limit": 20}, 300),
        "engine_killers": Case(ALERT_FACTS["engine_killers"], {"limit": 20}, 100),
    }
    progress = {
        "percents": [5.0],
        "messages": ["x"],
        "elapsed": [1],
        "previews": "{NULL}",
        "preview_types": "{NULL}",
        "node_ids": ["3"],
    }
    user = {"tenant_id": TENANT, "user_id": user_id(1)}
    pool = {
        "record_progress": Case(
            JOBS["record_progress"],
            {"tenant_ids": [TENANT], "job_ids": running[:1], "cycles": [1], "lease_seqs": [1], **progress},
            60,
        ),
        "progress_of_jobs": Case(JOBS["progress_of_jobs"], {"tenant_id": TENANT, "job_ids": running}, 60),
        "progress_of_leases": Case(
            JOBS["progress_of_leases"], {"tenant_ids": [TENANT] * len(running), "job_ids": running}, 60
        ),
        "progress_of_user": Case(JOBS["progress_of_user"], {**user, "limit": 200}, 2500),
        "progress_of_tenant": Case(
            JOBS["progress_of_tenant"], {"tenant_id": TENANT, "after": job_id(1), "limit": 10}, 80
        ),
        "progress_of_tenant, a full page": Case(
            JOBS["progress_of_tenant"],
            {"tenant_id": TENANT, "after": job_id(0), "limit": 200},
            2500,
            grows_to_its_limit=True,
        ),
        "previews_of_jobs": Case(JOBS["previews_of_jobs"], {"tenant_id": TENANT, "job_ids": running}, 60),
        "sweep_progress": Case(
            JOBS["sweep_progress"], {"after_tenant": TENANT, "after_job": job_id(1), "limit": 10}, 150
        ),
        "delete_old_events": Case(JOBS["delete_old_events"], {"days": 0, "limit": 20}, 600),
        "active_jobs_page": Case(JOBS["active_jobs_page"], {"after": None, "limit": 20}, 60),
        "job_sides": Case(
            JOBS["job_sides"],
            {**{name: keys(*several)[name] for name in ("tenant_ids", "job_ids")}, "settle_seconds": 60},
            5000,
        ),
        "set_priority": Case(
            JOBS["set_priority"],
            {"tenant_id": TENANT, "job_id": job_id(200), "charge_cycle": 1, "priority": 3},
            # One row by its key; and where its page is full, a new entry in each of the job's indexes.
            80,
        ),
        "window_of_tenant": Case(
            JOBS["window_of_tenant"], {"tenant_id": TENANT, "before": None, "max_rows": 1000}, 1500
        ),
        "list_jobs_of_tenant": Case(
            JOBS["list_jobs_of_tenant"],
            {"tenant_id": TENANT, "user_id": None, "status": None, "before": None, "limit": 51, "from_id": job_id(1)},
            2500,
        ),
        "list_jobs_of_tenant, nothing matches": Case(
            JOBS["list_jobs_of_tenant"],
            {
                "tenant_id": TENANT,
                "user_id": None,
                "status": "expired",
                "before": job_id(rows // 2 + 1000),
                "limit": 51,
                "from_id": job_id(rows // 2),
            },
            2500,
        ),
    }
    return {**central, **pool}


NAMES = list(cases(SMALL))
LIMITED = [name for name, case in cases(SMALL).items() if case.grows_to_its_limit]


async def planned(connections: Mapping[str, Connection], rows: int) -> None:
    for number, case in enumerate(cases(rows).values()):
        connection = connections[case.kind]
        await prepare(connection, f"look_{number}", case.statement.text)
        transaction = connection.transaction()
        await transaction.start()
        await explain(connection, f"look_{number}", case.arguments)
        await transaction.rollback()


async def forget(connections: Mapping[str, Connection], rows: int) -> None:
    for number, case in enumerate(cases(rows).values()):
        await connections[case.kind].execute(f"DEALLOCATE look_{number}")


async def measured(connections: Mapping[str, Connection], rows: int) -> dict[str, Seen]:
    seen = {}
    for number, (name, case) in enumerate(cases(rows).items()):
        connection = connections[case.kind]
        transaction = connection.transaction()
        await transaction.start()
        seen[name] = await explain(connection, f"look_{number}", case.arguments)
        await transaction.rollback()
    return seen


async def observe_plans(databases: Databases, rows: int) -> dict[tuple[str, str], Seen]:
    pool = await databases.pool("pool_1")
    await without_autovacuum(databases.central, "ai_job_dispatches", "dispatch_lanes", "dispatch_history")
    await without_autovacuum(pool, "ai_jobs", "job_progress", "outbox")
    found: dict[tuple[str, str], Seen] = {}
    async with databases.central.connection() as central, pool.connection() as other:
        connections = {"central": central, "pool": other}
        await planned(connections, rows)
        await fill_central(databases.central, rows)
        await fill_pool(pool, rows)
        await central.execute(HISTORY % {"rows": rows}, timeout=600)
        await other.execute(PROGRESS, timeout=600)
        for when in WHENS:
            if when != WHENS[0]:
                await forget(connections, rows)
                if when == WHENS[2]:
                    await central.execute("ANALYZE")
                    await other.execute("ANALYZE")
                await planned(connections, rows)
            found |= {(when, name): one for name, one in (await measured(connections, rows)).items()}
        await forget(connections, rows)
    return found


@dataclass(frozen=True, slots=True)
class FullDatabase:
    rows: int
    seen: dict[int, dict[tuple[str, str], Seen]]


@pytest.fixture(scope="module", params=LARGE)
async def full_database(
    request: pytest.FixtureRequest,
    postgres: EmbeddedPostgres,
    templates: dict[str, str],
    restored_templates: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[FullDatabase]:
    home = tmp_path_factory.mktemp("overview")
    async with AsyncExitStack() as stack:
        isolate(stack.enter_context(pytest.MonkeyPatch.context()), home)
        seen = {}
        for rows, origin in ((SMALL, templates), (request.param, restored_templates)):
            settings = await stack.enter_async_context(installation(postgres, origin, home / str(rows)))
            databases = await open_databases(settings)
            stack.push_async_callback(databases.close)
            seen[rows] = await observe_plans(databases, rows)
        yield FullDatabase(request.param, seen)


@pytest.mark.parametrize(
    ("name", "when"), pairs({name: case.statement.text for name, case in cases(SMALL).items()}, WHENS)
)
def test_g11_statements_of_the_overview_use_an_index(full_database: FullDatabase, name: str, when: str) -> None:
    for rows in (SMALL, full_database.rows):
        seen = full_database.seen[rows][when, name]
        assert seen.scanned & BIG == set()
        assert seen.buffers <= cases(rows)[name].max_buffers


@pytest.mark.parametrize("name", [name for name in NAMES if name not in LIMITED])
def test_g11_the_overview_costs_no_more_in_a_large_database(full_database: FullDatabase, name: str) -> None:
    small, large = (full_database.seen[rows]["analyzed", name] for rows in (SMALL, full_database.rows))
    assert large.buffers <= small.buffers * 1.8 + 30
