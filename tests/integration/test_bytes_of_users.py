"""What a user writes to the database has limits: the bytes of JSON of jobs, and the number of submits in a minute."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from callsheet.identity.accounts.quotas import Quotas
from callsheet.jobs.repair.retention import UNUSED_INPUT_SECONDS, EventRetention
from callsheet.jobs.show.descriptions import JobDescription
from callsheet.settings import JobSettings, QuotaSettings
from callsheet.wire.errors import QuotaExceeded, RateLimited, RatePolicy
from callsheet.wire.operate.quotas import ChangeQuotas
from tests.support.jobs.core import Core, Member
from tests.support.rooms import jobs_room

NOW = datetime.now(UTC)
KILOBYTE = 1024


async def bytes_of(core: Core, member: Member) -> int:
    query = "SELECT bytes FROM database_usage WHERE tenant_id = $1 AND user_id = $2"
    rows = await core.rows(member.pool, query, member.tenant_id, member.user_id)
    return rows[0]["bytes"] if rows else 0


async def recounted(core: Core, member: Member) -> int:
    await core.rows(member.pool, "SELECT database_recount($1)", member.tenant_id)
    return await bytes_of(core, member)


def payload(kilobytes: int) -> dict[str, Any]:
    return {"text": secrets.token_hex(kilobytes * KILOBYTE // 2)}


async def end_early(core: Core, member: Member, job_id: UUID, seconds: int) -> None:
    query = "UPDATE ai_jobs SET completed_at = now() - make_interval(secs => $1) WHERE id = $2"
    await core.rows(member.pool, query, seconds, job_id)


async def test_the_payload_of_a_job_counts_for_its_user(core: Core) -> None:
    ann, ben = await core.member(), await core.member()
    await core.submit(ann, payload=payload(10))
    first = await bytes_of(core, ann)
    assert 10 * KILOBYTE <= first < 11 * KILOBYTE
    await core.submit(ann, payload=payload(20), sent=payload(5))
    assert 35 * KILOBYTE <= await bytes_of(core, ann) < 37 * KILOBYTE
    assert await bytes_of(core, ben) == 0
    assert await recounted(core, ann) == await bytes_of(core, ann)


async def test_a_job_above_the_quota_of_bytes_is_refused_and_costs_nothing(core: Core) -> None:
    ann = await core.member()
    quotas = Quotas(core.databases, QuotaSettings(user_database_bytes=20 * KILOBYTE))
    core.room = jobs_room(core.databases, JobSettings(), quotas=quotas)
    for _ in range(2):
        await core.submit(ann, payload=payload(15))
    with pytest.raises(QuotaExceeded) as refused:
        await core.submit(ann, payload=payload(1))
    assert refused.value.data["quota"] == "user_database_bytes"
    assert refused.value.data["used"] == await bytes_of(core, ann)
    assert "Delete jobs or runs that have ended" in str(refused.value)
    assert await core.balance(ann) == 980
    # An operator gives this tenant more.
    await quotas.change("test", ann.tenant_id, ChangeQuotas(user_database_bytes=100 * KILOBYTE))
    await core.submit(ann, payload=payload(1))


async def test_inputs_of_a_job_that_was_canceled_before_it_ran_are_dropped_after_an_hour(core: Core) -> None:
    ann, ben = await core.member("pool_2"), await core.member("pool_2")
    description = JobDescription("A job", texts={"prompt": "p" * 1500})
    unused, young, bens, ran, failed = [
        await core.submit(member, payload=payload(10), sent=payload(4), description=description)
        for member in (ann, ann, ben, ann, ann)
    ]
    await core.room.cancellation.cancel(ben.tenant_id, bens.id, actor="ben")
    for job in (unused, young):
        await core.room.cancellation.cancel(ann.tenant_id, job.id, actor="ann")
    first, second = await core.start(), await core.start()
    assert {first.lease.job_id, second.lease.job_id} == {ran.id, failed.id}
    by_id = {each.lease.job_id: each for each in (first, second)}
    await core.fail(by_id[failed.id])
    await core.room.cancellation.cancel(ann.tenant_id, ran.id, actor="ann")
    for member, job in ((ann, unused), (ben, bens), (ann, ran), (ann, failed)):
        await end_early(core, member, job.id, UNUSED_INPUT_SECONDS + 60)
    before = await bytes_of(core, ann)
    retention = EventRetention(lambda: core.databases.pools, None)
    retention.batch = 2
    while await retention.tick(NOW):
        pass

    async def left(member: Member, job_id: UUID) -> tuple[bool, int, int]:
        query = """SELECT j.payload, j.counted_bytes, d.sent, d.prompt FROM ai_jobs j
            JOIN job_descriptions d ON d.job_id = j.id WHERE j.id = $1"""
        [row] = await core.rows(member.pool, query, job_id)
        return row["payload"] != {} and row["sent"] is not None, row["counted_bytes"], len(row["prompt"])

    assert await left(ann, unused.id) == (False, 0, 100)
    assert await left(ben, bens.id) == (False, 0, 100)
    # What ran may be looked at or retried, and what was canceled a moment ago too.
    for job in (young, ran, failed):
        kept, counted, _ = await left(ann, job.id)
        assert (kept, counted > 14 * KILOBYTE) == (True, True)
    assert before - await bytes_of(core, ann) > 14 * KILOBYTE
    assert await bytes_of(core, ben) == 0
    assert await recounted(core, ann) == await bytes_of(core, ann)
    # The next look starts behind these jobs, and finds the one that was too young.
    await end_early(core, ann, young.id, UNUSED_INPUT_SECONDS + 30)
    while await retention.tick(NOW):
        pass
    assert (await left(ann, young.id))[0] is False
    await core.room.retries.retry(ann.tenant_id, failed.id, actor="ann")
    await core.check()


async def test_more_submits_in_a_minute_than_allowed_wait(core: Core) -> None:
    ann, ben = await core.member(), await core.member()
    core.room = jobs_room(core.databases, JobSettings(submits_per_minute=3, active_per_user=100))
    jobs = [await core.submit(ann) for _ in range(3)]
    with pytest.raises(RateLimited) as refused:
        await core.submit(ann)
    assert 1 <= refused.value.retry_after_seconds <= 60
    assert refused.value.policy == RatePolicy("submits", 3, 60)
    assert await core.balance(ann) == 970
    # A repeated request returns its job; another user may submit.
    await core.submit(ben)
    # Canceling does not make room: that is the point. Time does.
    await core.room.cancellation.cancel(ann.tenant_id, jobs[0].id, actor="ann")
    with pytest.raises(RateLimited):
        await core.submit(ann)
    query = "UPDATE ai_jobs SET created_at = created_at - interval '61 seconds' WHERE id = $1"
    await core.rows(ann.pool, query, jobs[0].id)
    await core.submit(ann)


async def test_a_repeated_key_returns_its_job_above_the_rate(core: Core) -> None:
    ann = await core.member()
    core.room = jobs_room(core.databases, JobSettings(submits_per_minute=1))
    job = await core.submit(ann, idempotency_key="once")
    assert (await core.submitted(ann, idempotency_key="once")).job.id == job.id
