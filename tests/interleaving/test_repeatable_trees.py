"""With one job at a time, seed and votes decide the tree: not which control plane drew, nor how often one died."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path
from random import Random

import pytest

from callsheet.plumbing.failpoints import Failpoint
from callsheet.wire.pipelines.candidates import CastVote
from callsheet.wire.pipelines.pipelines import Pipeline, Run, RunReason, RunStatus, Strategy
from tests.support.jobs.core import Core
from tests.support.jobs.crashes import crashed_at
from tests.support.jobs.race import Race
from tests.support.media.media_harness import MediaHarness, open_media_harness, principal_of
from tests.support.pipelines.pipeline_harness import NOW, PipelineHarness, open_pipeline_harness
from tests.support.pipelines.replayed_draws import strange_draws
from tests.support.pipelines.tree_invariants import Tree, read_trees

SCHEDULING = (
    Failpoint.PIPELINE_CLAIMED_BEFORE_READ,
    Failpoint.PIPELINE_CHOSEN_BEFORE_SUBMIT,
    Failpoint.SUBMIT_BEFORE_RELAY,
    Failpoint.RELAY_BEFORE_QUEUED,
)
COLLECTING = (Failpoint.PIPELINE_RESULT_BEFORE_SETTLE, Failpoint.PIPELINE_COPY_BEFORE_CANDIDATES)
OPEN = "SELECT 1 FROM candidate_slots WHERE status = 'open'"


@dataclass(frozen=True, slots=True)
class AlternatingPlanes:
    """Control planes that take turns; each is a new one, with nothing in memory but the databases' connections."""

    race: Race
    harnesses: tuple[MediaHarness, MediaHarness]

    def planes(self) -> Callable[[], PipelineHarness]:
        cores: cycle[tuple[Core, MediaHarness]] = cycle(
            zip((self.race.one, self.race.two), self.harnesses, strict=True)
        )

        def next_one() -> PipelineHarness:
            core, media = next(cores)
            return open_pipeline_harness(core, media.ann, media)

        return next_one

    @property
    def one(self) -> PipelineHarness:
        return open_pipeline_harness(self.race.one, self.harnesses[0].ann, self.harnesses[0])

    async def is_open(self) -> bool:
        return bool(await self.one.core.rows(self.one.ann.pool, OPEN))


@pytest.fixture
async def alternating_planes(race: Race, tmp_path: Path) -> AsyncIterator[AlternatingPlanes]:
    """Control planes that take turns, with storage of their own."""
    async with AsyncExitStack() as stack:
        members = (race.ann, replace(race.ann, pool=race.pool))
        first, second = [
            await stack.enter_async_context(open_media_harness(core, member, tmp_path / "home"))
            for core, member in zip((race.one, race.two), members, strict=True)
        ]
        yield AlternatingPlanes(race, (first, second))


async def guided(
    alternating_planes: AlternatingPlanes, run: Run, next_plane: Callable[[], PipelineHarness], random: Random | None
) -> Run:
    """One job after the other; after each the pair that is asked about is judged: the younger one wins.

    With `random` every other tick is crashed in, at one of its gaps.
    """
    for turn in range(80):
        while not await alternating_planes.is_open():
            plane = next_plane()
            await plane.due(run)
            if random is not None and random.random() < 0.5:
                await crashed_at(random.choice(SCHEDULING), plane.room.scheduler.tick(NOW))
            else:
                await plane.room.scheduler.tick(NOW)
            await plane.core.relay()
            shown = await plane.shown(run)
            if shown.status is RunStatus.COMPLETED:
                return shown
        await next_plane().work()
        while await alternating_planes.is_open():
            plane = next_plane()
            if random is not None and random.random() < 0.5:
                await crashed_at(random.choice(COLLECTING), plane.room.collector.tick(NOW))
            else:
                await plane.room.collector.tick(NOW)
        await vote(next_plane(), run, turn)
    raise AssertionError("it does not end")


async def vote(plane: PipelineHarness, run: Run, turn: int) -> None:
    principal, votes = principal_of(plane.ann), plane.room.guidance.votes
    pair = await votes.pair(principal, run.id, None, turn)
    if pair.candidates:
        older, younger = sorted(pair.candidates, key=lambda each: each.number)
        await votes.vote(principal, run.id, CastVote(winner_id=younger.id, loser_id=older.id))


async def made(
    alternating_planes: AlternatingPlanes,
    pipeline: Pipeline,
    next_plane: Callable[[], PipelineHarness],
    random: Random | None,
) -> Tree:
    run = await alternating_planes.one.run(
        pipeline, seed=11, target_leaves=6, budget=600, strategy=Strategy.BREADTH_FIRST, concurrency=1
    )
    ended = await guided(alternating_planes, run, next_plane, random)
    assert (ended.status, ended.reason) == (RunStatus.COMPLETED, RunReason.TARGET_REACHED)
    [tree] = [tree for tree in await read_trees(alternating_planes.one.ann.pool) if tree.run["id"] == run.id]
    assert [*tree.problems(), *tree.unsettled()] == []
    assert list(strange_draws(tree, while_it_drew=False)) == []
    return tree


def family(tree: Tree) -> list[tuple[int, int | None, int, int, int]]:
    numbers = {each["id"]: each["number"] for each in tree.candidates}
    return [
        (each["number"], numbers.get(each["parent_id"]), each["seed"], each["elo"], each["votes"])
        for each in tree.candidates
    ]


async def narrowed(alternating_planes: AlternatingPlanes) -> Pipeline:
    """Only the three best of each step go on."""
    *parents, last = await alternating_planes.one.steps("one", "two", "three", max_children=2)
    return await alternating_planes.one.define([*({**step, "top_k": 3} for step in parents), last])


async def test_the_same_seed_and_votes_make_the_same_tree_at_one_control_plane_and_at_two_that_keep_dying(
    alternating_planes: AlternatingPlanes,
) -> None:
    pipeline = await narrowed(alternating_planes)
    undisturbed = await made(alternating_planes, pipeline, lambda one=alternating_planes.one: one, None)  # type: ignore[misc]
    for chance in (1, 2):
        assert family(await made(alternating_planes, pipeline, alternating_planes.planes(), Random(chance))) == family(
            undisturbed
        )
    assert any(elo != 1000 for *_, elo, _ in family(undisturbed))


async def test_a_draw_that_seed_and_votes_do_not_lead_to_would_be_noticed(
    alternating_planes: AlternatingPlanes,
) -> None:
    pipeline = await narrowed(alternating_planes)
    tree = await made(alternating_planes, pipeline, lambda one=alternating_planes.one: one, None)  # type: ignore[misc]
    child = next(slot for slot in tree.slots if slot["position"] == 2)
    parents = [each["id"] for each in tree.candidates if each["position"] == 1]
    for parent_id in parents:
        slots = [{**slot, "parent_id": parent_id} if slot is child else slot for slot in tree.slots]
        found = list(strange_draws(replace(tree, slots=slots), while_it_drew=False))
        assert bool(found) == (parent_id != child["parent_id"])
    # Nor is it the same tree without its votes.
    assert list(strange_draws(replace(tree, votes=[]), while_it_drew=False)) != []
