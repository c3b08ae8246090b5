"""Outcomes of leases: lines in the workers' log, sums of sessions, times of effects and workflows."""

from __future__ import annotations

import asyncio
import io
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from callsheet.fleet.registry.sweeper import AuditRetention
from callsheet.fleet.registry.worker_log import Audit, Event, LeaseOutcome
from callsheet.jobs.lease.outcomes import Settlement
from callsheet.plumbing.failpoints import Failpoint
from callsheet.toolbox.ids import uuid7
from tests.support.http.fleet_api import recording_reaped
from tests.support.jobs.core import Core, Row
from tests.support.jobs.crashes import crashed_at


async def new_session(core: Core) -> int:
    [row] = await core.rows(
        core.databases.central,
        "INSERT INTO worker_sessions (worker_id, stage) VALUES ($1, 'production') RETURNING id",
        str(uuid7()),
    )
    return int(row["id"])


async def new_effect(core: Core) -> Any:
    effect_id = uuid7()
    await core.rows(
        core.databases.central,
        "INSERT INTO effects (id, slug, name, workflow_id) VALUES ($1, $2, 'An effect', $3)",
        effect_id,
        f"effect-{effect_id}",
        core.workflow,
    )
    return effect_id


def ended(
    core: Core,
    session: int | None,
    outcome: LeaseOutcome,
    held: float,
    run: float | None,
    effect: Any = None,
    workflow: int | None = None,
) -> Event:
    settled = Settlement(1, uuid7(), workflow or core.workflow, effect, run, held)
    return Event("gpu-1", session, outcome, "worker:gpu-1", 1, {"n": 1}, settled, outcome)


async def session_row(core: Core, session: int) -> Row:
    [row] = await core.rows(core.databases.central, "SELECT * FROM worker_sessions WHERE id = $1", session)
    return row


async def timing(core: Core, workflow: int) -> tuple[float, int]:
    [row] = await core.rows(core.databases.central, "SELECT * FROM workflow_timings WHERE workflow_id = $1", workflow)
    return row["average_seconds"], row["samples"]


async def test_a_session_sums_up_its_leases_of_every_outcome(core: Core) -> None:
    audit, session, other = Audit(core.databases), await new_session(core), await new_session(core)
    outcomes: list[tuple[LeaseOutcome, float]] = [
        ("completed", 1.5),
        ("completed", 2),
        ("failed", 4),
        ("requeued", 8),
        ("requeued", 16),
        ("requeued", 32),
    ]
    await asyncio.gather(*(audit.record(ended(core, session, name, held, 1)) for name, held in outcomes))
    await audit.record(ended(core, other, "failed", 1, None))
    row = await session_row(core, session)
    assert (row["busy_seconds"], row["jobs_completed"], row["jobs_failed"], row["jobs_requeued"]) == (63.5, 2, 1, 3)
    assert (await session_row(core, other))["busy_seconds"] == 1
    lines = await core.rows(core.databases.central, "SELECT * FROM worker_audit_logs ORDER BY id")
    assert [line["event"] for line in lines] == [*(name for name, _ in outcomes), "failed"]
    assert (lines[0]["session_id"], lines[0]["dispatch_id"], lines[0]["details"]) == (session, 1, {"n": 1})


async def test_events_that_arrive_together_are_one_statement(core: Core) -> None:
    audit = Audit(core.databases)
    await asyncio.gather(*(audit.record(Event("gpu-1", None, "polled", "worker:gpu-1")) for _ in range(50)))
    assert audit._batcher.items == 50
    assert audit._batcher.batches <= 2


async def test_only_completed_runs_make_the_times_of_effects_and_workflows(core: Core) -> None:
    audit, effect = Audit(core.databases), await new_effect(core)
    for outcome in ("failed", "requeued"):
        await audit.record(ended(core, None, outcome, 1, 99, effect))
    await audit.record(ended(core, None, "completed", 1, None, effect))
    assert await core.rows(core.databases.central, "SELECT 1 FROM workflow_timings") == []
    for seconds in (10, 20):
        await audit.record(ended(core, None, "completed", 1, seconds, effect))
    [row] = await core.rows(core.databases.central, "SELECT * FROM effects WHERE id = $1", effect)
    assert row["last_processing_time_seconds"] == 20
    assert await timing(core, core.workflow) == (15, 2)


