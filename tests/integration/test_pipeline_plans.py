"""The cost of choosing a run's next job does not grow with its tree (G11): one run here has 30,000 candidates."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import Connection, Statement
from callsheet.plumbing.embedded import EmbeddedPostgres
from callsheet.wire.jobs import JobListFilter
from tests.support.database.full_databases import TENANT, job_id, numbered, user_id, without_autovacuum
from tests.support.database.installation import opened
from tests.support.database.plans import Seen, explain, literal, pairs, prepare
from tests.support.database.room_statements import statements_of_room

JOBS = statements_of_room("jobs")
PIPELINES = statements_of_room("pipelines")

pytestmark = pytest.mark.thorough

CANDIDATES = 30_000
RUNS = 300
# Of the big run; the other runs have one candidate each.
ELIGIBLE = 40
WHENS = ["planned while empty", "analyzed"]
BIG = {"pipelines", "pipeline_steps", "pipeline_runs", "candidates", "candidate_slots", "ai_jobs", "files"}


def run_id(number: int) -> str:
    return f"dddddddd-0000-7000-8000-{number:012x}"


def candidate_id(number: int) -> str:
    return f"eeeeeeee-0000-7000-8000-{number:012x}"


def step_id(number: int) -> str:
    return f"ffffffff-0000-7000-8000-{number:012x}"


# Half of the big run's candidates are leaves, and all but a few of the others may have no more children. Twenty slots
# of other runs are open.
FILL = f"""
    INSERT INTO pool_tenants (tenant_id) VALUES ('{TENANT}');
    INSERT INTO token_wallets (tenant_id, owner_id, balance) VALUES ('{TENANT}', '{user_id(1)}', 1000000);
    INSERT INTO pipelines (tenant_id, id, user_id, slug, name)
    SELECT '{TENANT}', {numbered("dddddddd", "n")}, '{user_id(1)}', 'p-' || n, 'p' FROM generate_series(1, {RUNS}) n;
    INSERT INTO step_documents (tenant_id, pipeline_id, digest, "values")
    SELECT '{TENANT}', {numbered("dddddddd", "n")}, sha256('s'), '{{}}' FROM generate_series(1, {RUNS}) n;
    INSERT INTO pipeline_steps (tenant_id, id, pipeline_id, version, position, name, slug, workflow, effect_id,
        document, max_children, top_k)
    SELECT '{TENANT}', {numbered("ffffffff", "n * 4 + p")}, {numbered("dddddddd", "n")}, 1, p, 's', 's-' || p, 'w',
        '{run_id(1)}', sha256('s'), 5, 10
    FROM generate_series(1, {RUNS}) n, generate_series(1, 4) p;
    INSERT INTO pipeline_runs (tenant_id, id, user_id, pipeline_id, pipeline_version, steps, name, target_folder, seed,
        target_leaves, budget, draws, candidates, status, ended_at)
    SELECT '{TENANT}', {numbered("dddddddd", "n")}, '{user_id(1)}', {numbered("dddddddd", "n")}, 1, 4, 'r',
        'r-' || n, 1, 10, 1000000, count, count,
        CASE WHEN n % 2 = 1 THEN 'active' ELSE 'completed' END,
        CASE WHEN n % 2 = 0 THEN now() END
    FROM generate_series(1, {RUNS}) n, LATERAL (SELECT CASE n WHEN 1 THEN {CANDIDATES} ELSE 1 END AS count) made;
    INSERT INTO ai_jobs (tenant_id, id, user_id, kind, status, lease_seq, event_seq, cost, workflow_id, stage, provider,
        lifetime_seconds, payload, deadline_at, completed_at, run_id, step_id)
    SELECT '{TENANT}', {numbered("aaaaaaaa", "n")}, '{user_id(1)}', 'pipeline', 'completed', 1, 1, 1, 1, 'production',
        'self_hosted', 86400, '{{}}', now() + interval '1 day', now(), '{run_id(1)}', '{step_id(5)}'
    FROM generate_series(1, {CANDIDATES + RUNS}) n ORDER BY n;
    INSERT INTO candidates (tenant_id, id, run_id, number, step_id, position, parent_id, job_id, output_index, file_id,
        seed, elo, in_flight, max_children, child_count)
    SELECT '{TENANT}', {numbered("eeeeeeee", "n")}, CASE WHEN big THEN '{run_id(1)}'::uuid
            ELSE {numbered("dddddddd", f"n - {CANDIDATES} + 1")} END, CASE WHEN big THEN n ELSE 1 END,
        {numbered("ffffffff", "4 + place")}, place, CASE WHEN place > 1 THEN {numbered("eeeeeeee", "1 + n / 10")} END,
        {numbered("aaaaaaaa", "n")}, 0, {numbered("aaaaaaaa", "n")}, 1, 1000 + n % 300, CASE n WHEN 7 THEN 1 ELSE 0 END,
        CASE WHEN place = 4 THEN 0 ELSE 5 END,
        CASE WHEN place = 4 OR n % ({CANDIDATES} / {ELIGIBLE}) = 1 THEN 0 ELSE 5 END
    FROM generate_series(1, {CANDIDATES + RUNS - 1}) n CROSS JOIN LATERAL (
        SELECT n <= {CANDIDATES} AS big,
            CASE WHEN n > {CANDIDATES} THEN 1 WHEN n % 2 = 0 THEN 4 ELSE 1 + n % 3 END AS place
    ) kind ORDER BY n;
    INSERT INTO candidate_slots (tenant_id, run_id, draw, parent_id, step_id, position, ordinal, job_id, cost, seed,
        status, settled_at)
    SELECT c.tenant_id, c.run_id, c.number, c.parent_id, c.step_id, c.position, c.number, c.job_id, 1, 1,
        CASE WHEN big OR c.number > 20 THEN 'made' ELSE 'open' END, CASE WHEN big OR c.number > 20 THEN now() END
    FROM (SELECT *, run_id = '{run_id(1)}' AS big FROM candidates) c;
    UPDATE candidate_slots SET status = 'made', settled_at = now()
    WHERE status = 'open' AND job_id > '{job_id(CANDIDATES + 20)}';
