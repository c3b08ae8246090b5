"""Submitting: one job per key, never over the cap, never below zero (G2, G5)."""

from __future__ import annotations

import asyncio
from uuid import UUID

import asyncpg
import pytest

from callsheet.dispatch.facts import JobCycle
from callsheet.jobs.machine.states import Transition
from callsheet.jobs.machine.transition_requests import TransitionRequest
from callsheet.jobs.machine.transitions import apply_transition
from callsheet.jobs.submit.submission import SubmittedJob
from callsheet.plumbing.database.database import Database
from callsheet.wallet.ledger import SQL as WALLET
from callsheet.wallet.ledger import credit
from callsheet.wire.errors import (
    Conflict,
    IdempotencyKeyReused,
    InsufficientTokens,
    InvalidRequest,
    InvalidTransition,
    RateLimited,
    TooManyActiveJobs,
)
from callsheet.wire.money.wallet import MAX_TOKENS
from tests.support.jobs.core import Core, Member, open_core
from tests.support.jobs.race import REFUNDED, RESERVE, Race
from tests.support.jobs.race_control import open_transaction, start_blocked

LOCK_WALLET = "SELECT wallet_lock($1, $2)"


async def jobs_of(race: Race, member: Member) -> int:
    query = "SELECT id FROM ai_jobs WHERE tenant_id = $1 AND user_id = $2"
    return len(await race.one.rows(member.pool, query, member.tenant_id, member.user_id))


def pool_of_tenant(race: Race, member: Member) -> Database:
    return next(pool for pool in race.two.databases.pools if pool.name == member.pool.name)


def capped(core: Core, cap: int) -> Core:
    tight = open_core(core.databases, active_per_user=cap)
    tight.workflow = core.workflow
    return tight


@pytest.mark.parametrize("pool", ["pool_1", "pool_2"])
async def test_two_submits_with_one_key_that_wait_for_the_same_wallet_make_one_job(race: Race, pool: str) -> None:
    carl = await race.one.member(pool, tokens=100)
    async with open_transaction(pool_of_tenant(race, carl), LOCK_WALLET, carl.tenant_id, carl.user_id):
        works = [core.submitted(carl, idempotency_key="once") for core in (race.one, race.two)]
        tasks = await start_blocked(pool_of_tenant(race, carl), *works)
    first, second = await asyncio.gather(*tasks)
    assert (first.replayed, second.replayed) == (False, True)
    assert first.job.id == second.job.id
    assert await race.one.ledger(carl, first.job.id) == [RESERVE]
    assert (await jobs_of(race, carl), await race.one.balance(carl)) == (1, 90)
    await race.one.check()


async def test_the_later_of_two_different_requests_with_one_key_is_refused(race: Race) -> None:
    async with open_transaction(race.pool, LOCK_WALLET, race.ann.tenant_id, race.ann.user_id):
        works = [
            race.one.submitted(race.ann, idempotency_key="once", cost=3),
            race.two.submitted(race.ann, idempotency_key="once", cost=4),
        ]
        tasks = await start_blocked(race.pool, *works)
    responses = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(response) for response in responses] == [SubmittedJob, IdempotencyKeyReused]
    assert (await jobs_of(race, race.ann), await race.one.balance(race.ann)) == (1, 997)
    await race.one.check()


async def failed_job(race: Race) -> UUID:
    job, lease = await race.started()
    await race.one.fail(lease)
    return job.id


async def test_g5_two_retries_with_one_key_that_wait_for_the_same_wallet_charge_once(race: Race) -> None:
    job_id = await failed_job(race)
    async with open_transaction(race.pool, LOCK_WALLET, race.ann.tenant_id, race.ann.user_id):
        works = [
            core.room.retries.once(race.ann.tenant_id, job_id, "once", actor="user") for core in (race.one, race.two)
        ]
        tasks = await start_blocked(race.pool, *works)
    first, second = await asyncio.gather(*tasks)
    assert (first.replayed, second.replayed) == (False, True)
    assert (first.shown.charge_cycle, second.shown.charge_cycle) == (2, 2)
    assert await race.one.ledger(race.ann, job_id) == [*REFUNDED, (2, *RESERVE[1:])]
    await race.one.check()