async def test_the_average_of_a_workflow_follows_its_last_runs(core: Core) -> None:
    audit = Audit(core.databases)
    for _ in range(20):
        await audit.record(ended(core, None, "completed", 1, 100))
    assert await timing(core, core.workflow) == (pytest.approx(100), 20)
    await audit.record(ended(core, None, "completed", 1, 50))
    assert await timing(core, core.workflow) == (pytest.approx(95), 21)
    await asyncio.gather(*(audit.record(ended(core, None, "completed", 1, 10)) for _ in range(40)))
    average, samples = await timing(core, core.workflow)
    assert 10 < average < 12
    assert samples == 61


async def test_the_last_of_concurrent_runs_sets_the_last_time_of_the_effect(core: Core) -> None:
    audit, effect = Audit(core.databases), await new_effect(core)
    # The first runs alone, the others wait for it and go together.
    await asyncio.gather(*(audit.record(ended(core, None, "completed", 1, n, effect)) for n in (1, 9, 3, 7)))
    [row] = await core.rows(core.databases.central, "SELECT * FROM effects WHERE id = $1", effect)
    assert row["last_processing_time_seconds"] == 7


async def test_a_deleted_effect_or_session_causes_no_error(core: Core) -> None:
    audit = Audit(core.databases)
    await audit.record(ended(core, 999_999_999, "completed", 1, 5, uuid7()))
    assert await timing(core, core.workflow) == (5, 1)


async def test_a_lease_that_ran_out_is_in_its_workers_log(core: Core) -> None:
    core.room = recording_reaped(core)
    ann = await core.member()
    await core.submit(ann, max_attempts=2)
    for became in ("queued", "failed"):
        started = await core.start("gpu-1")
        await core.expire_lease(started.lease.dispatch_id)
        await core.reap()
        lines = await core.rows(core.databases.central, "SELECT * FROM worker_audit_logs ORDER BY id DESC LIMIT 1")
        assert [(line["worker_id"], line["event"], line["actor"], line["details"]) for line in lines] == [
            ("gpu-1", "lease_expired", "reaper", {"status": became})
        ]
    await core.check()


async def test_a_line_that_cannot_be_written_is_logged_and_undoes_nothing(core: Core, logged: io.StringIO) -> None:
    audit = Audit(core.databases)
    await asyncio.gather(
        audit.note(Event("gpu-1", None, "leased", "worker:gpu-1", 1, {"text": "no text of PostgreSQL\0"})),
        audit.note(Event("gpu-1", None, "leased", "worker:gpu-1", 2)),
    )
    lines = await core.rows(core.databases.central, "SELECT dispatch_id FROM worker_audit_logs")
    assert [line["dispatch_id"] for line in lines] == [2]
    lost = [json.loads(line) for line in logged.getvalue().splitlines() if "audit.line_lost" in line]
    assert [line["line"]["dispatch_id"] for line in lost] == [1]


async def test_a_crash_before_the_line_of_a_report_loses_the_line_and_nothing_else(core: Core) -> None:
    audit, ann = Audit(core.databases), await core.member(tokens=10)
    job = await core.submit(ann, cost=10)
    started = await core.start("gpu-1")
    outcome = await core.complete(started)
    line = Event(
        "gpu-1", None, "completed", "worker:gpu-1", started.lease.dispatch_id, {}, outcome.settled, "completed"
    )
    assert await crashed_at(Failpoint.AUDIT_BEFORE_LINE, audit.note(line))
    again = await core.complete(started)
    assert (again, again.settled) == (outcome, None), "the worker's repeated report is answered, and counts once"
    assert (await core.status(ann, job.id), await core.balance(ann)) == ("completed", 0)
    assert await core.rows(core.databases.central, "SELECT FROM worker_audit_logs") == []
    await core.check()


async def test_old_lines_are_deleted_in_batches_and_recent_ones_are_kept(core: Core) -> None:
    insert = """INSERT INTO worker_audit_logs (worker_id, event, actor, at)
                SELECT 'gpu-1', 'leased', 'test', now() - make_interval(days => 95 - n) FROM generate_series(1, 10) n"""
    await core.rows(core.databases.central, insert)
    retention = AuditRetention(core.databases, 90, None)
    retention.batch = 3
    more = [await retention.tick(datetime.now(UTC)) for _ in range(3)]
    assert more == [True, False, False]
    lines = await core.rows(core.databases.central, "SELECT at FROM worker_audit_logs")
    assert len(lines) == 10 - 5
    await AuditRetention(core.databases, None, None).tick(datetime.now(UTC))
    assert len(await core.rows(core.databases.central, "SELECT FROM worker_audit_logs")) == 5
