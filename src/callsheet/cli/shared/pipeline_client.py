"""The client of the commands for pipelines."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from pydantic import RootModel

from callsheet.cli.shared.operations_client import CommandClient
from callsheet.client.requests import quoted
from callsheet.client.transport import Counted
from callsheet.wire.errors import NotFound
from callsheet.wire.pipelines.pipelines import (
    Candidate,
    CreatePipeline,
    CreateRun,
    Pipeline,
    PipelineSummary,
    Run,
    RunSummary,
)

Candidates = RootModel[list[Candidate]]


class PipelineClient(CommandClient):
    async def pipeline(self, slug: str) -> Pipeline | None:
        """The pipeline, or None if it does not exist."""
        try:
            return await self.ask(Pipeline, "GET", f"/api/pipelines/{quoted(slug)}")
        except NotFound:
            return None

    async def pipelines(self) -> list[PipelineSummary]:
        return await self.all_of(PipelineSummary, "/api/pipelines")

    async def create_pipeline(self, wanted: CreatePipeline, *, dry_run: bool = False) -> Pipeline:
        body = wanted.model_dump(mode="json")
        return await self.post(Pipeline, f"/api/pipelines{_planned(dry_run)}", body)

    async def update_pipeline(self, wanted: CreatePipeline, *, dry_run: bool = False) -> Pipeline:
        body = wanted.model_dump(mode="json", exclude={"slug"})
        path = f"/api/pipelines/{quoted(wanted.slug)}{_planned(dry_run)}"
        return await self.ask(Pipeline, "PATCH", path, body, repeat=True)

    async def start_run(self, pipeline: str, wanted: CreateRun) -> Run:
        # With the key, a second attempt returns the run of the first one and costs no more tokens.
        body, path = wanted.model_dump(mode="json", exclude_none=True), f"/api/pipelines/{quoted(pipeline)}/runs"
        return await self.post(Run, path, body)

    async def runs(self, pipeline: str | None) -> list[RunSummary]:
        path = "/api/runs" if pipeline is None else f"/api/pipelines/{quoted(pipeline)}/runs"
        return await self.all_of(RunSummary, path)

    async def find_run(self, run_id: str) -> Run:
        return await self.ask(Run, "GET", f"/api/runs/{quoted(run_id)}")

    async def winners(self, run_id: str, limit: int) -> list[Candidate]:
        found = await self.ask(Candidates, "GET", f"/api/runs/{quoted(run_id)}/winners?limit={limit}")
        return found.root

    async def export(self, run_id: str, target: Path, counted: Counted, *, everything: bool) -> None:
        chosen = "" if everything else "?status=active"
        await self._calls.transfers.save_response(f"/api/runs/{quoted(run_id)}/export{chosen}", target, counted)

    async def change_run(self, run_id: str, verb: str) -> Run:
        return await self.post(Run, f"/api/runs/{quoted(run_id)}/{verb}", {})

    async def delete_run(self, run_id: str) -> None:
        # Not found: the response to an earlier attempt was lost, or another client was faster.
        with suppress(NotFound):
            await self.request("DELETE", f"/api/runs/{quoted(run_id)}")


def _planned(dry_run: bool) -> str:
    return "?dry_run=true" if dry_run else ""
