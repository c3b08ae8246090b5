"""Runs of four steps on a real renderer, steered by votes, while control plane and worker are killed with -9 again and
again: every tree is exact, every token accounted for, and every draw the one that seed and votes lead to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest

from callsheet.app.control_plane import running_control_plane
from callsheet.media.storage import open_storage
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.installation.secrets import master_secret
from callsheet.settings import Settings
from tests.support.comfyui.graphs import Graph, image_graph, node
from tests.support.comfyui.lightbox import lightbox_process
from tests.support.http.accounts import People, Person
from tests.support.http.catalog_api import CatalogApi
from tests.support.jobs.core import open_core
from tests.support.jobs.invariants import drained
from tests.support.pipelines.replayed_draws import strange_draws
from tests.support.pipelines.tree_invariants import image_problems, read_trees
from tests.support.programs.control_plane_process import ControlPlaneProcess, control_plane_process
from tests.support.programs.worker_process import WorkerProcess, worker_process
from tests.support.waiting import until

LEAVES, COST, TOKENS = 10, 5, 2000
# Of the control plane, and of the worker.
KILLS, KILLS_IN_LONG_FORM = 2, 20
VOTES = 12
POLL_SECONDS = 0.1
PARENT = "{{parent_image_path}}"
BASE: Graph = {
    "paint": node("LightboxTextToImage", text="{{prompt}}", seed="{{seed}}", width=48, height=32, steps=1),
    "save": node("SaveImage", images=["paint", 0], filename_prefix="base"),
}
FIX = image_graph(PARENT, ("ImageInvert", {}))
UPSCALE = image_graph(PARENT, ("ImageScaleBy", {"upscale_method": "bilinear", "scale_by": 2.0}))
GRAPHS = {"base": BASE, "face fix": FIX, "hand fix": FIX, "upscale": UPSCALE}
QUICK = {
    "CALLSHEET_PIPELINES__JOBS_IN_TOTAL": "2",
    "CALLSHEET_PIPELINES__SUBMIT_SECONDS": "0.5",
    "CALLSHEET_PIPELINES__POLL_SECONDS": "0.5",
    "CALLSHEET_TASKS__IN_PROCESS": "0",
}
# As if the process that claimed them had been away for longer than a claim lasts.
HURRY = "UPDATE candidates SET thumbnail_due_at = clock_timestamp() WHERE thumbnail_due_at IS NOT NULL RETURNING 1"


@dataclass
class PipelineInstallation:
    """An installation with one user, workflows for the steps, and the runs of the user."""

    settings: Settings
    databases: Databases
    pool: Database
    person: Person
    workflows: list[str]
    client: httpx.AsyncClient
    runs: list[str] = field(default_factory=list)

    async def ask(self, method: str, path: str, body: Any = None) -> httpx.Response:
        """Again and again while the control plane is away: everything asked for here may be asked for twice."""
        responses: list[httpx.Response] = []

        async def has_response() -> bool:
            with suppress(httpx.TransportError):
                responses.append(await self.client.request(method, path, json=body, headers=self.person.headers))
            return bool(responses) and responses[-1].status_code != 503

        await until(has_response, 120, POLL_SECONDS)
        assert responses[-1].is_success, responses[-1].text
        return responses[-1]

    async def begin(self, pipeline: str, **wanted: Any) -> str:
        request = {"name": f"Run of {pipeline}", "prompt": "a gym at dawn", "seed": 7, "target_leaves": LEAVES}
        run = (await self.ask("POST", f"/api/pipelines/{pipeline}/runs", {**request, **wanted})).json()
        self.runs.append(run["id"])
        return str(run["id"])

    async def vote(self, run_id: str) -> None:
        """One after the other while the run goes on: of two, the one whose number is even, or the older."""
        for turn in range(VOTES):
            pair: list[dict[str, Any]] = []

            async def is_offered(turn: int = turn, pair: list[dict[str, Any]] = pair) -> bool:
                pair[:] = (await self.ask("GET", f"/api/runs/{run_id}/pair?seed={turn}")).json()["candidates"]
                return bool(pair) or await self.are_over()

            await until(is_offered, 240, POLL_SECONDS)
            if not pair:
                return
            winner, loser = sorted(pair, key=lambda each: (each["number"] % 2, each["number"]))
            cast = {"winner_id": winner["id"], "loser_id": loser["id"]}
            await self.ask("POST", f"/api/runs/{run_id}/votes", cast)

    async def draws(self) -> int:
        async with self.pool.connection() as connection:
            return int(await connection.fetchval("SELECT sum(draws) FROM pipeline_runs"))

    async def are_over(self) -> bool:
        async with self.pool.connection() as connection:
            return not await connection.fetch("SELECT 1 FROM pipeline_runs WHERE status = 'active' AND reason IS NULL")

    async def kill(self, plane: ControlPlaneProcess, worker: WorkerProcess, random: Random, kills: int) -> None:
        """Kills one of the two, or both, each time after a few more jobs were started."""
        victims = [(True, False), (False, True)] * kills
        random.shuffle(victims)
        for kills_plane, kills_worker in victims:
            wanted = await self.draws() + random.randrange(1, 4)

            async def has_gone_on(wanted: int = wanted) -> bool:
                return await self.draws() >= wanted or await self.are_over()

            await until(has_gone_on, 240, POLL_SECONDS)
            await asyncio.sleep(random.uniform(0, 0.3))
            if kills_plane:
                await plane.kill()
                await plane.spawn()
            if kills_worker:
                await worker.kill()
                await worker.start()

    async def becomes_idle(self) -> None:
        async def rests() -> bool:
            async with self.pool.connection() as connection:
                is_open = await connection.fetch("SELECT 1 FROM candidate_slots WHERE status = 'open'")
                due = await connection.fetch(HURRY)
            return not is_open and not due and await self.are_over() and not await drained(self.databases)

        await until(rests, 300, 0.5)


@asynccontextmanager
async def open_pipeline_installation(settings: Settings, databases: Databases) -> AsyncIterator[PipelineInstallation]:
    """A user with tokens and two pipelines: one that runs by itself, and one that follows the votes."""
    async with (
        httpx.AsyncClient(base_url=settings.public_url, trust_env=False, timeout=10) as client,
        running_control_plane(settings) as plane,
    ):
        catalog_api = await CatalogApi.open(
            plane, client, People(plane.rooms.identity.accounts, plane.rooms.identity.keys)
        )
        ann = await catalog_api.person(tokens=TOKENS)
        slugs = [await catalog_api.sold_image_workflow(graph, COST) for graph in GRAPHS.values()]
        for slug, children, best in (("alone", 1, None), ("voted", 2, LEAVES // 2)):
            steps = [
                {
                    "name": name,
                    "workflow": workflow,
                    "needs_run_prompt": not place,
                    "needs_parent_image_path": bool(place),
                    "max_children": children,
                    # Nothing follows the last step.
                    "top_k": best if place + 1 < len(GRAPHS) else None,
                }
                for place, (name, workflow) in enumerate(zip(GRAPHS, slugs, strict=True))
            ]
            await catalog_api.made("/api/pipelines", {"slug": slug, "name": slug, "steps": steps}, person=ann)
    async with httpx.AsyncClient(base_url=settings.public_url, trust_env=False, timeout=10) as client:
        yield PipelineInstallation(settings, databases, await databases.pool("pool_1"), ann, slugs, client)


@pytest.mark.thorough
async def test_g1_g2_g12_runs_reach_their_leaves_whatever_is_killed_at_any_time(
    settings: Settings, databases: Databases, tmp_path: Path, long_form: bool, chaos_seed: int
) -> None:
    async with (
        open_pipeline_installation(settings, databases) as pipeline_installation,
        lightbox_process(tmp_path / "lightbox") as lightbox,
        control_plane_process(settings, tmp_path, **QUICK) as plane,
        worker_process(settings, tmp_path, lightbox.url, pipeline_installation.workflows) as worker,
    ):
        voted = await pipeline_installation.begin("voted", strategy="breadth_first", budget=100 * COST)
        if long_form:
            await pipeline_installation.begin("alone", budget=LEAVES * len(GRAPHS) * COST)
        kills = KILLS_IN_LONG_FORM if long_form else KILLS
        await asyncio.gather(
            pipeline_installation.vote(voted), pipeline_installation.kill(plane, worker, Random(chaos_seed), kills)
        )
        await pipeline_installation.becomes_idle()
    trees = await read_trees(pipeline_installation.pool)
    for tree in trees:
        assert [*tree.problems(), *tree.unsettled()] == []
        assert (tree.run["status"], tree.run["reason"]) == ("completed", "target_reached")
        leaves = [each for each in tree.candidates if each["position"] == len(GRAPHS)]
        assert len(leaves) >= LEAVES
        assert max(each["child_count"] for each in tree.candidates) <= tree.steps[1]["max_children"]
        # At most one job at a time, so the seed and the votes say what was drawn.
        assert list(strange_draws(tree)) == []
    assert any(tree.votes for tree in trees)
    core = open_core(databases)
    await core.check_drained()
    spent = sum(tree.run["spent"] for tree in trees)
    async with pipeline_installation.pool.connection() as connection:
        balance = await connection.fetchval(
            "SELECT balance FROM token_wallets WHERE owner_id = $1", pipeline_installation.person.user.id
        )
    assert balance == TOKENS - spent
    storage = open_storage(settings, master_secret(settings), None)
    assert await image_problems(pipeline_installation.pool, storage) == []
    await storage.close()
