"""The cost of users' statements about candidates does not grow with the run: they find their rows by an index (G11)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from uuid import UUID

import pytest

from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import Connection, Statement
from callsheet.plumbing.embedded import EmbeddedPostgres
from tests.support.database.full_databases import TENANT, user_id, without_autovacuum
from tests.support.database.installation import opened
from tests.support.database.plans import Seen, explain, literal, pairs, prepare
from tests.support.database.room_statements import statements_of_room

PIPELINES = statements_of_room("pipelines")

pytestmark = pytest.mark.thorough

# In one run, of four steps; as many again in other runs of the tenant, and votes on every hundredth.
ROWS = 20_000
WHENS = ["planned while empty", "analyzed"]
BIG = {"candidates", "candidate_slots", "votes", "ai_jobs", "files"}
USER = {"tenant_id": TENANT, "user_id": user_id(1)}


def candidate(number: int) -> UUID:
    return UUID(f"000000ca-0000-0000-0000-{number:012x}")


def run(number: int) -> UUID:
    return UUID(int=0xAB << 100 | number)


CROWD = f"""
    INSERT INTO pipeline_runs (tenant_id, id, user_id, pipeline_id, pipeline_version, steps, name, target_folder, seed,
        target_leaves, budget, active_bases)
    SELECT '{TENANT}', lpad(to_hex(n), 32, '0')::uuid, '{user_id(1)}', '{run(0)}', 1, 4, 'r', 'r-' || n, 1, 10, 10,
        {ROWS}
    FROM generate_series(1, 200) n;
    UPDATE pipeline_runs SET id = '{run(1)}' WHERE target_folder = 'r-1';
    UPDATE pipeline_runs SET status = 'paused', reason = 'base_failed' WHERE target_folder IN ('r-150', 'r-151');
    INSERT INTO step_documents (tenant_id, pipeline_id, digest, "values")
    VALUES ('{TENANT}', '{run(0)}', sha256('s'), '{{}}');
    INSERT INTO pipeline_steps (tenant_id, id, pipeline_id, version, position, name, slug, workflow, effect_id,
        document, max_children, requires_approval)
    SELECT '{TENANT}', lpad(to_hex(n), 32, '5')::uuid, '{run(0)}', 1, n, 's', 's-' || n, 'w', '{run(0)}', sha256('s'),
        5, n < 4
    FROM generate_series(1, 4) n;
    INSERT INTO candidates (tenant_id, id, run_id, number, step_id, position, parent_id, job_id, output_index, file_id,
        seed, elo, votes, max_children, thumbnail_due_at)
    SELECT '{TENANT}', ('000000ca-0000-0000-0000-' || lpad(to_hex(n), 12, '0'))::uuid,
        CASE WHEN n <= {ROWS} THEN '{run(1)}'::uuid ELSE lpad(to_hex(2 + n % 199), 32, '0')::uuid END, n,
        lpad(to_hex(1 + n % 4), 32, '5')::uuid, 1 + n % 4,
        CASE WHEN n % 4 > 0 THEN ('000000ca-0000-0000-0000-' || lpad(to_hex(n - 1), 12, '0'))::uuid END,
        ('000000f0-0000-0000-0000-' || lpad(to_hex(n), 12, '0'))::uuid, 0, '{run(0)}', 1,
        1000 + n % 300, n % 7, 5, CASE WHEN n % 1000 = 0 THEN now() END
    FROM generate_series(1, {2 * ROWS}) n;
    INSERT INTO candidate_slots (tenant_id, run_id, draw, parent_id, step_id, position, ordinal, job_id, cost, seed,
        status, settled_at)
    SELECT tenant_id, run_id, number, parent_id, step_id, position, number, job_id, 1, 1,
        CASE WHEN number > 5 THEN 'made' ELSE 'open' END, CASE WHEN number > 5 THEN now() END
    FROM candidates;
    INSERT INTO ai_jobs (tenant_id, id, user_id, kind, status, cost, workflow_id, stage, provider, lifetime_seconds,
        payload, deadline_at, completed_at)
    SELECT tenant_id, job_id, '{user_id(1)}', 'pipeline', 'completed', 1, 1, 'production', 'self_hosted', 60, '{{}}',
        now(), now()
    FROM candidates
    WHERE number <= 100;
    INSERT INTO votes (tenant_id, id, run_id, user_id, winner_id, loser_id, elo_change)
    SELECT tenant_id, id, run_id, '{user_id(1)}', id, parent_id, 16 FROM candidates
    WHERE parent_id IS NOT NULL AND number % 100 = 1;
