"""The loop that turns ended jobs into candidates, or into strikes against the branch they were started for.

A slot stays open until its result is written, in one transaction with everything that counts it. Which control plane
does that, and how often it was tried, makes no difference: the keys and ids of what is made follow from the job.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from callsheet.jobs.cancel import Cancellation
from callsheet.media.files import Files, ReadyFile, listed_files
from callsheet.pipelines.branches import cancel_jobs
from callsheet.pipelines.open_jobs import OpenJobs
from callsheet.pipelines.runs import CANCELED_WITH_RUN
from callsheet.pipelines.strikes import SQL, stop_where_hopeless
from callsheet.pipelines.troubles import Troubles
from callsheet.plumbing.database import Database, is_away
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.plumbing.sql import Row
from callsheet.settings import PipelineSettings
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.loops import Loop
from callsheet.toolbox.together import all_of
from callsheet.wire.errors import NotFound, Unavailable
from callsheet.wire.jobs import JobStatus

log = get_logger(__name__)
BATCH = 100
# Number of jobs whose end wakes the collector; it finds the others at its next tick.
REMEMBERED = 10_000
_EXTENSION = re.compile(r"[a-z0-9]{1,10}")
NOTHING_MADE = "The job was completed, but made no image."
# Over ten minutes; the job keeps its files.
MOST_TRIES = 8
CANNOT_BE_KEPT = "The job was completed, but its result could not be kept. What went wrong was logged."


@dataclass(frozen=True, slots=True)
class Made:
    """One image of a job on its way to become a candidate."""

    candidate_id: UUID
    output_index: int
    file: ReadyFile
    path: str


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
        observe: Callable[[str, float], None] = lambda status, seconds: None,
    ):
        """`collected` is called when runs have something to choose from, and `observe` with the outcome of each job and
        the seconds from its submit to its end."""
        super().__init__()
        self.interval_seconds = settings.poll_seconds
        self._pools = pools
        self._files = files
        self._cancellation = cancellation
        self._collected = collected
        self._observe = observe
        self._open_jobs = open_jobs
        self._troubles = Troubles()
        self._told: set[UUID] = set()

    def received(self, payload: str | None) -> None:
        """A notification `tenant/user/job` of any job, or None after some may have been missed."""
        if payload is None or payload.rpartition("/")[2] in self._open_jobs:
            self.wake()

    async def tick(self, now: datetime) -> bool:
        """True while there is more."""
        self._open_jobs.start_read()
        looked = await all_of(self._look(pool, now) for pool in self._pools())
        self._open_jobs.finish_read(job_id for _, found in looked for job_id in found)
        open_jobs = set(self._open_jobs)
        self._troubles.keep(open_jobs)
        self._told &= open_jobs
        return any(more for more, _ in looked)

    async def _look(self, pool: Database, now: datetime) -> tuple[bool, set[UUID]]:
        """Whether there is more, and the jobs that have not ended."""
        more = await self.collect(pool, now)
        async with pool.connection() as connection:
            abandoned = await SQL["jobs_of_canceled_runs"].rows(connection, limit=BATCH)
            rows = await SQL["jobs_under_way"].rows(connection, limit=REMEMBERED)
        await self._cancel([(row["tenant_id"], row["job_id"]) for row in abandoned])
        return more, {row["job_id"] for row in rows}

    async def _cancel(self, jobs: Sequence[tuple[UUID, UUID]]) -> None:
        """Of runs that were canceled. One failure is not a reason to collect the results of others less
        often."""
        try:
            await cancel_jobs(self._cancellation, jobs, actor=self.name, reason=CANCELED_WITH_RUN)
        except Exception as error:
            if is_away(error):
                raise
            job_ids = {job_id for _, job_id in jobs}
            if job_ids - self._told:
                self._told |= job_ids
                log.exception("pipeline.jobs_not_canceled", job_ids=sorted(str(job_id) for job_id in job_ids))

    async def collect(self, pool: Database, now: datetime | None = None) -> bool:
        now = now or self._clock.now()
        async with pool.connection() as connection:
            rows = await SQL["ended_jobs"].rows(connection, left_alone=self._troubles.waiting(now), limit=BATCH)
        settled = 0
        for row in rows:
            try:
                settled += await self.settle(pool, row)
            except Unavailable as error:
                # Storage is away: the slot stays open, and the others need not wait for it.
                if row["job_id"] not in self._told:
                    self._told.add(row["job_id"])
                    log.warning("pipeline.result_not_stored", job_id=str(row["job_id"]), error=str(error))
            except Exception as error:
                if is_away(error):
                    raise
                # Nor for an unexpected one.
                if self._troubles.add(row["job_id"], now) == 1:
                    log.exception("pipeline.result_not_kept", run_id=str(row["run_id"]), job_id=str(row["job_id"]))
        if settled:
            self._collected()
        return bool(settled) and len(rows) == BATCH

    async def settle(self, pool: Database, row: Row) -> bool:
        """True where this was the one that settled it."""
        await hit(Failpoint.PIPELINE_RESULT_BEFORE_SETTLE)
        status = row["job_status"]
        if status == JobStatus.CANCELED:
            return await self._give_up(pool, row, "canceled", "")
        if status != JobStatus.COMPLETED:
            message = row["error_message"] or f"The job is {status}."
            return await self._give_up(pool, row, "failed", message)
        if self._troubles.times(row["job_id"]) >= MOST_TRIES - 1:
            return await self._give_up(pool, row, "failed", CANNOT_BE_KEPT)
        made = await self._made(pool, row)
        if not made:
            return await self._give_up(pool, row, "failed", NOTHING_MADE)
        await hit(Failpoint.PIPELINE_COPY_BEFORE_CANDIDATES)
        return await self._accept(pool, row, made)

    async def _made(self, pool: Database, row: Row) -> list[Made]:
        """What the job made, copied to the run's folder. What is gone by now is passed over."""
        ids = listed_files(row["outputs"])
        found = await self._files.ready(pool, row["tenant_id"], row["user_id"], ids) if ids else {}
        made = []
        for output_index, file_id in enumerate(ids):
            file = found.get(file_id)
            if file is None or not file.mime_type.startswith(("image/", "video/")):
                continue
            candidate_id = candidate_id_of(row["job_id"], output_index, row["completed_at"])
            path = path_of(row, candidate_id, file.path)
            try:
                if file.path != path:
                    await self._files.storage.copy(file.path, path)
            except NotFound:
                log.warning("pipeline.output_gone", job_id=str(row["job_id"]), path=file.path)
                continue
            made.append(Made(candidate_id, output_index, file, path))
        return made

    async def _accept(self, pool: Database, row: Row, made: Sequence[Made]) -> bool:
        is_leaf = row["position"] == row["steps"]
        async with pool.transaction() as connection:
            names = {"tenant_id": row["tenant_id"], "run_id": row["run_id"]}
            await SQL["lock_run_of_slot"].value(connection, **names)
            if not await SQL["slot_is_open"].value(connection, tenant_id=row["tenant_id"], job_id=row["job_id"]):
                return False
            await SQL["accept_candidates"].run(
                connection,
                **names,
                parent_id=row["parent_id"],
                step_id=row["step_id"],
                position=row["position"],
                job_id=row["job_id"],
                seed=row["seed"],
                max_children=0 if is_leaf else row["run_max_children"] or row["max_children"],
                made=[
                    {
                        "id": str(each.candidate_id),
                        "output_index": each.output_index,
                        "file_id": str(each.file.id),
                        "path": each.path,
                    }
                    for each in made
                ],
            )
        log.info("pipeline.candidates_made", run_id=str(row["run_id"]), job_id=str(row["job_id"]), made=len(made))
        self._settled(row, "completed")
        return True

    async def _give_up(self, pool: Database, row: Row, status: str, message: str) -> bool:
        async with pool.transaction() as connection:
            names = {"tenant_id": row["tenant_id"], "run_id": row["run_id"]}
            await SQL["lock_run_of_slot"].value(connection, **names)
            if not await SQL["slot_is_open"].value(connection, tenant_id=row["tenant_id"], job_id=row["job_id"]):
                return False
            # What was completed has been paid for, whatever it made.
            refunded = row["job_status"] != JobStatus.COMPLETED
            run = await SQL["give_up_slot"].row(
                connection,
                **names,
                job_id=row["job_id"],
                parent_id=row["parent_id"],
                status=status,
                is_refunded=refunded,
            )
            assert run is not None, "its slot refers to it"
            await stop_where_hopeless(connection, names, run, row["slug"], message)
        log.info("pipeline.job_without_result", run_id=str(row["run_id"]), job_id=str(row["job_id"]), status=status)
        self._settled(row, status)
        return True

    def _settled(self, row: Row, status: str) -> None:
        """What it is to the run: a job that was completed without an image has failed."""
        self._observe(status, (row["completed_at"] - row["begun_at"]).total_seconds())


def candidate_id_of(job_id: UUID, output_index: int, completed_at: datetime) -> UUID:
    """A UUIDv7 that every process derives from the job: trying again after a crash writes the same object once
    more."""
    random = int.from_bytes(hashlib.sha256(f"{job_id}/{output_index}".encode()).digest()[:10])
    milliseconds = int(completed_at.timestamp() * 1000)
    high, low = random >> 62 & 0xFFF, random & (2**62 - 1)
    return UUID(int=milliseconds << 80 | 0x7 << 76 | high << 64 | 0b10 << 62 | low)


def path_of(row: Row, candidate_id: UUID, source: str) -> str:
    """Segments that are slugs or made here: no name that a user or worker chose gets into a path."""
    extension = source.rpartition(".")[2]
    extension = extension if _EXTENSION.fullmatch(extension) else "bin"
    timestamp = row["completed_at"].strftime("%Y%m%d%H%M%S")
    folder = f"tenants/{row['tenant_id']}/runs/{row['target_folder']}/{row['slug']}"
    return f"{folder}/{candidate_id}_{timestamp}.{extension}"
