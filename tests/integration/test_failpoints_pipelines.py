"""A crash in each gap of the loops that drive a run: the next start continues, and nothing is made twice."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from unittest.mock import patch

import pytest

from callsheet.pipelines.judge import branches
from callsheet.plumbing.failpoints import Failpoint
from callsheet.wire.pipelines.pipelines import Run, RunStatus
from tests.support.jobs.core import Core, Member, open_core
from tests.support.jobs.crashes import crashed_at
from tests.support.media.media_harness import MediaHarness, open_media_harness, principal_of
from tests.support.pipelines.pipeline_harness import NOW, PipelineHarness, open_pipeline_harness
from tests.support.pipelines.tree_invariants import IMAGE, image_problems, read_trees

HURRY = "UPDATE candidates SET thumbnail_due_at = clock_timestamp() WHERE thumbnail_due_at IS NOT NULL"
Operation = Callable[[PipelineHarness, Run], Awaitable[object]]


@pytest.fixture
async def media(core: Core, ann: Member, tmp_path: Path) -> AsyncIterator[MediaHarness]:
    async with open_media_harness(core, ann, tmp_path / "home") as media:
        yield media


def started(core: Core, ann: Member, media: MediaHarness) -> PipelineHarness:
    """A control plane that knows nothing of an earlier one."""
    return open_pipeline_harness(open_core(core.databases), ann, media, jobs_per_run=2, jobs_in_total=2)


async def begin(pipelines: PipelineHarness, run: Run) -> object:
    return await pipelines.room.scheduler.tick(NOW)


async def begin_a_child(pipelines: PipelineHarness, run: Run) -> object:
    await _with_bases(pipelines)
    return await pipelines.room.scheduler.tick(NOW)


async def keep(pipelines: PipelineHarness, run: Run) -> object:
    await pipelines.tick()
    await pipelines.deliver(await pipelines.start(), 2, IMAGE)
    return await pipelines.room.collector.tick(NOW)


async def strike(pipelines: PipelineHarness, run: Run) -> object:
    await pipelines.tick()
    await pipelines.core.fail(await pipelines.start())
    return await pipelines.room.collector.tick(NOW)


async def kill(pipelines: PipelineHarness, run: Run) -> object:
    await _with_bases(pipelines)
    await pipelines.tick()
    first, *_ = await pipelines.candidates(run)
    return await pipelines.room.guidance.branches.kill(principal_of(pipelines.ann), first["id"])


async def kill_in_pieces(pipelines: PipelineHarness, run: Run) -> object:
    with patch.object(branches, "PIECE", 1):
        return await kill(pipelines, run)


async def cancel(pipelines: PipelineHarness, run: Run) -> object:
    await pipelines.tick()
    return await pipelines.room.runs.cancel(principal_of(pipelines.ann), run.id)


async def make_thumbnails(pipelines: PipelineHarness, run: Run) -> object:
    await _with_bases(pipelines)
    return await pipelines.room.guidance.thumbnails.tick(NOW)


async def _with_bases(pipelines: PipelineHarness) -> None:
    await pipelines.tick()
    await work(pipelines)
    await pipelines.room.collector.tick(NOW)


async def work(pipelines: PipelineHarness) -> int:
    worked = 0
    while (job := await pipelines.lease()) is not None:
        await pipelines.deliver(job, content=IMAGE)
        worked += 1
    return worked


CRASHES: list[tuple[Failpoint, Operation]] = [
    (Failpoint.PIPELINE_CLAIMED_BEFORE_READ, begin),
    (Failpoint.PIPELINE_CHOSEN_BEFORE_SUBMIT, begin),
    (Failpoint.PIPELINE_CHOSEN_BEFORE_SUBMIT, begin_a_child),
    (Failpoint.SUBMIT_BEFORE_RELAY, begin_a_child),
    (Failpoint.RELAY_BEFORE_QUEUED, begin_a_child),
    (Failpoint.PIPELINE_SUBMITTED_BEFORE_NEXT, begin),
    (Failpoint.PIPELINE_SUBMITTED_BEFORE_NEXT, begin_a_child),
    (Failpoint.PIPELINE_RESULT_BEFORE_SETTLE, keep),
    (Failpoint.PIPELINE_RESULT_BEFORE_SETTLE, strike),
    (Failpoint.PIPELINE_COPY_BEFORE_CANDIDATES, keep),
    (Failpoint.PIPELINE_KILL_BETWEEN_PIECES, kill_in_pieces),
    (Failpoint.PIPELINE_KILL_BEFORE_CANCELS, kill),
    (Failpoint.PIPELINE_CANCEL_BEFORE_JOBS, cancel),
    (Failpoint.PIPELINE_THUMBNAIL_BEFORE_OBJECT, make_thumbnails),
    (Failpoint.PIPELINE_THUMBNAIL_BEFORE_ROW, make_thumbnails),
]


def test_every_failpoint_of_pipelines_is_tested() -> None:
    assert {point for point, _ in CRASHES if point.startswith("pipeline.")} == {
        point for point in Failpoint if point.startswith("pipeline.")
    }


@pytest.mark.parametrize(
    ("point", "operation"), CRASHES, ids=[f"{point}-{operation.__name__}" for point, operation in CRASHES]
)
async def test_the_next_control_plane_continues_after_a_crash_and_repeats_nothing(
    core: Core, ann: Member, media: MediaHarness, point: Failpoint, operation: Operation
) -> None:
    pipelines = started(core, ann, media)
    run = await pipelines.run(await pipelines.pipeline("base", "fix", max_children=1), target_leaves=3)
    assert await crashed_at(point, operation(pipelines, run))
    await pipelines.room.guidance.thumbnails.stop()

    pipelines = started(core, ann, media)
    await pipelines.core.relay()
    await pipelines.room.guidance.pruner.prune(ann.pool, left_seconds=0)
    await pipelines.due(run)
    for _ in range(50):
        await pipelines.tick()
        if not await work(pipelines):
            break
    await pipelines.room.collector.tick(NOW)
    await core.rows(ann.pool, HURRY)
    await pipelines.room.guidance.thumbnails.tick(NOW)
    await pipelines.room.guidance.thumbnails.stop()

    [tree] = await read_trees(ann.pool)
    assert [*tree.problems(), *tree.unsettled()] == []
    await core.check_drained()
    assert await image_problems(ann.pool, media.room.files.storage) == []
    if operation is cancel:
        assert (tree.run["status"], tree.run["spent"], len(tree.candidates)) == (RunStatus.CANCELED, 0, 0)
        return
    assert (tree.run["status"], tree.run["reason"]) == (RunStatus.COMPLETED, "target_reached")
    active = [each for each in tree.candidates if each["status"] == "active"]
    assert [sum(each["position"] == position for each in active) for position in (1, 2)] == [3, 3]
