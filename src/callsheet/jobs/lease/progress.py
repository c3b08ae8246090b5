"""The latest progress of running jobs: percent, message and preview. It is sent live and stored as one row per job,
without a history.
"""

from __future__ import annotations

import asyncio
import base64
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import asyncpg

from callsheet.dispatch.facts import JobCycle
from callsheet.identity.accounts.tenant_pools import TenantRouting
from callsheet.jobs.machine.journal import CHANNEL
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.notify import Notify
from callsheet.plumbing.database.sql import Connection, statements
from callsheet.toolbox.batching import Batcher
from callsheet.toolbox.concurrently import all_of
from callsheet.toolbox.loops import Loop
from callsheet.toolbox.redaction.redaction import redact_start
from callsheet.wire.jobs import JobPreview, JobProgress
from callsheet.wire.worker.traces import MAX_NODE_ID_LENGTH

SQL = statements("callsheet.jobs.lease", "progress_statements.sql")

MAX_PREVIEW_BYTES = 65_536
# Image types that a browser shows in an <img> but does not execute.
PREVIEW_TYPES = frozenset({"image/jpeg", "image/png", "image/webp", "image/gif"})
MAX_MESSAGE_LENGTH = 500
MAX_ELAPSED_MS = 2**53
# Maximum number of jobs whose progress a stream reads at once. The stream of a user shows other jobs after these have
# ended; the stream of a tenant reads them with its next reads.
MAX_AT_ONCE = 200


class ProgressRow(NamedTuple):
    """The latest progress of one running job, without its preview."""

    job_id: UUID
    percent: float | None
    message: str | None
    elapsed_ms: int | None
    node_id: str | None
    updated_at: datetime
    preview_at: datetime | None


class TenantProgressRow(NamedTuple):
    """The same with the user of the job, and whether it is the run that the job is in now."""

    job_id: UUID
    user_id: UUID
    percent: float | None
    message: str | None
    elapsed_ms: int | None
    node_id: str | None
    updated_at: datetime
    is_running: bool


class JobPreviewRow(NamedTuple):
    job_id: UUID
    preview: bytes
    preview_type: str
    preview_at: datetime


class LeaseProgressRow(NamedTuple):
    """The progress of a running job, as a list of workers shows it."""

    tenant_id: UUID
    job_id: UUID
    percent: float | None
    message: str | None


class RecordedRow(NamedTuple):
    """A job whose progress was recorded, for the notification."""

    tenant_id: UUID
    job_id: UUID
    user_id: UUID


class SweptPage(NamedTuple):
    """How many rows a step of the sweep read and removed, and the last row that it read."""

    rows_read: int
    removed: int
    tenant_id: UUID | None
    job_id: UUID | None


@dataclass(frozen=True, slots=True)
class ProgressReport:
    """A worker's report about its run. Fields that are None keep their earlier values."""

    percent: float | None = None
    message: str | None = None
    elapsed_ms: float | None = None
    preview: bytes | None = None
    preview_type: str | None = None
    # The node of the graph that runs now. An empty text means that no node runs.
    node_id: str | None = None

    def tidied(self) -> ProgressReport:
        """The report in a form that can be stored and shown. An invalid number from a worker must not fail its
        heartbeat.
        """
        percent = self.percent if self.percent is not None and math.isfinite(self.percent) else None
        elapsed = self.elapsed_ms if self.elapsed_ms is not None and math.isfinite(self.elapsed_ms) else None
        preview, kind = self.preview, self.preview_type
        if not preview or len(preview) > MAX_PREVIEW_BYTES or kind not in PREVIEW_TYPES:
            preview = kind = None
        return ProgressReport(
            percent=None if percent is None else min(100.0, max(0.0, float(percent))),
            message=None if self.message is None else _one_line(self.message),
            elapsed_ms=None if elapsed is None else min(MAX_ELAPSED_MS, max(0, round(elapsed))),
            preview=preview,
            preview_type=kind,
            node_id=None if self.node_id is None else _one_line(self.node_id)[:MAX_NODE_ID_LENGTH],
        )

    def after(self, earlier: ProgressReport) -> ProgressReport:
        """Merges this report with an earlier one."""
        return ProgressReport(
            percent=self.percent if self.percent is not None else earlier.percent,
            message=self.message if self.message is not None else earlier.message,
            elapsed_ms=self.elapsed_ms if self.elapsed_ms is not None else earlier.elapsed_ms,
            preview=self.preview if self.preview is not None else earlier.preview,
            preview_type=self.preview_type if self.preview is not None else earlier.preview_type,
            node_id=self.node_id if self.node_id is not None else earlier.node_id,
        )


