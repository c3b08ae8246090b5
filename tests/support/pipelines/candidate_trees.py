"""A run and its tree of candidates, written directly to the database: nothing is generated, and no loop runs."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from callsheet.pipelines.judge.branches import Branches, Pruner
from callsheet.pipelines.judge.gallery import Gallery
from callsheet.pipelines.judge.votes import Votes
from callsheet.pipelines.run.slots import NewSlot
from callsheet.toolbox.ids import uuid7
from callsheet.wire.jobs import Job
from callsheet.wire.pipelines.candidates import CastVote, Killed, Restored, Verdict, Vote
from tests.support.jobs.core import Core, Member, Row
from tests.support.media.media_harness import MediaHarness, principal_of

_numbers = itertools.count(1)
STEPS = ("base", "fix", "upscale")
COST = 10


@dataclass(frozen=True, slots=True)
class Tree:
    core: Core
    ann: Member
    run_id: UUID
    folder: str
    step_ids: tuple[UUID, ...]
    # All candidates are outputs of it.
    job_id: UUID

    @classmethod
    async def plant(
        cls, core: Core, ann: Member, steps: tuple[str, ...] = STEPS, status: str = "active", **step: Any
    ) -> Tree:
        """`step`: columns of all its steps. A paused run is left alone by the loops of a control plane."""
        pipeline_id, run_id, step_ids = uuid7(), uuid7(), tuple(uuid7() for _ in steps)
        folder = f"run-{next(_numbers)}"
        job = await core.submit(ann, cost=0, workflow_id=await core.add_workflow())
        workflow = (await core.job(ann, job.id))["workflow_id"]
        await core.complete(await core.start("planter", core.criteria(workflow)))
        columns = {"max_children": 5, "requires_approval": False, **step}
        async with ann.pool.transaction() as connection:
            await connection.execute(
                "INSERT INTO pipelines (tenant_id, id, user_id, slug, name) VALUES ($1, $2, $3, $4, 'Pipeline')",
                *(ann.tenant_id, pipeline_id, ann.user_id, f"tree-{next(_numbers)}"),
            )
            await connection.execute(
                """INSERT INTO step_documents (tenant_id, pipeline_id, digest, "values")
                   VALUES ($1, $2, sha256('s'), '{}')""",
                *(ann.tenant_id, pipeline_id),
            )
            for position, (step_id, slug) in enumerate(zip(step_ids, steps, strict=True), start=1):
                await connection.execute(
                    """INSERT INTO pipeline_steps (tenant_id, id, pipeline_id, version, position, name, slug, workflow,
                       effect_id, document, max_children, requires_approval)
                       VALUES ($1, $2, $3, 1, $4, $5, $6, 'paint', $7, sha256('s'), $8, $9)""",
                    *(ann.tenant_id, step_id, pipeline_id, position, slug.title(), slug, uuid7()),
                    *(columns["max_children"], columns["requires_approval"]),
                )
            await connection.execute(
                """INSERT INTO pipeline_runs (tenant_id, id, user_id, pipeline_id, pipeline_version, steps, name,
                   target_folder, seed, target_leaves, budget, status)
                   VALUES ($1, $2, $3, $4, 1, $5, 'A run', $6, 7, 10, 1000, $7)""",
                *(ann.tenant_id, run_id, ann.user_id, pipeline_id, len(steps), folder, status),
            )
        return cls(core, ann, run_id, folder, step_ids, job.id)

    async def candidate(self, parent: UUID | None = None, **columns: Any) -> UUID:
        position = 1 if parent is None else (await self.row(parent))["position"] + 1
        candidate_id, number = uuid7(), (await self.run())["candidates"] + 1
        last = position == len(self.step_ids)
        values = {
            "tenant_id": self.ann.tenant_id,
            "id": candidate_id,
            "run_id": self.run_id,
            "number": number,
            "step_id": self.step_ids[position - 1],
            "position": position,
            "parent_id": parent,
            "job_id": self.job_id,
            "output_index": next(_numbers),
            "file_id": uuid7(),
            "seed": number,
            "max_children": 0 if last else 5,
            **columns,
        }
        names = ", ".join(f'"{name}"' for name in values)
        places = ", ".join(f"${place}" for place in range(1, len(values) + 1))
        async with self.ann.pool.transaction() as connection:
            await connection.execute(f"INSERT INTO candidates ({names}) VALUES ({places})", *values.values())
            await connection.execute(
                "UPDATE candidates SET child_count = child_count + 1 WHERE tenant_id = $1 AND id = $2",
                *(self.ann.tenant_id, parent),
            )
            await connection.execute(
                """UPDATE pipeline_runs SET candidates = $3, active_bases = active_bases + $4
                   WHERE tenant_id = $1 AND id = $2""",
                *(self.ann.tenant_id, self.run_id, number, int(parent is None)),
            )
        return candidate_id

    async def begin(self, parent: UUID | None, core: Core | None = None) -> Job:
        """A job for the next place below the parent, submitted as the loop does."""
        run = await self.run()
        row = await self.row(parent) if parent else None
        position = row["position"] + 1 if row else 1
        slot = NewSlot(
            run_id=self.run_id,
            step_id=self.step_ids[position - 1],
            position=position,
            parent_id=parent,
            ordinal=row["slots"] + 1 if row else run["draws"] + 1,
            draw=run["draws"] + 1,
            seed=1,
            lineage={"prompt": "a cat"},
            per_run=100,
            in_total=100,
        )
        return await (core or self.core).submit(self.ann, kind="pipeline", cost=COST, slot=slot)

    async def row(self, candidate_id: UUID) -> Row:
        query = "SELECT * FROM candidates WHERE tenant_id = $1 AND id = $2"
        return (await self.core.rows(self.ann.pool, query, self.ann.tenant_id, candidate_id))[0]

    async def rows(self) -> list[Row]:
        query = "SELECT * FROM candidates WHERE tenant_id = $1 AND run_id = $2 ORDER BY number"
        return await self.core.rows(self.ann.pool, query, self.ann.tenant_id, self.run_id)

    async def run(self) -> Row:
        query = "SELECT * FROM pipeline_runs WHERE tenant_id = $1 AND id = $2"
        return (await self.core.rows(self.ann.pool, query, self.ann.tenant_id, self.run_id))[0]

    async def elo(self, *candidate_ids: UUID) -> list[int]:
        return [(await self.row(each))["elo"] for each in candidate_ids]

    async def active(self) -> set[UUID]:
        return {row["id"] for row in await self.rows() if row["status"] == "active"}


@dataclass(frozen=True, slots=True)
class Voter:
    """What a person does to a tree, at one control plane."""

    tree: Tree
    gallery: Gallery
    votes: Votes
    branches: Branches
    pruner: Pruner

    @classmethod
    def open(cls, core: Core, media: MediaHarness, tree: Tree) -> Voter:
        gallery = Gallery(core.databases, media.room.files)
        return cls(
            tree,
            gallery,
            Votes(core.databases, gallery),
            Branches(core.databases, gallery, core.room.cancellation, lambda: None),
            Pruner(lambda: core.databases.pools, core.room.cancellation),
        )

    async def vote(self, winner: UUID, loser: UUID, verdict: Verdict = Verdict.WINNER) -> Vote:
        cast = CastVote(winner_id=winner, loser_id=loser, verdict=verdict)
        return (await self.votes.vote(principal_of(self.tree.ann), self.tree.run_id, cast))[0]

    async def undo(self, vote: Vote) -> None:
        await self.votes.undo(principal_of(self.tree.ann), self.tree.run_id, vote.id)

    async def kill(self, candidate_id: UUID) -> Killed:
        return await self.branches.kill(principal_of(self.tree.ann), candidate_id)

    async def restore(self, candidate_id: UUID) -> Restored:
        return await self.branches.restore(principal_of(self.tree.ann), candidate_id)