async def test_g5_a_retry_that_is_sent_again_after_the_job_failed_again_charges_nothing(race: Race) -> None:
    job_id = await failed_job(race)
    await race.one.room.retries.once(race.ann.tenant_id, job_id, "once", actor="user")
    await race.one.fail(await race.one.start())
    before = await race.one.ledger(race.ann, job_id)
    again = await race.two.room.retries.once(race.ann.tenant_id, job_id, "once", actor="user")
    assert (again.replayed, again.shown.status, again.shown.charge_cycle) == (True, "failed", 2)
    assert await race.one.ledger(race.ann, job_id) == before
    # The key of another job is refused, and a refused retry keeps no key.
    other = await failed_job(race)
    with pytest.raises(IdempotencyKeyReused, match=str(job_id)):
        await race.two.room.retries.once(race.ann.tenant_id, other, "once", actor="user")
    queued = await race.one.submit(race.ann)
    with pytest.raises(InvalidTransition):
        await race.two.room.retries.once(race.ann.tenant_id, queued.id, "new", actor="user")
    assert not (await race.two.room.retries.once(race.ann.tenant_id, other, "new", actor="user")).replayed
    await race.one.check()


async def test_g5_the_database_refuses_a_second_retry_with_one_key(race: Race) -> None:
    add = "INSERT INTO retry_keys (tenant_id, user_id, idempotency_key, retried_id) VALUES ($1, $2, 'once', $3)"
    owner = (race.ann.tenant_id, race.ann.user_id)
    async with open_transaction(race.pool, add, *owner, await failed_job(race)):
        [second] = await start_blocked(race.pool, race.two.rows(race.ann.pool, add, *owner, await failed_job(race)))
    with pytest.raises(asyncpg.UniqueViolationError):
        await second


async def test_a_repeated_submit_that_took_the_last_tokens_returns_the_same_job(race: Race) -> None:
    carl = await race.one.member("pool_1", tokens=10)
    one, two = capped(race.one, 1), capped(race.two, 1)
    async with open_transaction(race.pool, LOCK_WALLET, carl.tenant_id, carl.user_id):
        works = [core.submitted(carl, idempotency_key="once") for core in (one, two)]
        tasks = await start_blocked(race.pool, *works)
    first, second = await asyncio.gather(*tasks)
    assert second.replayed
    assert first.job.id == second.job.id
    assert await race.one.balance(carl) == 0


async def test_the_same_key_of_users_in_two_pools_makes_two_jobs(race: Race) -> None:
    works = [
        core.submitted(user, idempotency_key="k") for core in (race.one, race.two) for user in (race.ann, race.bob)
    ]
    responses = await asyncio.gather(*works)
    assert len({response.job.id for response in responses}) == 2
    assert sorted(response.replayed for response in responses) == [False, False, True, True]
    assert (await race.one.balance(race.ann), await race.one.balance(race.bob)) == (990, 990)
    await race.one.check()


async def test_two_submits_at_the_cap_make_one_job(race: Race) -> None:
    one, two = capped(race.one, 5), capped(race.two, 5)
    for _ in range(4):
        await one.submit(race.ann)
    async with open_transaction(race.pool, LOCK_WALLET, race.ann.tenant_id, race.ann.user_id):
        works = [core.submitted(race.ann, idempotency_key=key) for core, key in ((one, "a"), (two, "b"))]
        tasks = await start_blocked(race.pool, *works)
    responses = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(response) for response in responses] == [SubmittedJob, TooManyActiveJobs]
    assert (await jobs_of(race, race.ann), await race.one.balance(race.ann)) == (5, 950)
    await race.one.check()


async def test_two_submits_for_the_last_place_of_a_minute_make_one_job(race: Race) -> None:
    one, two = [open_core(core.databases, submits_per_minute=3) for core in (race.one, race.two)]
    one.workflow = two.workflow = race.one.workflow
    for _ in range(2):
        await one.submit(race.ann)
    async with open_transaction(race.pool, LOCK_WALLET, race.ann.tenant_id, race.ann.user_id):
        tasks = await start_blocked(race.pool, one.submitted(race.ann), two.submitted(race.ann))
    responses = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(response) for response in responses] == [SubmittedJob, RateLimited]
    assert (await jobs_of(race, race.ann), await race.one.balance(race.ann)) == (3, 970)
    await race.one.check()


