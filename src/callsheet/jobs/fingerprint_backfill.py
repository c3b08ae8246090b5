"""Adds fingerprints to old errors, and outcomes to old jobs, which were written before fingerprints and outcomes
existed.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from uuid import UUID

from callsheet.jobs.fingerprints import LONGEST_MESSAGE, fingerprint_of
from callsheet.jobs.sql import BACKFILL_SQL
from callsheet.plumbing.backfills import Backfill, BackfillPlace
from callsheet.plumbing.database import Database
from callsheet.plumbing.failpoints import Failpoint, hit

BATCH = 1000


class JobToFingerprint(NamedTuple):
    """A job in key order. `error` is None if it has a fingerprint or the job has no error."""

    tenant_id: UUID
    id: UUID
    charge_cycle: int
    error: Any
    has_no_outcome: bool


class FingerprintBackfill(Backfill):
    name = "error_fingerprints"
    batch = BATCH

    async def fill(self, pool: Database, after: BackfillPlace) -> None:
        async with pool.ordinary() as connection:
            rows = await BACKFILL_SQL["jobs_to_fingerprint"].rows(
                connection, JobToFingerprint, **after._asdict(), limit=self.batch, longest=LONGEST_MESSAGE
            )
        found = [
            {
                "tenant_id": str(row.tenant_id),
                "job_id": str(row.id),
                "charge_cycle": row.charge_cycle,
                "error_fingerprint": fingerprint_of(row.error) if row.error else None,
            }
            for row in rows
            if row.error or row.has_no_outcome
        ]
        await hit(Failpoint.BACKFILL_READ_BEFORE_WRITE)
        async with pool.transaction() as connection:
            if not await self.hold(connection, after):
                return
            if found:
                await BACKFILL_SQL["fingerprint_jobs"].run(connection, jobs=found)
            await self.move(connection, BackfillPlace(rows[-1].tenant_id, rows[-1].id) if rows else None)
