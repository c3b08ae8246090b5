"""The loop that turns ended jobs into candidates, or into strikes against the parent of the job.

A slot stays open until its result is written, in one transaction with all counts of the result. Any control plane can
do this any number of times: keys and ids are derived from the job.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from callsheet.jobs.change.cancel import Cancellation
from callsheet.media.files import Files, listed_files
from callsheet.pipelines.judge.branches import cancel_jobs
from callsheet.pipelines.rows import FailureCounts, JobId, JobOfCanceledRun
from callsheet.pipelines.run.open_jobs import OpenJobs
from callsheet.pipelines.run.runs import CANCELED_WITH_RUN
from callsheet.pipelines.run.strikes import stop_after_strikes
from callsheet.pipelines.run.unwritten_results import UnwrittenResults
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.errors import is_away
from callsheet.plumbing.database.sql import statements
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.settings import PipelineSettings
from callsheet.toolbox.concurrently import all_of
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.loops import Loop
from callsheet.wire.errors import NotFound, Unavailable
from callsheet.wire.jobs import JobStatus

SQL = statements("callsheet.pipelines.run", "loop_statements.sql")

log = get_logger(__name__)
BATCH = 100
# Number of jobs whose end wakes the collector. It finds the others at its next tick.
REMEMBERED = 10_000
_EXTENSION = re.compile(r"[a-z0-9]{1,10}")
NOTHING_MADE = "The job completed, but made no image."
# This number of tries takes about ten minutes. After that the collector gives up; the job keeps its files.
MAX_TRIES = 8
CANNOT_BE_KEPT = "The job completed, but its result could not be stored. The log has the error."


@dataclass(frozen=True, slots=True)
class NewCandidate:
    """One image of a job, which becomes a candidate."""

    id: UUID
    output_index: int
    file_id: UUID
    path: str

    def as_json(self) -> dict[str, object]:
        return {
            "id": str(self.id),
            "output_index": self.output_index,
            "file_id": str(self.file_id),
            "path": self.path,
        }


class EndedJob(NamedTuple):
    """A job that has ended and whose result is not written yet, with its step and its run."""

    tenant_id: UUID
    run_id: UUID
    parent_id: UUID | None
    step_id: UUID
    position: int
    job_id: UUID
    seed: int
    submitted_at: datetime
    job_status: str
    outputs: Any
    error_message: str | None
    completed_at: datetime
    step_slug: str
    step_max_children: int
    user_id: UUID
    target_folder: str
    # The number of steps of the run.
    steps: int
    run_max_children: int | None

    @property
    def folder(self) -> str:
        return f"tenants/{self.tenant_id}/runs/{self.target_folder}/{self.step_slug}"

    @property
    def max_children(self) -> int:
        """Largest number of children of each candidate that the job made. A leaf has none."""
        return 0 if self.position == self.steps else self.run_max_children or self.step_max_children


class EndedReplay(NamedTuple):
    """A charge cycle of a replay that has ended, and that the budget of its run still counts as active."""

    tenant_id: UUID
    job_id: UUID
    charge_cycle: int


class Collector(Loop):
    name = "pipeline_results"

    def __init__(
        self,
        pools: Callable[[], Sequence[Database]],
        files: Files,
        cancellation: Cancellation,
        settings: PipelineSettings,
        open_jobs: OpenJobs,
        collected: Callable[[], None],
        observe: Callable[[str, float], None],
    ):
        """`collected` is called when a run has a new choice, and `observe` with the outcome of each job and
        the seconds from its submit to its end."""
        super().__init__()
        self.interval_seconds = settings.poll_seconds
        self._pools = pools
        self._files = files
        self._cancellation = cancellation
        self._collected = collected
        self._observe = observe
        self._open_jobs = open_jobs
        self._unwritten = UnwrittenResults()
        self._logged: set[UUID] = set()

    def received(self, payload: str | None) -> None:
        """Handles a notification `tenant/user/job` of any job, or None if notifications may have been missed."""
        if payload is None or payload.rpartition("/")[2] in self._open_jobs:
            self.wake()

    async def tick(self, now: datetime) -> bool:
        """Collects results. Returns True while there are more."""
        self._open_jobs.start_read()
        collected = await all_of(self._collect_pool(pool, now) for pool in self._pools())
        self._open_jobs.finish_read(job_id for _, found in collected for job_id in found)
        open_jobs = set(self._open_jobs)
        self._unwritten.forget_all_but(open_jobs)
        self._logged &= open_jobs
        return any(more for more, _ in collected)

    async def _collect_pool(self, pool: Database, now: datetime) -> tuple[bool, set[UUID]]:
        """Whether there is more, and the jobs that have not ended."""
        more = await self.collect(pool, now)
        async with pool.connection() as connection:
            abandoned = await SQL["jobs_of_canceled_runs"].rows(connection, JobOfCanceledRun, limit=BATCH)
            found = await SQL["jobs_under_way"].rows(connection, JobId, limit=REMEMBERED)
        await self._cancel(abandoned)
        return more, {each.job_id for each in found}

    async def _cancel(self, jobs: Sequence[JobOfCanceledRun]) -> None:
        """Cancels jobs of canceled runs. A failure does not stop the collection of results."""
        try:
            await cancel_jobs(self._cancellation, jobs, actor=self.name, reason=CANCELED_WITH_RUN)
        except Exception as error:
            if is_away(error):
                raise
            job_ids = {job.job_id for job in jobs}
            if job_ids - self._logged:
                self._logged |= job_ids
                log.exception("pipeline.jobs_not_canceled", job_ids=sorted(str(job_id) for job_id in job_ids))

    async def collect(self, pool: Database, now: datetime | None = None) -> bool:
        now = now or self._clock.now()
        async with pool.connection() as connection:
            jobs = await SQL["ended_jobs"].rows(
                connection, EndedJob, left_alone=self._unwritten.postponed(now), limit=BATCH
            )
        settled = 0
        for job in jobs:
            try:
                settled += await self.settle(pool, job)
            except Unavailable as error:
                # Storage is not available: the slot stays open, and the other results do not wait for this one.
                if job.job_id not in self._logged:
                    self._logged.add(job.job_id)
                    log.warning("pipeline.result_not_stored", job_id=str(job.job_id), error=str(error))
            except Exception as error:
                if is_away(error):
                    raise
                # An unexpected error of one result does not stop the others.
                if self._unwritten.postpone(job.job_id, now) == 1:
                    log.exception("pipeline.result_not_kept", run_id=str(job.run_id), job_id=str(job.job_id))
        settled += await self._settle_replays(pool)
        if settled:
            self._collected()
        return bool(settled) and len(jobs) == BATCH

    async def _settle_replays(self, pool: Database) -> int:
        async with pool.connection() as connection:
            replays = await SQL["ended_replays"].rows(connection, EndedReplay, limit=BATCH)
            return sum([await SQL["settle_replay"].value(connection, **replay._asdict()) for replay in replays])

    async def settle(self, pool: Database, job: EndedJob) -> bool:
        """Settles a job. True if this process settled it, and no other process."""
        await hit(Failpoint.PIPELINE_RESULT_BEFORE_SETTLE)
        if job.job_status == JobStatus.CANCELED:
            return await self._give_up(pool, job, "canceled", "")
        if job.job_status != JobStatus.COMPLETED:
            message = job.error_message or f"The job is {job.job_status}."
            return await self._give_up(pool, job, "failed", message)
        if self._unwritten.attempts(job.job_id) >= MAX_TRIES - 1:
            return await self._give_up(pool, job, "failed", CANNOT_BE_KEPT)
        images = await self._copied_images(pool, job)
        if not images:
            return await self._give_up(pool, job, "failed", NOTHING_MADE)
        await hit(Failpoint.PIPELINE_COPY_BEFORE_CANDIDATES)
        return await self._accept(pool, job, images)

    async def _copied_images(self, pool: Database, job: EndedJob) -> list[NewCandidate]:
        """The images of the job, copied to the run's folder. A deleted file is skipped."""
        ids = listed_files(job.outputs)
        found = await self._files.ready(pool, job.tenant_id, job.user_id, ids) if ids else {}
        images = []
        for output_index, file_id in enumerate(ids):
            file = found.get(file_id)
            if file is None or not file.mime_type.startswith(("image/", "video/")):
                continue
            candidate_id = candidate_id_of(job.job_id, output_index, job.completed_at)
            path = path_of(job.folder, candidate_id, job.completed_at, file.path)
            try:
                if file.path != path:
                    await self._files.storage.copy(file.path, path)
            except NotFound:
                log.warning("pipeline.output_gone", job_id=str(job.job_id), path=file.path)
                continue
            images.append(NewCandidate(candidate_id, output_index, file.id, path))
        return images

    async def _accept(self, pool: Database, job: EndedJob, images: Sequence[NewCandidate]) -> bool:
        made = [image.as_json() for image in images]
        async with pool.transaction() as connection:
            names = {"tenant_id": job.tenant_id, "run_id": job.run_id}
            await SQL["lock_run_of_slot"].value(connection, **names)
            if not await SQL["slot_is_open"].value(connection, tenant_id=job.tenant_id, job_id=job.job_id):
                return False
            await SQL["accept_candidates"].run(
                connection,
                **names,
                parent_id=job.parent_id,
                step_id=job.step_id,
                position=job.position,
                job_id=job.job_id,
                seed=job.seed,
                max_children=job.max_children,
                made=made,
            )
            await SQL["move_files"].value(connection, tenant_id=job.tenant_id, job_id=job.job_id, made=made)
        log.info("pipeline.candidates_made", run_id=str(job.run_id), job_id=str(job.job_id), made=len(made))
        self._settled(job, "completed")
        return True

    async def _give_up(self, pool: Database, job: EndedJob, status: str, message: str) -> bool:
        async with pool.transaction() as connection:
            names = {"tenant_id": job.tenant_id, "run_id": job.run_id}
            await SQL["lock_run_of_slot"].value(connection, **names)
            if not await SQL["slot_is_open"].value(connection, tenant_id=job.tenant_id, job_id=job.job_id):
                return False
            # A completed job was charged, even if it made no image.
            refunded = job.job_status != JobStatus.COMPLETED
            run = await SQL["give_up_slot"].row(
                connection,
                FailureCounts,
                **names,
                job_id=job.job_id,
                parent_id=job.parent_id,
                status=status,
                is_refunded=refunded,
            )
            assert run is not None, "the slot of the job refers to the run"
            await stop_after_strikes(connection, names, run, job.step_slug, message)
        log.info("pipeline.job_without_result", run_id=str(job.run_id), job_id=str(job.job_id), status=status)
        self._settled(job, status)
        return True

    def _settled(self, job: EndedJob, status: str) -> None:
        """Records a settled job. `status` is the outcome for the run: a job that completed without an image has
        failed.
        """
        self._observe(status, (job.completed_at - job.submitted_at).total_seconds())


def candidate_id_of(job_id: UUID, output_index: int, completed_at: datetime) -> UUID:
    """A UUIDv7 that every process derives from the job, so that a retry after a crash writes the same object again."""
    random = int.from_bytes(hashlib.sha256(f"{job_id}/{output_index}".encode()).digest()[:10])
    milliseconds = int(completed_at.timestamp() * 1000)
    high, low = random >> 62 & 0xFFF, random & (2**62 - 1)
    return UUID(int=milliseconds << 80 | 0x7 << 76 | high << 64 | 0b10 << 62 | low)


def path_of(folder: str, candidate_id: UUID, completed_at: datetime, source: str) -> str:
    """The storage path of a candidate. Its segments are slugs or made here, so that a path contains no name that a
    user or worker chose.
    """
    extension = source.rpartition(".")[2]
    extension = extension if _EXTENSION.fullmatch(extension) else "bin"
    return f"{folder}/{candidate_id}_{completed_at:%Y%m%d%H%M%S}.{extension}"