async def test_a_submit_that_waits_for_the_cancel_that_makes_room_is_accepted(race: Race) -> None:
    one = capped(race.one, 1)
    job = await one.submit(race.ann)
    async with race.pool.transaction() as connection:
        move = TransitionRequest(JobCycle(race.ann.tenant_id, job.id, 1), "user")
        assert await apply_transition(connection, Transition.CANCEL, [move], close_dispatch=True)
        [submitting] = await start_blocked(race.pool, one.submit(race.ann))
    assert (await submitting).id != job.id
    assert await race.one.balance(race.ann) == 990
    await race.one.check()


async def test_two_reserves_of_one_wallet_never_go_below_zero(race: Race) -> None:
    carl = await race.one.member("pool_1", tokens=15)
    async with open_transaction(race.pool, LOCK_WALLET, carl.tenant_id, carl.user_id):
        tasks = await start_blocked(race.pool, race.one.submitted(carl), race.two.submitted(carl))
    first, second = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(first, SubmittedJob)
    assert isinstance(second, InsufficientTokens)
    assert second.data == {"required_tokens": 10, "balance": 5, "paid_by": "user"}
    assert (await jobs_of(race, carl), await race.one.balance(carl)) == (1, 5)
    await race.one.check()


async def test_a_submit_that_waits_for_a_credit_can_spend_it(race: Race) -> None:
    carl = await race.one.member("pool_1", tokens=1)
    async with race.pool.transaction() as connection:
        values = {"tenant_id": carl.tenant_id, "owner_id": carl.user_id}
        await WALLET["credit"].value(connection, **values, amount=9, provider_transaction_id="in time")
        [submitting] = await start_blocked(race.pool, race.one.submit(carl))
    await submitting
    assert await race.one.balance(carl) == 0
    await race.one.check()


async def test_a_retry_and_a_submit_for_the_last_tokens_spend_them_once(race: Race) -> None:
    carl = await race.one.member("pool_1", tokens=10)
    job = await race.one.submit(carl)
    await race.one.fail(await race.one.start())
    async with open_transaction(race.pool, LOCK_WALLET, carl.tenant_id, carl.user_id):
        retrying = race.two.room.retries.retry(carl.tenant_id, job.id, actor="user")
        tasks = await start_blocked(race.pool, race.one.submit(carl), retrying)
    submitted, refused = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(refused, InsufficientTokens)
    assert not isinstance(submitted, BaseException)
    assert await race.one.balance(carl) == 0
    assert await race.one.status(carl, job.id) == "failed"
    await race.one.check()


async def test_many_submits_of_one_wallet_from_two_control_planes_spend_exactly_what_is_there(race: Race) -> None:
    carl = await race.one.member("pool_2", tokens=50)
    works = [core.submitted(carl) for _ in range(8) for core in (race.one, race.two)]
    responses = await asyncio.gather(*works, return_exceptions=True)
    assert sum(isinstance(response, SubmittedJob) for response in responses) == 5
    assert sum(isinstance(response, InsufficientTokens) for response in responses) == 11
    assert await race.one.balance(carl) == 0
    await race.one.check()


async def test_a_payment_credited_twice_at_once_counts_once(race: Race) -> None:
    async with open_transaction(race.pool, LOCK_WALLET, race.ann.tenant_id, race.ann.user_id):
        works = [credit(pool, race.ann.tenant_id, race.ann.user_id, 7, "p") for pool in (race.ann.pool, race.pool)]
        tasks = await start_blocked(race.pool, *works)
    assert await asyncio.gather(*tasks) == [(1007, False), (1007, True)]
    await race.one.check()


