"""Runs synchronous tasks in this process, and waits for their end up to a timeout."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Protocol, cast
from uuid import UUID

from callsheet.jobs.lease.outcomes import StartedLease
from callsheet.jobs.lease.provider_gate import ProviderGate, ProviderPaused
from callsheet.jobs.machine.rows import WholeJob
from callsheet.jobs.room import JobsRoom
from callsheet.jobs.show.reader import find_job
from callsheet.jobs.stream.feeds import Item
from callsheet.jobs.stream.positions import Position
from callsheet.jobs.submit.new_jobs import NewJob
from callsheet.jobs.submit.submission import SubmittedJob
from callsheet.plumbing.database.database import Database
from callsheet.toolbox.logs import get_logger
from callsheet.wire.jobs import TERMINAL

log = get_logger(__name__)


class Runner(Protocol):
    """Runs tasks inside this control plane."""

    @property
    def worker_id(self) -> str: ...
    @property
    def is_ready(self) -> bool: ...

    def run(self, started: StartedLease) -> asyncio.Task[None]:
        """Runs the task in the background, from its lease to its report."""
        ...


class SynchronousTasks:
    """Runs at most `max_running` tasks in this process at a time. Further tasks go through the queue, and their
    requests wait for them in the same way.
    """

    def __init__(
        self,
        room: JobsRoom,
        runner: Runner | None,
        max_running: int,
        wait_seconds: float,
        gate: ProviderGate,
    ):
        self._room = room
        self._runner = runner
        self._gate = gate
        self._max_running = max_running
        self._taken = 0
        self.wait_seconds = wait_seconds

    async def submit(self, new: NewJob) -> tuple[SubmittedJob, asyncio.Task[None] | None]:
        """Submits a task that the runner of this process starts at once. The task is queued if there is no runner,
        the job's limit is reached or its provider is paused.
        """
        runner = self._runner
        if runner is None or not self._can_start(runner, new):
            return await self._room.submission.submit(new), None
        # Counted before the first await, because other requests run at the same time.
        self._taken += 1
        running = None
        try:
            submitted, started = await self._room.synchronous.submit(new, runner.worker_id)
            running = None if started is None else await self._start(runner, started)
        finally:
            if running is None:
                self._taken -= 1
            else:
                running.add_done_callback(self._freed)
        return submitted, running

    def _freed(self, _: asyncio.Task[None]) -> None:
        self._taken -= 1

    def _can_start(self, runner: Runner, new: NewJob) -> bool:
        return (
            runner.is_ready
            and self._taken < self._max_running
            and self._gate.pause_of(new.provider, new.tenant_id) is None
        )

    async def _start(self, runner: Runner, started: StartedLease) -> asyncio.Task[None] | None:
        running, delay = None, 0.0
        try:
            if self._gate.concerns(started.lease.provider):
                await self._gate.admit(started.lease)
            running = runner.run(started) if runner.is_ready else None
        except ProviderPaused as paused:
            delay = paused.delay_seconds
            log.info("synchronous.provider_paused", job_id=str(started.lease.job_id))
        finally:
            if running is None:
                # The provider is paused, or the control plane is about to stop. The task goes back at once, and the
                # attempt does not count.
                await asyncio.shield(self._room.starter.return_lease(started, delay_seconds=delay))
        return running

    async def wait_for_end(
        self, pool: Database, tenant_id: UUID, job_id: UUID, running: asyncio.Task[None] | None
    ) -> WholeJob:
        """The job when it has ended, or after the timeout. The task runs on even if the waiting request
        ends.
        """
        over_at = asyncio.get_running_loop().time() + self.wait_seconds
        if running is not None:
            await asyncio.wait({running}, timeout=self.wait_seconds)
        job = await _job(pool, tenant_id, job_id)
        if job.row.status in TERMINAL:
            return job
        # Another process runs the task, or the task was requeued.
        after = Position(job.row.event_seq)
        items = cast("AsyncGenerator[Item]", self._room.feeds.follow_job(pool, tenant_id, job_id, after))
        with suppress(TimeoutError):
            async with asyncio.timeout_at(over_at), aclosing(items):
                async for _ in items:
                    pass
        return await _job(pool, tenant_id, job_id)


async def _job(pool: Database, tenant_id: UUID, job_id: UUID) -> WholeJob:
    job = await find_job(pool, tenant_id, job_id)
    assert job is not None, "The rows of jobs are never deleted."
    return job
