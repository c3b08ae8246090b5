"""A control plane that does anything at random until it is killed.

    python random_operations.py HOME CAST ACKNOWLEDGED SEED

Half of its jobs are engines', half are of a provider that calls back. CAST is a JSON file with the members and the
workflow. Each submit that got a response is a line of ACKNOWLEDGED, on the disk before anything else happens: these
jobs must never be lost.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from uuid import UUID

from callsheet.dispatch.facts import Criteria
from callsheet.jobs.lease.outcomes import Failure, LeaseReport, StartedLease
from callsheet.jobs.lease.provider_gate import CallReport
from callsheet.jobs.room import JobsRoom
from callsheet.jobs.submit.new_jobs import NewJob
from callsheet.media.storage import open_storage
from callsheet.plumbing.database.databases import Databases, open_databases
from callsheet.plumbing.database.errors import DATABASE_AWAY
from callsheet.providers.media import Callback, Generation, found_or_submitted
from callsheet.settings import JobSettings, Settings, load_settings
from callsheet.toolbox.loops import LoopGroup
from callsheet.webhooks.room import WebhooksRoom
from callsheet.wire.errors import Refusal
from tests.chaos.lasting_provider import LastingProvider, way_of
from tests.support.providers.memory_provider import NAME
from tests.support.rooms import jobs_room, webhooks_room

SUBMITTERS, WORKERS, PEOPLE = 2, 5, 1
PROVIDERS = ("self_hosted", NAME)
SECRET = b"a secret of at least thirty-two bytes"
# Few enough for a drain that takes seconds.
ACTIVE_PER_USER = 25


class Play:
    def __init__(
        self,
        databases: Databases,
        room: JobsRoom,
        calls: WebhooksRoom,
        memory_provider: LastingProvider,
        cast: Path,
        acknowledged: Path,
        seed: int,
    ):
        self._databases = databases
        self._room = room
        self._calls = calls
        self._oracle = memory_provider
        roles = json.loads(cast.read_text())
        self._members = [(UUID(tenant_id), UUID(user_id)) for tenant_id, user_id in roles["members"]]
        self._criteria = Criteria((roles["workflow"],), providers=PROVIDERS)
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
                # The server was killed: the first process that notices it starts it again.
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
                provider=self._random.choice(PROVIDERS),
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
        started = await self._room.starter.lease_and_start(self._criteria, worker_id)
        if started is None:
            await asyncio.sleep(0.01)
        elif started.lease.provider == NAME:
            await self._call(started, LeaseReport(started.lease.dispatch_id, started.lease.lease_token, worker_id))
        else:
            await self._report(started, LeaseReport(started.lease.dispatch_id, started.lease.lease_token, worker_id))

    async def _call(self, started: StartedLease, report: LeaseReport) -> None:
        """What the actor of such a provider does, and the provider after it: not always, not once, not in order."""
        address = await self._calls.gate.admit(started.lease)
        assert address is not None
        made = await found_or_submitted(self._oracle, Generation("say", ""), Callback(address.url, address.may_exist))
        chance = self._random.randrange(10)
        if chance == 0:
            return  # submitted, and dead before it could say so
        if chance == 1:
            await self._call_back(address.url, made.id)
        # Too short at times: it expires while the callback is on its way.
        seconds = 0.2 if way_of(made.id) == "never" else self._random.choice([0.2, 3600])
        outcome = await self._room.leases.defer(report, made.id, datetime.now(UTC) + timedelta(seconds=seconds))
        if outcome.settled is not None:
            await self._calls.gate.record(CallReport("deferred", outcome.settled))
        for _ in range(self._random.randrange(3)):
            await self._call_back(address.url, made.id)

    async def _call_back(self, url: str, prediction_id: str) -> None:
        if way_of(prediction_id) != "never":
            body = json.dumps(prediction_id).encode()
            await self._calls.callbacks.receive(NAME, url.rpartition("/")[2], {"signed": "yes"}, body)

    async def _report(self, started: StartedLease, report: LeaseReport) -> None:
        reports = self._room.leases
        match self._random.randrange(10):
            case 0:
                return  # as a worker that died: its lease runs out
            case 1:
                await reports.requeue(report, "spot notice")
            case 2:
                await reports.fail(report, Failure("engine_error", "It broke."))
            case 3:
                await reports.fail(report, Failure("engine_error", "It broke.", retryable=True))
            case 4:
                await reports.heartbeat(report, run_started=True)
                await reports.complete(report, {"outputs": []})
                await reports.complete(report, {"outputs": ["the same report again"]})
            case _:
                await reports.complete(report, {"outputs": []})

    async def _decide(self) -> None:
        await asyncio.sleep(0.02)
        if not self._jobs:
            return
        tenant_id, job_id = self._random.choice(self._jobs[-50:])
        if self._random.random() < 0.3:
            await self._room.cancellation.cancel(tenant_id, job_id, actor="user")
        else:
            await self._room.retries.retry(tenant_id, job_id, actor="user")


def _job(line: str) -> tuple[UUID, UUID]:
    tenant_id, job_id = line.split()
    return UUID(tenant_id), UUID(job_id)


def settings_of(home: Path) -> Settings:
    # Callbacks are lost: it is asked soon.
    return load_settings(home=home, log={"level": "error"}, webhooks={"first_poll_seconds": 0.2})


def calls_of(
    databases: Databases, room: JobsRoom, settings: Settings, memory_provider: LastingProvider
) -> WebhooksRoom:
    storage = open_storage(settings, SECRET, None)
    return webhooks_room(databases, storage, room, settings, {NAME: memory_provider}, secret=SECRET)


async def main(home: str, cast: str, acknowledged: str, seed: str) -> None:
    settings = settings_of(Path(home))
    databases = await open_databases(settings)
    room = jobs_room(databases, JobSettings(active_per_user=ACTIVE_PER_USER, submits_per_minute=None))
    memory_provider = LastingProvider(book=Path(home) / "predictions")
    calls = calls_of(databases, room, settings, memory_provider)
    play = Play(databases, room, calls, memory_provider, Path(cast), Path(acknowledged), int(seed))
    LoopGroup([*room.dispatch.loops, *room.loops, *calls.loops]).start()
    print("playing", flush=True)  # noqa: T201
    await play.run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
