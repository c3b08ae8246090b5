"""Steps that are actors are started behind the same fence: a control plane that was paused while another took over
starts nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from callsheet.plumbing.failpoints import Failpoint
from callsheet.wire.pipelines.pipelines import Run, RunStatus
from tests.interleaving.test_pipeline_races import Planes
from tests.support.http.actor_harness import ScriptedActor
from tests.support.jobs.crashes import crashed_at
from tests.support.jobs.race import Race
from tests.support.jobs.race_control import paused_at
from tests.support.media.media_harness import open_media_harness, principal_of
from tests.support.pipelines.actor_steps import actor_step, with_actors
from tests.support.pipelines.pipeline_harness import NOW, open_pipeline_harness

CHOSEN = Failpoint.PIPELINE_CHOSEN_BEFORE_SUBMIT
BASE = actor_step("painter", {"words": "{{prompt}}"}, needs_run_prompt=True, max_children=1)
CHILD = actor_step("painter", {"image": "{{parent_image_path}}"}, needs_parent_image_path=True, max_children=1)


@pytest.fixture
async def planes(race: Race, tmp_path: Path) -> AsyncIterator[Planes]:
    async with AsyncExitStack() as stack:
        harnesses = []
        for core in (race.one, race.two):
            media = await stack.enter_async_context(open_media_harness(core, race.ann, tmp_path / "home"))
            pipelines = open_pipeline_harness(core, race.ann, media, jobs_per_run=3, jobs_in_total=3)
            harnesses.append((await with_actors(pipelines, ScriptedActor("painter"), painter=5))[0])
        yield Planes(*harnesses)


async def started_run(planes: Planes, *steps: dict[str, Any]) -> Run:
    return await planes.one.run(await planes.one.define(list(steps)), target_leaves=1)


async def with_base(planes: Planes) -> Run:
    run = await started_run(planes, BASE, CHILD)
    await planes.one.tick()
    await planes.one.deliver(await planes.one.start())
    await planes.one.room.collector.tick(NOW)
    return run


async def test_a_task_that_was_chosen_before_another_plane_took_over_is_not_started(planes: Planes) -> None:
    run = await with_base(planes)
    async with paused_at(CHOSEN, planes.one.room.scheduler.tick(NOW)) as stopped:
        await planes.two.due(run)
        run = await planes.two.finish(run)
        assert run.status is RunStatus.COMPLETED
    await stopped
    assert await planes.one.work() == 0
    assert (await planes.one.shown(run)).spent == 10
    assert await planes.one.shape(run) == {1: 1, 2: 1}
    await planes.one.check(run)


async def test_a_task_whose_parent_was_killed_meanwhile_is_not_started(planes: Planes) -> None:
    run = await with_base(planes)
    ann = principal_of(planes.two.ann)
    async with paused_at(CHOSEN, planes.one.room.scheduler.tick(NOW)) as stopped:
        [base] = await planes.two.candidates(run)
        await planes.two.room.guidance.branches.kill(ann, base["id"])
        await planes.two.room.runs.pause(ann, run.id)
    await stopped
    assert [slot["position"] for slot in await planes.one.slots(run)] == [1]
    await planes.one.check(run)


async def test_a_plane_that_dies_before_its_task_is_in_the_queue_has_started_it_once(planes: Planes) -> None:
    run = await started_run(planes, BASE)
    assert await crashed_at(Failpoint.SUBMIT_BEFORE_RELAY, planes.one.room.scheduler.tick(NOW))
    assert [slot["status"] for slot in await planes.two.slots(run)] == ["open"]
    await planes.two.core.relay()
    await planes.two.due(run)
    run = await planes.two.finish(run)
    assert (run.status, run.draws, run.candidates) == (RunStatus.COMPLETED, 1, 1)
    await planes.two.check(run)