async def test_a_payment_credited_to_two_users_at_once_counts_for_the_first(race: Race) -> None:
    eve = await race.one.member(tenant=race.ann, tokens=0)
    async with race.pool.transaction() as connection:
        values = {"tenant_id": race.ann.tenant_id, "owner_id": race.ann.user_id}
        await WALLET["credit"].value(connection, **values, amount=7, provider_transaction_id="p")
        [crediting] = await start_blocked(race.pool, credit(race.ann.pool, eve.tenant_id, eve.user_id, 7, "p"))
    with pytest.raises(Conflict):
        await crediting
    assert (await race.one.balance(race.ann), await race.one.balance(eve)) == (1007, 0)
    await race.one.check()


async def test_the_first_credit_of_a_wallet_given_twice_at_once_opens_one_wallet(race: Race) -> None:
    eve = await race.one.member(tenant=race.ann, tokens=0)
    works = [
        credit(pool, eve.tenant_id, eve.user_id, 5, f"p{number}")
        for number in range(4)
        for pool in (race.ann.pool, race.pool)
    ]
    responses = await asyncio.gather(*works)
    assert await race.one.balance(eve) == 20
    assert sum(replayed for _, replayed in responses) == 4
    await race.one.check()


async def test_a_poisoned_submit_in_a_shared_commit_fails_alone(race: Race) -> None:
    """Also where it is a user's second of the batch, and the first of it went well."""
    payloads = [{"text": "fine"}, {"text": "PostgreSQL has no \0 in jsonb"}, {"text": "fine"}]
    async with open_transaction(race.pool, LOCK_WALLET, race.ann.tenant_id, race.ann.user_id):
        [first] = await start_blocked(race.pool, race.one.submit(race.ann))
        others = [asyncio.create_task(race.one.submit(race.ann, payload=payload)) for payload in payloads]
        eve = await race.one.member(tenant=race.ann, tokens=10)
        others.append(asyncio.create_task(race.one.submit(eve)))
    responses = await asyncio.gather(first, *others, return_exceptions=True)
    assert [isinstance(response, asyncpg.PostgresError) for response in responses] == [False, False, True, False, False]
    assert (await jobs_of(race, race.ann), await race.one.balance(race.ann)) == (3, 970)
    assert (await jobs_of(race, eve), await race.one.balance(eve)) == (1, 0)
    await race.one.check()


@pytest.mark.parametrize("order", ["the job first", "the credit first"])
async def test_a_credit_beside_a_submit_leaves_room_for_its_refund(race: Race, order: str) -> None:
    """Both wait for the wallet's lock; whichever gets it first, the job's tokens can come back."""
    carl = await race.one.member("pool_1", tokens=MAX_TOKENS - 10)
    pool = pool_of_tenant(race, carl)
    works = [
        race.one.submitted(carl, cost=100),
        credit(pool, carl.tenant_id, carl.user_id, 11, "too much, with what is held"),
    ]
    async with open_transaction(pool, LOCK_WALLET, carl.tenant_id, carl.user_id):
        tasks = await start_blocked(pool, *(works if order == "the job first" else works[::-1]))
    responses = await asyncio.gather(*tasks, return_exceptions=True)
    submitted = next(response for response in responses if isinstance(response, SubmittedJob))
    [refused] = [response for response in responses if isinstance(response, Exception)]
    assert isinstance(refused, InvalidRequest)
    await race.one.room.cancellation.cancel(carl.tenant_id, submitted.job.id, actor="user")
    assert await race.one.balance(carl) == MAX_TOKENS - 10
    await race.one.check()


async def test_a_credit_that_waited_for_a_cancel_counts_its_refund_once(race: Race) -> None:
    carl = await race.one.member("pool_1", tokens=MAX_TOKENS)
    pool = pool_of_tenant(race, carl)
    job = await race.one.submit(carl, cost=100)
    async with pool.transaction() as connection:
        move = TransitionRequest(JobCycle(carl.tenant_id, job.id, 1), "user")
        assert await apply_transition(connection, Transition.CANCEL, [move], close_dispatch=True)
        [crediting] = await start_blocked(pool, credit(carl.pool, carl.tenant_id, carl.user_id, 1, "one more"))
    with pytest.raises(InvalidRequest):
        await crediting
    assert await race.one.balance(carl) == MAX_TOKENS
    await race.one.check()
