"""What a statement costs does not grow with the tables: at a million rows it finds its rows by their index (G11).

Blocks are counted, not seconds. Plans are kept for the life of a connection, so each statement is looked at as it is
planned while the tables are empty, when they are full and not analyzed yet, and after ANALYZE.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from callsheet.dispatch.facts import NO_OWNER, Criteria
from callsheet.dispatch.lease.leasing import SQL as DISPATCH
from callsheet.dispatch.queue import Queue
from callsheet.jobs.machine.states import Transition
from callsheet.jobs.machine.transition_requests import ANY_LEASE
from callsheet.jobs.machine.transitions import statuses_of, steps_of
from callsheet.plumbing.database.databases import Databases, open_databases
from callsheet.plumbing.database.sql import Connection, Statement
from callsheet.plumbing.embedded import EmbeddedPostgres
from callsheet.wallet.ledger import SQL as WALLET
from callsheet.wire.jobs import JobListFilter
from tests.support.database.full_databases import (
    HELD,
    PRIORITIES,
    TENANT,
    fill_central,
    fill_pool,
    job_id,
    token,
    user_id,
    without_autovacuum,
)
from tests.support.database.installation import installation, isolate
from tests.support.database.plans import Seen, explain, explain_once, pairs, prepare
from tests.support.database.room_statements import statements_of_room

JOBS = statements_of_room("jobs")

SMALL = 1000
# A planner that takes an index at thirty thousand rows takes it at a million; that blocks do not grow is seen there.
LARGE = [30_000, pytest.param(1_000_000, marks=pytest.mark.thorough)]
BIG_TABLES = {"ai_job_dispatches", "dispatch_history", "ai_jobs", "job_events", "token_transactions", "outbox"}
TWENTY = list(range(1, 21))
PRIMARY = "ai_job_dispatches_pkey"


@dataclass(frozen=True, slots=True)
class Case:
    """A statement with arguments that fit a crowd of `rows`, what it must use, and the most blocks it may touch."""

    kind: str
    text: str
    arguments: list[object]
    indexes: frozenset[str]
    max_buffers: int


def central_case(name: str, indexes: set[str], max_buffers: int, **values: object) -> Case:
    statement = DISPATCH[name]
    return Case(
        "central",
        statement.text,
        [values[parameter] for parameter in statement.parameters],
        frozenset(indexes),
        max_buffers,
    )


def pool_case(
    name: str, indexes: set[str], max_buffers: int, room: Mapping[str, Statement] = JOBS, **values: object
) -> Case:
    statement = room[name]
    return Case(
        "pool",
        statement.text,
        [values[parameter] for parameter in statement.parameters],
        frozenset(indexes),
        max_buffers,
    )


def lanes_of(workflows: list[int]) -> list[int]:
    """Of all priorities, in the order in which they were made."""
    return [(workflow - 1) * PRIORITIES + place for workflow in workflows for place in range(1, PRIORITIES + 1)]


def take(user_queues: list[list[int]], wanted: int = 1) -> dict[str, object]:
    """Lanes of each user whose turn it is, and how many each gives."""
    workers = wanted * len(user_queues)
    return {
        "lane_ids": [lane for queue in user_queues for lane in queue],
        "user_queues": [number for number, queue in enumerate(user_queues) for _ in queue],
        "wanted": [wanted for queue in user_queues for _ in queue],
        "workers": ["worker"] * workers,
        "tokens": [token(number) for number in range(workers)],
        "poll_ids": [None] * workers,
        "spare": 8,
        "now": None,
    }


def route(workflows: list[int]) -> dict[str, object]:
    return {"workflow_ids": workflows, "stage": "production", "providers": ["self_hosted"]}


OUTBOX = "one_entry_per_action"


def columns(number: int) -> dict[str, list[object]]:
    job: dict[str, list[object]] = {"tenant_ids": [TENANT], "job_ids": [job_id(number)], "charge_cycles": [1]}
    return job | {"actors": ["test"], "request_ids": ["0f6a3c1d9be24c77"]}


def queue_case(transition: Transition, number: int) -> Case:
    leases = {
        "min_lease_seqs": [0],
        "max_lease_seqs": [ANY_LEASE],
        "reasons": [None],
        "reported_reasons": [None],
        "traces": "{NULL}",
    }
    values = {**statuses_of(transition), **columns(number), **leases}
    return transition_case("queue_jobs", {"ai_jobs_pkey", OUTBOX}, **values)


def start_case(transition: Transition, number: int) -> Case:
    values = {**steps_of(transition), "to_status": "processing", **columns(number), "lease_seqs": [2]}
    return transition_case("start_jobs", {"ai_jobs_pkey", OUTBOX}, **values)


def end_case(name: str, transition: Transition, number: int, indexes: set[str], **values: object) -> Case:
    entry = {"tenant_id": TENANT, "job_id": job_id(number), "charge_cycle": 1, "actor": "test", "result": {}}
    entry |= {"min_lease_seq": 0, "max_lease_seq": ANY_LEASE, "trace": {"nodes": []}}
    return transition_case(name, {"ai_jobs_pkey", *indexes}, requests=[entry], **statuses_of(transition), **values)


def transition_case(name: str, indexes: set[str], **values: object) -> Case:
    statement = JOBS[name]
    arguments = [values[parameter] for parameter in statement.parameters]
    return Case("pool", statement.text, arguments, frozenset(indexes), 200)


def cases(rows: int) -> Mapping[str, Case]:
    held, delayed = rows + 3, rows + HELD + 1
    now = datetime.now(UTC)
    back = {"attempt_counts": True, "counts_as_requeue": False, "only_expired": False, "delay_seconds": 0}
    entry = {"tenant_id": TENANT, "job_id": job_id(rows * 2), "charge_cycle": 1, "workflow_id": 7, "kind": "effect"}
    entry |= {"user_id": user_id(1), "lane_tenant_id": str(NO_OWNER), "lane_user_id": str(NO_OWNER)}
    entry |= {"stage": "production", "provider": "self_hosted", "concurrency_identifier": "", "priority": 0}
    entry |= {"max_attempts": 3, "lease_seconds": 9, "run_limit_seconds": 9, "deadline_at": now.isoformat()}
    user = {"tenant_id": TENANT, "user_id": user_id(1)}
    anything = dict(JobListFilter())
    queued = {"dispatches_queued"}
    return {
        "take from one lane": central_case("take", queued, 80, **take([lanes_of([30])[:1]])),
        "take from all lanes of a user": central_case("take", queued, 1500, **take([lanes_of(TWENTY)])),
        "take from an empty lane": central_case("take", queued, 60, **take([[999]])),
        "take for fifty of one user": central_case("take", queued, 8000, **take([lanes_of([30, 31, 32])], 50)),
        "take for fifty users": central_case("take", queued, 8000, **take([[lane] for lane in range(91, 141)])),
        "lanes_with_work of one workflow": central_case("lanes_with_work", queued, 60, **route([30])),
        "lanes_with_work of twenty": central_case("lanes_with_work", queued, 600, **route(TWENTY)),
        "lanes_with_work where there is none": central_case("lanes_with_work", set(), 20, **route([999])),
        "lock_bounds": central_case("lock_bounds", set(), 30, identifiers=["saturated"], tenant_ids=[TENANT]),
        "count_bounds": central_case(
            "count_bounds",
            {"dispatches_of_identifier"},
            60,
            identifiers=["saturated", "limited"],
            tenant_ids=[],
            users_tenants=[],
            users=[],
        ),
        # As many as there is work in hand.
        "count_bounds of a tenant": central_case(
            "count_bounds",
            {"dispatches_held_of_tenant"},
            HELD + 500,
            identifiers=[],
            tenant_ids=[TENANT],
            users_tenants=[TENANT],
            users=[user_id(1)],
        ),
        "in_flight": central_case("in_flight", set(), 4 * HELD + 500),
        "lock_lanes_after": central_case("lock_lanes_after", set(), 300, after=10, limit=100, settle_seconds=-60.0),
        # As many as there is work in hand, by an index that has nothing else, and the lanes.
        "remove_lanes": central_case(
            "remove_lanes",
            {"dispatches_delayed_of_lane", "dispatches_queued"},
            HELD + 1500,
            lane_ids=list(range(1, 101)),
        ),
        # As many as there is work in hand.
        "find_expired": central_case("find_expired", {"dispatches_held"}, HELD + 500, now=None, limit=500),
        "find_overdue_heads": central_case("find_overdue_heads", queued, 3000, now=None, limit=500),
        "held_by_worker": central_case("held_by_worker", set(), 100, worker_id="worker-7"),
        "heartbeat": central_case(
            "heartbeat",
            {PRIMARY},
            60,
            dispatch_ids=[held],
            tokens=[token(held)],
            workers=[None],
            run_started=[True],
            run_waiting=[False],
            provider_job_ids=[None],
            now=None,
        ),
        "find": central_case("find", {PRIMARY, "dispatch_history_pkey"}, 30, dispatch_ids=[held, 5]),
        "requeue a dispatch": central_case(
            "requeue", {PRIMARY}, 120, entries=[{"dispatch_id": held, "token": token(held), **back}], now=None
        ),
        "close": central_case(
            "close",
            {PRIMARY},
            120,
            dispatch_ids=[held],
            tokens=[token(held)],
            statuses=["completed"],
            provider_job_ids=[None],
            errors=[None],
        ),
        "wait": central_case(
            "wait", {PRIMARY}, 60, dispatch_id=held, token=token(held), provider_job_id="p", expires_at=now
        ),
        "end_for_jobs": central_case(
            "end_for_jobs",
            {PRIMARY, "one_dispatch_per_cycle"},
            80,
            tenant_ids=[TENANT],
            job_ids=[job_id(delayed)],
            cycles=[1],
            statuses=["failed"],
        ),
        "enqueue": central_case("enqueue", {"one_finished_dispatch_per_cycle"}, 150, entries=[entry]),
        "promote": central_case("promote", {"dispatches_delayed"}, 200, now=now + timedelta(hours=2), limit=5),
        "raise_low_water": central_case("raise_low_water", queued, 3000, lane_ids=list(range(1, 153))),
        "queue": queue_case(Transition.QUEUE, 100),
        "requeue a job": queue_case(Transition.REQUEUE, 200),
        "start": start_case(Transition.START, 100),
        "start_synchronous": start_case(Transition.START_SYNCHRONOUS, 100),
        "complete": end_case("complete_jobs", Transition.COMPLETE, 200, set()),
        "fail": end_case("end_jobs", Transition.FAIL, 200, {OUTBOX}, close_dispatch=False),
        "cancel": end_case("end_jobs", Transition.CANCEL, 200, {OUTBOX}, close_dispatch=True),
        "retry": transition_case(
            "retry_job",
            {"ai_jobs_pkey"},
            **statuses_of(Transition.RETRY),
            has_budgets=True,
            paid_by_tenant=True,
            tenant_id=TENANT,
            job_id=job_id(200),
            charge_cycle=1,
            actor="test",
            reason=None,
            request_id=None,
        ),
        "deny": pool_case(
            "deny",
            {"ai_jobs_pkey"},
            60,
            tenant_id=TENANT,
            job_id=job_id(100),
            to_status="queued",
            actor="a",
            reason=None,
            request_id=None,
        ),
        "state_of_job": pool_case(
            "state_of_job", {"ai_jobs_pkey"}, 20, tenant_id=TENANT, job_id=job_id(500), charge_cycle=1
        ),
        # As if it had been retried: the job's own events are read, and no others.
        "state_of_job, at an earlier cycle": pool_case(
            "state_of_job",
            {"ai_jobs_pkey", "job_events_pkey"},
            20,
            tenant_id=TENANT,
            job_id=job_id(500),
            charge_cycle=0,
        ),
        "inputs_of_jobs": pool_case(
            "inputs_of_jobs", {"ai_jobs_pkey"}, 40, tenant_id=TENANT, job_ids=[job_id(500), job_id(501)]
        ),
        "get_job": pool_case("get_job", {"ai_jobs_pkey"}, 20, tenant_id=TENANT, job_id=job_id(500)),
        "get_actor_and_action": pool_case(
            "get_actor_and_action", {"ai_jobs_pkey"}, 20, tenant_id=TENANT, job_id=job_id(500)
        ),
        "find_by_idempotency_key": pool_case(
            "find_by_idempotency_key",
            {"one_job_per_key"},
            20,
            **user,
            idempotency_key="key-1",
        ),
        "list_jobs": pool_case("list_jobs", {"jobs_of_user"}, 100, **user, **anything, before=None, limit=20),
        "list_jobs, far back": pool_case(
            "list_jobs", {"jobs_of_user"}, 100, **user, **anything, before=job_id(500), limit=20
        ),
        "list_changed_jobs": pool_case(
            "list_changed_jobs",
            {"events_of_tenant", "ai_jobs_pkey"},
            200,
            tenant_id=TENANT,
            after_at=now - timedelta(days=400),
            after_job=job_id(0),
            after_seq=0,
            until=now + timedelta(days=1),
            limit=20,
        ),
        "events_of_tenant": pool_case(
            "events_of_tenant",
            {"events_of_tenant", "ai_jobs_pkey"},
            200,
            tenant_id=TENANT,
            after_at=now - timedelta(days=400),
            after_job=job_id(0),
            after_seq=0,
            until=now + timedelta(days=1),
            limit=20,
        ),
        "list_jobs_of_reference": pool_case(
            "list_jobs_of_reference",
            {"jobs_of_client_reference"},
            20,
            **user,
            **{**anything, "client_reference": "order 7"},
            before=None,
            limit=20,
        ),
        "list_jobs_of_batch": pool_case(
            "list_jobs_of_batch",
            {"one_job_per_item"},
            20,
            **user,
            **{**anything, "batch_id": job_id(1)},
            before=None,
            limit=20,
        ),
        "jobs_of_batch": pool_case(
            "jobs_of_batch", {"one_job_per_item"}, 20, **user, batch_id=job_id(1), statuses=["failed"]
        ),
        "read_outbox": pool_case("read_outbox", {"outbox_pkey", "ai_jobs_pkey"}, 400, before=None, limit=50),
        "delete_outbox_of_job": pool_case(
            "delete_outbox_of_job",
            {"one_entry_per_action"},
            30,
            tenant_id=TENANT,
            job_id=job_id(500),
            charge_cycle=1,
            action="dispatch",
        ),
        "find_overdue": pool_case("find_overdue", {"deadlines_of_active_jobs"}, 20, now=None, limit=500),
        "events_of_job": pool_case(
            "events_of_job", {"job_events_pkey"}, 20, tenant_id=TENANT, job_id=job_id(500), after=0, limit=200
        ),
        "newest_events": pool_case(
            "newest_events", {"job_events_pkey"}, 20, JOBS, tenant_id=TENANT, job_id=job_id(500), limit=1000
        ),
        "transactions_of_job": pool_case(
            "transactions_of_job",
            {"one_line_per_cycle_and_type"},
            60,
            WALLET,
            tenant_id=TENANT,
            job_id=job_id(200),
            limit=200,
        ),
        "follow_user": pool_case(
            "follow_user", {"events_of_user"}, 60, **user, after=rows - 100, at=None, limit=200, is_first=False
        ),
        "active_jobs_as": Case(
            "pool", "active_jobs_as", [TENANT, user_id(2), "jobs"], frozenset({"jobs_active_of_user"}), 60
        ),
        "user_held": Case("pool", "user_held", [TENANT, user_id(2)], frozenset({"jobs_active_of_user"}), 60),
        "wallet_held": Case("pool", "wallet_held", [TENANT, user_id(2)], frozenset({"jobs_active_of_user"}), 60),
        "wallet_reserved": Case(
            "pool",
            "wallet_reserved",
            [TENANT, job_id(200), 1],
            frozenset({"one_line_per_cycle_and_type"}),
            20,
        ),
    }


NAMES = list(cases(SMALL))
WHENS = ["planned while empty", "never analyzed", "analyzed"]


@dataclass(frozen=True, slots=True)
class FullDatabase:
    databases: Databases
    rows: int
    seen: dict[tuple[int, str, str], Seen]


@asynccontextmanager
async def prepared(databases: Databases, rows: int) -> AsyncIterator[dict[str, Connection]]:
    """A connection to each database in which every statement is planned now."""
    async with AsyncExitStack() as stack:
        pool = await databases.pool("pool_1")
        connections = {
            "central": await stack.enter_async_context(databases.central.connection()),
            "pool": await stack.enter_async_context(pool.connection()),
        }
        for number, case in enumerate(cases(rows).values()):
            connection = connections[case.kind]
            await prepare(connection, f"case_{number}", await text_of(connection, case))
            transaction = connection.transaction()
            await transaction.start()
            await explain(connection, f"case_{number}", case.arguments)
            await transaction.rollback()
        yield connections
        for number, case in enumerate(cases(rows).values()):
            await connections[case.kind].execute(f"DEALLOCATE case_{number}")


async def text_of(connection: Connection, case: Case) -> str:
    """The text of a statement, or of a function's body: what a function does is not part of its caller's plan."""
    if " " in case.text:
        return case.text
    row = await connection.fetchrow("SELECT proargnames, prosrc FROM pg_proc WHERE proname = $1", case.text)
    assert row is not None
    body = str(row["prosrc"])
    for number, name in enumerate(row["proargnames"], 1):
        body = body.replace(name, f"${number}")
    return body


async def measure(connections: dict[str, Connection], rows: int) -> dict[str, Seen]:
    """Each for the second time: the first call of a function in a session reads hundreds of blocks of the catalog."""
    seen = {}
    for number, (name, case) in enumerate(cases(rows).items()):
        connection = connections[case.kind]
        for _ in range(2):
            transaction = connection.transaction()
            await transaction.start()
            seen[name] = await explain(connection, f"case_{number}", case.arguments)
            await transaction.rollback()
    return seen


@pytest.fixture(scope="module", params=LARGE)
async def full_database(
    request: pytest.FixtureRequest,
    postgres: EmbeddedPostgres,
    templates: dict[str, str],
    restored_templates: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[FullDatabase]:
    """The small crowd has its indexes in the order of the migrations, the large one in the order of a restored dump."""
    home = tmp_path_factory.mktemp("crowd")
    seen: dict[tuple[int, str, str], Seen] = {}
    async with AsyncExitStack() as stack:
        patches = stack.enter_context(pytest.MonkeyPatch.context())
        isolate(patches, home)
        for rows, origin in ((SMALL, templates), (request.param, restored_templates)):
            settings = await stack.enter_async_context(installation(postgres, origin, home / str(rows)))
            databases = await open_databases(settings)
            stack.push_async_callback(databases.close)
            pool = await databases.pool("pool_1")
            await without_autovacuum(databases.central, "ai_job_dispatches", "dispatch_lanes", "dispatch_history")
            await without_autovacuum(
                pool, "ai_jobs", "job_events", "outbox", "token_transactions", "token_wallets", "user_streams"
            )
            async with prepared(databases, rows) as connections:
                await asyncio.gather(fill_central(databases.central, rows), fill_pool(pool, rows))
                found = {WHENS[0]: await measure(connections, rows)}
            async with prepared(databases, rows) as connections:
                found[WHENS[1]] = await measure(connections, rows)
            for database in (databases.central, pool):
                async with database.connection() as connection:
                    await connection.execute("ANALYZE")
            async with prepared(databases, rows) as connections:
                found[WHENS[2]] = await measure(connections, rows)
            seen |= {(rows, when, name): one for when, all_seen in found.items() for name, one in all_seen.items()}
        yield FullDatabase(databases, request.param, seen)


@pytest.mark.parametrize(("name", "when"), pairs({name: case.text for name, case in cases(SMALL).items()}, WHENS))
async def test_g11_a_statement_finds_its_rows_by_their_index(full_database: FullDatabase, name: str, when: str) -> None:
    case = cases(full_database.rows)[name]
    for rows in (SMALL, full_database.rows):
        seen = full_database.seen[rows, when, name]
        assert seen.scanned & BIG_TABLES == set()
        assert case.indexes <= seen.indexes
        assert seen.buffers <= case.max_buffers


@pytest.mark.parametrize("name", NAMES)
async def test_g11_a_statement_touches_no_more_blocks_in_large_tables_than_in_small_ones(
    full_database: FullDatabase, name: str
) -> None:
    small, large = (full_database.seen[rows, "analyzed", name] for rows in (SMALL, full_database.rows))
    assert small.rows == large.rows
    # The indexes are two levels deeper, and neighbours in a lane are no longer on the same page.
    assert large.buffers <= small.buffers * 1.6 + 15


@pytest.mark.parametrize("when", WHENS)
async def test_a_lease_for_many_workers_reads_each_lane_head_once(full_database: FullDatabase, when: str) -> None:
    seen = full_database.seen[full_database.rows, when, "take for fifty of one user"]
    assert seen.rows == 50
    # The heads of nine lanes, each once.
    assert seen.rows_dropped <= 9 * 59


async def test_g11_dead_rows_at_the_head_of_a_lane_cost_a_lease_nothing_once_the_mark_is_raised(
    full_database: FullDatabase,
) -> None:
    """Of every fifty rows one was leased, and a session elsewhere keeps vacuum from removing what they leave behind."""
    central = full_database.databases.central
    values = take([lanes_of([33, 34])])
    queue = Queue(central)
    dead = full_database.rows // 50
    async with central.connection() as elsewhere:
        idle = elsewhere.transaction(isolation="repeatable_read")
        await idle.start()
        await elsewhere.fetchval("SELECT count(*) FROM tenants")
        async with central.connection() as connection:
            taken = await connection.execute(
                """DELETE FROM ai_job_dispatches WHERE dispatch_id IN (
                    SELECT dispatch_id FROM ai_job_dispatches WHERE workflow_id IN (33, 34) AND status = 'queued'
                    ORDER BY priority DESC, dispatch_id LIMIT $1)""",
                dead,
            )
            assert taken == f"DELETE {dead}"
            await connection.execute("VACUUM ai_job_dispatches", timeout=600)
        before = await explain_once(central, DISPATCH["take"], values)
        await queue.raise_low_water()
        after = await explain_once(central, DISPATCH["take"], values)
        # A minute's worth of marks: what raising them leaves behind may not add up either.
        for _ in range(120):
            assert len(await queue.lease_many(Criteria((33, 34)), ["w"] * 3)) == 3
            await queue.raise_low_water()
        later = await explain_once(central, DISPATCH["take"], values)
        await idle.rollback()
    assert before.buffers > dead // 4
    assert after.buffers < 150
    assert later.buffers < 150
