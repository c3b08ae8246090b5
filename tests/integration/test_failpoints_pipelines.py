"""A crash in each gap of the loops that drive a run: the next start goes on, and nothing is made twice."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from unittest.mock import patch

import pytest

from callsheet.pipelines import branches
from callsheet.plumbing.failpoints import Failpoint
from callsheet.wire.pipelines import Run, RunStatus
from tests.support.core import Core, Member, open_core
from tests.support.crashes import crashed_at
from tests.support.exact_trees import PICTURE, picture_problems, read_trees
from tests.support.shoot import NOW, Shoot, open_shoot
from tests.support.stage import Stage, open_stage, principal_of

HURRY = "UPDATE candidates SET thumbnail_due_at = clock_timestamp() WHERE thumbnail_due_at IS NOT NULL"
Scene = Callable[[Shoot, Run], Awaitable[object]]


@pytest.fixture
async def stage(core: Core, ann: Member, tmp_path: Path) -> AsyncIterator[Stage]:
    async with open_stage(core, ann, tmp_path / "home") as stage:
        yield stage


def started(core: Core, ann: Member, stage: Stage) -> Shoot:
    """A control plane that knows nothing of an earlier one."""
    return open_shoot(open_core(core.databases), ann, stage, jobs_per_run=2, jobs_in_total=2)


async def begin(shoot: Shoot, run: Run) -> object:
    return await shoot.room.director.tick(NOW)


async def begin_a_child(shoot: Shoot, run: Run) -> object:
    await _with_bases(shoot)
    return await shoot.room.director.tick(NOW)


async def keep(shoot: Shoot, run: Run) -> object:
    await shoot.tick()
    await shoot.deliver(await shoot.start(), 2, PICTURE)
    return await shoot.room.collector.tick(NOW)


async def strike(shoot: Shoot, run: Run) -> object:
    await shoot.tick()
    await shoot.core.fail(await shoot.start())
    return await shoot.room.collector.tick(NOW)


async def kill(shoot: Shoot, run: Run) -> object:
    await _with_bases(shoot)
    await shoot.tick()
    first, *_ = await shoot.candidates(run)
    return await shoot.room.guidance.branches.kill(principal_of(shoot.ann), first["id"])


async def kill_in_pieces(shoot: Shoot, run: Run) -> object:
    with patch.object(branches, "PIECE", 1):
        return await kill(shoot, run)


async def cancel(shoot: Shoot, run: Run) -> object:
    await shoot.tick()
    return await shoot.room.runs.cancel(principal_of(shoot.ann), run.id)


async def make_thumbnails(shoot: Shoot, run: Run) -> object:
    await _with_bases(shoot)
    return await shoot.room.guidance.thumbnails.tick(NOW)


async def _with_bases(shoot: Shoot) -> None:
    await shoot.tick()
    await work(shoot)
    await shoot.room.collector.tick(NOW)


async def work(shoot: Shoot) -> int:
    worked = 0
    while (job := await shoot.lease()) is not None:
        await shoot.deliver(job, content=PICTURE)
        worked += 1
    return worked


CRASHES: list[tuple[Failpoint, Scene]] = [
    (Failpoint.PIPELINE_CLAIMED_BEFORE_LOOK, begin),
    (Failpoint.PIPELINE_CHOSEN_BEFORE_SUBMIT, begin),
    (Failpoint.PIPELINE_CHOSEN_BEFORE_SUBMIT, begin_a_child),
    (Failpoint.SUBMIT_BEFORE_RELAY, begin_a_child),
    (Failpoint.RELAY_BEFORE_QUEUED, begin_a_child),
    (Failpoint.PIPELINE_BEGUN_BEFORE_AGAIN, begin),
    (Failpoint.PIPELINE_BEGUN_BEFORE_AGAIN, begin_a_child),
    (Failpoint.PIPELINE_RESULT_BEFORE_SETTLE, keep),
    (Failpoint.PIPELINE_RESULT_BEFORE_SETTLE, strike),
    (Failpoint.PIPELINE_COPY_BEFORE_CANDIDATES, keep),
    (Failpoint.PIPELINE_KILL_BETWEEN_PIECES, kill_in_pieces),
    (Failpoint.PIPELINE_KILL_BEFORE_CANCELS, kill),
    (Failpoint.PIPELINE_CANCEL_BEFORE_JOBS, cancel),
    (Failpoint.PIPELINE_THUMBNAIL_BEFORE_OBJECT, make_thumbnails),
    (Failpoint.PIPELINE_THUMBNAIL_BEFORE_ROW, make_thumbnails),
]


def test_every_gap_of_the_room_is_crashed_in() -> None:
    assert {point for point, _ in CRASHES if point.startswith("pipeline.")} == {
        point for point in Failpoint if point.startswith("pipeline.")
    }


@pytest.mark.few_forms
@pytest.mark.parametrize(("point", "scene"), CRASHES, ids=[f"{point}-{scene.__name__}" for point, scene in CRASHES])
async def test_after_a_crash_in_a_gap_the_next_control_plane_goes_on_and_nothing_is_doubled(
    core: Core, ann: Member, stage: Stage, point: Failpoint, scene: Scene
) -> None:
    shoot = started(core, ann, stage)
    run = await shoot.run(await shoot.pipeline("base", "fix", max_children=1), target_leaves=3)
    assert await crashed_at(point, scene(shoot, run))
    await shoot.room.guidance.thumbnails.stop()

    shoot = started(core, ann, stage)
    await shoot.core.relay()
    await shoot.room.guidance.pruner.prune(ann.pool, left_seconds=0)
    await shoot.due(run)
    for _ in range(50):
        await shoot.tick()
        if not await work(shoot):
            break
    await shoot.room.collector.tick(NOW)
    await core.rows(ann.pool, HURRY)
    await shoot.room.guidance.thumbnails.tick(NOW)
    await shoot.room.guidance.thumbnails.stop()

    [tree] = await read_trees(ann.pool)
    assert [*tree.problems(), *tree.unsettled()] == []
    await core.check_drained()
    assert await picture_problems(ann.pool, stage.room.files.storage) == []
    if scene is cancel:
        assert (tree.run["status"], tree.run["spent"], len(tree.candidates)) == (RunStatus.CANCELED, 0, 0)
        return
    assert (tree.run["status"], tree.run["reason"]) == (RunStatus.COMPLETED, "target_reached")
    active = [each for each in tree.candidates if each["status"] == "active"]
    assert [sum(each["position"] == position for each in active) for position in (1, 2)] == [3, 3]
