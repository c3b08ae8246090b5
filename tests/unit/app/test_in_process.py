"""The control plane's own task worker: kept running whatever happens to it, and stopped when it is to stop."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from callsheet.app.in_process.plane import InProcessPlane
from callsheet.app.in_process.runner import TaskRunner
from callsheet.wire.worker.protocol import PollRequest, PollResponse
from callsheet.worker.agent.plane import RefusedRequest, Unreachable
from tests.support.waiting import until


@dataclass
class Doors:
    """A control plane that refuses every worker until `errors` are used up."""

    errors: list[Exception]
    tries: int = 0
    worker_id: str = "control-plane:test"
    providers: tuple[str, ...] = ("self_hosted",)
    max_concurrency: int = 2
    is_registered: bool = False
    polled: asyncio.Event = field(default_factory=asyncio.Event)

    async def enter(self) -> None:
        self.tries += 1
        if self.errors:
            raise self.errors.pop(0)
        self.is_registered = True

    async def poll(self, request: PollRequest) -> PollResponse:
        self.polled.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def leave(self, reason: str) -> None:
        self.is_registered = False

    def pause(self, failures: int, error: Exception | None = None) -> float:
        return 0.0 if self.errors else 3600.0


def runner_of(doors: Doors, directory: Path) -> TaskRunner:
    return TaskRunner(cast("InProcessPlane", doors), {}, directory, 1.0)


@pytest.mark.parametrize("error", [Unreachable("away"), RefusedRequest(403, "forbidden", "revoked"), KeyError("a bug")])
async def test_an_in_process_runner_that_cannot_start_is_retried(tmp_path: Path, error: Exception) -> None:
    doors = Doors([error, error])
    doors.pause = lambda failures, error=None: 0.0  # type: ignore[method-assign]
    runner = runner_of(doors, tmp_path)
    runner.start()
    await doors.polled.wait()
    assert (doors.tries, runner.is_ready) == (3, True)
    await runner.stop(0)
    assert not runner.is_ready
    assert not doors.is_registered


async def test_a_runner_that_could_not_start_is_stopped_at_once(tmp_path: Path) -> None:
    doors = Doors([Unreachable("away")])
    runner = runner_of(doors, tmp_path)
    runner.start()
    await until(lambda: doors.tries == 1 and not doors.errors)
    # It would try again in an hour.
    await runner.stop(0)
    assert doors.tries == 1
