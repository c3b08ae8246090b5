"""Replays of a run's candidates never spend more than its budget, however many come at the same moment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from callsheet.jobs.submit.submission import SubmittedJob
from callsheet.plumbing.failpoints import Failpoint
from callsheet.wire.errors import WrongState
from callsheet.wire.pipelines.candidates import Replay
from callsheet.wire.pipelines.pipelines import Run
from tests.support.jobs.race import Race
from tests.support.jobs.race_control import open_transaction, paused_at, start_blocked
from tests.support.media.media_harness import open_media_harness, principal_of
from tests.support.pipelines.pipeline_harness import NOW, PipelineHarness, open_pipeline_harness

HOLD_RUN = "SELECT 1 FROM pipeline_runs WHERE tenant_id = $1 AND id = $2 FOR UPDATE"
Planes = tuple[PipelineHarness, PipelineHarness]


@pytest.fixture
async def planes(race: Race, tmp_path: Path) -> AsyncIterator[Planes]:
    """Two control planes over the same databases."""
    other = replace(race.ann, pool=race.pool)
    async with AsyncExitStack() as stack:
        one, two = [
            open_pipeline_harness(core, ann, await stack.enter_async_context(open_media_harness(core, ann, tmp_path)))
            for core, ann in ((race.one, race.ann), (race.two, other))
        ]
        await race.one.credit(race.ann, 1000)
        yield one, two


async def finished(plane: PipelineHarness, budget: int) -> tuple[Run, UUID]:
    """A run with one candidate for 10 tokens."""
    run = await plane.finish(await plane.run(await plane.pipeline("one"), target_leaves=1, budget=budget))
    [made] = await plane.candidates(run)
    return run, made["id"]


async def again(plane: PipelineHarness, candidate_id: UUID) -> SubmittedJob:
    return await plane.room.guidance.lineages.replay(principal_of(plane.ann), candidate_id, Replay())


async def test_twenty_parallel_replays_stay_in_the_budget(planes: Planes) -> None:
    one, two = planes
    run, made = await finished(one, budget=60)
    before = await one.core.balance(one.ann)
    outcomes = await asyncio.gather(*(again(planes[number % 2], made) for number in range(20)), return_exceptions=True)
    accepted = [each for each in outcomes if isinstance(each, SubmittedJob)]
    refused = [each for each in outcomes if isinstance(each, WrongState)]
    assert (len(accepted), len(refused)) == (5, 15), outcomes
    assert await one.core.balance(one.ann) == before - 50
    assert (await two.shown(run)).spent == 60
    await one.check(run)
    await two.work()
    await two.tick()
    assert (await one.shown(run)).spent == 60
    await one.check(run)


async def test_two_replays_that_wait_for_the_run_make_one_job_for_the_last_tokens(race: Race, planes: Planes) -> None:
    run, made = await finished(planes[0], budget=20)
    async with open_transaction(race.pool, HOLD_RUN, race.ann.tenant_id, run.id):
        tasks = await start_blocked(race.pool, *(again(plane, made) for plane in planes))
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert sorted(type(each).__name__ for each in outcomes) == ["SubmittedJob", "WrongState"]
    assert (await planes[0].shown(run)).spent == 20
    await planes[0].check(run)


async def test_a_replay_and_a_job_of_the_run_share_the_last_tokens(planes: Planes) -> None:
    """The loop has chosen its next job when a user replays a candidate."""
    one, two = planes
    run = await one.run(await one.pipeline("one"), target_leaves=2, budget=20)
    await one.tick()
    await one.work()
    while await one.room.collector.tick(NOW):
        pass
    [made] = await one.candidates(run)
    await one.due(run)
    async with paused_at(Failpoint.PIPELINE_CHOSEN_BEFORE_SUBMIT, one.room.scheduler.tick(NOW)) as chosen:
        await again(two, made["id"])
    await chosen
    shown = await one.shown(run)
    assert (shown.spent, shown.reason) == (20, "budget_spent")
    assert len(await one.slots(run)) == 1
    await one.check(run)


async def test_two_collectors_settle_a_replay_once(race: Race, planes: Planes) -> None:
    one, two = planes
    run, made = await finished(one, budget=100)
    job = (await again(one, made)).job
    await one.core.room.cancellation.cancel(one.ann.tenant_id, job.id, actor="ann")
    async with open_transaction(race.pool, HOLD_RUN, race.ann.tenant_id, run.id):
        collects = await start_blocked(
            race.pool, one.room.collector.collect(one.ann.pool), two.room.collector.collect(race.pool)
        )
    await asyncio.gather(*collects)
    assert (await one.shown(run)).spent == 10
    await one.check(run)


async def test_a_retry_and_the_collector_settle_a_failed_replay_once(race: Race, planes: Planes) -> None:
    one, two = planes
    run, made = await finished(one, budget=20)
    job = (await again(one, made)).job
    await one.work(fails=lambda started: True)
    async with open_transaction(race.pool, HOLD_RUN, race.ann.tenant_id, run.id):
        tasks = await start_blocked(
            race.pool,
            two.room.collector.collect(race.pool),
            one.core.room.retries.retry(one.ann.tenant_id, job.id, actor="ann"),
        )
    await asyncio.gather(*tasks)
    assert (await one.shown(run)).spent == 20
    await one.check(run)
    await one.work()
    await one.tick()
    assert (await one.shown(run)).spent == 20
    await one.check(run)
