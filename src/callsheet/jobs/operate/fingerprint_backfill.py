"""Adds fingerprints to errors from before fingerprints existed or had today's rules, and outcomes to jobs that ended
before outcomes existed.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from uuid import UUID

from callsheet.jobs.machine.fingerprints import MAX_MESSAGE_LENGTH, fingerprint_of
from callsheet.plumbing.backfills import Backfill, BackfillPlace
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.sql import statements
from callsheet.plumbing.failpoints import Failpoint, hit

SQL = statements("callsheet.jobs.operate", "backfill_statements.sql")

BATCH = 1000


class JobToFingerprint(NamedTuple):
    """A job in key order. `error` is None if the job has no error."""

    tenant_id: UUID
    id: UUID
    charge_cycle: int
    error: Any
    error_fingerprint: str | None
    has_no_outcome: bool


class FingerprintBackfill(Backfill):
    # After a change of the rules, a migration inserts a row with a new name. A control plane of the previous release
    # does not know the new name, so it does not apply its own rules.
    name = "error_fingerprints_2"
    batch = BATCH

    async def fill(self, pool: Database, after: BackfillPlace) -> None:
        async with pool.ordinary() as connection:
            rows = await SQL["jobs_to_fingerprint"].rows(
                connection, JobToFingerprint, **after._asdict(), limit=self.batch, longest=MAX_MESSAGE_LENGTH
            )
        found = [
            {
                "tenant_id": str(row.tenant_id),
                "job_id": str(row.id),
                "charge_cycle": row.charge_cycle,
                "error_fingerprint": fingerprint,
            }
            for row in rows
            for fingerprint in [fingerprint_of(row.error) if row.error else None]
            if row.has_no_outcome or fingerprint not in (None, row.error_fingerprint)
        ]
        await hit(Failpoint.BACKFILL_READ_BEFORE_WRITE)
        async with pool.transaction() as connection:
            if not await self.hold(connection, after):
                return
            if found:
                await SQL["fingerprint_jobs"].run(connection, jobs=found)
            await self.move(connection, BackfillPlace(rows[-1].tenant_id, rows[-1].id) if rows else None)
