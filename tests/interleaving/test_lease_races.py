"""Leases: at most one live lease per dispatch, however many workers ask at the same moment (G3)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from callsheet.dispatch.facts import DispatchEnd, Heartbeat, JobEnd, Lease, Requeue
from callsheet.dispatch.lease.leasing import SQL
from callsheet.dispatch.operate.limits import SQL as LIMIT_SQL
from callsheet.plumbing.failpoints import Failpoint
from callsheet.wire.worker.errors import LeaseLost
from tests.support.jobs.core import Core, report
from tests.support.jobs.lease_statements import lock_limits, take_leases
from tests.support.jobs.race import COMPLETED, CONSUMED, REFUNDED, RESERVE, STARTED, Race
from tests.support.jobs.race_control import (
    can_lock,
    open_transaction,
    paused_at,
    rolled_back_transaction,
    start_blocked,
)

LOCK = "SELECT 1 FROM ai_job_dispatches WHERE dispatch_id = ANY ($1::bigint[]) FOR UPDATE"
LOCK_WALLET = "SELECT wallet_lock($1, $2)"


async def dispatch_ids(race: Race) -> list[int]:
    rows = await race.one.rows(
        race.central, "SELECT dispatch_id FROM ai_job_dispatches WHERE workflow_id = $1 ORDER BY 1", race.one.workflow
    )
    return [row["dispatch_id"] for row in rows]


@asynccontextmanager
async def leasing(race: Race, worker: str = "slow", undo: bool = False) -> AsyncIterator[asyncpg.Record]:
    """A lease whose transaction is still open."""
    async with rolled_back_transaction(race.central) if undo else race.central.transaction() as connection:
        yield (await take_leases(connection, race.one.criteria(), [worker]))[0]


async def lease(core: Core, worker: str) -> Lease | None:
    return await core.queue.lease(core.criteria(), worker)


async def test_a_locked_head_gives_the_other_poller_the_next_row(race: Race) -> None:
    for _ in range(2):
        await race.submit()
    head, second = await dispatch_ids(race)
    async with leasing(race) as first:
        other = await lease(race.one, "quick")
        assert other is not None
        assert (first["dispatch_id"], other.dispatch_id) == (head, second)
    assert await lease(race.one, "late") is None
    await race.one.check()


async def test_a_queue_with_many_locked_heads_does_not_look_empty(race: Race) -> None:
    for _ in range(11):
        await race.submit()
    ids = await dispatch_ids(race)
    async with open_transaction(race.central, LOCK, ids[:-1]):
        found = await lease(race.one, "quick")
        assert found is not None
        assert found.dispatch_id == ids[-1]
        assert await lease(race.one, "late") is None
    again = await lease(race.one, "again")
    assert again is not None
    assert again.dispatch_id == ids[0]


async def test_pollers_that_ask_together_all_get_jobs_behind_locked_rows(race: Race) -> None:
    for _ in range(16):
        await race.submit()
    ids = await dispatch_ids(race)
    async with open_transaction(race.central, LOCK, ids[:9]):
        leases = await race.one.queue.lease_many(race.one.criteria(), list("abcdefg"))
    assert [found.dispatch_id for found in leases] == ids[9:]
    assert [found.worker_id for found in leases] == list("abcdefg")


async def test_a_lease_that_was_rolled_back_leaves_the_row_as_it_was(race: Race) -> None:
    job = await race.submit()
    async with leasing(race, undo=True):
        assert await lease(race.one, "quick") is None
    started = await race.one.start()
    assert (started.lease.lease_seq, started.lease.attempts) == (1, 1)
    await race.one.complete(started)
    await race.check_job(job.id, COMPLETED, CONSUMED)


async def test_pollers_of_two_control_planes_never_share_a_row(race: Race) -> None:
    for _ in range(30):
        await race.submit()
    polls = [lease(core, f"{name}-{number}") for number in range(20) for core, name in _both(race)]
    leases = [found for found in await asyncio.gather(*polls) if found is not None]
    assert sorted(found.dispatch_id for found in leases) == await dispatch_ids(race)
    assert {found.lease_seq for found in leases} == {1}
    assert len({found.worker_id for found in leases}) == 30
    await race.one.check()


async def test_a_stalled_start_overtaken_by_a_newer_lease_does_not_win(race: Race) -> None:
    job = await race.submit()
    async with paused_at(Failpoint.LEASE_BEFORE_START, race.one.lease("stalled")) as stalled:
        [dispatch_id] = await dispatch_ids(race)
        await race.two.expire_lease(dispatch_id)
        await race.two.reap()
        newer = await race.two.start("newer")
    assert await stalled is None
    await race.check_job(job.id, STARTED, [RESERVE], dispatch="leased")
    assert (await race.one.job(race.ann, job.id))["lease_seq"] == newer.lease.lease_seq == 2
    await race.two.complete(newer)
    await race.check_job(job.id, COMPLETED, CONSUMED)


async def test_an_old_lease_that_starts_before_the_newer_lease_is_refused_by_its_token(race: Race) -> None:
    job = await race.submit()
    async with paused_at(Failpoint.LEASE_BEFORE_START, race.one.lease("stalled")) as stalled:
        await race.two.expire_lease((await dispatch_ids(race))[0])
        await race.two.reap()
        overtaking = paused_at(Failpoint.LEASE_BEFORE_START, race.two.lease("newer"))
        newer_task = await overtaking.__aenter__()
    older = await stalled
    assert older is not None
    await overtaking.__aexit__(None, None, None)
    newer = await newer_task
    assert newer is not None
    assert (await race.one.job(race.ann, job.id))["lease_seq"] == 2
    for refused in (
        race.one.complete(older),
        race.one.fail(older),
        race.one.room.leases.requeue(report(older), "spot"),
        race.one.room.leases.heartbeat(report(older)),
    ):
        with pytest.raises(LeaseLost):
            await refused
    await race.two.complete(newer)
    retaken = [*STARTED, "processing>queued", "queued>processing", "processing>completed"]
    await race.check_job(job.id, retaken, CONSUMED)


async def test_a_reaper_that_stalls_after_central_does_not_stop_the_newer_lease(race: Race) -> None:
    job, older = await race.started("older")
    await race.one.expire_lease(older.lease.dispatch_id)
    async with paused_at(Failpoint.REQUEUE_BEFORE_POOL, race.one.reap()) as reaping:
        newer = await race.two.start("newer")
    await reaping
    taken = [*STARTED, "processing>queued", "queued>processing"]
    await race.check_job(job.id, taken, [RESERVE], dispatch="leased")
    assert (await race.two.complete(newer)).status == "completed"
    await race.check_job(job.id, [*taken, "processing>completed"], CONSUMED)


async def test_a_reaper_late_for_an_exhausted_lease_does_not_fail_the_newer_one(race: Race) -> None:
    job, older = await race.started("older", max_attempts=1)
    await race.one.expire_lease(older.lease.dispatch_id)
    async with open_transaction(race.pool, LOCK_WALLET, race.ann.tenant_id, race.ann.user_id):
        [reaping] = await start_blocked(race.pool, race.one.reap())
        await race.two.room.leases.requeue(report(older), "spot")
        newer = await race.two.start("newer")
    await reaping
    taken = [*STARTED, "processing>queued", "queued>processing"]
    await race.check_job(job.id, taken, [RESERVE], dispatch="leased")
    await race.two.complete(newer)
    await race.check_job(job.id, [*taken, "processing>completed"], CONSUMED)


async def test_a_requeue_that_loses_to_the_reaper_of_an_exhausted_lease_leaves_nothing_in_the_queue(race: Race) -> None:
    job, older = await race.started("older", max_attempts=1)
    await race.one.expire_lease(older.lease.dispatch_id)
    async with open_transaction(race.pool, LOCK_WALLET, race.ann.tenant_id, race.ann.user_id):
        [reaping] = await start_blocked(race.pool, race.one.reap())
        assert (await race.two.room.leases.requeue(report(older), "spot")).status == "queued"
    await reaping
    await race.check_job(job.id, [*STARTED, "processing>queued", "queued>failed"], REFUNDED)
    assert await race.finished(job.id) == [(1, "failed")]


async def test_a_heartbeat_after_expiry_but_before_the_reap_keeps_the_lease(race: Race) -> None:
    job, started = await race.started()
    await race.one.expire_lease(started.lease.dispatch_id)
    extended = await race.one.room.leases.heartbeat(report(started))
    assert extended.ttl_seconds > 0
    await race.two.reap()
    await race.one.complete(started)
    await race.check_job(job.id, COMPLETED, CONSUMED)


async def test_a_heartbeat_that_commits_while_the_reaper_waits_keeps_the_lease(race: Race) -> None:
    job, started = await race.started()
    await race.one.expire_lease(started.lease.dispatch_id)
    async with race.central.transaction() as connection:
        await SQL["heartbeat"].rows(
            connection,
            dispatch_ids=[started.lease.dispatch_id],
            tokens=[started.lease.lease_token],
            workers=[None],
            run_started=[False],
            run_waiting=[False],
            provider_job_ids=[None],
            now=None,
        )
        [reaping] = await start_blocked(race.central, race.one.reap())
    await reaping
    await race.check_job(job.id, STARTED, [RESERVE], dispatch="leased")
    await race.one.complete(started)
    await race.check_job(job.id, COMPLETED, CONSUMED)


@asynccontextmanager
async def putting_back(race: Race, found: Lease) -> AsyncIterator[None]:
    async with race.central.transaction() as connection:
        entry = {"dispatch_id": found.dispatch_id, "token": str(found.lease_token), "attempt_counts": True}
        rest = {"counts_as_requeue": False, "only_expired": False, "delay_seconds": 0}
        assert await SQL["requeue"].rows(connection, entries=[entry | rest], now=None)
        yield


@asynccontextmanager
async def closing(race: Race, found: Lease) -> AsyncIterator[None]:
    async with race.central.transaction() as connection:
        assert await SQL["close"].rows(
            connection,
            dispatch_ids=[found.dispatch_id],
            tokens=[found.lease_token],
            statuses=["completed"],
            provider_job_ids=[None],
            errors=[None],
        )
        yield


async def test_a_heartbeat_that_waits_for_a_requeue_or_a_close_finds_its_lease_gone(race: Race) -> None:
    for change in (putting_back, closing):
        await race.submit()
        found = await lease(race.one, "w")
        assert found is not None
        async with change(race, found):
            [beat] = await start_blocked(
                race.central, race.one.queue.heartbeat(Heartbeat(found.dispatch_id, found.lease_token))
            )
        assert await beat is None


async def test_a_requeue_that_waits_for_a_close_requeues_nothing(race: Race) -> None:
    await race.submit()
    found = await lease(race.one, "w")
    assert found is not None
    async with closing(race, found):
        back = Requeue(found.dispatch_id, found.lease_token, attempt_counts=False)
        [returning] = await start_blocked(race.central, race.one.queue.requeue([back]))
    assert await returning == []
    assert await dispatch_ids(race) == []


@pytest.mark.parametrize("with_token", [True, False])
async def test_a_close_that_waits_for_a_requeue_closes_only_without_a_token(race: Race, with_token: bool) -> None:
    await race.submit()
    found = await lease(race.one, "w")
    assert found is not None
    async with putting_back(race, found):
        ending = DispatchEnd(found.dispatch_id, "canceled", found.lease_token if with_token else None)
        [closed] = await start_blocked(race.central, race.one.queue.close(ending))
    assert await closed is not with_token
    assert await dispatch_ids(race) == ([found.dispatch_id] if with_token else [])


async def test_two_concurrent_requeues_of_one_lease_requeue_it_once(race: Race) -> None:
    await race.submit()
    found = await lease(race.one, "w")
    assert found is not None
    back = Requeue(found.dispatch_id, found.lease_token, attempt_counts=False, counts_as_requeue=True)
    async with open_transaction(race.central, LOCK, [found.dispatch_id]):
        works = [core.queue.requeue([back]) for core in (race.one, race.two)]
        tasks = await start_blocked(race.central, *works)
    assert sorted([len(await task) for task in tasks]) == [0, 1]
    [row] = await race.one.rows(
        race.central, "SELECT * FROM ai_job_dispatches WHERE dispatch_id = $1", found.dispatch_id
    )
    assert (row["attempts"], row["requeues"], row["past_lease_tokens"]) == (0, 1, [found.lease_token])


async def test_an_end_that_waits_for_a_lease_marks_it_instead_of_closing_it(race: Race) -> None:
    job = await race.submit()
    end = JobEnd(race.ann.tenant_id, job.id, 1, "canceled")
    async with leasing(race, "w") as leased:
        [ending] = await start_blocked(race.central, race.one.queue.end_for_jobs([end]))
    await ending
    beat = await race.one.queue.heartbeat(Heartbeat(leased["dispatch_id"], leased["lease_token"]))
    assert beat is not None
    assert beat.cancel_requested


async def test_a_row_that_is_being_closed_is_not_leased(race: Race) -> None:
    job = await race.submit()
    async with race.central.transaction() as connection:
        await SQL["end_for_jobs"].rows(
            connection, tenant_ids=[race.ann.tenant_id], job_ids=[job.id], cycles=[1], statuses=["canceled"]
        )
        assert await lease(race.one, "w") is None


async def test_a_concurrent_requeue_and_reap_requeue_a_lease_once(race: Race) -> None:
    job, started = await race.started()
    await race.one.expire_lease(started.lease.dispatch_id)
    async with open_transaction(race.central, LOCK, [started.lease.dispatch_id]):
        requeue = race.one.room.leases.requeue(report(started), "spot")
        [requeuing] = await start_blocked(race.central, requeue)
        reaping = asyncio.create_task(race.two.reap())
    assert (await requeuing).status == "queued"
    await reaping
    await race.check_job(job.id, [*STARTED, "processing>queued"], [RESERVE], dispatch="queued")


async def test_a_requeue_after_the_reaper_requeued_in_central_changes_nothing(race: Race) -> None:
    job, started = await race.started()
    await race.one.expire_lease(started.lease.dispatch_id)
    async with paused_at(Failpoint.REQUEUE_BEFORE_POOL, race.two.reap()) as reaping:
        assert (await race.one.room.leases.requeue(report(started), "spot")).status == "queued"
    await reaping
    await race.check_job(job.id, [*STARTED, "processing>queued"], [RESERVE], dispatch="queued")
    # Expiry keeps the attempt.
    assert (await race.one.start()).lease.attempts == 2


@pytest.mark.parametrize("attempts", [1, 2])
async def test_two_reapers_reap_a_lease_once(race: Race, attempts: int) -> None:
    job, started = await race.started(max_attempts=attempts)
    await race.one.expire_lease(started.lease.dispatch_id)
    if attempts == 1:
        async with open_transaction(race.pool, LOCK_WALLET, race.ann.tenant_id, race.ann.user_id):
            tasks = await start_blocked(race.pool, race.one.reap(), race.two.reap())
        await asyncio.gather(*tasks)
        await race.check_job(job.id, [*STARTED, "processing>failed"], REFUNDED)
        assert await race.finished(job.id) == [(1, "failed")]
    else:
        async with open_transaction(race.central, LOCK, [started.lease.dispatch_id]):
            tasks = await start_blocked(race.central, race.one.reap(), race.two.reap())
        await asyncio.gather(*tasks)
        await race.check_job(job.id, [*STARTED, "processing>queued"], [RESERVE], dispatch="queued")


@pytest.mark.parametrize("kind", ["heartbeat", "requeue", "end_for_jobs", "close"])
async def test_batches_lock_dispatches_in_the_order_of_their_ids(race: Race, kind: str) -> None:
    """Otherwise a batch of closings and a batch of heartbeats of the same workers lock each other out."""
    queue = race.one.queue
    jobs = [await race.submit() for _ in range(3)]
    leases = await queue.lease_many(race.one.criteria(), ["a", "b", "c"])
    first, *others = sorted(found.dispatch_id for found in leases)
    backwards = sorted(leases, key=lambda found: -found.dispatch_id)

    async def work() -> None:
        match kind:
            case "heartbeat":
                await asyncio.gather(
                    *(queue.heartbeat(Heartbeat(lease.dispatch_id, lease.lease_token)) for lease in backwards)
                )
            case "requeue":
                await queue.requeue(
                    [Requeue(lease.dispatch_id, lease.lease_token, attempt_counts=False) for lease in backwards]
                )
            case "end_for_jobs":
                await queue.end_for_jobs([JobEnd(race.ann.tenant_id, job.id, 1, "canceled") for job in reversed(jobs)])
            case "close":
                await queue.close_many(
                    [DispatchEnd(lease.dispatch_id, "canceled", lease.lease_token) for lease in backwards]
                )

    async with open_transaction(race.central, LOCK, [first]):
        [task] = await start_blocked(race.central, work())
        free = "SELECT 1 FROM ai_job_dispatches WHERE dispatch_id = ANY ($1::bigint[]) FOR UPDATE NOWAIT"
        assert await can_lock(race.one.databases.central, free, others)
    await task


async def limited(race: Race, limit: int, jobs: int = 6) -> None:
    await race.one.room.dispatch.limits.set("gpu", limit, "test")
    for _ in range(jobs):
        await race.submit(concurrency_identifier="gpu")


LOCK_LIMIT = "SELECT 1 FROM concurrency_limits WHERE identifier = 'gpu' FOR UPDATE"


async def test_a_limit_holds_over_two_control_planes_that_count_at_the_same_moment(race: Race) -> None:
    await limited(race, 2)
    async with open_transaction(race.central, LOCK_LIMIT):
        polls = [core.queue.lease_many(core.criteria(), [core_name] * 2) for core, core_name in _both(race)]
        tasks = await start_blocked(race.central, *polls)
    assert [len(await task) for task in tasks] == [2, 0]
    await race.one.check()


def _both(race: Race) -> list[tuple[Core, str]]:
    return [(race.one, "one"), (race.two, "two")]


async def test_a_slot_freed_while_a_poller_waits_for_the_limit_is_seen(race: Race) -> None:
    await limited(race, 2, jobs=4)
    first = await lease(race.one, "first")
    assert first is not None
    async with open_transaction(race.central, LOCK_LIMIT):
        polls = race.one.queue.lease_many(race.one.criteria(), ["a", "b", "c"])
        [polling] = await start_blocked(race.central, polls)
        assert await race.two.queue.close(DispatchEnd(first.dispatch_id, "completed", first.lease_token))
    assert len(await polling) == 2


async def test_a_limit_lowered_during_a_lease_applies_from_its_commit_on(race: Race) -> None:
    await limited(race, 3)
    async with race.central.transaction() as connection:
        await lock_limits(connection, "gpu")
        [lowering] = await start_blocked(race.central, race.one.room.dispatch.limits.set("gpu", 1, "test"))
        rows = await take_leases(connection, race.one.criteria(), ["w"])
        assert rows[0]["dispatch_id"] is not None
    await lowering
    assert await lease(race.one, "late") is None
    async with race.central.transaction() as connection:
        await LIMIT_SQL["set_limit"].run(connection, identifier="gpu", max_concurrent=0)
        await race.two.queue.close_many([DispatchEnd(rows[0]["dispatch_id"], "completed")])
        [polling] = await start_blocked(race.central, lease(race.one, "later"))
    assert await polling is None


async def test_a_lane_opened_while_a_lease_waits_for_its_limits_is_left_to_the_next_lease(race: Race) -> None:
    await race.one.room.dispatch.limits.set("gpu", 1, "test")
    await race.one.room.dispatch.limits.set("tpu", 1, "test")
    await race.submit(concurrency_identifier="tpu", priority=-1)
    async with open_transaction(race.central, "SELECT 1 FROM concurrency_limits WHERE identifier = 'tpu' FOR UPDATE"):
        [polling] = await start_blocked(race.central, race.one.queue.lease_many(race.one.criteria(), ["a"]))
        # Its limit is not locked, so it must not be counted now.
        await race.submit(concurrency_identifier="gpu", priority=9)
    assert [lease.lease_seq for lease in await polling] == [1]
    assert await lease(race.one, "next") is not None
    assert await lease(race.one, "none") is None
    await race.one.check()


async def test_a_defer_and_the_reaper_cannot_both_end_the_lease(race: Race) -> None:
    job, started = await race.started()
    await race.one.expire_lease(started.lease.dispatch_id)
    later = datetime.now(UTC) + timedelta(hours=1)
    async with paused_at(Failpoint.REQUEUE_BEFORE_POOL, race.two.reap()) as reaping:
        outcome = await race.one.room.leases.defer(report(started), "prediction-1", later)
        assert outcome.status == "queued"
    await reaping
    await race.check_job(job.id, [*STARTED, "processing>queued"], [RESERVE], dispatch="queued")
