"""Jobs in each state, for tests of what happens next."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from callsheet.jobs.lease.outcomes import StartedLease
from callsheet.wire.jobs import Job
from tests.support.jobs.core import Core, Member, report

POOLS = pytest.mark.parametrize("pool", ["pool_1", "pool_2"])


ACCEPTED = [">pending", "pending>queued"]


STARTED = [*ACCEPTED, "queued>processing"]


RESERVED, CONSUMED, REFUNDED = (1, "JOB_RESERVE", -10), (1, "JOB_CONSUME", 0), (1, "JOB_REFUND", 10)


async def running_job(core: Core, member: Member, **changes: Any) -> tuple[Job, StartedLease]:
    job = await core.submit(member, **changes)
    started = await core.start()
    assert started.lease.job_id == job.id
    return job, started


async def cancel_job(core: Core, member: Member, job: Job) -> Job:
    return await core.room.cancellation.cancel(member.tenant_id, job.id, actor="user:x", reason="changed my mind")


async def retry_job(core: Core, member: Member, job: Job, **options: Any) -> Job:
    return await core.room.retries.retry(member.tenant_id, job.id, actor="user:x", **options)


async def active_dispatch(core: Core, job: Job) -> Any:
    row = await core.dispatch(job.id)
    assert row is not None
    return row


async def finished_dispatch(core: Core, job: Job) -> Any:
    row = await core.dispatch(job.id, "dispatch_history")
    assert row is not None
    assert row["status"] in ("completed", "failed", "canceled", "expired")
    return row


async def pass_deadline(core: Core, member: Member, job: Job) -> None:
    for database, table, name in (
        (member.pool, "ai_jobs", "id"),
        (core.databases.central, "ai_job_dispatches", "tenant_job_id"),
    ):
        query = f"UPDATE {table} SET deadline_at = clock_timestamp() - interval '1 s' WHERE {name} = $1"
        await core.rows(database, query, job.id)


async def deferred_job(core: Core, member: Member, **changes: Any) -> tuple[Job, StartedLease]:
    job, started = await running_job(core, member, **changes)
    later = datetime.now(UTC) + timedelta(hours=1)
    assert (await core.room.leases.defer(report(started), "prediction-9", later)).status == "waiting"
    return job, started


async def ended_job(core: Core, member: Member, status: str) -> Job:
    job, started = await running_job(core, member)
    if status == "completed":
        await core.complete(started)
    elif status == "failed":
        await core.fail(started)
    elif status == "canceled":
        await cancel_job(core, member, job)
        await core.complete(started)
    else:
        await pass_deadline(core, member, job)
        await core.enforce_deadlines()
        await core.complete(started)
    assert await core.status(member, job.id) == status
    return job


def job_log_lines(logged: io.StringIO) -> list[dict[str, Any]]:
    """The lines about jobs, without what every line has."""
    lines = [json.loads(line.lstrip("\0")) for line in logged.getvalue().splitlines()]
    about_jobs = [line for line in lines if line["event"].startswith("job.")]
    assert all(line["ts"].endswith("Z") for line in about_jobs)
    return [{key: line[key] for key in line if key not in ("ts", "level", "logger")} for line in about_jobs]
