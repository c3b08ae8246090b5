"""Other queues on PostgreSQL, each in a database of its own on the same server, draining jobs that do nothing."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.models import Job
from pgqueuer.queries import Queries
from pgqueuer.types import QueueExecutionMode
from procrastinate import App, PsycopgConnector

from bench.installation import BenchInstallation, analyze

CONCURRENCY = 8


class Procrastinate:
    def __init__(self, app: App, dsn: str):
        self._app = app
        self._dsn = dsn
        self._done = 0

        @app.task(name="nothing")
        async def nothing() -> None:
            self._done += 1

        self._task = nothing

    async def fill(self, jobs: int) -> None:
        await self._task.batch_defer_async(*[{} for _ in range(jobs)])
        await analyze(self._dsn)

    async def drain(self, jobs: int) -> int:
        self._done = 0
        await self._app.run_worker_async(concurrency=CONCURRENCY, wait=False, install_signal_handlers=False)
        return self._done


@asynccontextmanager
async def procrastinate(installation: BenchInstallation) -> AsyncIterator[Procrastinate]:
    logging.getLogger("procrastinate").setLevel(logging.WARNING)
    dsn = await installation.new_database("procrastinate")
    app = App(connector=PsycopgConnector(conninfo=dsn, min_size=CONCURRENCY, max_size=CONCURRENCY + 4))
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        yield Procrastinate(app, dsn)


class PgQueuerPeer:
    def __init__(self, pool: asyncpg.Pool[asyncpg.Record], dsn: str, batch: int):
        self._pool = pool
        self._dsn = dsn
        self._batch = batch
        self._done = 0

    async def fill(self, jobs: int) -> None:
        await Queries.from_asyncpg_pool(self._pool).enqueue(["nothing"] * jobs, [None] * jobs, [0] * jobs)
        await analyze(self._dsn)

    async def drain(self, jobs: int) -> int:
        self._done = 0
        queuer = PgQueuer.from_asyncpg_pool(self._pool)
        # A worker looks once at its start whether its tables are there; here one starts for every second of work.
        queuer.qm.verify_structure = _do_nothing  # type: ignore[method-assign]

        @queuer.entrypoint("nothing")
        async def nothing(job: Job) -> None:
            self._done += 1

        await queuer.qm.run(dequeue_timeout=timedelta(seconds=1), batch_size=self._batch, mode=QueueExecutionMode.drain)
        return self._done


async def _do_nothing() -> None:
    return


@asynccontextmanager
async def pgqueuer(installation: BenchInstallation, batch: int) -> AsyncIterator[PgQueuerPeer]:
    logging.getLogger("pgqueuer").setLevel(logging.WARNING)
    dsn = await installation.new_database("pgqueuer")
    async with asyncpg.create_pool(dsn, min_size=CONCURRENCY, max_size=CONCURRENCY) as pool:
        await Queries.from_asyncpg_pool(pool).install()
        yield PgQueuerPeer(pool, dsn, batch)
