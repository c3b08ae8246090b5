"""The pipelines room without HTTP and background loops: the test advances runs and renders jobs itself.

pipelines = open_pipeline_harness(core, ann, media)
pipeline = await pipelines.pipeline("base", "fix", "upscale")
run = await pipelines.run(pipeline, target_leaves=2)
await pipelines.finish(run)                      # until nothing more happens
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from callsheet.catalog.room import CatalogRoom
from callsheet.dispatch.facts import Criteria
from callsheet.jobs.lease.outcomes import StartedLease
from callsheet.jobs.machine.transition_requests import JobOutputFile
from callsheet.pipelines.room import PipelinesRoom
from callsheet.settings import PipelineSettings
from callsheet.toolbox.ids import uuid7
from callsheet.wire.catalog import CreateWorkflow
from callsheet.wire.effects import CreateEffect
from callsheet.wire.pipelines.pipelines import CreatePipeline, CreateRun, Pipeline, Run
from tests.support.jobs.core import Core, Member, Row, report
from tests.support.media.media_harness import MediaHarness, principal_of
from tests.support.rooms import catalog_room, pipelines_room

_numbers = itertools.count(1)
PNG = b"\x89PNG\r\n\x1a\n a picture"
BASE: dict[str, Any] = {
    "1": {"class_type": "PaintPicture", "inputs": {"text": "{{prompt}}", "seed": "{{seed}}"}},
    "9": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "base"}},
}
FIX: dict[str, Any] = {
    "1": {"class_type": "LoadImage", "inputs": {"image": "{{parent_image_path}}"}},
    "2": {"class_type": "ImageBlur", "inputs": {"image": ["1", 0], "seed": "{{seed}}"}},
    "9": {"class_type": "SaveImage", "inputs": {"images": ["2", 0], "filename_prefix": "fix"}},
}
NOW = datetime(2026, 1, 1, tzinfo=UTC)
Fails = Callable[[StartedLease], bool]


@dataclass(frozen=True, slots=True)
class PipelineHarness:
    core: Core
    ann: Member
    media: MediaHarness
    catalog: CatalogRoom
    room: PipelinesRoom

    async def workflow(self, graph: dict[str, Any], cost: int = 10, **changes: Any) -> str:
        """A workflow with this price."""
        number = next(_numbers)
        slug = f"step-{number}"
        request = {"slug": slug, "name": slug, "graph": graph, "output_node_id": "9"}
        image = {"output_extension": "png", "output_mime_type": "image/png"}
        await self.catalog.workflows.create(CreateWorkflow(**{**request, **image, **changes}), "test")
        effect = {"slug": f"step-{number}", "name": "Effect", "workflow": slug, "is_published": True}
        await self.catalog.effects.create(CreateEffect(**effect, credits_cost=cost), "test")
        return slug

    async def steps(self, *names: str, cost: int = 10, **fields: Any) -> list[dict[str, Any]]:
        base, fix = await self.workflow(BASE, cost), await self.workflow(FIX, cost)
        return [
            {
                "name": name,
                "workflow": fix if position else base,
                "needs_run_prompt": not position,
                "needs_parent_image_path": bool(position),
                **fields,
            }
            for position, name in enumerate(names)
        ]

    async def pipeline(self, *names: str, cost: int = 10, **fields: Any) -> Pipeline:
        return await self.define(await self.steps(*names, cost=cost, **fields))

    async def define(self, steps: list[dict[str, Any]]) -> Pipeline:
        slug = f"pipeline-{next(_numbers)}"
        request = CreatePipeline.model_validate({"slug": slug, "name": "A pipeline", "steps": steps})
        return await self.room.pipelines.create(principal_of(self.ann), request)

    async def run(self, pipeline: Pipeline, **changes: Any) -> Run:
        request = {"name": "A run", "prompt": "a gym", "budget": 1000, "seed": 7, **changes}
        return await self.room.runs.create(principal_of(self.ann), pipeline.slug, CreateRun.model_validate(request))

    async def shown(self, run: Run) -> Run:
        return await self.room.runs.shown.get(principal_of(self.ann), run.id)

    async def lease(self) -> StartedLease | None:
        workflows = await self.core.rows(self.core.databases.central, "SELECT id FROM workflows")
        return await self.core.lease("worker-1", Criteria(tuple(row["id"] for row in workflows)))

    async def start(self) -> StartedLease:
        started = await self.lease()
        assert started is not None
        return started

    async def deliver(self, started: StartedLease, images: int = 1, content: bytes = PNG) -> None:
        """Delivers as a worker does over the protocol's routes."""
        lease = started.lease
        outputs = []
        for number in range(images):
            path = f"tenants/{lease.tenant_id}/ai-jobs/{lease.job_id}/output-{uuid7()}.png"
            await self.media.room.files.storage.put(path, content, content_type="image/png")
            outputs.append(JobOutputFile(uuid7(), "local", path, f"picture-{number}.png", "image/png", len(content)))
        result = {"outputs": [{"file_id": str(output.file_id)} for output in outputs]}
        await self.core.room.leases.complete(report(started), result, outputs=outputs)

    async def work(self, fails: Fails = lambda started: False) -> int:
        """Renders every queued job, or lets it fail. Returns the number of jobs."""
        worked = 0
        while (started := await self.lease()) is not None:
            if fails(started):
                await self.core.fail(started)
            else:
                await self.deliver(started)
            worked += 1
        return worked

    async def tick(self) -> None:
        """Does once what the loops do."""
        while await self.room.collector.tick(NOW):
            pass
        await self.room.scheduler.tick(NOW)

    async def finish(self, run: Run, fails: Fails = lambda started: False, *, maximum: int = 500) -> Run:
        """Repeats until there is nothing to do."""
        for _ in range(maximum):
            await self.tick()
            if not await self.work(fails):
                await self.room.collector.tick(NOW)
                return await self.shown(run)
        raise AssertionError("it does not end")

    async def due(self, run: Run) -> None:
        """Makes the run due now."""
        await self.core.rows(self.ann.pool, "UPDATE pipeline_runs SET due_at = '2000-01-01' WHERE id = $1", run.id)

    async def candidates(self, run: Run) -> list[Row]:
        return await self.core.rows(self.ann.pool, "SELECT * FROM candidates WHERE run_id = $1 ORDER BY number", run.id)

    async def slots(self, run: Run) -> list[Row]:
        query = "SELECT * FROM candidate_slots WHERE run_id = $1 ORDER BY draw"
        return await self.core.rows(self.ann.pool, query, run.id)

    async def shape(self, run: Run) -> Counter[int]:
        """The number of candidates of each step."""
        return Counter(row["position"] for row in await self.candidates(run))

    async def family(self, run: Run) -> list[tuple[int, int | None, int]]:
        """The tree without ids: number, number of the parent, seed."""
        rows = await self.candidates(run)
        numbers: dict[UUID | None, int] = {row["id"]: row["number"] for row in rows}
        return [(row["number"], numbers.get(row["parent_id"]), row["seed"]) for row in rows]

    async def check(self, run: Run) -> None:
        """The tree is exact: every count is the number of rows it counts, and every token is accounted for."""
        rows, slots = await self.candidates(run), await self.slots(run)
        [kept] = await self.core.rows(self.ann.pool, "SELECT * FROM pipeline_runs WHERE id = $1", run.id)
        assert [row["number"] for row in rows] == list(range(1, len(rows) + 1))
        assert kept["candidates"] == len(rows)
        assert kept["active_bases"] == sum(row["position"] == 1 and row["status"] == "active" for row in rows)
        assert [slot["draw"] for slot in slots] == list(range(1, kept["draws"] + 1))
        tokens = await self.core.rows(
            self.ann.pool,
            "SELECT coalesce(sum(t.kept), 0) AS kept FROM token_transactions t"
            " JOIN candidate_slots s USING (tenant_id, job_id) WHERE s.run_id = $1",
            run.id,
        )
        held = sum(slot["cost"] for slot in slots if slot["status"] in ("open", "made"))
        replays = await self.core.rows(
            self.ann.pool,
            "SELECT coalesce(sum(cost - CASE WHEN settled_at IS NULL THEN 0"
            " ELSE wallet_refunded(tenant_id, job_id, charge_cycle) END), 0) AS spent"
            " FROM run_replays WHERE run_id = $1",
            run.id,
        )
        assert kept["spent"] == held + tokens[0]["kept"] + replays[0]["spent"]
        assert kept["spent"] <= kept["budget"]
        by_id = {row["id"]: row for row in rows}
        for row in rows:
            children = [each for each in rows if each["parent_id"] == row["id"]]
            counted = [each for each in children if each["rejected_with"] != each["id"] or each["rejected_by"]]
            assert row["child_count"] == len(counted)
            assert row["child_count"] + row["in_flight"] <= row["max_children"]
            assert all(child["position"] == row["position"] + 1 for child in children)
            of_it = [slot for slot in slots if slot["parent_id"] == row["id"]]
            assert row["slots"] == len(of_it)
            assert row["in_flight"] == sum(slot["status"] == "open" for slot in of_it)
            assert row["parent_id"] is None or row["parent_id"] in by_id
        await self.core.check()


def open_pipeline_harness(core: Core, ann: Member, media: MediaHarness, **settings: Any) -> PipelineHarness:
    """Open two, each with its own databases, for two control planes."""
    storage = media.room.files.storage
    catalog = catalog_room(core.databases, storage)
    room = pipelines_room(core.databases, catalog, media.room, core.room, PipelineSettings(**settings))
    return PipelineHarness(core, ann, media, catalog, room)
