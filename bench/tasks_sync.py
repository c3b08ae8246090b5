"""Tasks that do nothing, from submit to completed: 20 concurrent clients submit, and the control plane runs 20 at once.

The peer is Procrastinate with the same numbers in the same process: 20 concurrent defers, and one worker that runs 20.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from uuid import UUID

from procrastinate import App, PsycopgConnector

from bench.alternating_queues import take_turns
from bench.http_me import HOST
from bench.installation import add_tenant, analyze, unread_logs
from bench.processes import fresh_home
from bench.results import Result
from callsheet.app.control_plane import ControlPlane, running_control_plane
from callsheet.identity.access.principal import Principal
from callsheet.plumbing.database.database import create_database
from callsheet.plumbing.database.databases import with_database
from callsheet.plumbing.http.server import with_free_port
from callsheet.providers.actor import Done, Plan, Task
from callsheet.providers.registry import ActorRegistry
from callsheet.settings import load_settings
from callsheet.toolbox.ids import uuid7
from callsheet.wire.identity import Role
from callsheet.wire.tasks import SubmitTask

name = "tasks.sync"
AT_ONCE = 20
POLL_SECONDS = 0.002
FINISHED = "SELECT count(*) FROM ai_jobs WHERE status = 'completed'"


class Nothing:
    name = "nothing"
    paid = False

    def plan(self, payload: Mapping[str, Any]) -> Plan:
        return Plan()

    async def run(self, task: Task) -> Done:
        return Done()


class OurTasks:
    def __init__(self, plane: ControlPlane, tenant_id: UUID):
        self._plane = plane
        self._pool = plane.databases.pools[0]
        # One user per client, because the tasks of one user are counted one after the other.
        self._people = [_person(tenant_id, self._pool.name) for _ in range(AT_ONCE)]

    async def fill(self, jobs: int) -> None:
        """Does nothing, because submitting is part of the measurement."""
        await analyze(self._pool.dsn)

    async def drain(self, jobs: int) -> int:
        before = await self._finished()
        left = iter(range(jobs))
        await asyncio.gather(*(self._submit(person, left) for person in self._people))
        while True:
            finished = await self._finished() - before
            if finished >= jobs:
                return finished
            await asyncio.sleep(POLL_SECONDS)

    async def _submit(self, person: Principal, left: Iterator[int]) -> None:
        request = SubmitTask(actor=Nothing.name)
        for _ in left:
            await self._plane.rooms.tasks.submission.submit(person, request)

    async def _finished(self) -> int:
        async with self._pool.connection() as connection:
            return int(await connection.fetchval(FINISHED))


class TheirTasks:
    def __init__(self, app: App, dsn: str):
        self._app = app
        self._dsn = dsn
        self._done = itertools.count(1)
        self._finished = 0

        @app.task(name="nothing")
        async def nothing() -> None:
            self._finished = next(self._done)

        self._task = nothing

    async def fill(self, jobs: int) -> None:
        await analyze(self._dsn)

    async def drain(self, jobs: int) -> int:
        before, left = self._finished, iter(range(jobs))

        async def submit() -> None:
            for _ in left:
                await self._task.defer_async()

        await asyncio.gather(*(submit() for _ in range(AT_ONCE)))
        while True:
            if self._finished - before >= jobs:
                return self._finished - before
            await asyncio.sleep(POLL_SECONDS)


async def run(seconds: float) -> list[Result]:
    async with AsyncExitStack() as parts:
        home = parts.enter_context(fresh_home())
        parts.enter_context(unread_logs())
        settings = await with_free_port(
            load_settings(
                home=home,
                server={"host": HOST, "port": 0},
                database={"dsn": None},
                jobs={"submits_per_minute": None},
                tasks={"in_process": AT_ONCE, "active_per_user": 100_000, "typed_active_per_user": 100_000},
            )
        )
        registry = ActorRegistry({Nothing.name: Nothing()}, {})
        plane = await parts.enter_async_context(running_control_plane(settings, registry))
        await _ready(plane)
        tenant_id = await add_tenant(plane.databases.central, plane.databases.pools[0])
        theirs = await parts.enter_async_context(_procrastinate(plane))
        rates = await take_turns({"ours": OurTasks(plane, tenant_id), "theirs": theirs}, seconds)
    return [
        Result(
            name=name,
            value=rates["ours"].per_second,
            unit="tasks/s, submit to completed",
            peer=rates["theirs"].per_second,
        )
    ]


async def _ready(plane: ControlPlane) -> None:
    assert plane.rooms.task_runner is not None
    while True:
        if plane.rooms.task_runner.is_ready:
            return
        await asyncio.sleep(POLL_SECONDS)


@asynccontextmanager
async def _procrastinate(plane: ControlPlane) -> AsyncIterator[TheirTasks]:
    central = plane.databases.central
    await create_database(central.dsn, "central", "procrastinate")
    dsn = with_database(central.dsn, "procrastinate")
    app = App(connector=PsycopgConnector(conninfo=dsn, min_size=4, max_size=AT_ONCE + 4))
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        peer = TheirTasks(app, dsn)
        working = asyncio.create_task(
            app.run_worker_async(concurrency=AT_ONCE, install_signal_handlers=False, delete_jobs="never")
        )
        try:
            yield peer
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)


def _person(tenant_id: UUID, pool: str) -> Principal:
    return Principal(
        user_id=uuid7(),
        tenant_id=tenant_id,
        tenant="bench",
        pool=pool,
        email="bench@example.com",
        name="Bench",
        role=Role.USER,
        signed_in_with="api_key",
    )
