"""Accepting jobs: idempotency before business rules before the cap, one commit, and a relay that cannot be missed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from callsheet.dispatch.facts import JobCycle
from callsheet.identity.accounts.quotas import Quotas
from callsheet.jobs.machine.states import Transition
from callsheet.jobs.machine.transition_requests import TransitionRequest
from callsheet.jobs.submit.active_limits import ActiveLimits, counted_as
from callsheet.jobs.submit.new_jobs import NewTask
from callsheet.jobs.submit.submission import SubmittedJob
from callsheet.plumbing.database.databases import Databases, open_databases
from callsheet.plumbing.database.sql import Statement
from callsheet.settings import JobSettings, QuotaSettings, Settings
from callsheet.toolbox.ids import uuid7
from callsheet.wire.errors import IdempotencyKeyReused, InsufficientTokens, NotFound, TooManyActiveJobs
from callsheet.wire.operate.quotas import ChangeQuotas
from tests.support.jobs.core import Core, Member, job_ids, open_core
from tests.support.rooms import jobs_room

POOLS = pytest.mark.parametrize("pool", ["pool_1", "pool_2"])


@pytest.fixture
async def other_plane(shared_settings: Settings, core: Core) -> AsyncIterator[Core]:
    """A second control plane: the same databases over connections of its own."""
    databases = await open_databases(shared_settings)
    other = open_core(databases)
    other.workflow = core.workflow
    yield other
    await databases.close()


async def written(core: Core, member: Member) -> dict[str, int]:
    """How many rows each table of the pool has."""
    tables = ("ai_jobs", "job_events", "user_streams", "outbox", "token_transactions")
    return {table: len(await core.rows(member.pool, f"SELECT 1 FROM {table}")) for table in tables}


@POOLS
async def test_an_accepted_job_is_queued_paid_recorded_and_dispatched(core: Core, pool: str) -> None:
    ann = await core.member(pool, tokens=100)
    job = await core.submit(ann, cost=30, kind="effect", priority=4, payload={"prompt": 'a "cat" ☃', "n": [1, None]})
    row = await core.job(ann, job.id)
    assert (job.status, job.cost, job.priority, job.charge_cycle, job.result, job.error) == (
        *("queued", 30, 4, 1),
        *(None, None),
    )
    assert row["payload"] == {"prompt": 'a "cat" ☃', "n": [1, None]}
    assert row["deadline_at"] - row["submitted_at"] == timedelta(days=1)
    assert await core.balance(ann) == 70
    dispatch = await core.dispatch(job.id)
    assert dispatch is not None
    assert {name: dispatch[name] for name in ("tenant_id", "charge_cycle", "workflow_id", "stage", "provider")} == {
        "tenant_id": ann.tenant_id,
        "charge_cycle": 1,
        "workflow_id": core.workflow,
        "stage": "production",
        "provider": "self_hosted",
    }
    assert (dispatch["status"], dispatch["priority"], dispatch["attempts"], dispatch["max_attempts"]) == (
        *("queued", 4),
        *(0, 3),
    )
    assert dispatch["deadline_at"] == row["deadline_at"]
    created = (await core.events(ann, job.id))[0]
    assert (created["event"], created["data"]) == ("job.created", {"type": "effect", "cost": 30})
    assert await core.outbox(ann.pool) == []
    await core.check()


@POOLS
async def test_fifty_submits_with_one_key_make_one_job_and_one_charge(core: Core, other_plane: Core, pool: str) -> None:
    ann = await core.member(pool, tokens=1000)
    planes = (core, other_plane)
    responses = await asyncio.gather(
        *(planes[number % 2].submitted(ann, cost=10, idempotency_key="once") for number in range(50))
    )
    assert len({response.job.id for response in responses}) == 1
    assert Counter(response.replayed for response in responses) == {False: 1, True: 49}
    assert await core.balance(ann) == 990
    assert await core.ledger(ann, responses[0].job.id) == [(1, "JOB_RESERVE", -10)]
    await core.check()


@POOLS
async def test_fifty_submits_with_different_keys_and_a_cap_of_five_make_five_jobs(
    core: Core, other_plane: Core, pool: str
) -> None:
    ann = await core.member(pool, tokens=1000)
    planes = (core, other_plane)
    responses = await asyncio.gather(
        *(planes[number % 2].submitted(ann, cost=10, idempotency_key=f"key-{number}") for number in range(50)),
        return_exceptions=True,
    )
    assert Counter(type(response) for response in responses) == {SubmittedJob: 5, TooManyActiveJobs: 45}
    refused = next(response for response in responses if isinstance(response, TooManyActiveJobs))
    assert refused.data == {"active": 5, "limit": 5, "setting": "jobs.active_per_user"}
    assert await core.balance(ann) == 950
    assert (await written(core, ann))["ai_jobs"] == 5
    await core.check()


async def test_effect_jobs_tasks_and_typed_jobs_are_counted_apart(shared_databases: Databases) -> None:
    core = await open_core(shared_databases).prepare()
    core.room = jobs_room(shared_databases, JobSettings(), limits=ActiveLimits(1, 2, 3, 4, 5))
    ann = await core.member("pool_1")
    kinds = {
        "jobs.active_per_user": (1, {"kind": "effect"}),
        "tasks.active_per_user": (2, {"kind": "task", "task": NewTask("media")}),
        "tasks.typed_active_per_user": (3, {"kind": "static_ad", "task": NewTask("static_ad")}),
    }
    ended = {}
    for setting, (limit, changes) in kinds.items():
        jobs = [await core.submit(ann, **changes) for _ in range(limit)]
        with pytest.raises(TooManyActiveJobs) as refused:
            await core.submit(ann, **changes)
        assert refused.value.data == {"active": limit, "limit": limit, "setting": setting}
        ended[setting] = jobs[0]
    # A retry counts as what its job is.
    for setting, job in ended.items():
        row = await core.job(ann, job.id)
        move = TransitionRequest(JobCycle(ann.tenant_id, job.id, 1), "test", error={"type": "test", "message": "test"})
        await core.room.transitions.apply(Transition.FAIL, move)
        await core.submit(ann, **kinds[setting][1])
        with pytest.raises(TooManyActiveJobs) as refused:
            await core.room.retries.retry(ann.tenant_id, row["id"], actor="user:ann")
        assert refused.value.data["setting"] == setting
    await core.check()


@pytest.mark.few_forms
@pytest.mark.parametrize("run", [None, UUID(int=1)])
@pytest.mark.parametrize("batch", [None, UUID(int=2)])
@pytest.mark.parametrize("actor", [None, "media", "static_ad"])
@pytest.mark.parametrize("kind", ["effect", "task", "static_ad"])
async def test_the_database_counts_a_job_as_the_code_does(
    core: Core, run: UUID | None, batch: UUID | None, actor: str | None, kind: str
) -> None:
    values = (run, batch, actor, kind)
    [row] = await core.rows(core.databases.pools[0], "SELECT counted_as($1, $2, $3, $4) AS it", *values)
    assert row["it"] == counted_as(*values)


async def test_the_cap_counts_only_pending_queued_and_processing_jobs(
    shared_databases: Databases,
) -> None:
    core = await open_core(shared_databases, active_per_user=3).prepare()
    ann = await core.member("pool_1")
    first = await core.submit(ann)
    await core.start()
    await core.submit(ann)
    third = await core.submit(ann)
    with pytest.raises(TooManyActiveJobs):
        await core.submit(ann)
    await core.room.cancellation.cancel(ann.tenant_id, third.id, actor="user:ann")
    fourth = await core.submit(ann)
    with pytest.raises(TooManyActiveJobs):
        await core.submit(ann)
    assert await core.status(ann, first.id) == "processing"
    # Another user of the tenant has a cap of his own.
    bob = await core.member(tenant=ann)
    assert (await core.submit(bob)).status == fourth.status == "queued"
    await core.check()


@pytest.mark.few_forms
@pytest.mark.parametrize(
    "changes",
    [
        {"payload": {"prompt": "a dog"}},
        {"cost": 11},
        {"kind": "task"},
        {"priority": 1},
        {"provider": "cloud"},
        {"stage": "staging"},
        {"max_attempts": 1},
        {"concurrency_identifier": "model-x"},
    ],
    ids=str,
)
async def test_a_key_cannot_be_used_for_another_request(core: Core, changes: dict[str, Any]) -> None:
    ann = await core.member("pool_1", tokens=15)
    await core.submit(ann, idempotency_key="key")
    before = await written(core, ann)
    # Also where there would not be enough tokens for it: idempotency comes first.
    with pytest.raises(IdempotencyKeyReused):
        await core.submit(ann, idempotency_key="key", **changes)
    assert await written(core, ann) == before
    assert await core.balance(ann) == 5


async def test_a_request_is_the_same_for_any_actor_and_any_order_of_its_payload(core: Core) -> None:
    ann = await core.member("pool_2")
    first = await core.submit(ann, idempotency_key="key", payload={"a": 1, "b": {"c": 2, "d": 3}}, actor="user:ann")
    again = await core.submitted(ann, idempotency_key="key", payload={"b": {"d": 3, "c": 2}, "a": 1}, actor="admin:eve")
    assert (again.job.id, again.replayed) == (first.id, True)


async def test_a_key_is_looked_up_only_where_it_has_a_job(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str] = []
    original = Statement.row

    async def spy(self: Statement, *arguments: Any, **values: Any) -> Any:
        names.append(self.name)
        return await original(self, *arguments, **values)

    ann = await core.member()
    monkeypatch.setattr(Statement, "row", spy)
    first = await core.submitted(ann, idempotency_key="k")
    assert names.count("find_by_idempotency_key") == 0
    again = await core.submitted(ann, idempotency_key="k")
    assert names.count("find_by_idempotency_key") == 1
    assert (again.job.id, again.replayed) == (first.job.id, True)


async def test_a_key_belongs_to_its_user(core: Core) -> None:
    ann = await core.member("pool_1")
    members = [ann, await core.member(tenant=ann), await core.member("pool_1"), await core.member("pool_2")]
    responses = [await core.submitted(member, idempotency_key="key") for member in members]
    assert [response.replayed for response in responses] == [False] * 4
    assert len({response.job.id for response in responses}) == 4
    await core.check()


async def test_without_a_key_every_submit_is_a_job_of_its_own(core: Core) -> None:
    ann = await core.member("pool_1")
    assert len({(await core.submit(ann)).id for _ in range(3)}) == 3


async def test_a_key_returns_its_job_also_if_the_job_has_ended_the_cap_is_reached_or_the_wallet_is_empty(
    core: Core,
) -> None:
    ann = await core.member("pool_1", tokens=60)
    done = await core.submit(ann, idempotency_key="done")
    await core.complete(await core.start(), {"metadata": {"frames": 7}})
    for number in range(5):
        await core.submit(ann, idempotency_key=f"live-{number}")
    assert await core.balance(ann) == 0
    with pytest.raises(InsufficientTokens):
        await core.submit(ann, idempotency_key="new")
    await core.credit(ann, 10)
    with pytest.raises(TooManyActiveJobs):
        await core.submit(ann, idempotency_key="new")
    again = await core.submitted(ann, idempotency_key="done")
    assert (again.replayed, again.job.id, again.job.status) == (True, done.id, "completed")
    assert again.job.result == {"metadata": {"frames": 7}}
    assert (await core.submitted(ann, idempotency_key="live-3")).replayed
    assert await core.balance(ann) == 10
    await core.check()


async def test_too_few_tokens_are_reported_before_too_many_jobs(shared_databases: Databases) -> None:
    core = await open_core(shared_databases, active_per_user=1).prepare()
    ann = await core.member("pool_1", tokens=10)
    await core.submit(ann)
    with pytest.raises(InsufficientTokens):
        await core.submit(ann)


@POOLS
async def test_job_reserve_event_and_outbox_are_one_commit(core: Core, pool: str) -> None:
    ann = await core.member(pool, tokens=100)
    before = await written(core, ann)
    async with ann.pool.connection() as connection:
        await connection.execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE ''no room left''; END'"
        )
        for table in before:
            await connection.execute(
                f"CREATE TRIGGER t BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION refuse()"
            )
            with pytest.raises(asyncpg.RaiseError, match="no room left"):
                await core.submit(ann, idempotency_key="key")
            assert await written(core, ann) == before, table
            assert await core.balance(ann) == 100
            await connection.execute(f"DROP TRIGGER t ON {table}")
        await connection.execute("DROP FUNCTION refuse")
    assert not (await core.submitted(ann, idempotency_key="key")).replayed
    await core.check()


@POOLS
async def test_a_job_accepted_while_central_is_unavailable_is_delivered_by_the_relay_loop(
    core: Core, pool: str
) -> None:
    ann = await core.member(pool)
    await core.submit(ann)
    await core.complete(await core.start())
    await core.databases.central.close()
    job = await core.submit(ann, idempotency_key="key")
    assert job.status == "pending"
    assert [(row["job_id"], row["action"]) for row in await core.outbox(ann.pool)] == [(job.id, "dispatch")]
    await core.databases.central.open()
    await core.check()

    now = datetime.now(UTC)
    # The row is too young: the process that wrote it may be relaying it at this moment.
    await core.room.relay.tick(now)
    assert await core.status(ann, job.id) == "pending"
    assert not await core.room.relay.tick(now + timedelta(seconds=core.room.relay.settle_seconds + 1))
    assert await core.status(ann, job.id) == "queued"
    assert await core.outbox(ann.pool) == []
    assert (await core.start()).lease.job_id == job.id
    await core.check()


async def test_a_cancel_while_central_is_unavailable_reaches_it_later(core: Core) -> None:
    ann = await core.member("pool_2")
    job = await core.submit(ann)
    await core.databases.central.close()
    assert (await core.room.cancellation.cancel(ann.tenant_id, job.id, actor="user:ann")).status == "canceled"
    await core.databases.central.open()
    assert [row["action"] for row in await core.outbox(ann.pool)] == ["close"]
    assert await core.balance(ann) == 1000
    await core.relay()
    assert await core.lease() is None
    await core.check_drained()


async def test_relaying_twice_or_after_the_job_has_ended_makes_no_second_dispatch(core: Core) -> None:
    ann = await core.member("pool_1")
    job = await core.submit(ann)
    outbox = "INSERT INTO outbox (tenant_id, job_id, charge_cycle, action) VALUES ($1, $2, 1, 'dispatch')"
    await core.rows(ann.pool, outbox, ann.tenant_id, job.id)
    await core.relay()
    assert len(await core.rows(core.databases.central, "SELECT 1 FROM ai_job_dispatches")) == 1
    await core.complete(await core.start())
    await core.rows(ann.pool, outbox, ann.tenant_id, job.id)
    await core.relay()
    assert await core.steps(ann, job.id) == [">pending", "pending>queued", "queued>processing", "processing>completed"]
    await core.check_drained()


async def test_the_relay_continues_while_there_are_more_rows(core: Core) -> None:
    core.room.relay.batch = 3
    first = await core.member("pool_1")
    members = [first, *[await core.member(tenant=first) for _ in range(6)]]
    await core.submit(first)
    await core.databases.central.close()
    jobs = [await core.submit(member) for member in members[1:]]
    await core.databases.central.open()
    later = datetime.now(UTC) + timedelta(minutes=1)
    assert [await core.room.relay.tick(later) for _ in range(3)] == [True, True, False]
    assert {await core.status(member, job.id) for member, job in zip(members[1:], jobs, strict=True)} == {"queued"}
    await core.check()


async def test_a_job_for_a_tenant_that_does_not_exist_is_refused(core: Core) -> None:
    ann = await core.member("pool_1")
    with pytest.raises(NotFound):
        await core.submit(Member(uuid7(), ann.user_id, ann.pool))


async def test_the_same_job_id_in_two_pools_is_two_jobs(core: Core) -> None:
    ann, bob = await core.member("pool_1", tokens=100), await core.member("pool_2", tokens=50)
    shared = uuid7()
    with job_ids(shared, shared):
        mine, his = await core.submit(ann, cost=10), await core.submit(bob, cost=20)
    assert mine.id == his.id == shared
    await core.room.cancellation.cancel(ann.tenant_id, shared, actor="user:ann")
    assert (await core.status(ann, shared), await core.status(bob, shared)) == ("canceled", "queued")
    assert (await core.balance(ann), await core.balance(bob)) == (100, 30)
    started = await core.start()
    assert (started.lease.tenant_id, started.user_id) == (bob.tenant_id, bob.user_id)
    await core.complete(started)
    assert (await core.status(ann, shared), await core.status(bob, shared)) == ("canceled", "completed")
    await core.check_drained()


async def test_quotas_of_concurrent_submits_are_read_in_one_statement(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    members = [await core.member() for _ in range(3)]
    quotas = Quotas(core.databases, QuotaSettings(user_storage_files=7))
    await Quotas(core.databases, QuotaSettings()).change(
        "test", members[1].tenant_id, ChangeQuotas(user_storage_files=2)
    )
    opened: list[None] = []
    connection = core.databases.central.connection
    monkeypatch.setattr(core.databases.central, "connection", lambda: opened.append(None) or connection())
    for _ in range(2):
        limits = await quotas.of_each(member.tenant_id for member in members)
        assert [limits[member.tenant_id].user_storage_files for member in members] == [7, 2, 7]
    assert len(opened) == 1
