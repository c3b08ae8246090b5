"""Runs of pipelines, two control planes that drive them, a worker, and the people who guide them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

from callsheet.jobs.lease.outcomes import StartedLease
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.failpoints import Failpoint
from callsheet.wire.errors import Refusal
from callsheet.wire.pipelines.candidates import CastVote, Replay, Vote
from callsheet.wire.pipelines.pipelines import Pipeline, Run, Strategy, UpdateRun
from tests.support.database.installation import empty
from tests.support.jobs.core import AFTER_EVERY_DEADLINE, Member, Row, open_core
from tests.support.media.media_harness import MediaHarness, open_media_harness, principal_of
from tests.support.pipelines.pipeline_harness import NOW, PipelineHarness, open_pipeline_harness
from tests.support.pipelines.tree_invariants import IMAGE, Tree, image_problems, read_trees

TOKENS = 5000
JOBS_PER_RUN, JOBS_IN_TOTAL = 3, 4
MAX_RUNS = 4
DUE_RUNS = "UPDATE pipeline_runs SET due_at = clock_timestamp() WHERE status = 'active'"
DUE_THUMBNAILS = "UPDATE candidates SET thumbnail_due_at = clock_timestamp() WHERE thumbnail_due_at IS NOT NULL"


class PipelineSimulation:
    """All participants: what they know, and what they can do."""

    def __init__(self, databases: Databases, home: Path):
        self.databases = databases
        self.home = home
        self.runs: list[Run] = []
        self.held: list[StartedLease] = []
        self.votes: list[Vote] = []
        self.deleted = False
        self.planes: list[PipelineHarness] = []
        self.pipelines: list[Pipeline] = []
        self._undo = AsyncExitStack()

    async def begin(self) -> None:
        await empty(self.databases)
        core = await open_core(self.databases).prepare()
        self.ann: Member = await core.member("pool_1", TOKENS)
        self.media: MediaHarness = await self._undo.enter_async_context(open_media_harness(core, self.ann, self.home))
        self.planes = [self.plane(), self.plane()]
        one = self.planes[0]
        steps = await one.steps("one", "two", "three", max_children=2)
        gated = [{**step} for step in steps]
        gated[0] |= {"top_k": 2, "requires_approval": True}
        self.pipelines = [await one.define(steps), await one.define(gated), await one.define(steps[:1])]
        await self.start(one, Random(0))

    def plane(self) -> PipelineHarness:
        """One that has just been started."""
        core = open_core(self.databases, active_per_user=100)
        return open_pipeline_harness(core, self.ann, self.media, jobs_per_run=JOBS_PER_RUN, jobs_in_total=JOBS_IN_TOTAL)

    async def close(self) -> None:
        for plane in self.planes:
            await plane.room.guidance.thumbnails.stop()
        await self._undo.aclose()

    async def restart(self, place: int) -> None:
        await self.planes[place].room.guidance.thumbnails.stop()
        self.planes[place] = self.plane()

    async def rows(self, query: str, *values: object) -> list[Row]:
        return await self.planes[0].core.rows(self.ann.pool, query, *values)

    async def prepare(self, plane: PipelineHarness, random: Random, step: Step) -> None:
        """So that there is something to crash at: a run that can go on, room for a job, a result, a thumbnail due."""
        if not await self.rows("SELECT 1 FROM pipeline_runs WHERE status = 'active' AND reason IS NULL"):
            await self.start(plane, random)
        if step is PipelineSimulation.advance_due:
            await self.finish_jobs(plane, random)
            await plane.room.collector.tick(NOW)
        await self.rows(DUE_RUNS)
        if step is not PipelineSimulation.advance_due:
            await plane.room.scheduler.tick(NOW)
        if step is PipelineSimulation.collect:
            await self.finish_jobs(plane, random)
        if step is PipelineSimulation.make_thumbnails:
            await self.rows(DUE_THUMBNAILS)

    async def finish_jobs(self, plane: PipelineHarness, random: Random) -> None:
        await self.lease(plane, random)
        while self.held:
            # It may have lost its lease.
            with suppress(Refusal):
                await self.report(plane, random)

    async def start(self, plane: PipelineHarness, random: Random) -> None:
        active = "SELECT 1 FROM pipeline_runs WHERE status = 'active' AND reason IS NULL"
        if len(await self.rows(active)) >= MAX_RUNS:
            return
        wanted: dict[str, Any] = {
            "seed": random.randrange(1000),
            "target_leaves": random.choice((1, 2, 4)),
            "budget": random.choice((45, 120, 1000)),
            "strategy": random.choice(list(Strategy)),
            "max_children": random.choice((None, 1, 3)),
            "concurrency": random.choice((None, None, 1)),
        }
        self.runs.append(await plane.run(random.choice(self.pipelines), **wanted))

    async def advance_due(self, plane: PipelineHarness, random: Random) -> None:
        if random.random() < 0.6:
            await self.rows(DUE_RUNS)
        await plane.room.scheduler.tick(NOW)

    async def collect(self, plane: PipelineHarness, random: Random) -> None:
        await plane.room.collector.tick(NOW)

    async def lease(self, plane: PipelineHarness, random: Random) -> None:
        started = await plane.lease()
        if started is not None:
            self.held.append(started)

    async def report(self, plane: PipelineHarness, random: Random) -> None:
        """A worker finishes a job, or a job whose lease it has lost."""
        if not self.held:
            return
        started = self.held.pop(random.randrange(len(self.held)))
        chance = random.random()
        if chance < 0.12:
            await plane.core.fail(started)
        elif chance < 0.2:
            await plane.core.fail(started, retryable=True)
        else:
            await plane.deliver(started, random.choice((0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 3)), IMAGE)

    async def grow(self, plane: PipelineHarness, random: Random) -> None:
        """An undisturbed moment: due jobs are started, rendered, and their results kept."""
        for _ in range(random.randrange(1, 4)):
            await self.rows(DUE_RUNS)
            await plane.room.scheduler.tick(NOW)
            await self.lease(plane, random)
            await self.report(plane, random)
            await plane.room.collector.tick(NOW)

    async def lose_time(self, plane: PipelineHarness, random: Random) -> None:
        """A lease runs out, or a job's deadline passes; delays are over."""
        central = self.databases.central
        leased = await plane.core.rows(central, "SELECT dispatch_id FROM ai_job_dispatches WHERE status <> 'queued'")
        if leased and random.random() < 0.6:
            await plane.core.expire_lease(random.choice(leased)["dispatch_id"])
        active = "SELECT id FROM ai_jobs WHERE status IN ('pending', 'queued', 'processing')"
        if (jobs := await self.rows(active)) and random.random() < 0.3:
            job_id = random.choice(jobs)["id"]
            past = "SET deadline_at = clock_timestamp() - interval '1 s'"
            await self.rows(f"UPDATE ai_jobs {past} WHERE id = $1", job_id)
            await plane.core.rows(central, f"UPDATE ai_job_dispatches {past} WHERE tenant_job_id = $1", job_id)
            await plane.core.enforce_deadlines()
        await plane.core.reap()
        await plane.core.relay()
        await plane.core.queue.promote(datetime.now(UTC) + AFTER_EVERY_DEADLINE)

    async def vote(self, plane: PipelineHarness, random: Random) -> None:
        principal, run = principal_of(self.ann), random.choice(self.runs)
        votes = plane.room.guidance.votes
        pair = await votes.pair(principal, run.id, None, random.randrange(1000))
        if pair.candidates:
            winner, loser = random.sample([each.id for each in pair.candidates], 2)
            vote, _ = await votes.vote(principal, run.id, CastVote(winner_id=winner, loser_id=loser))
            self.votes.append(vote)

    async def undo(self, plane: PipelineHarness, random: Random) -> None:
        if self.votes:
            vote = self.votes.pop(random.randrange(len(self.votes)))
            await plane.room.guidance.votes.undo(principal_of(self.ann), vote.run_id, vote.id)

    async def kill(self, plane: PipelineHarness, random: Random) -> None:
        # Rather one that is a parent at this moment.
        parents = "SELECT DISTINCT parent_id AS id FROM candidate_slots WHERE status = 'open' AND parent_id IS NOT NULL"
        found = await self.rows(parents) or await self.rows("SELECT id FROM candidates ORDER BY id")
        if found:
            chosen = random.choice(sorted(row["id"] for row in found))
            await plane.room.guidance.branches.kill(principal_of(self.ann), chosen)

    async def approve(self, plane: PipelineHarness, random: Random) -> None:
        await plane.room.guidance.branches.approve(principal_of(self.ann), random.choice(self.runs).id, "one")

    async def pause(self, plane: PipelineHarness, random: Random) -> None:
        await plane.room.runs.pause(principal_of(self.ann), random.choice(self.runs).id)

    async def resume(self, plane: PipelineHarness, random: Random) -> None:
        """Rather one that does not go on."""
        idle = await self.rows("SELECT id FROM pipeline_runs WHERE status IN ('paused', 'completed') ORDER BY id")
        if idle:
            await plane.room.runs.resume(principal_of(self.ann), random.choice(idle)["id"])

    async def cancel(self, plane: PipelineHarness, random: Random) -> None:
        # Rather one that has a job under way.
        busy = await self.rows("SELECT DISTINCT run_id AS id FROM candidate_slots WHERE status = 'open'")
        ids = sorted(row["id"] for row in busy) or [run.id for run in self.runs]
        await plane.room.runs.cancel(principal_of(self.ann), random.choice(ids))

    async def change_budget(self, plane: PipelineHarness, random: Random) -> None:
        wanted = UpdateRun(budget=random.choice((50, 100, 200)))
        await plane.room.runs.update(principal_of(self.ann), random.choice(self.runs).id, wanted)

    async def replay(self, plane: PipelineHarness, random: Random) -> None:
        if found := await self.rows("SELECT id FROM candidates ORDER BY id"):
            await plane.room.guidance.lineages.replay(principal_of(self.ann), random.choice(found)["id"], Replay())

    async def delete_file(self, plane: PipelineHarness, random: Random) -> None:
        if found := await self.rows("SELECT file_id FROM candidates ORDER BY id"):
            self.deleted = True
            await self.media.delete_file(random.choice(found)["file_id"])

    async def make_thumbnails(self, plane: PipelineHarness, random: Random) -> None:
        if random.random() < 0.5:
            # Who had claimed them has died.
            await self.rows(DUE_THUMBNAILS)
        await plane.room.guidance.thumbnails.tick(NOW)

    async def prune(self, plane: PipelineHarness, random: Random) -> None:
        await plane.room.guidance.pruner.tick(NOW)

    async def check(self) -> list[Tree]:
        await self.planes[0].core.check()
        trees = await read_trees(self.ann.pool)
        problems = [problem for tree in trees for problem in tree.problems()]
        assert not problems, problems
        under_way = {tree.run["id"]: sum(slot["status"] == "open" for slot in tree.slots) for tree in trees}
        for tree in trees:
            assert under_way[tree.run["id"]] <= min(JOBS_PER_RUN, tree.run["concurrency"] or JOBS_PER_RUN)
        assert sum(under_way.values()) <= JOBS_IN_TOTAL
        return trees

    async def run_to_the_end(self) -> None:
        """Left alone with a worker that is well: every job ends, and every run, or it says why it does not."""
        plane = self.plane()
        held, self.held = self.held, []
        for started in held:
            await plane.core.expire_lease(started.lease.dispatch_id)
        for _ in range(200):
            await self.lose_time(plane, Random("nothing is lost"))
            await plane.room.guidance.pruner.tick(NOW)
            await self.rows(DUE_RUNS)
            await plane.tick()
            if not await self._work(plane):
                break
        else:
            raise AssertionError("it does not end")
        await self.rows(DUE_THUMBNAILS)
        while await plane.room.guidance.thumbnails.tick(NOW):
            pass
        await plane.room.guidance.thumbnails.stop()
        await plane.core.check_drained()
        for tree in await self.check():
            assert list(tree.unsettled()) == []
            run = tree.run
            assert run["status"] == "canceled" or run["reason"] is not None, f"it stands still and says nothing: {run}"
            if run["reason"] == "target_reached":
                # A candidate that was killed since then stays killed until a user resumes it.
                leaves = [each["rejected_at"] for each in tree.candidates if each["position"] == run["steps"]]
                assert sum(at is None or at > run["ended_at"] for at in leaves) >= run["target_leaves"]
        assert await image_problems(self.ann.pool, self.media.room.files.storage, deleted=self.deleted) == []

    async def _work(self, plane: PipelineHarness) -> int:
        worked = 0
        while (started := await plane.lease()) is not None:
            await plane.deliver(started, content=IMAGE)
            worked += 1
        return worked


