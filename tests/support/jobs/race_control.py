"""Pauses one side of a race at a defined point, and shows that the other side waits for it.

_, started = await race.started()
async with paused_at(Failpoint.COMPLETE_BEFORE_POOL, race.one.complete(started)) as first:
    await race.two.reap()                    # happens between the two commits of the first side
await first                                  # the first side went on when the block ended

job, started = await race.started()
async with open_transaction(race.pool, "SELECT 1 FROM ai_jobs WHERE id = $1 FOR UPDATE", job.id):
    [second] = await start_blocked(race.pool, race.two.complete(started))   # it waits for the lock
await second
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import asyncpg

from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.sql import Connection
from callsheet.plumbing.failpoints import Failpoint, armed
from tests.support.waiting import until

Result = TypeVar("Result")
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


@asynccontextmanager
async def paused_at(point: Failpoint, work: Coroutine[Any, Any, Result]) -> AsyncIterator[asyncio.Task[Result]]:
    """Runs `work` up to the failpoint, and lets it continue when the block ends; await the task afterwards."""
    reached, released = asyncio.Event(), asyncio.Event()

    async def stall(_: Failpoint) -> None:
        reached.set()
        await released.wait()

    with armed({point: stall}):
        task = asyncio.create_task(work)
    await until(lambda: _response(reached.is_set() or task.done()))
    assert reached.is_set(), f"{point} was not reached: {task}"
    try:
        yield task
    finally:
        released.set()


@asynccontextmanager
async def open_transaction(database: Database, query: str, *values: object) -> AsyncIterator[Connection]:
    """A transaction that ran `query` and is committed when the block ends."""
    async with database.transaction() as connection:
        await connection.fetch(query, *values)
        yield connection


@asynccontextmanager
async def rolled_back_transaction(database: Database) -> AsyncIterator[Connection]:
    """A transaction that is rolled back when the block ends."""
    async with database.connection() as connection:
        transaction = connection.transaction()
        await transaction.start()
        try:
            yield connection
        finally:
            await transaction.rollback()


async def start_blocked(database: Database, *works: Coroutine[Any, Any, Result]) -> list[asyncio.Task[Result]]:
    """Starts the coroutines one after the other. Each must wait for a lock in this database before the next starts."""
    tasks: list[asyncio.Task[Result]] = []
    for work in works:
        task = asyncio.create_task(work)
        tasks.append(task)
        await until(lambda task=task: _blocked(database, task, len(tasks)))  # type: ignore[misc]
    return tasks


async def can_lock(database: Database, query: str, *values: object) -> bool:
    """Whether the rows of `query`, a SELECT … FOR UPDATE NOWAIT, can be locked at this moment."""
    try:
        async with database.transaction() as connection:
            await connection.fetch(query, *values)
    except asyncpg.LockNotAvailableError:
        return False
    return True


async def _blocked(database: Database, task: asyncio.Task[Any], count: int) -> bool:
    assert not task.done(), f"it did not wait: {task}"
    async with database.connection() as connection:
        return int(await connection.fetchval(WAITING)) >= count


async def _response(value: bool) -> bool:
    return value