"""
OF_RUN = {"tenant_id": TENANT, "run_id": run(1)}
PAGE: dict[str, object] = {**OF_RUN, "before": None, "status": None, "limit": 51}
# Arguments, the indexes it must use, the most blocks it may touch.
Case = tuple[Mapping[str, object], set[str], int]
TWO = [candidate(101), candidate(100)]
PAIR = {"tenant_id": TENANT, "winner_id": TWO[0], "loser_id": TWO[1]}
CASES: dict[str, Case] = {
    "own_run": ({**OF_RUN, **USER}, set(), 10),
    "own_candidate": ({**USER, "candidate_id": candidate(5)}, set(), 20),
    "steps_of_run": (OF_RUN, set(), 40),
    "contenders": ({**OF_RUN, "steps": 4, "position": None, "limit": 40}, {"candidates_by_votes"}, 250),
    "compared_pairs": ({**USER, "candidate_ids": TWO}, {"one_vote_per_pair"}, 30),
    # As many as a run of fifty steps has contenders.
    "compared_pairs, of many": (
        {**USER, "candidate_ids": [candidate(number) for number in range(1, 2001)]},
        {"one_vote_per_pair"},
        2000 * 4,
    ),
    "vote_on_pair": ({**PAIR, **USER}, {"one_vote_per_pair"}, 15),
    "lock_pair": ({**OF_RUN, "candidate_ids": TWO}, set(), 40),
    "list_votes": ({**OF_RUN, "before": None, "limit": 51}, {"votes_of_run"}, 120),
    "reject_branch": (
        {**OF_RUN, **USER, "candidate_id": candidate(4), "max_rows": 2000},
        {"children_of_candidate"},
        250,
    ),
    "reject_branch, a piece": (
        {**OF_RUN, **USER, "candidate_id": candidate(4), "max_rows": 2},
        {"children_of_candidate"},
        150,
    ),
    "forget_kill": ({"tenant_id": TENANT, "candidate_id": candidate(4)}, set(), 10),
    "kill_under_way": ({"tenant_id": TENANT, "candidate_id": candidate(4)}, set(), 10),
    "restore_branch": ({**OF_RUN, "candidate_id": candidate(4)}, {"children_of_candidate"}, 250),
    "jobs_of_rejected": (OF_RUN, {"open_slots"}, 80),
    "list_candidates": (PAGE, set(), 120),
    "list_candidates, far back": ({**PAGE, "before": 500}, set(), 120),
    "list_candidates_of_step": ({**PAGE, "position": 2}, {"candidates_of_step"}, 120),
    "list_rejected": (
        {**OF_RUN, "before": None, "limit": 51, "position": None},
        {"rejected_candidates"},
        30,
    ),
    "list_children": ({**PAGE, "parent_id": candidate(4)}, {"children_of_candidate"}, 20),
    "best_candidates": ({**OF_RUN, "position": 4, "limit": 10}, {"candidates_by_elo"}, 40),
    "candidates_by_ids": ({"tenant_id": TENANT, "candidate_ids": TWO}, set(), 20),
    "exported_candidates": ({**OF_RUN, "after": 1000, "last": ROWS, "status": None, "limit": 50}, set(), 400),
    "last_number": (OF_RUN, set(), 10),
    "ancestors": (
        {"tenant_id": TENANT, "candidate_id": candidate(9)},
        {"one_slot_per_job"},
        80,
    ),
    "runs_in_numbers": (
        {"window_seconds": 3600, "max_rows": 1000, "max_settled": 2000, "max_open": 2000},
        {"settled_slots"},
        2500,
    ),
    "stopped_runs": ({"hours": 24, "limit": 20}, {"stopped_runs"}, 60),
    "due_thumbnails": ({"now": None, "limit": 20}, {"thumbnails_due"}, 200),
    "best_of_runs": (
        {"tenant_id": TENANT, "run_ids": [run(1), run(2)], "limit": 3},
        {"candidates_by_elo"},
        60,
    ),
    "judged_pairs": ({**OF_RUN, **USER, "position": None, "max_rows": 100}, {"votes_of_run"}, 1000),
    "branch_size": (
        {"tenant_id": TENANT, "candidate_id": candidate(4), "max_rows": 100},
        {"children_of_candidate"},
        100,
    ),
    "branch_jobs": ({**OF_RUN, "candidate_id": candidate(4)}, {"open_slots"}, 200),
    "gates_of_run": ({**OF_RUN, "max_rows": 100}, {"eligible_parents"}, 800),
    "spending_bounds": ({**OF_RUN, **USER}, {"open_slots"}, 40),
    # These two read all rows of the run, and of no other run.
    "active_of_steps": (OF_RUN, set(), 3 * ROWS),
    "spending_of_run": ({**OF_RUN, "since": "2020-01-01", "seconds": 60.0, "parts": 60}, set(), ROWS),
}


def statement_of(name: str) -> Statement:
    name = name.partition(",")[0]
    return PIPELINES[name]


@pytest.fixture(scope="module")
async def seen(
    postgres: EmbeddedPostgres, templates_in_both_orders: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[dict[tuple[str, str], Seen]]:
    home = tmp_path_factory.mktemp("candidate_crowd")
    async with opened(postgres, templates_in_both_orders, home) as databases:
        yield await _everything(databases)


async def _everything(databases: Databases) -> dict[tuple[str, str], Seen]:
    found: dict[tuple[str, str], Seen] = {}
    pool = await databases.pool("pool_1")
    await without_autovacuum(pool, "candidates", "candidate_slots", "votes")
    async with pool.connection() as connection:
        for when in WHENS:
            await _plan(connection)
            if when == WHENS[0]:
                async with pool.transaction() as other:
                    await other.execute("SET LOCAL session_replication_role = replica; SET LOCAL statement_timeout = 0")
                    await other.execute(CROWD, timeout=600)
            found |= {(name, when): one for name, one in (await _measure(connection)).items()}
            await connection.execute("; ".join(f"DEALLOCATE people_{number}" for number in range(len(CASES))))
            await connection.execute("ANALYZE")
    return found


async def _plan(connection: Connection) -> None:
    """The plans that are made now are kept."""
    for number, (name, (values, _, _)) in enumerate(CASES.items()):
        statement = statement_of(name)
        await prepare(connection, f"people_{number}", statement.text)
        arguments = ", ".join(literal(values[parameter]) for parameter in statement.parameters)
        await connection.execute(f"EXPLAIN EXECUTE people_{number}({arguments})")


async def _measure(connection: Connection) -> dict[str, Seen]:
    seen = {}
    for number, (name, (values, _, _)) in enumerate(CASES.items()):
        statement = statement_of(name)
        transaction = connection.transaction()
        await transaction.start()
        seen[name] = await explain(connection, f"people_{number}", [values[each] for each in statement.parameters])
        await transaction.rollback()
    return seen


@pytest.mark.parametrize(("name", "when"), pairs({name: statement_of(name).text for name in CASES}, WHENS))
async def test_g11_statements_about_candidates_of_a_run_use_an_index(
    seen: dict[tuple[str, str], Seen], name: str, when: str
) -> None:
    _, indexes, max_buffers = CASES[name]
    assert seen[name, when].scanned & BIG == set()
    assert indexes <= seen[name, when].indexes
    assert seen[name, when].buffers <= max_buffers
    if name not in ("jobs_of_rejected", "lock_pair", "forget_kill", "kill_under_way", "list_rejected"):
        assert seen[name, when].rows > 0
