"""Ended runs are deleted with their files, by their users or after the days of the settings."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import patch
from uuid import UUID

import pytest

from callsheet.pipelines.run import deletion as run_deletion
from callsheet.plumbing.failpoints import Failpoint
from callsheet.wire.errors import NotFound, WrongState
from callsheet.wire.pipelines.candidates import CastVote
from callsheet.wire.pipelines.pipelines import Run, RunFilter, RunStatus
from tests.support.jobs.core import Core, Member, open_core
from tests.support.jobs.crashes import crashed_at
from tests.support.media.media_harness import MediaHarness, open_media_harness, principal_of
from tests.support.pipelines.pipeline_harness import NOW, PipelineHarness, open_pipeline_harness
from tests.support.pipelines.tree_invariants import IMAGE

TABLES = ("candidates", "candidate_slots", "votes", "step_approvals", "branch_kills", "run_replays")


@pytest.fixture
async def media(core: Core, ann: Member, tmp_path: Path) -> AsyncIterator[MediaHarness]:
    async with open_media_harness(core, ann, tmp_path / "home") as media:
        yield media


@pytest.fixture
def pipelines(core: Core, ann: Member, media: MediaHarness) -> PipelineHarness:
    return open_pipeline_harness(open_core(core.databases, active_per_user=100), ann, media, jobs_per_run=2)


async def ended_run(pipelines: PipelineHarness) -> Run:
    """A completed run with a tree of two steps, thumbnails, a vote and a killed branch."""
    run = await pipelines.run(await pipelines.pipeline("base", "fix", max_children=2), target_leaves=3)
    for _ in range(50):
        await pipelines.tick()
        worked = 0
        while (job := await pipelines.lease()) is not None:
            await pipelines.deliver(job, content=IMAGE)
            worked += 1
        if not worked:
            break
    await pipelines.room.collector.tick(NOW)
    while await pipelines.room.guidance.thumbnails.tick(NOW):
        pass
    leaves = [row for row in await pipelines.candidates(run) if row["position"] == 2]
    cast = CastVote(winner_id=leaves[0]["id"], loser_id=leaves[1]["id"])
    await pipelines.room.guidance.votes.vote(principal_of(pipelines.ann), run.id, cast)
    await pipelines.room.guidance.branches.kill(principal_of(pipelines.ann), leaves[2]["id"])
    await pipelines.room.runs.cancel(principal_of(pipelines.ann), run.id) if (
        await pipelines.shown(run)
    ).status is RunStatus.ACTIVE else None
    return await pipelines.shown(run)


async def delete(pipelines: PipelineHarness, run: Run) -> None:
    await pipelines.room.deletion.delete(principal_of(pipelines.ann), run.id)


async def left_of(pipelines: PipelineHarness, run: Run) -> dict[str, int]:
    """The number of rows of each table."""
    left = {}
    for table in TABLES:
        query = f"SELECT count(*) AS rows FROM {table} WHERE run_id = $1"
        [row] = await pipelines.core.rows(pipelines.ann.pool, query, run.id)
        left[table] = row["rows"]
    [row] = await pipelines.core.rows(
        pipelines.ann.pool, "SELECT count(*) AS rows FROM pipeline_runs WHERE id = $1", run.id
    )
    return {name: rows for name, rows in {**left, "pipeline_runs": row["rows"]}.items() if rows}


async def files_of(pipelines: PipelineHarness, run: Run) -> list[UUID]:
    query = """SELECT f.id FROM files f JOIN ai_jobs j ON j.tenant_id = f.tenant_id AND j.id = f.job_id
        WHERE j.run_id = $1 AND f.deleted_at IS NULL"""
    return [row["id"] for row in await pipelines.core.rows(pipelines.ann.pool, query, run.id)]


async def objects(media: MediaHarness) -> list[str]:
    return [entry.key async for entry in media.room.files.storage.list(f"tenants/{media.ann.tenant_id}")]


async def test_a_deleted_run_leaves_no_row_no_file_and_no_object_and_charges_do_not_change(
    core: Core, ann: Member, media: MediaHarness, pipelines: PipelineHarness
) -> None:
    run = await ended_run(pipelines)
    kept = await media.upload()
    before = await core.balance(ann)
    assert len(await files_of(pipelines, run)) > run.candidates
    await delete(pipelines, run)
    with pytest.raises(NotFound):
        await pipelines.shown(run)
    with pytest.raises(NotFound):
        await pipelines.room.guidance.gallery.run(principal_of(ann), run.id)
    listed = await pipelines.room.runs.shown.list(principal_of(ann), None, RunFilter(), None, 10)
    assert listed.items == []
    while await pipelines.room.deletion.tick(NOW):
        pass
    assert await left_of(pipelines, run) == {}
    assert await files_of(pipelines, run) == []
    assert [key for key in await objects(media) if "/runs/" in key] == []
    # The sweeper also removes what the workers had uploaded, when their URLs have expired.
    await media.sweep()
    assert {key.split("/")[2] for key in await objects(media)} == {"uploads"}
    assert kept in [row["id"] for row in await core.rows(ann.pool, "SELECT id FROM files WHERE deleted_at IS NULL")]
    assert await core.balance(ann) == before
    # The rows of the jobs stay for the ledger, without what the user wrote.
    jobs = await core.rows(ann.pool, "SELECT payload, deleted_at FROM ai_jobs WHERE run_id = $1", run.id)
    assert jobs
    assert all(job["deleted_at"] is not None and job["payload"] in ({}, "{}") for job in jobs)
    await core.check()


@pytest.mark.thorough
async def test_a_repeated_request_has_the_same_outcome_until_the_run_is_gone(
    pipelines: PipelineHarness, ann: Member
) -> None:
    run = await ended_run(pipelines)
    await delete(pipelines, run)
    await delete(pipelines, run)
    while await pipelines.room.deletion.tick(NOW):
        pass
    with pytest.raises(NotFound):
        await delete(pipelines, run)
    # The pipeline has no runs any more.
    await pipelines.room.pipelines.delete(principal_of(ann), run.pipeline_slug)


async def test_a_run_that_has_not_ended_is_refused_with_what_to_do_next(
    pipelines: PipelineHarness, ann: Member
) -> None:
    run = await pipelines.run(await pipelines.pipeline("base"), target_leaves=2)
    with pytest.raises(WrongState, match=r"The run is active\. Cancel it, then delete it\."):
        await delete(pipelines, run)
    await pipelines.room.runs.pause(principal_of(ann), run.id)
    with pytest.raises(WrongState, match=r"The run is paused\. Cancel it, then delete it\."):
        await delete(pipelines, run)
    assert (await pipelines.shown(run)).status is RunStatus.PAUSED


async def test_a_run_of_another_user_is_reported_as_missing(core: Core, pipelines: PipelineHarness) -> None:
    run = await ended_run(pipelines)
    for stranger in (await core.member(), await core.member(tenant=pipelines.ann)):
        with pytest.raises(NotFound):
            await pipelines.room.deletion.delete(principal_of(stranger), run.id)
    assert (await pipelines.shown(run)).id == run.id


async def test_jobs_of_a_canceled_run_are_settled_before_it_is_removed(pipelines: PipelineHarness, ann: Member) -> None:
    run = await pipelines.run(await pipelines.pipeline("base", max_children=3), target_leaves=3)
    await pipelines.tick()
    started = await pipelines.start()
    await pipelines.room.runs.cancel(principal_of(ann), run.id)
    await delete(pipelines, run)
    await pipelines.room.deletion.tick(NOW)
    assert "candidate_slots" in await left_of(pipelines, run)
    assert started is not None
    await pipelines.room.collector.tick(NOW)
    await pipelines.due(run)
    while await pipelines.room.deletion.tick(NOW):
        pass
    assert await left_of(pipelines, run) == {}


@pytest.mark.thorough
async def test_a_run_whose_image_an_active_job_reads_is_removed_when_that_job_has_ended(
    core: Core, pipelines: PipelineHarness, ann: Member
) -> None:
    run = await ended_run(pipelines)
    [first, *_] = await pipelines.candidates(run)
    job = await core.submit(ann, input_file_ids=(first["file_id"],))
    await delete(pipelines, run)
    while await pipelines.room.deletion.tick(NOW):
        pass
    assert first["file_id"] in await files_of(pipelines, run)
    await core.room.cancellation.cancel(ann.tenant_id, job.id, actor="test")
    await pipelines.due(run)
    while await pipelines.room.deletion.tick(NOW):
        pass
    assert (await left_of(pipelines, run), await files_of(pipelines, run)) == ({}, [])


@pytest.mark.thorough
async def test_an_image_that_a_video_shows_stays(pipelines: PipelineHarness, media: MediaHarness, ann: Member) -> None:
    run = await ended_run(pipelines)
    [first, *_] = await pipelines.candidates(run)
    await pipelines.core.rows(
        ann.pool,
        """INSERT INTO videos (tenant_id, id, user_id, title, original_file_id)
            VALUES ($1, gen_random_uuid(), $2, 'From a run', $3)""",
        ann.tenant_id,
        ann.user_id,
        first["file_id"],
    )
    await delete(pipelines, run)
    while await pipelines.room.deletion.tick(NOW):
        pass
    assert (await left_of(pipelines, run), await files_of(pipelines, run)) == ({}, [first["file_id"]])


async def test_a_crash_between_two_batches_leaves_work_for_the_next_start(
    core: Core, ann: Member, media: MediaHarness, pipelines: PipelineHarness
) -> None:
    run = await ended_run(pipelines)
    await delete(pipelines, run)
    with patch.object(run_deletion, "JOBS", 1):
        for failpoint in (Failpoint.RUN_DELETION_BETWEEN_BATCHES, Failpoint.MEDIA_DELETE_BEFORE_OBJECTS):
            assert await crashed_at(failpoint, pipelines.room.deletion.tick(NOW))
            # No other process works on it until the claim has expired.
            fresh = open_pipeline_harness(open_core(core.databases), ann, media)
            assert not await fresh.room.deletion.tick(NOW)
            await fresh.due(run)
        while await fresh.room.deletion.tick(NOW):
            pass
    assert (await left_of(pipelines, run), await files_of(pipelines, run)) == ({}, [])
    # The sweeper removes the objects of the batch that crashed.
    await media.sweep()
    assert await objects(media) == []
    await core.check()


@pytest.mark.thorough
async def test_runs_that_ended_long_ago_are_deleted_if_the_settings_say_so(
    core: Core, ann: Member, media: MediaHarness, pipelines: PipelineHarness
) -> None:
    old, young = await ended_run(pipelines), await ended_run(pipelines)
    paused = await pipelines.run(await pipelines.pipeline("base"), target_leaves=2)
    await pipelines.room.runs.pause(principal_of(ann), paused.id)
    long_ago = datetime.now(UTC) - timedelta(days=31)
    await core.rows(ann.pool, "UPDATE pipeline_runs SET ended_at = $2 WHERE id = $1", old.id, long_ago)
    await core.rows(ann.pool, "UPDATE pipeline_runs SET created_at = $2 WHERE id = $1", paused.id, long_ago)
    while await pipelines.room.deletion.tick(NOW):
        pass
    assert "pipeline_runs" in await left_of(pipelines, old), "the default keeps all runs"
    keeping = open_pipeline_harness(open_core(core.databases), ann, media, retention_days=30)
    while await keeping.room.deletion.tick(NOW):
        pass
    assert await left_of(pipelines, old) == {}
    assert (await pipelines.shown(young)).candidates == young.candidates
    assert (await pipelines.shown(paused)).status is RunStatus.PAUSED
