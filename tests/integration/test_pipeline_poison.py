"""One run or result that the scheduler cannot process: it shows the reason, is logged once, and all others go on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from callsheet.pipelines.run.collector import CANNOT_BE_KEPT, MAX_TRIES
from callsheet.pipelines.run.unwritten_results import MAX_SECONDS
from callsheet.wire.jobs import Job
from callsheet.wire.pipelines.pipelines import Run, RunReason, RunStatus
from tests.support.jobs.core import Core, Member
from tests.support.media.media_harness import open_media_harness
from tests.support.pipelines.pipeline_harness import NOW, PipelineHarness, open_pipeline_harness


@pytest.fixture
async def pipelines(core: Core, ann: Member, tmp_path: Path) -> AsyncIterator[PipelineHarness]:
    async with open_media_harness(core, ann, tmp_path / "home") as media:
        yield open_pipeline_harness(core, ann, media, jobs_in_total=10)


async def poisoned(pipelines: PipelineHarness) -> Run:
    """One whose steps are nowhere: no restore should leave such a row, and no code expects one."""
    run = await pipelines.run(await pipelines.pipeline("base"))
    await pipelines.core.rows(
        pipelines.ann.pool, "UPDATE pipeline_runs SET pipeline_version = 99 WHERE id = $1", run.id
    )
    return run


async def test_a_run_that_cannot_be_advanced_shows_the_reason_and_delays_no_other(pipelines: PipelineHarness) -> None:
    broken = await poisoned(pipelines)
    run = await pipelines.run(await pipelines.pipeline("base"), target_leaves=2)
    for each in (run, broken):
        await pipelines.due(each)
    # Both runs are due in one tick, in any order.
    await pipelines.room.scheduler.tick(NOW)
    assert await pipelines.work() == 1
    run = await pipelines.finish(run)
    assert (run.status, run.reason) == (RunStatus.COMPLETED, RunReason.TARGET_REACHED)
    [row] = await pipelines.core.rows(pipelines.ann.pool, "SELECT * FROM pipeline_runs WHERE id = $1", broken.id)
    assert (row["status"], row["reason"]) == ("active", RunReason.INTERNAL_ERROR)
    assert "IndexError" in row["reason_detail"]
    assert row["due_at"] > row["updated_at"]
    [numbers] = [each for each in await pipelines.room.numbers.read() if each.pool == pipelines.ann.pool.name]
    assert numbers.broken_runs == 1


async def test_a_job_that_cannot_be_canceled_delays_neither_other_jobs_nor_results(
    pipelines: PipelineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    canceled = await pipelines.run(await pipelines.pipeline("base"), target_leaves=3)
    run = await pipelines.run(await pipelines.pipeline("base"), target_leaves=1)
    pipelines = open_pipeline_harness(pipelines.core, pipelines.ann, pipelines.media, jobs_per_run=2, jobs_in_total=10)
    await pipelines.room.scheduler.tick(NOW)
    poison, other = [slot["job_id"] for slot in await pipelines.slots(canceled)]
    # As a cancel leaves it that crashed on its way.
    query = "UPDATE pipeline_runs SET status = 'canceled', ended_at = now() WHERE id = $1"
    await pipelines.core.rows(pipelines.ann.pool, query, canceled.id)
    cancel = pipelines.core.room.cancellation.cancel

    async def broken(tenant_id: UUID, job_id: UUID, **options: str) -> Job:
        if job_id == poison:
            raise RuntimeError("nobody thought of this")
        return await cancel(tenant_id, job_id, **options)

    monkeypatch.setattr(pipelines.core.room.cancellation, "cancel", broken)
    with capture_logs() as logs:
        for _ in range(3):
            await pipelines.room.collector.tick(NOW)
    assert [entry["event"] for entry in logs].count("pipeline.jobs_not_canceled") == 1
    assert (await pipelines.core.job(pipelines.ann, other))["status"] == "canceled"
    assert (await pipelines.core.job(pipelines.ann, poison))["status"] == "queued"
    await pipelines.work()
    await pipelines.room.collector.tick(NOW)
    assert len(await pipelines.candidates(run)) == 1


async def test_a_problem_that_is_found_repeatedly_is_logged_once(pipelines: PipelineHarness) -> None:
    broken = await poisoned(pipelines)
    poor = await pipelines.run(await pipelines.pipeline("base", cost=20), budget=10)
    with capture_logs() as logs:
        for _ in range(3):
            for each in (poor, broken):
                await pipelines.due(each)
            await pipelines.room.scheduler.tick(NOW)
    logged = [(entry["event"], entry["run_id"]) for entry in logs if entry["event"].startswith("pipeline.")]
    assert sorted(logged) == sorted(
        [
            ("pipeline.run_blocked", str(poor.id)),
            ("pipeline.run_blocked", str(broken.id)),
            ("pipeline.run_stumbled", str(broken.id)),
        ]
    )


async def test_a_result_that_can_never_be_stored_is_dropped_with_a_reason(
    pipelines: PipelineHarness,
) -> None:
    broken, run = [await pipelines.run(await pipelines.pipeline("base"), target_leaves=1) for _ in range(2)]
    await pipelines.room.scheduler.tick(NOW)
    assert await pipelines.work() == 2
    # One candidate more does not fit in.
    query = "UPDATE pipeline_runs SET candidates = 2147483647 WHERE id = $1"
    await pipelines.core.rows(pipelines.ann.pool, query, broken.id)
    collector, at = pipelines.room.collector, NOW
    with capture_logs() as logs:
        await collector.tick(at)
        assert len(await pipelines.candidates(run)) == 1
        for _ in range(3):
            # It is left alone for a while, whatever else there is to do.
            await collector.tick(at)
        for _ in range(MAX_TRIES - 2):
            at += timedelta(seconds=MAX_SECONDS)
            await collector.tick(at)
            assert [slot["status"] for slot in await pipelines.slots(broken)] == ["open"]
        at += timedelta(seconds=MAX_SECONDS)
        await collector.tick(at)
    assert [slot["status"] for slot in await pipelines.slots(broken)] == ["failed"]
    assert [entry["event"] for entry in logs].count("pipeline.result_not_kept") == 1
    [row] = await pipelines.core.rows(pipelines.ann.pool, "SELECT * FROM pipeline_runs WHERE id = $1", broken.id)
    # It was made and paid for; the job has its files, and the run counts a failure.
    assert (row["spent"], row["base_failures"]) == (10, 1)
    assert "The log has the error" in CANNOT_BE_KEPT
    await pipelines.core.check()
