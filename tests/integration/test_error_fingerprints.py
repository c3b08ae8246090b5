"""A job that fails gets the fingerprint of its error with its status."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

from callsheet.jobs.machine.fingerprints import fingerprint_of
from tests.support.jobs.core import Core, Member


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
