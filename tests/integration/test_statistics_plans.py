"""The statistics cost no more with a long queue, a long history and years of charts (G11). Blocks are counted.

Each of these statements runs every minute, or whenever an operator has the overview open.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from callsheet.operate.alerts.current import SQL as ALERTS
from callsheet.operate.statistics.keeper import ALIVE_SECONDS, MAX_QUEUED, POOL_SQL
from callsheet.operate.statistics.keeper import SQL as STATISTICS
from callsheet.operate.statistics.series import RESOLUTIONS
from callsheet.plumbing.database.databases import Databases, open_databases
from callsheet.plumbing.database.sql import Statement
from callsheet.plumbing.embedded import EmbeddedPostgres
from tests.support.database.full_databases import HELD, TENANT, WORKFLOWS, fill_central, fill_pool, without_autovacuum
from tests.support.database.installation import installation, isolate
from tests.support.database.plans import Seen, explain_once
from tests.support.database.room_statements import statements_of_room

FLEET = statements_of_room("fleet")

pytestmark = pytest.mark.thorough

SMALL = 2000
# As in test_core_plans.
LARGE = [30_000, pytest.param(200_000, marks=pytest.mark.thorough)]
WORKERS = 1000
# A job per second, however many there are; days of hours, twice as many for the larger installation.
FILL = f"""
INSERT INTO dispatch_history (dispatch_id, tenant_id, tenant_job_id, charge_cycle, workflow_id, stage, provider,
    concurrency_identifier, priority, kind, status, attempts, requeues, lease_seq, past_lease_tokens, created_at,
    finished_at, queue_wait_seconds, duration_seconds)
SELECT n, '{TENANT}', gen_random_uuid(), 1, 1 + n %% {WORKFLOWS}, 'production', 'self_hosted', '', 0, 'effect',
    'completed', 1, 0, 1, '{{}}', now(), now() - make_interval(secs => %(rows)s - n), 2, 5
FROM generate_series(1, %(rows)s) n ORDER BY n;
INSERT INTO finished_jobs_by_time
SELECT step, date_bin(make_interval(secs => step), now(), 'epoch') - make_interval(secs => step * n), w, 5, 1, 0, 0,
    array_fill(1, ARRAY[64]), array_fill(1, ARRAY[64])
FROM (VALUES (60, 120), (600, 288), (3600, %(days)s * 24)) steps (step, kept), generate_series(0, kept - 1) n,
    generate_series(0, {WORKFLOWS}) w;
INSERT INTO queue_samples
SELECT step, date_bin(make_interval(secs => step), now(), 'epoch') - make_interval(secs => step * n), w, 5, 1
FROM (VALUES (60, 120), (600, 288), (3600, %(days)s * 24)) steps (step, kept), generate_series(0, kept - 1) n,
    generate_series(0, {WORKFLOWS}) w;