Step = Callable[[PipelineSimulation, PipelineHarness, Random], Awaitable[None]]
STEPS: tuple[tuple[Step, int], ...] = (
    (PipelineSimulation.start, 4),
    (PipelineSimulation.grow, 16),
    (PipelineSimulation.advance_due, 10),
    (PipelineSimulation.collect, 8),
    (PipelineSimulation.lease, 10),
    (PipelineSimulation.report, 10),
    (PipelineSimulation.lose_time, 2),
    (PipelineSimulation.vote, 4),
    (PipelineSimulation.undo, 1),
    (PipelineSimulation.kill, 1),
    (PipelineSimulation.approve, 3),
    (PipelineSimulation.pause, 1),
    (PipelineSimulation.resume, 3),
    (PipelineSimulation.cancel, 1),
    (PipelineSimulation.change_budget, 1),
    (PipelineSimulation.replay, 1),
    (PipelineSimulation.delete_file, 1),
    (PipelineSimulation.make_thumbnails, 3),
    (PipelineSimulation.prune, 1),
)

# Where each can crash.
POINTS: dict[Step, tuple[Failpoint, ...]] = {
    PipelineSimulation.advance_due: (
        Failpoint.PIPELINE_CLAIMED_BEFORE_READ,
        Failpoint.PIPELINE_CHOSEN_BEFORE_SUBMIT,
        Failpoint.PIPELINE_SUBMITTED_BEFORE_NEXT,
        Failpoint.SUBMIT_BEFORE_RELAY,
        Failpoint.RELAY_BEFORE_QUEUED,
    ),
    PipelineSimulation.collect: (
        Failpoint.PIPELINE_RESULT_BEFORE_SETTLE,
        Failpoint.PIPELINE_COPY_BEFORE_CANDIDATES,
    ),
    PipelineSimulation.kill: (Failpoint.PIPELINE_KILL_BEFORE_CANCELS,),
    PipelineSimulation.cancel: (Failpoint.PIPELINE_CANCEL_BEFORE_JOBS,),
    PipelineSimulation.make_thumbnails: (
        Failpoint.PIPELINE_THUMBNAIL_BEFORE_OBJECT,
        Failpoint.PIPELINE_THUMBNAIL_BEFORE_ROW,
    ),
}
LAST_POINTS: dict[Step, Failpoint] = {
    PipelineSimulation.advance_due: Failpoint.PIPELINE_CHOSEN_BEFORE_SUBMIT,
    PipelineSimulation.collect: Failpoint.PIPELINE_COPY_BEFORE_CANDIDATES,
    PipelineSimulation.kill: Failpoint.PIPELINE_KILL_BEFORE_CANCELS,
    PipelineSimulation.cancel: Failpoint.PIPELINE_CANCEL_BEFORE_JOBS,
    PipelineSimulation.make_thumbnails: Failpoint.PIPELINE_THUMBNAIL_BEFORE_ROW,
}
CRASHES: dict[Step, int] = {step: len(points) for step, points in POINTS.items()}
CRASHES[PipelineSimulation.collect] = 4
EVERY_POINT = frozenset(point for points in POINTS.values() for point in points)
