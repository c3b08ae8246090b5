"""Names of tenants, users and workflows, and the ids that the names of a filter mean."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

from callsheet.catalog.effects import Effects
from callsheet.operate.all_jobs.filters import ResolvedFilter
from callsheet.operate.all_jobs.sql import CENTRAL_SQL
from callsheet.plumbing.database.databases import Databases
from callsheet.wire.operate.all_jobs import JobFilter

# Number of finished dispatches among which the jobs of a worker are searched: the history has no index by worker.
MAX_HISTORY_READ = 20_000


class TenantName(NamedTuple):
    id: UUID
    slug: str


class NamedUser(NamedTuple):
    id: UUID
    email: str


class WorkflowName(NamedTuple):
    id: int
    slug: str


class Names:
    def __init__(self, databases: Databases, effects: Effects):
        self._databases = databases
        self._effects = effects

    async def resolve(self, wanted: JobFilter, *, searches_texts: bool) -> ResolvedFilter:
        """The filter with ids. A name that does not exist matches no job."""
        central = self._databases.central
        workflow_ids = worker_job_ids = None
        async with central.ordinary() as connection:
            if wanted.workflow:
                workflow_ids = await CENTRAL_SQL["find_workflows"].column(connection, slugs=wanted.workflow)
            if wanted.worker_id:
                worker_job_ids = frozenset(
                    await CENTRAL_SQL["find_jobs_of_worker"].column(
                        connection, worker_id=wanted.worker_id, max_read=MAX_HISTORY_READ
                    )
                )
        effect_ids = await self._effects.ids_of(wanted.effect) if wanted.effect else None
        return ResolvedFilter(wanted, workflow_ids, effect_ids, worker_job_ids, searches_texts)

    async def workflow_ids(self, slugs: list[str]) -> list[int] | None:
        if not slugs:
            return None
        async with self._databases.central.ordinary() as connection:
            return await CENTRAL_SQL["find_workflows"].column(connection, slugs=slugs)

    async def tenants(self, ids: Iterable[UUID]) -> dict[UUID, str]:
        async with self._databases.central.ordinary() as connection:
            rows = await CENTRAL_SQL["name_tenants"].rows(connection, TenantName, ids=sorted(set(ids)))
        return {row.id: row.slug for row in rows}

    async def users(self, ids: Iterable[UUID]) -> dict[UUID, str]:
        async with self._databases.central.ordinary() as connection:
            rows = await CENTRAL_SQL["name_users"].rows(connection, NamedUser, ids=sorted(set(ids)))
        return {row.id: row.email for row in rows}

    async def workflows(self, ids: Iterable[int]) -> dict[int, str]:
        async with self._databases.central.ordinary() as connection:
            rows = await CENTRAL_SQL["name_workflows"].rows(connection, WorkflowName, ids=sorted(set(ids)))
        return {row.id: row.slug for row in rows}
