"""Several control planes drive the same runs: nothing is started twice, nothing is lost, the tree stays exact."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from callsheet.jobs.submit.new_jobs import SlotRefused
from callsheet.pipelines.run.slots import NewSlot
from callsheet.plumbing.failpoints import Failpoint
from callsheet.wire.pipelines.pipelines import Run, RunStatus
from tests.support.jobs.crashes import crashed_at
from tests.support.jobs.race import Race
from tests.support.jobs.race_control import paused_at
from tests.support.media.media_harness import open_media_harness, principal_of
from tests.support.pipelines.pipeline_harness import NOW, PipelineHarness, open_pipeline_harness

CHOSEN = Failpoint.PIPELINE_CHOSEN_BEFORE_SUBMIT
COPIED = Failpoint.PIPELINE_COPY_BEFORE_CANDIDATES


@dataclass(frozen=True, slots=True)
class Planes:
    one: PipelineHarness
    two: PipelineHarness

    async def run(self, *steps: str, **changes: Any) -> Run:
        return await self.one.run(await self.one.pipeline(*steps, max_children=1), **{"target_leaves": 1, **changes})

    async def with_base(self) -> Run:
        """A run of two steps that has a base, which is to have one child."""
        run = await self.run("base", "fix")
        await self.one.tick()
        await self.one.deliver(await self.one.start())
        await self.one.room.collector.tick(NOW)
        return run


@pytest.fixture
async def planes(race: Race, tmp_path: Path) -> AsyncIterator[Planes]:
    async with AsyncExitStack() as stack:
        harnesses = []
        for core in (race.one, race.two):
            media = await stack.enter_async_context(open_media_harness(core, race.ann, tmp_path / "home"))
            harnesses.append(open_pipeline_harness(core, race.ann, media, jobs_per_run=3, jobs_in_total=3))
        yield Planes(*harnesses)


async def test_a_frozen_control_plane_starts_no_second_base_after_another_took_over(planes: Planes) -> None:
    run = await planes.run("base")
    async with paused_at(CHOSEN, planes.one.room.scheduler.tick(NOW)) as stopped:
        await planes.two.due(run)
        await planes.two.tick()
        assert len(await planes.two.slots(run)) == 1
    await stopped
    assert [slot["status"] for slot in await planes.one.slots(run)] == ["open"]
    run = await planes.two.finish(run)
    assert (run.status, run.draws, run.candidates) == (RunStatus.COMPLETED, 1, 1)
    await planes.one.check(run)


async def test_a_control_plane_that_wakes_up_after_the_child_was_made_makes_no_second_child(planes: Planes) -> None:
    run = await planes.with_base()
    async with paused_at(CHOSEN, planes.one.room.scheduler.tick(NOW)) as stopped:
        await planes.two.due(run)
        run = await planes.two.finish(run)
        assert run.status is RunStatus.COMPLETED
    await stopped
    assert await planes.one.work() == 0
    assert await planes.one.shape(run) == {1: 1, 2: 1}
    await planes.one.check(run)


@pytest.mark.parametrize("what", ["kill", "pause", "cancel"])
async def test_an_action_of_a_user_applies_to_a_job_that_was_chosen_before(planes: Planes, what: str) -> None:
    run = await planes.with_base()
    ann = principal_of(planes.two.ann)
    async with paused_at(CHOSEN, planes.one.room.scheduler.tick(NOW)) as stopped:
        if what == "kill":
            [base] = await planes.two.candidates(run)
            await planes.two.room.guidance.branches.kill(ann, base["id"])
            # No other job is started: the check after this refusal is for the next tick.
            await planes.two.room.runs.pause(ann, run.id)
        else:
            await getattr(planes.two.room.runs, what)(ann, run.id)
    await stopped
    assert [slot["position"] for slot in await planes.one.slots(run)] == [1]
    await planes.one.check(run)


async def test_one_of_two_concurrent_results_of_a_job_is_kept(planes: Planes) -> None:
    run = await planes.run("base")
    await planes.one.tick()
    await planes.one.deliver(await planes.one.start(), images=2)
    async with paused_at(COPIED, planes.one.room.collector.tick(NOW)) as stopped:
        await planes.two.room.collector.tick(NOW)
        assert len(await planes.two.candidates(run)) == 2
    await stopped
    assert len(await planes.one.candidates(run)) == 2
    await planes.one.media.sweep()
    assert len(await planes.one.media.paths()) == 2
    await planes.one.check(run)


async def test_a_crash_between_copy_and_candidate_leaves_only_what_the_next_tick_writes(
    planes: Planes,
) -> None:
    run = await planes.run("base")
    await planes.one.tick()
    await planes.one.deliver(await planes.one.start())
    assert await crashed_at(COPIED, planes.one.room.collector.tick(NOW))
    copied = {path for path in await planes.two.media.paths() if "/runs/" in path}
    run = await planes.two.finish(run)
    await planes.two.media.sweep()
    assert await planes.two.media.paths() == copied
    assert len(copied) == 1
    await planes.two.check(run)


@pytest.mark.parametrize("point", [CHOSEN, Failpoint.SUBMIT_BEFORE_RELAY, Failpoint.RELAY_BEFORE_QUEUED])
async def test_a_crash_during_a_submit_loses_no_slot_and_fills_none_twice(planes: Planes, point: Failpoint) -> None:
    run = await planes.run("base", "fix")
    assert await crashed_at(point, planes.one.room.scheduler.tick(NOW))
    await planes.two.core.relay()
    await planes.two.due(run)
    run = await planes.two.finish(run)
    assert (run.status, await planes.two.shape(run)) == (RunStatus.COMPLETED, {1: 1, 2: 1})
    await planes.two.check(run)


async def test_jobs_of_a_run_whose_cancel_crashed_are_canceled_by_the_next_tick(planes: Planes) -> None:
    run = await planes.run("base")
    await planes.one.tick()
    canceling = planes.one.room.runs.cancel(principal_of(planes.one.ann), run.id)
    assert await crashed_at(Failpoint.PIPELINE_CANCEL_BEFORE_JOBS, canceling)
    run = await planes.two.finish(run)
    assert (run.status, run.spent, await planes.two.core.balance(planes.two.ann)) == (RunStatus.CANCELED, 0, 1000)
    await planes.two.check(run)


async def test_two_control_planes_together_keep_the_limit_of_jobs_in_flight(race: Race, planes: Planes) -> None:
    one, two = [
        open_pipeline_harness(pipelines.core, pipelines.ann, pipelines.media, jobs_in_total=1)
        for pipelines in (planes.one, planes.two)
    ]
    runs = [await planes.run("base"), await planes.run("base")]
    async with paused_at(CHOSEN, one.room.scheduler.tick(NOW)) as first:
        async with paused_at(CHOSEN, two.room.scheduler.tick(NOW)) as second:
            pass
        await second
    await first
    assert sum([len(await one.slots(run)) for run in runs]) == 1
    for run in runs:
        assert (await one.finish(run)).status is RunStatus.COMPLETED


async def test_two_control_planes_at_once_make_the_tree_that_one_would(planes: Planes) -> None:
    pipeline = await planes.one.pipeline("one", "two", "three")
    runs = [await planes.one.run(pipeline, max_children=2, target_leaves=4) for _ in range(2)]

    async def drive(pipelines: PipelineHarness) -> None:
        for _ in range(60):
            await pipelines.tick()
            await pipelines.work()

    await asyncio.gather(drive(planes.one), drive(planes.two))
    for run in runs:
        run = await planes.one.finish(run)
        assert run.status is RunStatus.COMPLETED
        rows = await planes.one.candidates(run)
        assert {row["child_count"] for row in rows if row["position"] < 3} == {2}
        await planes.one.check(run)


async def test_the_database_refuses_a_slot_that_is_taken(planes: Planes) -> None:
    run = await planes.with_base()
    [slot] = await planes.one.slots(run)
    columns = "run_id, draw, parent_id, step_id, position, ordinal, job_id, cost, seed, tenant_id"
    query = f"INSERT INTO candidate_slots ({columns}) SELECT {columns.replace('draw', 'draw + 1')} FROM candidate_slots"
    with pytest.raises(asyncpg.UniqueViolationError):
        await planes.one.core.rows(planes.one.ann.pool, f"{query} WHERE run_id = $1", run.id)
    new = NewSlot(run.id, slot["step_id"], 1, None, 9, slot["draw"], 1, {}, per_run=9, in_total=9)
    for draw in (slot["draw"], slot["draw"] + 2):
        with pytest.raises(SlotRefused, match="overtaken"):
            await planes.one.core.submit(planes.one.ann, slot=replace(new, draw=draw))
    assert len(await planes.one.slots(run)) == 1
    await planes.one.check(run)


async def test_runs_take_turns_across_control_planes(race: Race, planes: Planes) -> None:
    harnesses = [plane.media for plane in (planes.one, planes.two)]
    pipelines_of = [
        open_pipeline_harness(core, race.ann, media, jobs_in_total=1)
        for core, media in zip((race.one, race.two), harnesses, strict=True)
    ]
    pipeline = await planes.one.pipeline("base")
    runs = [await planes.one.run(pipeline, target_leaves=4) for _ in range(3)]
    for turn in range(12):
        await pipelines_of[turn % 2].tick()
        assert await planes.one.work() == 1
        await pipelines_of[turn // 2 % 2].room.collector.tick(NOW)
        made = [(await planes.one.shown(run)).candidates for run in runs]
        assert max(made) - min(made) <= 1
    assert made == [4, 4, 4]
