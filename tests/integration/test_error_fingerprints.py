"""A job that fails gets the fingerprint of its error with its status; jobs from before get it later."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from callsheet.jobs.machine.fingerprints import fingerprint_of
from callsheet.jobs.operate.fingerprint_backfill import FingerprintBackfill
from callsheet.plumbing.failpoints import Failpoint
from tests.support.jobs.core import Core, Member
from tests.support.jobs.crashes import crashed_at
from tests.support.jobs.race_control import paused_at

BEFORE = """
    UPDATE ai_jobs SET error_fingerprint = NULL, outcome = NULL, outcome_cycle = NULL;
    DELETE FROM backfills;
    INSERT INTO backfills (name) VALUES ('error_fingerprints_2')
"""


class Steps(FingerprintBackfill):
    """In steps of two jobs."""

    batch = 2


@pytest.fixture
def backfill(ann: Member) -> Steps:
    return Steps(lambda: [ann.pool])


async def fingerprint(core: Core, ann: Member, job_id: UUID) -> str | None:
    row = await core.job(ann, job_id)
    assert row["error_fingerprint"] == (fingerprint_of(row["error"]) if row["error"] else None)
    found: str | None = row["error_fingerprint"]
    return found


async def test_a_failed_job_has_the_fingerprint_of_its_error_until_it_is_retried(core: Core, ann: Member) -> None:
    job = await core.submit(ann)
    assert await fingerprint(core, ann, job.id) is None
    await core.fail(await core.start())
    assert await fingerprint(core, ann, job.id) is not None
    await core.room.retries.retry(ann.tenant_id, job.id, actor="user")
    assert await fingerprint(core, ann, job.id) is None
    await core.complete(await core.start())
    assert await fingerprint(core, ann, job.id) is None


async def test_expired_jobs_have_a_fingerprint_and_canceled_jobs_have_none(core: Core, ann: Member) -> None:
    late, running, canceled = [await core.submit(ann, priority=priority) for priority in (0, 1, -1)]
    await core.start()
    await core.room.cancellation.cancel(ann.tenant_id, canceled.id, actor="user")
    await core.enforce_deadlines(datetime.now(UTC) + timedelta(days=2))
    found = [await fingerprint(core, ann, job.id) for job in (late, running)]
    assert None not in found
    assert await fingerprint(core, ann, canceled.id) is None


async def test_older_errors_get_their_fingerprints_once(core: Core, ann: Member, backfill: Steps) -> None:
    jobs = []
    for _ in range(3):
        jobs.append(await core.submit(ann))
        await core.fail(await core.start())
    completed, active = await core.submit(ann), await core.submit(ann, priority=-1)
    await core.complete(await core.start())
    expected = [await fingerprint(core, ann, job.id) for job in jobs]
    async with ann.pool.connection() as connection:
        await connection.execute(BEFORE)
    assert await crashed_at(Failpoint.BACKFILL_READ_BEFORE_WRITE, backfill.step(ann.pool))
    while await backfill.step(ann.pool):
        pass
    assert [await fingerprint(core, ann, job.id) for job in jobs] == expected
    outcomes = [(await core.job(ann, job.id))["outcome"] for job in (*jobs, completed, active)]
    assert outcomes == ["failed", "failed", "failed", "completed", None]
    assert await core.rows(ann.pool, "SELECT FROM backfills") == []
    await core.check()


async def test_fingerprints_by_earlier_rules_are_replaced(core: Core, ann: Member, backfill: Steps) -> None:
    job, completed = await core.submit(ann), await core.submit(ann, priority=-1)
    await core.fail(await core.start())
    await core.complete(await core.start())
    async with ann.pool.connection() as connection:
        await connection.execute("UPDATE ai_jobs SET error_fingerprint = 'ffffffffffffffff' WHERE error IS NOT NULL")
        await connection.execute("INSERT INTO backfills (name) VALUES ('error_fingerprints_2')")
    while await backfill.step(ann.pool):
        pass
    # Also compares each with the fingerprint of its error.
    assert await fingerprint(core, ann, job.id) is not None
    assert await fingerprint(core, ann, completed.id) is None


async def test_a_job_that_is_retried_meanwhile_gets_no_fingerprint(core: Core, ann: Member, backfill: Steps) -> None:
    job = await core.submit(ann)
    await core.fail(await core.start())
    async with ann.pool.connection() as connection:
        await connection.execute(BEFORE)
    async with paused_at(Failpoint.BACKFILL_READ_BEFORE_WRITE, backfill.step(ann.pool)) as step:
        await core.room.retries.retry(ann.tenant_id, job.id, actor="user")
    await step
    assert await fingerprint(core, ann, job.id) is None
