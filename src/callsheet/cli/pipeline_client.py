"""The part of the HTTP API that is about pipelines, as commands use it."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from urllib.parse import quote

from callsheet.cli.client import Client, Model, Refused
from callsheet.wire.base import Page
from callsheet.wire.pipelines import CreatePipeline, CreateRun, Pipeline, PipelineSummary, Run, RunSummary

NOT_FOUND = 404
PAGE = 100


class PipelineClient(Client):
    async def pipeline(self, slug: str) -> Pipeline | None:
        """None where there is no such one."""
        try:
            return await self._ask(Pipeline, "GET", f"/api/pipelines/{_quoted(slug)}")
        except Refused as refused:
            if refused.status == NOT_FOUND and refused.code == "not_found":
                return None
            raise

    async def pipelines(self) -> list[PipelineSummary]:
        return [each async for each in self._all(PipelineSummary, "/api/pipelines")]

    async def create_pipeline(self, wanted: CreatePipeline) -> Pipeline:
        # Once: after an answer that was lost it would be refused as taken. Applying again finds it there.
        return await self._ask(Pipeline, "POST", "/api/pipelines", wanted.model_dump(mode="json"), attempts=1)

    async def update_pipeline(self, wanted: CreatePipeline) -> Pipeline:
        body = wanted.model_dump(mode="json", exclude={"slug"})
        return await self._ask(Pipeline, "PATCH", f"/api/pipelines/{_quoted(wanted.slug)}", body)

    async def start_run(self, pipeline: str, wanted: CreateRun) -> Run:
        # The key makes a second try answer the run of the first, which costs tokens once.
        body = {**wanted.model_dump(mode="json", exclude_none=True), "idempotency_key": uuid.uuid4().hex}
        return await self._ask(Run, "POST", f"/api/pipelines/{_quoted(pipeline)}/runs", body)

    async def runs(self, pipeline: str | None) -> list[RunSummary]:
        path = "/api/runs" if pipeline is None else f"/api/pipelines/{_quoted(pipeline)}/runs"
        return [each async for each in self._all(RunSummary, path)]

    async def change_run(self, run_id: str, verb: str) -> Run:
        return await self._ask(Run, "POST", f"/api/runs/{_quoted(run_id)}/{verb}", {})

    async def _all(self, model: type[Model], path: str) -> AsyncIterator[Model]:
        cursor = ""
        while True:
            page = await self._ask(Page[model], "GET", f"{path}?limit={PAGE}{cursor}")  # type: ignore[valid-type]
            for item in page.items:
                yield item
            if page.next_cursor is None:
                return
            cursor = f"&cursor={_quoted(page.next_cursor)}"


def _quoted(text: str) -> str:
    return quote(text, safe="")
