"""The versions of a pipeline. Every change of the steps creates a version."""

from __future__ import annotations

from itertools import groupby

from callsheet.identity.access.principal import Principal
from callsheet.pipelines.design.definitions import Pipelines, step_view
from callsheet.pipelines.rows import VersionedStep
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.pages import MAX_PAGE_BYTES
from callsheet.plumbing.database.sql import statements
from callsheet.toolbox.ids import time_of
from callsheet.wire.base import Page
from callsheet.wire.pipelines.design import PipelineVersion

SQL = statements("callsheet.pipelines.design")


class Versions:
    def __init__(self, databases: Databases, pipelines: Pipelines):
        self._databases = databases
        self._pipelines = pipelines

    async def page(
        self, principal: Principal, id_or_slug: str, before: int | None, limit: int
    ) -> Page[PipelineVersion]:
        """The versions, newest first. The numbers of versions have no gaps, so a page is a range of numbers.

        Each version may have a megabyte of payloads, so a page with large payloads ends early.
        """
        pipeline = await self._pipelines.get(principal, id_or_slug)
        newest = pipeline.version if before is None else min(pipeline.version, before - 1)
        oldest = max(1, newest - limit + 1)
        pool = await self._databases.pool(principal.pool)
        async with pool.ordinary() as connection:
            rows = await SQL["steps_of_versions"].rows(
                connection,
                VersionedStep,
                tenant_id=principal.tenant_id,
                pipeline_id=pipeline.id,
                oldest=oldest,
                newest=newest,
                max_bytes=MAX_PAGE_BYTES,
            )
        items = [_version(number, [*steps]) for number, steps in groupby(rows, key=lambda row: row.version)]
        is_cut = bool(items) and items[-1].version > 1
        return Page(items=items, next_cursor=str(items[-1].version) if is_cut else None)


def _version(number: int, rows: list[VersionedStep]) -> PipelineVersion:
    # All steps of a version are written in one transaction, and their ids contain the time.
    return PipelineVersion(
        version=number, created_at=time_of(rows[0].step.id), steps=[step_view(row.step) for row in rows]
    )