@dataclass(frozen=True, slots=True)
class ReportOfRun:
    """A report and the run it is about."""

    job: JobCycle
    lease_seq: int
    report: ProgressReport


class JobProgressWriter:
    """Records progress. Reports that arrive together share one statement and one commit."""

    def __init__(self, routing: TenantRouting, notify: Notify):
        self._routing = routing
        self._notify = notify
        self._batchers: dict[str, Batcher[ReportOfRun, None]] = {}

    async def record(self, job: JobCycle, lease_seq: int, report: ProgressReport) -> None:
        """Stores the report if the job runs under exactly this cycle and lease, and wakes the readers of streams."""
        pool = await self._routing.pool_of_tenant(job.tenant_id)
        batcher = self._batchers.get(pool.name)
        if batcher is None:
            batcher = self._batchers[pool.name] = Batcher(self._recording(pool), isolate=(asyncpg.PostgresError,))
        await batcher(ReportOfRun(job, lease_seq, report.tidied()))

    def _recording(self, pool: Database) -> Callable[[Sequence[ReportOfRun]], Awaitable[Sequence[None]]]:
        async def run(batch: Sequence[ReportOfRun]) -> list[None]:
            reports = _latest(batch)
            async with pool.connection() as connection:
                rows = await SQL["record_progress"].rows(
                    connection,
                    RecordedRow,
                    tenant_ids=[each.job.tenant_id for each in reports],
                    job_ids=[each.job.job_id for each in reports],
                    cycles=[each.job.charge_cycle for each in reports],
                    lease_seqs=[each.lease_seq for each in reports],
                    percents=[each.report.percent for each in reports],
                    messages=[each.report.message for each in reports],
                    elapsed=[each.report.elapsed_ms for each in reports],
                    previews=[each.report.preview for each in reports],
                    preview_types=[each.report.preview_type for each in reports],
                    node_ids=[each.report.node_id for each in reports],
                )
            for row in rows:
                self._notify(CHANNEL, f"{row.tenant_id}/{row.user_id}/{row.job_id}")
            return [None] * len(batch)

        return run


async def progress_of_leases(connection: Connection, jobs: Sequence[tuple[UUID, UUID]]) -> list[LeaseProgressRow]:
    """The latest progress of these jobs, by tenant and id. Jobs that do not run, or of another pool, are left out."""
    return await SQL["progress_of_leases"].rows(
        connection, LeaseProgressRow, tenant_ids=[tenant for tenant, _ in jobs], job_ids=[job for _, job in jobs]
    )


async def progress_of_tenant(connection: Connection, tenant_id: UUID, after: UUID) -> list[TenantProgressRow]:
    """The next MAX_AT_ONCE rows of a tenant in the order of their jobs, also of runs that have ended."""
    return await SQL["progress_of_tenant"].rows(
        connection, TenantProgressRow, tenant_id=tenant_id, after=after, limit=MAX_AT_ONCE
    )


class ProgressSweeper(Loop):
    """Removes the progress of runs that have ended. Readers skip those rows anyway; this keeps the table small."""

    name = "progress_sweeper"
    interval_seconds = 60.0
    batch = 500

    def __init__(self, pools: Callable[[], Sequence[Database]]):
        super().__init__()
        self._pools = pools

    async def tick(self, now: datetime) -> None:
        await all_of(self.sweep(pool) for pool in self._pools())

    async def sweep(self, pool: Database) -> int:
        """Checks all rows of a pool, page by page; returns how many were removed."""
        removed, tenant, job = 0, UUID(int=0), UUID(int=0)
        while True:
            async with pool.ordinary() as connection:
                row = await SQL["sweep_progress"].row(
                    connection, SweptPage, after_tenant=tenant, after_job=job, limit=self.batch
                )
            assert row is not None
            removed += row.removed
            if row.rows_read < self.batch or row.tenant_id is None or row.job_id is None:
                return removed
            tenant, job = row.tenant_id, row.job_id
            await asyncio.sleep(0)


