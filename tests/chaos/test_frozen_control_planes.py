"""Control planes as processes that are stopped, or die, in the middle of a tick: the others go on, nothing is doubled.

One is held by SIGSTOP at each gap of its loops in turn. Another takes over and drives the same run on; then the first
one wakes up with what it had chosen, read or made before.
"""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from inspect import isawaitable
from pathlib import Path

import pytest

from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.failpoints import Failpoint
from callsheet.plumbing.http.server import with_free_port
from callsheet.settings import Settings
from callsheet.wire.pipelines.pipelines import Run, RunReason, RunStatus
from tests.support.database.installation import changed
from tests.support.jobs.core import open_core
from tests.support.media.media_harness import open_media_harness
from tests.support.pipelines.pipeline_harness import PipelineHarness, open_pipeline_harness
from tests.support.pipelines.tree_invariants import IMAGE, image_problems, read_trees
from tests.support.programs.control_plane_process import ControlPlaneProcess
from tests.support.programs.serve_with_failpoints import ROOT, program
from tests.support.waiting import until

pytestmark = pytest.mark.thorough

STEPS = ("base", "face fix", "hand fix", "upscale")
# Enough that the run is still going on at the last point.
LEAVES, LEAVES_IN_LONG_FORM = 10, 25
COST, TOKENS = 10, 2000
# In the order of one job's life; the short form takes a few, and every gap is crashed in without processes, too.
POINTS = (
    Failpoint.PIPELINE_CLAIMED_BEFORE_READ,
    Failpoint.PIPELINE_CHOSEN_BEFORE_SUBMIT,
    Failpoint.SUBMIT_BEFORE_RELAY,
    Failpoint.PIPELINE_SUBMITTED_BEFORE_NEXT,
    Failpoint.PIPELINE_RESULT_BEFORE_SETTLE,
    Failpoint.PIPELINE_COPY_BEFORE_CANDIDATES,
    Failpoint.PIPELINE_THUMBNAIL_BEFORE_OBJECT,
    Failpoint.PIPELINE_THUMBNAIL_BEFORE_ROW,
)
FROZEN = (
    Failpoint.PIPELINE_CHOSEN_BEFORE_SUBMIT,
    Failpoint.PIPELINE_COPY_BEFORE_CANDIDATES,
    Failpoint.PIPELINE_THUMBNAIL_BEFORE_ROW,
)
KILLED = (Failpoint.PIPELINE_SUBMITTED_BEFORE_NEXT, Failpoint.PIPELINE_RESULT_BEFORE_SETTLE)
# Seconds: the processes need the machine more than who watches them.
POLL_SECONDS = 0.03
QUICK = {
    "CALLSHEET_PIPELINES__JOBS_PER_RUN": "2",
    "CALLSHEET_PIPELINES__JOBS_IN_TOTAL": "2",
    "CALLSHEET_PIPELINES__SUBMIT_SECONDS": "0.2",
    "CALLSHEET_PIPELINES__POLL_SECONDS": "0.2",
    "CALLSHEET_TASKS__IN_PROCESS": "0",
    "PYTHONPATH": str(ROOT),
}
# As if the process that claimed them had been away for longer than a claim lasts.
HURRY = "UPDATE candidates SET thumbnail_due_at = clock_timestamp() WHERE thumbnail_due_at IS NOT NULL"


