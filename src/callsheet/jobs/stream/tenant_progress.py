"""The progress of all running jobs of a tenant, for one reader of its stream: the latest value of each job, once.

However many jobs run, a reader costs the same: it reads one page of them, by key, at most every PAGE_SECONDS, and then
the next page. The images of workers are not sent, because those of thousands of jobs would be hundreds of megabytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from callsheet.jobs.lease.progress import MAX_AT_ONCE, TenantProgressRow, progress_of_tenant
from callsheet.plumbing.database.database import Database

PAGE_SECONDS = 0.05
FIRST = UUID(int=0)


class TenantWatch:
    def __init__(self, pool: Database, tenant_id: UUID):
        self._pool = pool
        self._tenant_id = tenant_id
        self._after = FIRST
        # What the reader has, by job: since the pass before this one, and of this pass. Ended jobs drop out.
        self._before: dict[UUID, datetime] = {}
        self._shown: dict[UUID, datetime] = {}
        self._next_page = 0.0

    async def news(self) -> tuple[Sequence[TenantProgressRow], bool]:
        """New progress of one page of jobs, and whether the next page should be read soon.

        If the jobs do not fit into a page, there is always a next one: what woke the reader may be on any page.
        """
        now = asyncio.get_running_loop().time()
        if now < self._next_page:
            return [], True
        self._next_page = now + PAGE_SECONDS
        async with self._pool.connection() as connection:
            rows = await progress_of_tenant(connection, self._tenant_id, self._after)
        running = [row for row in rows if row.is_running]
        self._shown |= {row.job_id: row.updated_at for row in running}
        news = [row for row in running if self._before.get(row.job_id) != row.updated_at]
        is_full = len(rows) == MAX_AT_ONCE
        has_more = is_full or self._after != FIRST
        if is_full:
            self._after = rows[-1].job_id
        else:
            self._after, self._before, self._shown = FIRST, self._shown, {}
        return news, has_more
