"""The log of workers, written behind their requests: nothing is lost while the process lives."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import asyncpg
import pytest

from callsheet.fleet.audit import Audit, Event
from callsheet.fleet.audit_trail import AuditTrail
from callsheet.plumbing.databases import Databases
from tests.support.waiting import until

NOW = datetime(2026, 2, 15, tzinfo=UTC)


def line(event: str, **details: object) -> Event:
    return Event("trail-worker", None, event, "worker:trail-worker", details=details)


async def written(databases: Databases) -> list[str]:
    async with databases.central.connection() as connection:
        rows = await connection.fetch(
            "SELECT event FROM worker_audit_logs WHERE worker_id = 'trail-worker' ORDER BY id"
        )
    return [row["event"] for row in rows]


@asynccontextmanager
async def running(databases: Databases) -> AsyncIterator[AuditTrail]:
    trail = AuditTrail(Audit(databases))
    trail.start()
    try:
        yield trail
    finally:
        await trail.stop()


async def test_lines_are_written_in_order_a_moment_later(shared_databases: Databases) -> None:
    async with running(shared_databases) as trail:
        expected = [f"event-{number}" for number in range(250)]
        for event in expected:
            trail.note(line(event))

        async def all_there() -> bool:
            return await written(shared_databases) == expected

        await until(all_there)


async def test_stopping_writes_what_is_left(shared_databases: Databases) -> None:
    async with running(shared_databases) as trail:
        await until(lambda: trail.ticks)
        trail.note(line("last"))
    assert await written(shared_databases) == ["last"]


async def test_a_line_that_cannot_be_written_is_lost_alone(shared_databases: Databases) -> None:
    trail = AuditTrail(Audit(shared_databases))
    for event in (line("before"), line("broken", text="\0"), line("after")):
        trail.note(event)
    await trail.tick(NOW)
    assert await written(shared_databases) == ["before", "after"]


async def test_lines_outlive_a_database_that_is_away(databases: Databases) -> None:
    trail = AuditTrail(Audit(databases))
    trail.note(line("first"))
    trail.note(line("second"))
    await databases.central.close()
    with pytest.raises(asyncpg.InterfaceError):
        await trail.tick(NOW)
    trail.note(line("third"))
    await databases.central.open()
    await trail.tick(NOW)
    assert await written(databases) == ["first", "second", "third"]


async def test_a_stop_while_the_database_is_away_gives_up_in_peace(databases: Databases) -> None:
    trail = AuditTrail(Audit(databases))
    trail.note(line("lost"))
    await databases.central.close()
    await trail.stop()
    await databases.central.open()
    assert await written(databases) == []