class Watch:
    """The values that one reader of a stream has received, so that each value is sent once."""

    def __init__(self, tenant_id: UUID):
        self._tenant_id = tenant_id
        self._shown: dict[UUID, tuple[datetime, datetime | None]] = {}

    def has_seen(self, word: ProgressRow) -> bool:
        return self._shown.get(word.job_id) == (word.updated_at, word.preview_at)

    async def news_of_job(self, pool: Database, word: ProgressRow) -> list[JobProgress | JobPreview]:
        """The new progress of a job. `word`: the latest progress of a running job."""
        async with pool.connection() as connection:
            return await self._news(connection, [word])

    async def news_of_user(self, connection: Connection, user_id: UUID) -> list[JobProgress | JobPreview]:
        rows = await SQL["progress_of_user"].rows(
            connection, ProgressRow, tenant_id=self._tenant_id, user_id=user_id, limit=MAX_AT_ONCE
        )
        return await self._news(connection, rows)

    async def _news(self, connection: Connection, rows: Sequence[ProgressRow]) -> list[JobProgress | JobPreview]:
        before, self._shown = self._shown, {row.job_id: (row.updated_at, row.preview_at) for row in rows}
        news: list[JobProgress | JobPreview] = [
            progress_view(row) for row in rows if before.get(row.job_id, (None,))[0] != row.updated_at
        ]
        with_preview = [
            row.job_id
            for row in rows
            if row.preview_at is not None and before.get(row.job_id, (None, None))[1] != row.preview_at
        ]
        if with_preview:
            previews = await SQL["previews_of_jobs"].rows(
                connection, JobPreviewRow, tenant_id=self._tenant_id, job_ids=with_preview
            )
            news += [
                JobPreview(job_id=row.job_id, preview_url=data_address(row), at=row.preview_at) for row in previews
            ]
        return news


async def progress_of(
    connection: Connection, tenant_id: UUID, job_ids: Iterable[UUID], *, with_previews: bool = False
) -> Mapping[UUID, JobProgress]:
    """The latest progress of each of these jobs that is running and has reported progress."""
    wanted = list(job_ids)
    if not wanted:
        return {}
    rows = await SQL["progress_of_jobs"].rows(connection, ProgressRow, tenant_id=tenant_id, job_ids=wanted)
    found = {row.job_id: progress_view(row) for row in rows}
    with_preview = [row.job_id for row in rows if row.preview_at is not None]
    if with_previews and with_preview:
        previews = await SQL["previews_of_jobs"].rows(
            connection, JobPreviewRow, tenant_id=tenant_id, job_ids=with_preview
        )
        for preview in previews:
            job = found[preview.job_id]
            found[preview.job_id] = job.model_copy(update={"preview_url": data_address(preview)})
    return found


def progress_view(row: ProgressRow | TenantProgressRow) -> JobProgress:
    return JobProgress(
        job_id=row.job_id,
        percent=row.percent,
        message=row.message,
        elapsed_ms=row.elapsed_ms,
        node_id=row.node_id or None,
        updated_at=row.updated_at,
    )


def data_address(row: JobPreviewRow) -> str:
    """The preview image as a data: URL, which an <img> can show."""
    return f"data:{row.preview_type};base64,{base64.b64encode(row.preview).decode('ascii')}"


def _latest(batch: Sequence[ReportOfRun]) -> list[ReportOfRun]:
    """One report per run, because the statement can write a row only once."""
    latest: dict[tuple[JobCycle, int], ReportOfRun] = {}
    for each in batch:
        run = each.job, each.lease_seq
        earlier = latest.get(run)
        latest[run] = replace(each, report=each.report.after(earlier.report)) if earlier else each
    return list(latest.values())


def _one_line(text: str) -> str:
    # PostgreSQL text cannot hold NUL or half of a surrogate pair.
    shown = redact_start(text, MAX_MESSAGE_LENGTH).encode("utf-8", "replace").decode("utf-8")
    return "".join(character if character.isprintable() else " " for character in shown).strip()
