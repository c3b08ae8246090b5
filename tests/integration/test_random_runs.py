"""Runs of any shape whose jobs bring anything, while a user votes and kills at random: the tree is exact anyway."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from callsheet.identity.access.principal import Principal
from callsheet.wire.errors import Conflict
from callsheet.wire.pipelines.candidates import CastVote
from callsheet.wire.pipelines.pipelines import Run, RunReason, RunStatus, Strategy
from tests.support.jobs.core import Core, Row, open_core
from tests.support.media.media_harness import open_media_harness, principal_of
from tests.support.pipelines.pipeline_harness import NOW, PipelineHarness, open_pipeline_harness

MAX_STEPS = 400
# How often the user may be asked while no component has anything to do.
PATIENCE = 6


@dataclass
class RandomUser:
    """Who approves, resumes, votes and kills."""

    pipelines: PipelineHarness
    run: Run
    random: Random
    patience: int = PATIENCE

    @property
    def principal(self) -> Principal:
        return principal_of(self.pipelines.ann)

    async def helps(self) -> bool:
        """Where the run cannot go on by itself."""
        run = await self.pipelines.shown(self.run)
        self.patience -= 1
        if self.patience and run.reason is RunReason.APPROVAL_NEEDED:
            step = next(each.step.slug for each in run.steps if not each.approved)
            await self.pipelines.room.guidance.branches.approve(self.principal, run.id, step)
            return True
        if self.patience and run.status is RunStatus.PAUSED:
            await self.pipelines.room.runs.resume(self.principal, run.id)
            return True
        return False

    async def judge(self) -> None:
        left = [row for row in await self.pipelines.candidates(self.run) if row["status"] == "active"]
        if not left or self.random.random() < 0.5:
            return
        one = self.random.choice(left)
        if self.random.random() < 0.1:
            await self.pipelines.room.guidance.branches.kill(self.principal, one["id"])
            return
        others = [row for row in left if row["position"] == one["position"] and row["id"] != one["id"]]
        if others:
            await self.votes(one, self.random.choice(others))

    async def votes(self, winner: Row, loser: Row) -> None:
        cast = CastVote(winner_id=winner["id"], loser_id=loser["id"])
        # It may have been the other way round earlier.
        with suppress(Conflict):
            await self.pipelines.room.guidance.votes.vote(self.principal, self.run.id, cast)


async def worked(pipelines: PipelineHarness, random: Random, failing: float) -> bool:
    started = await pipelines.lease()
    if started is None:
        return False
    if random.random() < failing:
        await pipelines.core.fail(started)
    else:
        await pipelines.deliver(started, images=random.choice([1, 1, 1, 2, 4]))
    return True


async def started_run(pipelines: PipelineHarness, random: Random) -> tuple[Run, dict[int, int]]:
    """A run, and the places that its steps have for those who go on."""
    names = [f"step {number}" for number in range(1, random.randint(2, 4))]
    steps = await pipelines.steps("base", *names, max_children=random.randint(1, 3))
    places = {position: random.randint(1, 3) for position in range(1, len(steps)) if random.random() < 0.4}
    for position, step in enumerate(steps[:-1], start=1):
        step |= {"top_k": places.get(position), "requires_approval": random.random() < 0.3}
    run = await pipelines.run(
        await pipelines.define(steps),
        target_leaves=random.choice([1, 3, 5]),
        budget=random.choice([200, 600]),
        strategy=random.choice(list(Strategy)),
        seed=random.randint(0, 99),
    )
    return run, places if run.strategy is Strategy.BREADTH_FIRST else {}


@pytest.mark.few_forms
@pytest.mark.parametrize("seed", [8, 32, 39, 45, 62, 107])
async def test_a_run_with_random_job_outcomes_stays_exact_and_ends_with_a_reason(
    core: Core, tmp_path: Path, seed: int
) -> None:
    random = Random(seed)
    ann = await core.member("pool_1", tokens=10_000)
    at_once = random.choice([1, 2, 4])
    async with open_media_harness(core, ann, tmp_path / "home") as media:
        generous = open_core(core.databases, active_per_user=100)
        pipelines = open_pipeline_harness(generous, ann, media, jobs_per_run=at_once, jobs_in_total=at_once)
        run, places = await started_run(pipelines, random)
        person, failing = RandomUser(pipelines, run, random), random.choice([0, 0.1, 0.4])
        for _ in range(MAX_STEPS):
            await pipelines.tick()
            if not await worked(pipelines, random, failing) and not await person.helps():
                break
            await person.judge()
        await pipelines.room.collector.tick(NOW)
        ended = await pipelines.shown(run)
        await pipelines.check(run)
        rows = await pipelines.candidates(run)
    assert ended.reason is not None
    leaves = [row for row in rows if row["position"] == len(ended.steps) and row["status"] == "active"]
    assert (ended.reason is RunReason.TARGET_REACHED) <= (len(leaves) >= ended.target_leaves)
    assert (ended.reason is RunReason.NOTHING_LEFT) <= (bool(places) and len(leaves) < ended.target_leaves)
    # What one gained another lost.
    assert sum(row["elo"] for row in rows) == 1000 * len(rows)
    for position, maximum in places.items():
        parents = [row for row in rows if row["position"] == position and row["status"] == "active"]
        assert sum(row["child_count"] > 0 for row in parents) <= maximum
