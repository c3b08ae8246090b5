"""The part of the HTTP client for pipelines."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

from pydantic import RootModel

from callsheet.cli.shared.client import Client, Counted, Model, ServerRefusal
from callsheet.wire.base import Page
from callsheet.wire.pipelines.pipelines import (
    Candidate,
    CreatePipeline,
    CreateRun,
    Pipeline,
    PipelineSummary,
    Run,
    RunSummary,
)

NOT_FOUND = 404
PAGE = 100


Candidates = RootModel[list[Candidate]]


class PipelineClient(Client):
    async def pipeline(self, slug: str) -> Pipeline | None:
        """The pipeline, or None if it does not exist."""
        try:
            return await self._ask(Pipeline, "GET", f"/api/pipelines/{_quoted(slug)}")
        except ServerRefusal as refused:
            if refused.status == NOT_FOUND and refused.code == "not_found":
                return None
            raise

    async def pipelines(self) -> list[PipelineSummary]:
        return [each async for each in self._all(PipelineSummary, "/api/pipelines")]

    async def create_pipeline(self, wanted: CreatePipeline, *, dry_run: bool = False) -> Pipeline:
        body = wanted.model_dump(mode="json")
        # This is sent once: after a lost response, a second attempt would be refused because the slug is taken. A
        # repeated command finds the pipeline.
        return await self._ask(Pipeline, "POST", f"/api/pipelines{_planned(dry_run)}", body, attempts=1)

    async def update_pipeline(self, wanted: CreatePipeline, *, dry_run: bool = False) -> Pipeline:
        body = wanted.model_dump(mode="json", exclude={"slug"})
        path = f"/api/pipelines/{_quoted(wanted.slug)}{_planned(dry_run)}"
        return await self._ask(Pipeline, "PATCH", path, body)

    async def start_run(self, pipeline: str, wanted: CreateRun) -> Run:
        # With the key, a second attempt returns the run of the first one and costs no more tokens.
        body = {**wanted.model_dump(mode="json", exclude_none=True), "idempotency_key": uuid.uuid4().hex}
        return await self._ask(Run, "POST", f"/api/pipelines/{_quoted(pipeline)}/runs", body)

    async def runs(self, pipeline: str | None) -> list[RunSummary]:
        path = "/api/runs" if pipeline is None else f"/api/pipelines/{_quoted(pipeline)}/runs"
        return [each async for each in self._all(RunSummary, path)]

    async def run(self, run_id: str) -> Run:
        return await self._ask(Run, "GET", f"/api/runs/{_quoted(run_id)}")

    async def winners(self, run_id: str, limit: int) -> list[Candidate]:
        found = await self._ask(Candidates, "GET", f"/api/runs/{_quoted(run_id)}/winners?limit={limit}")
        return found.root

    async def export(self, run_id: str, target: Path, counted: Counted, *, everything: bool) -> None:
        chosen = "" if everything else "?status=active"
        await self.save(f"/api/runs/{_quoted(run_id)}/export{chosen}", target, counted)

    async def change_run(self, run_id: str, verb: str) -> Run:
        return await self._ask(Run, "POST", f"/api/runs/{_quoted(run_id)}/{verb}", {})

    async def delete_run(self, run_id: str) -> None:
        try:
            await self._response("DELETE", f"/api/runs/{_quoted(run_id)}")
        except ServerRefusal as refused:
            # The response to an earlier attempt was lost, or another client was faster.
            if refused.status != NOT_FOUND:
                raise

    async def _all(self, model: type[Model], path: str) -> AsyncIterator[Model]:
        cursor = ""
        while True:
            page = await self._ask(Page[model], "GET", f"{path}?limit={PAGE}{cursor}")  # type: ignore[valid-type]
            for item in page.items:
                yield item
            if page.next_cursor is None:
                return
            cursor = f"&cursor={_quoted(page.next_cursor)}"


def _planned(dry_run: bool) -> str:
    return "?dry_run=true" if dry_run else ""


def _quoted(text: str) -> str:
    return quote(text, safe="")
