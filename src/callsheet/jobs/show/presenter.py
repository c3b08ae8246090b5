"""Builds jobs as their users see them: with outputs, progress and outlook.

An ended job needs no query of central. Any number of active jobs needs one query, and one look-up of the capacity of
workers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple, TypeVar
from uuid import UUID

from callsheet.dispatch.facts import JobCycle
from callsheet.dispatch.positions import Positions, QueuePosition
from callsheet.identity.accounts.tenant_pools import TenantRouting
from callsheet.jobs.lease.progress import progress_of
from callsheet.jobs.lease.provider_gate import ProviderGate
from callsheet.jobs.show.outlook import NO_WORKERS, CapacityOf, Facts, Outlook, Route, outlook
from callsheet.media.files import FileRow, Files, listed_files
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.sql import statements
from callsheet.wire.jobs import ACTIVE, Job, JobInput, JobOutput, JobProgress, JobStatus, WhyWaiting
from callsheet.wire.media import MediaPreviews

SQL = statements("callsheet.jobs.show")

AnyJob = TypeVar("AnyJob", bound=Job)


class InputsOfJob(NamedTuple):
    id: UUID
    input_file_ids: Sequence[UUID]


class Presenter:
    def __init__(
        self,
        routing: TenantRouting,
        positions: Positions,
        files: Files,
        capacity_of: CapacityOf,
        gate: ProviderGate,
    ):
        self._routing = routing
        self._positions = positions
        self._files = files
        self._capacity_of = capacity_of
        self._gate = gate

    async def one(self, tenant_id: UUID, job: AnyJob) -> AnyJob:
        [shown] = await self._shown(tenant_id, [job], with_previews=True)
        return shown

    async def many(self, tenant_id: UUID, jobs: Sequence[AnyJob]) -> list[AnyJob]:
        """The jobs of a list: without live previews, and each with its primary input only."""
        return await self._shown(tenant_id, jobs, with_previews=False)

    async def why_waiting(self, tenant_id: UUID, job: Job) -> WhyWaiting | None:
        """The reason alone, without files: for pages that ask again and again."""
        found = await self._outlooks(tenant_id, [job] if job.status in ACTIVE else [], {})
        return found[job.id].why_waiting if found else None

    async def why_queued(self, cycles: Sequence[JobCycle]) -> dict[JobCycle, WhyWaiting]:
        """Why these jobs of any tenants wait, for operators. Jobs that have left the queue are left out."""
        found = await self._placed(cycles)
        return {cycle: each.why_waiting for cycle, each in found.items() if each.why_waiting is not None}

    async def _shown(self, tenant_id: UUID, jobs: Sequence[AnyJob], *, with_previews: bool) -> list[AnyJob]:
        pool = await self._routing.pool_of_tenant(tenant_id)
        running = [job.id for job in jobs if job.status is JobStatus.PROCESSING]
        progress: Mapping[UUID, JobProgress] = {}
        if running:
            async with pool.connection() as connection:
                progress = await progress_of(connection, tenant_id, running, with_previews=with_previews)
        outlooks = await self._outlooks(tenant_id, [job for job in jobs if job.status in ACTIVE], progress)
        media = await self._media(pool, tenant_id, jobs, is_single=with_previews)
        return [_filled(job, progress.get(job.id), outlooks.get(job.id), *media[job.id]) for job in jobs]

    async def _outlooks(
        self, tenant_id: UUID, active: Sequence[Job], progress: Mapping[UUID, JobProgress]
    ) -> dict[UUID, Outlook]:
        if not active:
            return {}
        cycles = {JobCycle(tenant_id, job.id, job.charge_cycle): job for job in active}
        placed = await self._placed(list(cycles), progress)
        return {
            job.id: placed.get(cycle) or outlook(_facts_without_position(job, progress.get(job.id)))
            for cycle, job in cycles.items()
        }

    async def _placed(
        self, cycles: Sequence[JobCycle], progress: Mapping[UUID, JobProgress] | None = None
    ) -> dict[JobCycle, Outlook]:
        """The outlook of each job that is in the queue or runs."""
        positions = await self._positions.of_jobs(cycles) if cycles else {}
        routes = {_route(position) for position in positions.values() if position.status == "queued"}
        capacity = await self._capacity_of(sorted(routes)) if routes else {}
        found = {}
        for cycle, position in positions.items():
            facts = facts_in_queue(position, (progress or {}).get(cycle.job_id))
            facts = replace(facts, pause=self._gate.pause_of(position.provider, cycle.tenant_id))
            found[cycle] = outlook(facts, capacity.get(_route(position), NO_WORKERS))
        return found

    async def _media(
        self, pool: Database, tenant_id: UUID, jobs: Sequence[Job], *, is_single: bool
    ) -> dict[UUID, tuple[list[JobInput], list[JobOutput]]]:
        """The inputs and outputs of each job: two queries for any number of jobs."""
        if not jobs:
            return {}
        async with pool.connection() as connection:
            rows = await SQL["inputs_of_jobs"].rows(
                connection, InputsOfJob, tenant_id=tenant_id, job_ids=[job.id for job in jobs]
            )
        given = {row.id: row.input_file_ids[: None if is_single else 1] for row in rows}
        made = {job.id: _file_ids(job) for job in jobs if job.status is JobStatus.COMPLETED}
        wanted = {file_id for ids in (*given.values(), *made.values()) for file_id in ids}
        found = await self._files.rows(pool, tenant_id, list(wanted)) if wanted else []
        files = {row.id: row for row in found}
        return {
            job.id: (
                [self._input(files[each], with_url=is_single) for each in given.get(job.id, []) if each in files],
                # Only files that the job made are shown, because a result may name any file.
                [self._output(row) for row in map(files.get, made.get(job.id, [])) if row and row.job_id == job.id],
            )
            for job in jobs
        }

    def _input(self, row: FileRow, *, with_url: bool) -> JobInput:
        address = self._files.address(row) if with_url else None
        return JobInput(
            **dict(self._files.shown(row)),
            file_id=row.id,
            name=row.name,
            mime_type=row.mime_type,
            size=row.size,
            url=address.url if address else None,
            url_expires_at=address.expires_at if address else None,
        )

    def _output(self, row: FileRow) -> JobOutput:
        address = self._files.address(row)
        return JobOutput(
            **dict(self._files.shown(row)),
            file_id=row.id,
            name=row.name,
            mime_type=row.mime_type,
            size=row.size,
            sha256=row.sha256,
            url=address.url if address else None,
            url_expires_at=address.expires_at if address else None,
        )


def _filled(
    job: AnyJob,
    progress: JobProgress | None,
    found: Outlook | None,
    inputs: list[JobInput],
    outputs: list[JobOutput],
) -> AnyJob:
    expected = found or Outlook()
    shown = next(iter([*outputs, *inputs]), MediaPreviews())
    return job.model_copy(
        update={
            **{name: getattr(shown, name) for name in MediaPreviews.model_fields},
            "inputs": inputs,
            "progress": progress,
            "outputs": outputs,
            "queue_position": expected.queue_position,
            "queue_position_text": expected.queue_position_text,
            "eta_seconds": expected.eta_seconds,
            "why_waiting": expected.why_waiting,
        }
    )


def _facts_without_position(job: Job, progress: JobProgress | None) -> Facts:
    return with_progress(Facts(job.status, datetime.now(UTC), running_since=job.started_at), progress)


def facts_in_queue(position: QueuePosition, progress: JobProgress | None) -> Facts:
    facts = Facts(
        # The queue's status is newer: the job may have been leased or requeued since it was read.
        status=JobStatus.QUEUED if position.status == "queued" else JobStatus.PROCESSING,
        now=position.now,
        ahead=position.ahead,
        not_before=position.not_before,
        is_active=position.is_active,
        limit=position.max_concurrent,
        in_use=position.in_use or 0,
        running_limits=(
            (position.max_running, position.tenant_running or 0),
            (position.max_running_per_user, position.user_running or 0),
        ),
        average_seconds=position.average_seconds,
        running_since=position.run_started_at or position.last_leased_at,
    )
    return with_progress(facts, progress)


def with_progress(facts: Facts, progress: JobProgress | None) -> Facts:
    if progress is None:
        return facts
    elapsed = None if progress.elapsed_ms is None else progress.elapsed_ms / 1000
    return replace(facts, percent=progress.percent, elapsed_seconds=elapsed, reported_at=progress.updated_at)


def _route(position: QueuePosition) -> Route:
    return position.workflow_id, position.stage, position.provider


def _file_ids(job: Job) -> list[UUID]:
    """The ids of the files that the completion wrote."""
    return listed_files((job.result or {}).get("outputs"))
