"""Rows about jobs, workers and admins are deleted after some time; jobs and money stay."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from callsheet.dispatch.loops import SQL as HISTORY
from callsheet.dispatch.loops import HistoryRetention
from callsheet.fleet.registry.sweeper import AuditRetention
from callsheet.identity.access.sessions import SessionSweeper
from callsheet.jobs.repair.retention import EventRetention
from callsheet.plumbing.database.sql import Statement
from callsheet.settings import IdentitySettings, JobSettings
from tests.support.database.plans import explain_once
from tests.support.database.room_statements import statements_of_room
from tests.support.jobs.core import Core, Member
from tests.support.jobs.race_control import open_transaction
from tests.support.rooms import jobs_room

FLEET = statements_of_room("fleet")
IDENTITY = statements_of_room("identity")
JOBS = statements_of_room("jobs")

NOW = datetime.now(UTC)


async def ended_job(core: Core, member: Member, *, days_ago: int) -> UUID:
    job = await core.submit(member, cost=1)
    await core.complete(await core.start())
    await end(core, member, job.id, days_ago)
    return job.id


async def end(core: Core, member: Member, job_id: UUID, days_ago: int) -> None:
    """As if it had ended then."""
    query = "UPDATE {} SET {} = now() - make_interval(days => $1) WHERE {} = $2"
    await core.rows(member.pool, query.format("ai_jobs", "completed_at", "id"), days_ago, job_id)
    await core.rows(
        core.databases.central, query.format("dispatch_history", "finished_at", "tenant_job_id"), days_ago, job_id
    )


async def test_events_of_old_jobs_are_deleted_except_the_last_one(core: Core) -> None:
    ann = await core.member()
    old = [await ended_job(core, ann, days_ago=days) for days in (420, 410, 400)]
    young = await ended_job(core, ann, days_ago=300)
    retention = EventRetention(lambda: core.databases.pools, 365)
    retention.batch = 2
    # The events of three jobs; and inputs of four, which are looked at for an hour only.
    assert [await retention.tick(NOW) for _ in range(3)] == [True, True, False]
    for job_id in old:
        assert await core.steps(ann, job_id) == ["processing>completed"]
        assert await core.status(ann, job_id) == "completed"
    assert len(await core.steps(ann, young)) == 4
    await end(core, ann, young, 366)
    await retention.tick(NOW)
    assert await core.steps(ann, young) == ["processing>completed"]


async def test_the_outcome_of_earlier_cycles_is_known_after_their_events_are_deleted(core: Core) -> None:
    ann = await core.member()
    job = await core.submit(ann, cost=1)
    await core.fail(await core.start())
    await core.room.retries.retry(ann.tenant_id, job.id, actor="test")
    await core.relay()
    await core.complete(await core.start())
    await end(core, ann, job.id, 400)
    await EventRetention(lambda: core.databases.pools, 365).tick(NOW)
    assert await core.steps(ann, job.id) == ["failed>pending", "processing>completed"]


async def test_two_control_planes_take_turns_at_the_events_of_a_pool(core: Core) -> None:
    ann = await core.member()
    job_id = await ended_job(core, ann, days_ago=400)
    retention = EventRetention(lambda: [ann.pool], 365)
    await EventRetention(lambda: [ann.pool], 1000).tick(NOW)
    async with open_transaction(ann.pool, "SELECT FROM retention_marks FOR UPDATE"):
        assert not await retention.tick(NOW), "the other one is at work: nothing waits for it"
        assert len(await core.steps(ann, job_id)) == 4
    await retention.tick(NOW)
    assert len(await core.steps(ann, job_id)) == 1


async def test_old_dispatch_history_is_deleted_and_a_repeated_report_on_a_recent_lease_is_known(core: Core) -> None:
    ann = await core.member()
    old = await ended_job(core, ann, days_ago=100)
    young = await ended_job(core, ann, days_ago=80)
    retention = HistoryRetention(core.databases.central, 90)
    retention.batch = 1
    assert [await retention.tick(NOW) for _ in range(2)] == [True, False]
    assert await core.dispatch(old, "dispatch_history") is None
    assert await core.dispatch(young, "dispatch_history") is not None
    # Neither the relay nor the reconciler brings back what has ended.
    await core.relay()
    await core.room.reconciler.tick(NOW)
    assert await core.dispatch(old) is None
    await core.check()


async def test_ended_sessions_of_workers_are_deleted_and_open_ones_are_kept(core: Core) -> None:
    insert = """INSERT INTO worker_sessions (worker_id, stage, started_at, ended_at, end_reason)
                SELECT name, 'production', now() - interval '500 days', ended, CASE WHEN ended < now() THEN 'stale' END
                FROM (VALUES ('open', NULL), ('old', now() - interval '400 days'), ('young', now() - interval '3 days'))
                    AS session (name, ended)"""
    await core.rows(core.databases.central, insert)
    await AuditRetention(core.databases, 90, None).tick(NOW)
    await AuditRetention(core.databases, None, 365).tick(NOW)
    rows = await core.rows(core.databases.central, "SELECT worker_id FROM worker_sessions ORDER BY id")
    assert [row["worker_id"] for row in rows] == ["open", "young"]


@pytest.mark.parametrize(("days", "left"), [(730, {"young"}), (None, {"old", "young"})])
async def test_old_lines_of_the_audit_log_are_deleted(core: Core, days: int | None, left: set[str]) -> None:
    insert = """INSERT INTO audit_logs (at, actor, action, subject_type, subject_id)
                VALUES ($1, 'x', 'user.disable', 'user', $2)"""
    await core.rows(core.databases.central, insert, NOW - timedelta(days=731), "old")
    await core.rows(core.databases.central, insert, NOW - timedelta(days=729), "young")
    await SessionSweeper(core.databases, IdentitySettings(audit_log_days=days)).tick(NOW)
    rows = await core.rows(core.databases.central, "SELECT subject_id FROM audit_logs")
    assert {row["subject_id"] for row in rows} == left


async def test_null_keeps_rows_for_ever(core: Core) -> None:
    settings = JobSettings(history_days=None, event_days=None)
    kept = jobs_room(core.databases, settings)
    assert kept.dispatch.retention is None
    ann = await core.member()
    old = await ended_job(core, ann, days_ago=5000)
    await kept.retention.tick(NOW)
    assert len(await core.steps(ann, old)) == 4
    loops = {loop.name for loop in (*core.room.dispatch.loops, *core.room.loops)}
    assert {"history_retention", "event_retention"} <= loops


@pytest.mark.parametrize(
    ("statement", "index"),
    [
        (HISTORY["delete_old_history"], "dispatch_history_pkey"),
        (JOBS["delete_old_events"], "jobs_by_end"),
        (FLEET["delete_old_sessions"], "ended_sessions"),
        (IDENTITY["delete_old_lines"], "audit_logs_pkey"),
    ],
    ids=lambda value: value.name if isinstance(value, Statement) else "",
)
async def test_old_rows_are_found_by_an_index(core: Core, statement: Statement, index: str) -> None:
    database = core.databases.central if statement.database == "central" else await core.databases.pool("pool_1")
    if statement.database == "pool":
        async with database.connection() as connection:
            await JOBS["begin_retention"].run(connection, name="job_events")
    seen = await explain_once(database, statement, {"days": 90, "limit": 10, "before": NOW}, may_scan=False)
    assert index in seen.indexes
    assert seen.scanned == set()
