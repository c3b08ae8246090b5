"""Runs the worker inside a control plane for as long as the control plane runs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from callsheet.app.in_process.plane import InProcessPlane
from callsheet.jobs.lease.outcomes import StartedLease
from callsheet.providers.actor import Actor
from callsheet.toolbox.logs import get_logger
from callsheet.worker.agent.departure import Departure
from callsheet.worker.agent.plane import RefusedRequest, Unreachable
from callsheet.worker.engines.process_folder import own_folder, remove_left_over
from callsheet.worker.tasks.task_agent import TaskAgent, TaskConfig

log = get_logger(__name__)


class TaskRunner:
    """Runs tasks of the queue, and synchronous tasks, whose dispatches are leased to this worker when they are
    created.
    """

    def __init__(self, plane: InProcessPlane, actors: Mapping[str, Actor], directory: Path, heartbeat_seconds: float):
        self._plane = plane
        self._actors = actors
        self._config = TaskConfig(
            directory=directory / plane.worker_id,
            providers=tuple(plane.providers),
            max_concurrency=plane.max_concurrency,
            # A waiting poll is cheap here. One poll per slot lets the polls share statements.
            polls_at_once=plane.max_concurrency,
            heartbeat_seconds=heartbeat_seconds,
        )
        self._agent: TaskAgent | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()

    @property
    def worker_id(self) -> str:
        return self._plane.worker_id

    @property
    def is_ready(self) -> bool:
        return self._agent is not None and self._plane.is_registered and self._agent.takes_tasks

    def start(self) -> None:
        self._keeping = asyncio.create_task(self._kept())

    def run(self, started: StartedLease) -> asyncio.Task[None]:
        """Runs a task whose dispatch was created leased to this worker."""
        assert self._agent is not None, "not ready"
        job = self._plane.protocol.deliveries.job(started, started.lease.lease_seconds)
        return self._agent.start_now(job)

    async def stop(self, seconds: float) -> None:
        self._stopping.set()
        if self._agent is not None:
            self._agent.departure.begin("the control plane is stopping", seconds)
        if self._keeping is not None:
            await asyncio.gather(self._keeping, return_exceptions=True)

    async def _kept(self) -> None:
        folder = self._config.directory
        with own_folder(folder):
            # The folder may contain a gigabyte of a user's video.
            for name in await asyncio.to_thread(remove_left_over, folder.parent):
                log.info("tasks.left_over_removed", worker_id=name)
            await self._keep()

    async def _keep(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            self._agent = TaskAgent(self._config, self._plane, self._actors, Departure())
            try:
                await self._agent.run()
                return
            except (Unreachable, RefusedRequest) as error:
                failures += 1
                log.warning("tasks.not_running", reason=str(error), failures=failures)
            except Exception:  # After any error, the tasks of this control plane must not wait for its next start.
                failures += 1
                log.exception("tasks.not_running", failures=failures)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._plane.pause(failures)):
                    await self._stopping.wait()