@dataclass(frozen=True, slots=True)
class DrivenRun:
    """A run that control planes drive, with a worker that does a job when it is asked whether something is true."""

    settings: Settings
    directory: Path
    pipelines: PipelineHarness
    run: Run

    @property
    def jobs(self) -> int:
        return self.run.target_leaves * len(STEPS)

    async def plane(self, number: signal.Signals, *points: Failpoint) -> ControlPlaneProcess:
        """One more, which will send itself the signal at these."""
        settings = await with_free_port(changed(self.settings, server={"port": 0}))
        return ControlPlaneProcess(settings, self.directory, QUICK, program(number, points))

    async def working_until(self, condition: Callable[[], bool | Awaitable[bool]]) -> None:
        async def is_true() -> bool:
            response = condition()
            if await response if isawaitable(response) else response:
                return True
            started = await self.pipelines.lease()
            if started is not None:
                await self.pipelines.deliver(started, content=IMAGE)
            return False

        await until(is_true, 240, POLL_SECONDS)

    async def goes_on(self) -> None:
        """Waits until two more jobs were started, or the run has nothing more to do."""
        before = (await self.pipelines.shown(self.run)).draws

        async def has_gone_on() -> bool:
            shown = await self.pipelines.shown(self.run)
            return shown.draws >= before + 2 or shown.status is RunStatus.COMPLETED

        await self.working_until(has_gone_on)

    async def thumbnails_are_made(self) -> None:
        async def are_made() -> bool:
            return not await self.pipelines.core.rows(self.pipelines.ann.pool, f"{HURRY} RETURNING 1")

        await until(are_made, 240, POLL_SECONDS)

    async def ends(self) -> None:
        async def has_ended() -> bool:
            return (await self.pipelines.shown(self.run)).status is RunStatus.COMPLETED

        await self.working_until(has_ended)
        await self.thumbnails_are_made()

    async def is_exact(self) -> None:
        [tree] = await read_trees(self.pipelines.ann.pool)
        assert [*tree.problems(), *tree.unsettled()] == []
        assert (tree.run["status"], tree.run["reason"]) == (RunStatus.COMPLETED, RunReason.TARGET_REACHED)
        assert await self.pipelines.shape(self.run) == dict.fromkeys(range(1, len(STEPS) + 1), self.run.target_leaves)
        # No job failed, so no job was started in vain.
        assert {slot["status"] for slot in tree.slots} == {"made"}
        assert len(tree.slots) == self.jobs
        assert tree.run["spent"] == tree.run["budget"] == self.jobs * COST
        assert await self.pipelines.core.balance(self.pipelines.ann) == TOKENS - self.jobs * COST
        await self.pipelines.core.check_drained()
        assert await image_problems(self.pipelines.ann.pool, self.pipelines.media.room.files.storage) == []


@asynccontextmanager
async def open_set(settings: Settings, databases: Databases, directory: Path, leaves: int) -> AsyncIterator[DrivenRun]:
    core = await open_core(databases).prepare()
    ann = await core.member("pool_1", tokens=TOKENS)
    async with open_media_harness(core, ann, settings.home) as media:
        pipelines = open_pipeline_harness(core, ann, media)
        pipeline = await pipelines.pipeline(*STEPS, cost=COST, max_children=1)
        # With no token to spare: a job too many would leave the tree without its last leaf.
        run = await pipelines.run(pipeline, target_leaves=leaves, budget=leaves * len(STEPS) * COST)
        yield DrivenRun(settings, directory, pipelines, run)


@pytest.fixture
async def driven_run(
    settings: Settings, databases: Databases, tmp_path: Path, long_form: bool
) -> AsyncIterator[DrivenRun]:
    """A run of four steps that control planes drive."""
    leaves = LEAVES_IN_LONG_FORM if long_form else LEAVES
    async with open_set(settings, databases, tmp_path, leaves) as driven_run:
        yield driven_run


async def test_a_control_plane_frozen_in_the_middle_of_a_tick_makes_no_extra_child(
    driven_run: DrivenRun, long_form: bool
) -> None:
    points = POINTS if long_form else FROZEN
    one, two = await driven_run.plane(signal.SIGSTOP, *points), await driven_run.plane(signal.SIGSTOP)
    await one.spawn()
    try:
        for point in points:
            await driven_run.working_until(one.is_stopped)
            await two.spawn()
            await driven_run.goes_on()
            if "thumbnail" in point:
                await driven_run.thumbnails_are_made()
            # What it had in hand is done while the other is at work as well; only then that one is gone.
            one.send(signal.SIGCONT)
            if point != points[-1]:
                await two.kill()
        await driven_run.ends()
    finally:
        for plane in (one, two):
            await plane.kill()
    await driven_run.is_exact()


async def test_a_control_plane_killed_at_every_failpoint_in_turn_resumes_its_work(
    driven_run: DrivenRun, long_form: bool
) -> None:
    for point in POINTS if long_form else KILLED:
        plane = await driven_run.plane(signal.SIGKILL, point)
        await plane.spawn()
        await driven_run.working_until(lambda plane=plane: plane.is_over)  # type: ignore[misc]
        if "thumbnail" in point:
            await driven_run.pipelines.core.rows(driven_run.pipelines.ann.pool, HURRY)
    plane = await driven_run.plane(signal.SIGKILL)
    await plane.spawn()
    try:
        await driven_run.ends()
    finally:
        await plane.kill()
    await driven_run.is_exact()
