"""A control plane that does anything at random until it is killed.

    python random_operations.py HOME CAST ACKNOWLEDGED SEED

CAST is a JSON file with the members and the workflow. Each submit that was answered is a line of ACKNOWLEDGED, on the
disk before anything else happens: that is what must never be lost.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from uuid import UUID

from callsheet.dispatch.facts import Criteria
from callsheet.jobs.reports import Failure, Report, StartedLease
from callsheet.jobs.room import JobsRoom, open_jobs
from callsheet.jobs.submission import NewJob
from callsheet.plumbing.database import DATABASE_AWAY
from callsheet.plumbing.databases import Databases, open_databases
from callsheet.settings import JobSettings, load_settings
from callsheet.toolbox.loops import LoopGroup
from callsheet.wire.errors import Refusal

SUBMITTERS, WORKERS, PEOPLE = 2, 5, 1
# Few enough for a drain that takes seconds.
ACTIVE_PER_USER = 25


class Play:
    def __init__(self, databases: Databases, room: JobsRoom, cast: Path, acknowledged: Path, seed: int):
        self._databases = databases
        self._room = room
        roles = json.loads(cast.read_text())
        self._members = [(UUID(tenant_id), UUID(user_id)) for tenant_id, user_id in roles["members"]]
        self._criteria = Criteria((roles["workflow"],))
        self._acknowledged = os.open(acknowledged, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._random = Random(seed)
        self._jobs = [_job(line) for line in acknowledged.read_text().splitlines()]

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(SUBMITTERS):
                group.create_task(self._repeat(self._submit))
            for number in range(WORKERS):
                group.create_task(self._repeat(self._work, f"worker-{number}"))
            for _ in range(PEOPLE):
                group.create_task(self._repeat(self._decide))

    async def _repeat(self, act: Callable[..., Awaitable[None]], *arguments: str) -> None:
        while True:
            try:
                await act(*arguments)
            except Refusal:
                await asyncio.sleep(0.01)
            except DATABASE_AWAY:
                # The server was killed: whoever notices it first starts it again.
                await self._databases.keep_embedded_running()
                await asyncio.sleep(0.02)

    async def _submit(self) -> None:
        tenant_id, user_id = self._random.choice(self._members)
        submitted = await self._room.submission.submit(
            NewJob(
                tenant_id=tenant_id,
                user_id=user_id,
                kind="effect",
                workflow_id=self._criteria.workflow_ids[0],
                payload={"prompt": "a cat"},
                cost=self._random.choice([0, 1, 7]),
                priority=self._random.choice([0, 5]),
                max_attempts=self._random.randint(1, 3),
                lease_seconds=self._random.choice([1, 900]),
                idempotency_key=self._random.choice([None, f"key-{self._random.randrange(10_000)}"]),
            )
        )
        self._acknowledge(tenant_id, submitted.job.id)

    def _acknowledge(self, tenant_id: UUID, job_id: UUID) -> None:
        os.write(self._acknowledged, f"{tenant_id} {job_id}\n".encode())
        os.fsync(self._acknowledged)
        self._jobs.append((tenant_id, job_id))

    async def _work(self, worker_id: str) -> None:
        started = await self._room.execution.lease_and_start(self._criteria, worker_id)
        if started is None:
            await asyncio.sleep(0.01)
        else:
            await self._report(started, Report(started.lease.dispatch_id, started.lease.lease_token, worker_id))

    async def _report(self, started: StartedLease, report: Report) -> None:
        execution = self._room.execution
        match self._random.randrange(10):
            case 0:
                return  # as a worker that died: its lease runs out
            case 1:
                await execution.requeue(report, "spot notice")
            case 2:
                await execution.fail(report, Failure("engine_error", "It broke."))
            case 3:
                await execution.fail(report, Failure("engine_error", "It broke.", retryable=True))
            case 4:
                await execution.heartbeat(report, run_started=True)
                await execution.complete(report, {"outputs": []})
                await execution.complete(report, {"outputs": ["the same report again"]})
            case _:
                await execution.complete(report, {"outputs": []})

    async def _decide(self) -> None:
        await asyncio.sleep(0.02)
        if not self._jobs:
            return
        tenant_id, job_id = self._random.choice(self._jobs[-50:])
        if self._random.random() < 0.3:
            await self._room.endings.cancel(tenant_id, job_id, actor="user")
        else:
            await self._room.endings.retry(tenant_id, job_id, actor="user")


def _job(line: str) -> tuple[UUID, UUID]:
    tenant_id, job_id = line.split()
    return UUID(tenant_id), UUID(job_id)


async def main(home: str, cast: str, acknowledged: str, seed: str) -> None:
    databases = await open_databases(load_settings(home=Path(home), log={"level": "error"}))
    room = open_jobs(databases, lambda *_: None, JobSettings(active_per_user=ACTIVE_PER_USER))
    play = Play(databases, room, Path(cast), Path(acknowledged), int(seed))
    LoopGroup(room.loops).start()
    print("playing", flush=True)  # noqa: T201
    await play.run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
