"""The task worker: runs a limited number of tasks at once. Each slot takes the next task when its last one is done."""

from __future__ import annotations

import asyncio
import shutil
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from callsheet.providers.actor import Actor
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.outages import Outage
from callsheet.toolbox.private_files import make_closed
from callsheet.wire.worker.protocol import PollRequest, PollResponse, WorkerJob
from callsheet.worker.agent.departure import DRAINED, Departure
from callsheet.worker.agent.plane import Plane, RefusedRequest, Unreachable, named_leases
from callsheet.worker.agent.transfers import Transfers
from callsheet.worker.tasks.task_run import TaskContext, TaskRun

log = get_logger(__name__)

# Pauses by the reason of a poll without a job: a poll that returns at once is not repeated at once.
PAUSE_SECONDS = {"at_capacity": 0.5, "empty": 0.2, "draining": 1.0, "not_approved": 10.0, "no_workflows": 10.0}
# Timeout of the last requests before the worker leaves.
REPORT_SECONDS = 10.0
# Timeout of cancelled asyncio tasks, which should end at once.
END_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class TaskConfig:
    # Contains one directory per task. It is removed when the worker ends.
    directory: Path
    providers: tuple[str, ...]
    max_concurrency: int = 10
    # Limit of open polls: each one occupies a slot in the control plane, so other idle slots wait here.
    polls_at_once: int = 2
    wait_seconds: float = 55.0
    heartbeat_seconds: float = 5.0
    stop_seconds: float = 20.0
    leaves_when_drained: bool = False


@dataclass(slots=True)
class TaskAgent:
    """`run` takes tasks until `departure` begins. `start_now` runs a task that was leased to this worker without a
    poll."""

    config: TaskConfig
    plane: Plane
    actors: Mapping[str, Actor]
    departure: Departure = field(default_factory=Departure)
    _runs: dict[TaskRun, asyncio.Task[None]] = field(default_factory=dict)
    # Number of runs outside the slots: they must not keep a slot from polling.
    _beside: int = 0
    _context: TaskContext | None = None
    _is_draining: bool = False
    _outage: Outage = field(default_factory=lambda: Outage("worker", "control_plane"))

    @property
    def takes_tasks(self) -> bool:
        return not self._is_draining and not self.departure.has_started

    async def run(self) -> None:
        """Runs the worker. Raises OperatorError if the worker cannot start."""
        shutil.rmtree(self.config.directory, ignore_errors=True)
        make_closed(self.config.directory)
        transfers = Transfers()
        context = self._context = TaskContext(
            self.plane, self.actors, transfers, self.config.directory, self._held, self.config.heartbeat_seconds
        )
        slots: list[asyncio.Task[None]] = []
        try:
            if not await self._has_entered():
                await self._leave([])
                return
            log.info("worker.ready", actors=sorted(self.actors), at_once=self.config.max_concurrency)
            open_polls = asyncio.Semaphore(self.config.polls_at_once)
            slots = [asyncio.create_task(self._slot(context, open_polls)) for _ in range(self.config.max_concurrency)]
            leaving = asyncio.create_task(self.departure.wait())
            slots.append(leaving)
            await asyncio.wait(slots, return_when=asyncio.FIRST_COMPLETED)
            crashed = next((task for task in slots if task.done() and task is not leaving), None)
            if crashed is not None:
                self.departure.begin("a slot crashed", self.config.stop_seconds)
            await self._leave([task for task in slots if task is not leaving])
            if crashed is not None and not crashed.cancelled() and (error := crashed.exception()) is not None:
                raise error
        finally:
            await _ended([*slots, *self._runs.values()])
            await transfers.close()
            shutil.rmtree(self.config.directory, ignore_errors=True)

    async def _has_entered(self) -> bool:
        """Returns False if the departure begins before the registration succeeds, which an outage may delay."""
        entering = asyncio.create_task(self.plane.enter())
        leaving = asyncio.create_task(self.departure.wait())
        try:
            await asyncio.wait({entering, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if entering.done():
                entering.result()
                return True
            return False
        finally:
            await _ended([entering, leaving])

    def start_now(self, job: WorkerJob) -> asyncio.Task[None]:
        """Runs the task outside the slots."""
        assert self._context is not None, "start_now before run"
        task = self._started(TaskRun(job, self._context))
        self._beside += 1
        task.add_done_callback(self._beside_ended)
        return task

    def _beside_ended(self, _: asyncio.Task[None]) -> None:
        self._beside -= 1

    def _started(self, run: TaskRun) -> asyncio.Task[None]:
        self._runs[run] = task = asyncio.create_task(run.execute())
        task.add_done_callback(lambda _: self._forget(run))
        return task

    def _forget(self, run: TaskRun) -> None:
        task = self._runs.pop(run)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("task.run_crashed", dispatch_id=run.job.dispatch_id, exc_info=error)

    async def _slot(self, context: TaskContext, open_polls: asyncio.Semaphore) -> None:
        failures, poll_id = 0, uuid.uuid4().hex
        while True:
            try:
                async with open_polls:
                    response = await self._poll(poll_id)
            except (Unreachable, RefusedRequest) as error:
                failures += 1
                self._outage.failed(error)
                await asyncio.sleep(context.plane.pause(failures, error))
                continue
            self._outage.ended()
            # The id changes only after a response: a repeated poll gets the lease of a lost response again.
            failures, poll_id = 0, uuid.uuid4().hex
            self._is_draining = response.reason == "draining"
            if response.job is not None:
                # Shielded: cancelling a slot must not cancel its task.
                with suppress(Exception):
                    await asyncio.shield(self._started(TaskRun(response.job, context)))
                continue
            if self._is_draining and self.config.leaves_when_drained and not self._runs:
                self.departure.begin(DRAINED, None)
            await asyncio.sleep(PAUSE_SECONDS.get(response.reason or "empty", 1.0))

    async def _poll(self, poll_id: str) -> PollResponse:
        return await self.plane.poll(
            PollRequest(
                current_load=len(self._runs),
                max_concurrency=self.config.max_concurrency + self._beside,
                providers=list(self.config.providers),
                wait_seconds=self.config.wait_seconds,
                poll_id=poll_id,
                active_leases=named_leases(self._held()),
            )
        )

    def _held(self) -> list[UUID]:
        return [run.job.lease_token for run in self._runs]

    async def _leave(self, slots: list[asyncio.Task[None]]) -> None:
        """Takes no new tasks. Running tasks may finish until the deadline, and are requeued then."""
        reason = self.departure.reason or "stopped"
        log.info("worker.leaving", reason=reason, tasks=len(self._runs))
        await _ended(slots)
        await self.departure.finish(self._runs)
        for run in list(self._runs):
            run.interrupt(reason)
        if self._runs:
            await asyncio.wait(list(self._runs.values()), timeout=REPORT_SECONDS)
        if self.plane.is_registered:
            with suppress(TimeoutError):
                async with asyncio.timeout(REPORT_SECONDS):
                    # This also requeues a task that a poll was given at the last moment.
                    await self.plane.leave(reason)
        log.info("worker.left", reason=reason)


async def _ended(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        done, others = await asyncio.wait(tasks, timeout=END_SECONDS)
        for task in done:
            _ = task.cancelled() or task.exception()
        if others:
            log.error("worker.would_not_stop", tasks=len(others))