"""
OWN: dict[str, object] = {"tenant_id": TENANT, "user_id": user_id(1)}
RUN: dict[str, object] = {"tenant_id": TENANT, "run_id": run_id(1)}
KEY: dict[str, object] = {"tenant_id": TENANT, "id": run_id(1)}
ANY_JOB: dict[str, object] = dict(JobListFilter())
PAGE: dict[str, object] = {**OWN, "before": None, "limit": 21}
ANY_RUN: dict[str, object] = {"status": None, "client_reference": None, "metadata": None}
VERSION: dict[str, object] = {"pipeline_id": run_id(1), "version": 1}
REASON: dict[str, object] = {"reason": "budget_spent", "reason_detail": None}
SLOT: dict[str, object] = {"tenant_id": TENANT, "run_id": run_id(3), "job_id": job_id(CANDIDATES + 2)}
NEW_JOB = {
    "job": {
        "tenant_id": TENANT,
        "id": job_id(10**6),
        "user_id": user_id(1),
        "kind": "pipeline",
        "cost": 1,
        "workflow_id": 1,
        "stage": "production",
        "provider": "self_hosted",
        "concurrency_identifier": "",
        "priority": 0,
        "max_attempts": 3,
        "lease_seconds": 900,
        "run_limit_seconds": 60,
        "refund_on_cancel": "all",
        "payload": {},
        "input_file_ids": [],
        "run_id": run_id(1),
        "step_id": step_id(6),
        "parent_candidate_id": candidate_id(1 + CANDIDATES // ELIGIBLE),
    },
    "event_actor": "run",
    "counted_as": "runs",
    "active_limit": 5,
}
BEST = {"started_parents", "candidates_by_elo"}
BY_JOB = {"one_slot_per_job"}
# By name: the statement, its arguments, the indexes it must use, the most blocks it may touch.
Case = tuple[Statement, Mapping[str, object], set[str], int]
CASES: dict[str, Case] = {
    "read_steps": (
        PIPELINES["read_steps"],
        {**RUN, **VERSION, "best_only": False},
        {"eligible_parents", "open_slots"},
        100,
    ),
    "read_steps, the best only": (PIPELINES["read_steps"], {**RUN, **VERSION, "best_only": True}, BEST, 200),
    "count_active_up_to": (
        PIPELINES["count_active_up_to"],
        {**RUN, "position": 4, "max_rows": 10},
        {"candidates_by_elo"},
        30,
    ),
    "eligible_parents": (
        PIPELINES["eligible_parents"],
        {**RUN, "position": 3, "max_rows": 501},
        {"eligible_parents"},
        2 * ELIGIBLE,
    ),
    "bounds_of_parents": (
        PIPELINES["bounds_of_parents"],
        {**RUN, "position": 3},
        {"eligible_parents", "candidates_by_elo"},
        20,
    ),
    "sampled_parents": (
        PIPELINES["sampled_parents"],
        {**RUN, "position": 3, "numbers": list(range(1, CANDIDATES, CANDIDATES // 64))},
        {"eligible_parents"},
        300,
    ),
    "best_parents": (PIPELINES["best_parents"], {**RUN, "position": 3, "top_k": 10}, BEST, 40),
    "numbered_candidate": (PIPELINES["numbered_candidate"], {**RUN, "number": 777}, set(), 10),
    "full_tenants": (PIPELINES["full_tenants"], {"in_total": 50}, set(), 60),
    "claim_run": (PIPELINES["claim_run"], {"later_seconds": 10, "full": []}, {"active_runs_due"}, 100),
    "requeue_run": (PIPELINES["requeue_run"], {**KEY, "due_at": "2020-01-01"}, set(), 40),
    "leave_run": (PIPELINES["leave_run"], {**KEY, "due_at": "2020-01-01", "later_seconds": 1}, set(), 40),
    "make_run_due": (PIPELINES["make_run_due"], KEY, set(), 40),
    "block_run": (PIPELINES["block_run"], {**KEY, **REASON, "due_at": "2020-01-01", "later_seconds": 1}, set(), 40),
    "finish_run": (PIPELINES["finish_run"], {**KEY, **REASON, "due_at": "2020-01-01"}, set(), 40),
    "stop_run": (PIPELINES["stop_run"], {**RUN, **REASON}, set(), 40),
    "exclude_parent": (PIPELINES["exclude_parent"], {**RUN, "candidate_id": candidate_id(7)}, set(), 100),
    # Every open slot, by whichever of the two indexes of them.
    "ended_jobs": (PIPELINES["ended_jobs"], {"left_alone": [], "limit": 100}, set(), 500),
    "jobs_under_way": (PIPELINES["jobs_under_way"], {"limit": 100}, set(), 60),
    "jobs_of_canceled_runs": (PIPELINES["jobs_of_canceled_runs"], {"limit": 100}, set(), 400),
    "slot_is_open": (PIPELINES["slot_is_open"], SLOT, BY_JOB, 10),
    "lock_run_of_slot": (PIPELINES["lock_run_of_slot"], RUN, set(), 20),
    "give_up_slot": (
        PIPELINES["give_up_slot"],
        {**SLOT, "parent_id": candidate_id(7), "status": "failed", "is_refunded": False},
        BY_JOB,
        100,
    ),
    "accept_candidates": (
        PIPELINES["accept_candidates"],
        {
            **SLOT,
            "parent_id": candidate_id(7),
            "step_id": step_id(6),
            "position": 2,
            "seed": 1,
            "max_children": 5,
            "made": [{"id": candidate_id(10**6), "output_index": 5, "file_id": job_id(1), "path": "a/b"}],
        },
        BY_JOB,
        200,
    ),
    "submit": (
        JOBS["submit"],
        {"entries": [NEW_JOB], "to_status": "pending", "lifetime_seconds": 60},
        set(),
        440,
    ),
    "waiting_for_room": (
        PIPELINES["waiting_for_room"],
        {"tenant_id": TENANT, "run_ids": [run_id(1)], "per_run": 5, "in_total": 50},
        set(),
        120,
    ),
    "count_pipelines": (PIPELINES["count_pipelines"], {"tenant_id": TENANT, "user_id": user_id(1)}, set(), 60),
    "list_tree": (PIPELINES["list_tree"], {**RUN, "after": CANDIDATES // 2, "limit": 21}, set(), 60),
    "list_runs": (PIPELINES["list_runs"], {**PAGE, **ANY_RUN}, {"runs_of_user"}, 60),
    "list_runs_of_pipeline": (
        PIPELINES["list_runs_of_pipeline"],
        {**PAGE, **ANY_RUN, "pipeline_id": run_id(1)},
        {"runs_of_pipeline"},
        60,
    ),
    "progress_of_runs": (
        PIPELINES["progress_of_runs"],
        {"tenant_id": TENANT, "run_ids": [run_id(number) for number in range(1, 21)], "max_rows": 10_000},
        {"candidates_by_elo"},
        300,
    ),
    "run_of_key": (PIPELINES["run_of_key"], {**OWN, "idempotency_key": "once"}, {"one_run_per_key"}, 10),
    "list_runs_of_key": (
        PIPELINES["list_runs_of_key"],
        {**PAGE, **ANY_RUN, "idempotency_key": "once", "pipeline_id": None},
        {"one_run_per_key"},
        10,
    ),
    "active_runs_of_user": (PIPELINES["active_runs_of_user"], {**OWN, "max_rows": 100}, {"active_runs_of_user"}, 120),
    "list_active_runs": (PIPELINES["list_active_runs"], OWN, {"active_runs_of_user"}, RUNS),
    # A run with one candidate, beside the big run.
    "forgive_branches": (PIPELINES["forgive_branches"], {"tenant_id": TENANT, "run_id": run_id(3)}, set(), 20),
    # For each pipeline of the page: its steps, and the newest of its runs.
    "list_pipelines": (PIPELINES["list_pipelines"], PAGE, {"pipelines_of_user", "runs_of_pipeline"}, 300),
    # The documents of all 300 pipelines are so few that reading all of them is cheaper than their index.
    "steps_of_versions": (
        PIPELINES["steps_of_versions"],
        {
            "tenant_id": TENANT,
            "pipeline_id": VERSION["pipeline_id"],
            "oldest": 1,
            "newest": 20,
            "max_bytes": 4 * 2**20,
        },
        set(),
        30,
    ),
    "find_pipeline": (PIPELINES["find_pipeline"], {**OWN, "slug": "p-7"}, set(), 10),
    "steps_of_pipeline": (PIPELINES["steps_of_pipeline"], {"tenant_id": TENANT, **VERSION}, set(), 20),
    "pipeline_has_runs": (PIPELINES["pipeline_has_runs"], KEY, {"runs_of_pipeline"}, 10),
    # Without vacuum each of their rows is read as well, to know whether it is there.
    "counts_of_run": (
        PIPELINES["counts_of_run"],
        RUN,
        {"candidates_by_elo", "rejected_candidates"},
        3 * CANDIDATES,
    ),
    "in_flight_of_run": (PIPELINES["in_flight_of_run"], RUN, {"open_slots"}, 10),
    "open_jobs_of_run": (PIPELINES["open_jobs_of_run"], RUN, {"open_slots"}, 10),
    "list_jobs_of_run": (JOBS["list_jobs_of_run"], {**ANY_JOB, **RUN, **PAGE}, {"jobs_of_run"}, 60),
    "list_jobs_of_run, far back": (
        JOBS["list_jobs_of_run"],
        {**ANY_JOB, **RUN, **PAGE, "before": job_id(CANDIDATES // 2)},
        {"jobs_of_run"},
        60,
    ),
}


@pytest.fixture(scope="module")
async def seen(
    postgres: EmbeddedPostgres, templates_in_both_orders: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[dict[tuple[str, str], Seen]]:
    home = tmp_path_factory.mktemp("pipeline_crowd")
    async with opened(postgres, templates_in_both_orders, home) as databases:
        yield await _everything(databases)


async def _everything(databases: Databases) -> dict[tuple[str, str], Seen]:
    found: dict[tuple[str, str], Seen] = {}
    pool = await databases.pool("pool_1")
    await without_autovacuum(pool, *BIG)
    async with pool.connection() as connection:
        for when in WHENS:
            await _plan(connection)
            if when == WHENS[0]:
                await _fill(pool)
            found |= {(name, when): one for name, one in (await _measure(connection)).items()}
            await connection.execute("; ".join(f"DEALLOCATE pipeline_{number}" for number in range(len(CASES))))
            await connection.execute("ANALYZE")
    return found


async def _plan(connection: Connection) -> None:
    """The plans that are made now are kept."""
    for number, (statement, values, _, _) in enumerate(CASES.values()):
        await prepare(connection, f"pipeline_{number}", statement.text)
        arguments = ", ".join(literal(values[parameter]) for parameter in statement.parameters)
        await connection.execute(f"EXPLAIN EXECUTE pipeline_{number}({arguments})")


async def _measure(connection: Connection) -> dict[str, Seen]:
    """Each for the second time: the first call of a function in a session reads hundreds of blocks of the catalog."""
    seen: dict[str, Any] = {}
    for number, (name, (statement, values, _, _)) in enumerate(CASES.items()):
        arguments = [values[each] for each in statement.parameters]
        for _ in range(2):
            transaction = connection.transaction()
            await transaction.start()
            seen[name] = await explain(connection, f"pipeline_{number}", arguments)
            await transaction.rollback()
    return seen


async def _fill(database: Database) -> None:
    async with database.transaction() as connection:
        await connection.execute("SET LOCAL session_replication_role = replica; SET LOCAL statement_timeout = 0")
        await connection.execute("SET LOCAL enable_seqscan = on; SET LOCAL enable_hashjoin = on")
        await connection.execute(FILL, timeout=600)


@pytest.mark.parametrize(
    ("name", "when"), pairs({name: statement.text for name, (statement, *_) in CASES.items()}, WHENS)
)
async def test_g11_a_statement_for_runs_finds_its_rows_by_their_index(
    seen: dict[tuple[str, str], Seen], name: str, when: str
) -> None:
    _, _, indexes, max_buffers = CASES[name]
    assert seen[name, when].scanned & BIG == set()
    assert indexes <= seen[name, when].indexes
    assert seen[name, when].buffers <= max_buffers
