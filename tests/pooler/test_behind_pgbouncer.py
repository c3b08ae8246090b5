"""What Callsheet needs of a database, through a PgBouncer in the mode that `make test-pgbouncer` names."""

from __future__ import annotations

import asyncpg
import pytest

from callsheet.plumbing.database.database import HOT, ORDINARY
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.notify import Listener, Notifier
from callsheet.plumbing.database.sql import Connection
from callsheet.plumbing.leadership import Leadership
from callsheet.settings import Settings
from tests.support.database.pgbouncer import Chosen
from tests.support.waiting import until


async def settings_of(connection: Connection, *names: str) -> dict[str, str]:
    return {name: await connection.fetchval("SELECT current_setting($1)", name) for name in names}


async def test_a_pooler_refuses_planner_settings_at_the_start_of_a_connection(settings: Settings) -> None:
    assert settings.database.dsn is not None
    with pytest.raises(asyncpg.PostgresError, match="unsupported startup parameter: plan_cache_mode"):
        await asyncpg.connect(settings.database.dsn.get_secret_value(), server_settings=HOT)


async def test_each_connection_has_its_planner_settings_and_timeouts(databases: Databases) -> None:
    for database in (databases.central, *databases.pools):
        async with database.connection() as connection:
            assert await settings_of(connection, *HOT) == HOT
            assert await settings_of(connection, "statement_timeout", "TimeZone") == {
                "statement_timeout": "30s",
                "TimeZone": "UTC",
            }
        async with database.ordinary() as connection:
            assert await settings_of(connection, *ORDINARY) == ORDINARY


async def test_the_connections_for_statements_are_behind_the_pooler(databases: Databases) -> None:
    assert Chosen.pooler is not None
    async with databases.central.connection() as connection:
        session = await connection.fetchval("SELECT pg_backend_pid()")
        assert connection.get_server_pid() != session


async def test_notifications_arrive(databases: Databases) -> None:
    listener, notifier = Listener(databases.central), Notifier(databases.central)
    received: list[str | None] = []
    listener.subscribe("of_a_test", received.append)
    listener.start()
    try:
        await listener.connected.wait()
        notifier.notify("of_a_test", "hello")
        await until(lambda: "hello" in received)
    finally:
        await listener.stop()
        await notifier.close()


async def test_one_process_leads(databases: Databases) -> None:
    first, second = (Leadership(databases.central, "of a test") for _ in range(2))
    try:
        assert await first.take()
        assert not await second.take()
        await first.close()
        # A pooler cleans the session of a client that is gone, a moment later.
        await until(second.take)
    finally:
        await first.close()
        await second.close()