INSERT INTO fleet_samples
SELECT step, date_bin(make_interval(secs => step), now(), 'epoch') - make_interval(secs => step * n), 1, 1, 1, 4, 2, 9
FROM (VALUES (60, 120), (600, 288), (3600, %(days)s * 24)) steps (step, kept), generate_series(0, kept - 1) n;
INSERT INTO comfyui_workers (worker_id, registration_source, stage, session_id, token_hash)
SELECT 'worker-' || n, 'workflows', 'production', n, sha256(n::text::bytea) FROM generate_series(0, {WORKERS - 1}) n;
INSERT INTO worker_sessions (worker_id, stage)
SELECT 'worker-' || n, 'production' FROM generate_series(0, {WORKERS - 1}) n;
INSERT INTO worker_hours
SELECT 'worker-' || n, date_trunc('hour', now()) - make_interval(hours => h), 30, 60, now(), n, 7
FROM generate_series(0, 47) h, generate_series(0, {WORKERS - 1}) n;
INSERT INTO statistics_progress VALUES (true, now())
"""
TABLES = ("finished_jobs_by_time", "queue_samples", "fleet_samples", "worker_hours", "comfyui_workers")
BIG = {"ai_job_dispatches", "dispatch_history", "ai_jobs", "finished_jobs_by_time", "queue_samples", "worker_hours"}


@dataclass(frozen=True, slots=True)
class Case:
    statement: Statement
    values: dict[str, object]
    max_buffers: int
    # Whether it reads open jobs, up to a limit. A small queue is scanned, and of a large one the index is read.
    reads_queue: bool = False


def now() -> datetime:
    return datetime.now(UTC)


def counting() -> dict[str, Case]:
    window = {"since": (now() - timedelta(minutes=4)).replace(second=0, microsecond=0), "until": now()}
    alive = {"now": now(), "alive_seconds": ALIVE_SECONDS}
    return {
        "read_progress": Case(STATISTICS["read_progress"], {}, 20),
        # The index of the history names ranges of 32 pages. Each row that is written is looked up by its key.
        "count_minutes": Case(STATISTICS["count_minutes"], window, 6000),
        "combine_finished to ten minutes": Case(
            STATISTICS["combine_finished"], {**window, "step_seconds": 600, "shorter_seconds": 60}, 4000
        ),
        "combine_finished to hours": Case(
            STATISTICS["combine_finished"], {**window, "step_seconds": 3600, "shorter_seconds": 600}, 2500
        ),
        "sample_queues": Case(
            STATISTICS["sample_queues"], {"now": now() + timedelta(minutes=2), "max_rows": MAX_QUEUED}, 30_000, True
        ),
        "sample_fleet": Case(
            STATISTICS["sample_fleet"],
            {**alive, "now": now() + timedelta(minutes=2), "tokens_held": 1},
            HELD + 500,
            True,
        ),
        # Two lookups and one new row for each worker.
        "sample_workers": Case(STATISTICS["sample_workers"], {**alive, "new_seconds": 300.0}, HELD + 28 * WORKERS),
        "combine_queues": Case(STATISTICS["combine_queues"], {"step_seconds": 3600, "since": now()}, 2500),
        "combine_fleet": Case(STATISTICS["combine_fleet"], {"step_seconds": 3600, "since": now()}, 50),
    }


def deleting() -> dict[str, Case]:
    # Older than all rows, also if minutes pass while the tables are filled.
    old = {60: timedelta(hours=5), 600: timedelta(days=3), 3600: timedelta(days=400)}
    cases = {
        "delete_old_worker_hours": Case(
            STATISTICS["delete_old_worker_hours"], {"before": now() - timedelta(days=2)}, 500
        )
    }
    for step, kept in old.items():
        values = {"step_seconds": step, "before": now() - kept}
        # The key has the workflow before the time: one search for each workflow.
        for name, max_buffers in (
            ("delete_old_counts", 600),
            ("delete_old_queue_samples", 600),
            ("delete_old_fleet_samples", 50),
        ):
            cases[f"{name} of {step} s"] = Case(STATISTICS[name], values, max_buffers)
    return cases


def reading() -> dict[str, Case]:
    cases = {
        "read_worker_hours": Case(STATISTICS["read_worker_hours"], {"worker_id": "worker-7", "hours": 24}, 60),
        "find_workflow": Case(STATISTICS["find_workflow"], {"slug": "crowd-7"}, 10),
        "list_alerts": Case(ALERTS["list_alerts"], {"limit": 500}, 10),
        "last_check": Case(ALERTS["last_check"], {}, 10),
        "count_workers": Case(FLEET["count_workers"], {"alive_seconds": ALIVE_SECONDS}, WORKERS),
    }
    for time_range, (step, steps) in RESOLUTIONS.items():
        of_all = {"step_seconds": step, "since": now() - timedelta(seconds=step * steps)}
        of_workflow = {**of_all, "workflow_id": 7}
        cases |= {
            # Rows of one workflow are spread: nearly each is in a block of its own.
            f"read_finished of {time_range}": Case(STATISTICS["read_finished"], of_workflow, 2 * steps + 50),
            f"read_queues of {time_range}": Case(STATISTICS["read_queues"], of_workflow, 2 * steps + 50),
            f"read_fleet of {time_range}": Case(STATISTICS["read_fleet"], of_all, steps + 50),
            f"read_workflows of {time_range}": Case(STATISTICS["read_workflows"], of_all, steps * WORKFLOWS // 4 + 500),
        }
    return cases


def cases() -> Mapping[str, Case]:
    held = Case(POOL_SQL["sum_held_tokens"], {}, 5000, True)
    return {**counting(), **deleting(), **reading(), "sum_held_tokens": held}


@dataclass(frozen=True, slots=True)
class FullDatabase:
    rows: int
    seen: dict[int, dict[str, Seen]]


async def observe_plans(databases: Databases, rows: int) -> dict[str, Seen]:
    pool = await databases.pool("pool_1")
    await without_autovacuum(databases.central, "ai_job_dispatches", "dispatch_lanes", "dispatch_history", *TABLES)
    await without_autovacuum(pool, "ai_jobs")
    await fill_central(databases.central, rows)
    await fill_pool(pool, rows)
    async with databases.central.transaction() as filling:
        await filling.execute("SET LOCAL session_replication_role = replica; SET LOCAL enable_seqscan = on")
        await filling.execute(FILL % {"rows": rows, "days": 40 if rows == SMALL else 80}, timeout=600)
    for database in (databases.central, pool):
        async with database.connection() as connection:
            await connection.execute("VACUUM ANALYZE", timeout=600)
    return {
        name: await explain_once(
            pool if case.statement.database == "pool" else databases.central, case.statement, case.values
        )
        for name, case in cases().items()
    }


@pytest.fixture(scope="module", params=LARGE)
async def full_database(
    request: pytest.FixtureRequest,
    postgres: EmbeddedPostgres,
    templates: dict[str, str],
    restored_templates: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[FullDatabase]:
    home = tmp_path_factory.mktemp("statistics")
    async with AsyncExitStack() as stack:
        isolate(stack.enter_context(pytest.MonkeyPatch.context()), home)
        seen = {}
        for rows, origin in ((SMALL, templates), (request.param, restored_templates)):
            settings = await stack.enter_async_context(installation(postgres, origin, home / str(rows)))
            databases = await open_databases(settings)
            stack.push_async_callback(databases.close)
            seen[rows] = await observe_plans(databases, rows)
        yield FullDatabase(request.param, seen)


@pytest.mark.parametrize("name", cases())
def test_g11_statements_of_the_statistics_read_no_table_as_a_whole(full_database: FullDatabase, name: str) -> None:
    for rows in (SMALL, full_database.rows):
        seen = full_database.seen[rows][name]
        assert seen.scanned & BIG == set()
        assert seen.buffers <= cases()[name].max_buffers


@pytest.mark.parametrize("name", [name for name, case in cases().items() if not case.reads_queue])
def test_g11_the_statistics_cost_no_more_in_a_large_installation(full_database: FullDatabase, name: str) -> None:
    small, large = (full_database.seen[rows][name] for rows in (SMALL, full_database.rows))
    assert large.buffers <= small.buffers * 1.8 + 30
