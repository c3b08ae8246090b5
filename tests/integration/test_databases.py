"""The databases of a process: opened once, closed for good, and found again where a killed server comes back."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import asyncpg
import pytest

from callsheet.plumbing.database.database import Database, ordinary_connections
from callsheet.plumbing.database.databases import open_databases
from callsheet.plumbing.database.errors import PoolUnavailable
from callsheet.plumbing.database.notify import Listener
from callsheet.plumbing.database.sql import Connection
from callsheet.plumbing.embedded.layout import Layout
from callsheet.plumbing.embedded.locks import is_held
from callsheet.settings import Settings, load_settings
from tests.support.jobs.core import Core
from tests.support.waiting import until


@pytest.mark.thorough
async def test_g12_connections_follow_a_killed_server_to_its_new_port(tmp_path: Path) -> None:
    databases = await open_databases(load_settings(home=tmp_path / "home"))
    listener = Listener(databases.central)
    received: list[str | None] = []
    listener.subscribe("news", received.append)
    listener.start()
    try:
        await listener.connected.wait()
        assert databases.embedded is not None
        layout, port = Layout.of(tmp_path / "home"), databases.embedded.port
        os.kill(int((layout.data / "postmaster.pid").read_text().splitlines()[0]), signal.SIGKILL)
        await until(lambda: not is_held(layout.keeper_lock))
        with socket.create_server(("127.0.0.1", port), reuse_port=False):
            await databases.keep_embedded_running()
            await databases.refresh_pools()
            assert databases.embedded.port != port
            for database in (databases.central, *databases.pools):
                async with database.connection() as connection:
                    assert await connection.fetchval("SELECT current_database()") == database.name

            async def is_received() -> bool:
                # Only a listener on the new port can hear what is sent there.
                async with databases.central.connection() as connection:
                    await connection.execute("NOTIFY news, 'from the new port'")
                return "from the new port" in received

            await until(is_received)
    finally:
        await listener.stop()
        await databases.close()


async def test_a_pool_that_is_asked_for_while_all_are_closed_is_not_opened_again(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    databases = await open_databases(settings)
    pool, close_central = await databases.pool("pool_1"), databases.central.close
    refused: list[str] = []

    async def ask_and_close() -> None:
        # Between the pools and central.
        with pytest.raises(PoolUnavailable) as error:
            await databases.pool("pool_1")
        refused.append(str(error.value))
        await close_central()

    monkeypatch.setattr(databases.central, "close", ask_and_close)
    await databases.close()
    assert refused == ["Pool pool_1 is closed: this process is stopping."]
    assert not pool.is_open


async def test_a_pool_that_is_being_opened_while_all_are_closed_is_closed_again(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    databases = await open_databases(settings)
    pool = await databases.pool("pool_1")
    await pool.close()
    opening, all_closed, open_pool = asyncio.Event(), asyncio.Event(), pool.open

    async def open_late() -> None:
        opening.set()
        await all_closed.wait()
        await open_pool()

    monkeypatch.setattr(pool, "open", open_late)
    waiting = asyncio.create_task(databases.pool("pool_1"))
    await opening.wait()
    await databases.close()
    all_closed.set()
    with pytest.raises(PoolUnavailable):
        await waiting
    assert not pool.is_open


async def test_a_database_that_is_opened_twice_keeps_one_set_of_connections(settings: Settings) -> None:
    assert settings.database.dsn is not None
    central = Database("central", "central", settings.database.dsn.get_secret_value(), settings.database)
    await central.open()
    first = central._hot
    await central.open()
    assert first is not None
    assert first.is_closing()
    async with central.connection() as connection:
        assert await connection.fetchval("SELECT 1") == 1
    await central.close()


async def test_lists_have_connections_of_their_own_with_the_planner_settings_of_postgresql(settings: Settings) -> None:
    assert settings.database.server_dsn is not None
    pooled = settings.database.pooled_dsn
    central = Database(
        "central",
        "central",
        settings.database.server_dsn.get_secret_value(),
        settings.database,
        None if pooled is None else pooled.get_secret_value(),
    )
    await central.open()
    assert central.connection_counts() == (1, 1)
    async with central.connection() as hot, central.ordinary() as ordinary:
        found = {
            name: (await hot.fetchval(f"SHOW {name}"), await ordinary.fetchval(f"SHOW {name}"))
            for name in (
                "enable_seqscan",
                "enable_hashjoin",
                "enable_bitmapscan",
                "plan_cache_mode",
                "statement_timeout",
            )
        }
    await central.close()
    assert found == {
        "enable_seqscan": ("off", "on"),
        "enable_hashjoin": ("off", "on"),
        "enable_bitmapscan": ("off", "on"),
        "plan_cache_mode": ("force_generic_plan", "auto"),
        "statement_timeout": ("30s", "30s"),
    }


async def test_a_process_has_no_more_connections_than_the_setting_says(settings: Settings) -> None:
    assert settings.database.dsn is not None
    central = Database("central", "central", settings.database.dsn.get_secret_value(), settings.database)
    await central.open()
    assert central._hot is not None
    assert central._ordinary is not None
    assert central._hot.get_max_size() + central._ordinary.get_max_size() == settings.database.connections
    async with central.ordinary(), central.connection():
        assert central.connection_counts() == (2, 0)
    await central.close()


@pytest.mark.parametrize(("connections", "expected"), [(2, 1), (5, 1), (10, 3), (500, 150)])
def test_three_of_ten_connections_are_reserved_for_lists(connections: int, expected: int) -> None:
    assert ordinary_connections(connections) == expected


async def cancel_after_prepare(connection: Connection) -> None:
    await connection.prepare("SELECT id FROM tenants WHERE id = $1")
    raise asyncio.CancelledError


async def wait_too_long_after_prepare(connection: Connection) -> None:
    await connection.prepare("SELECT id FROM tenants WHERE id = $1")
    raise TimeoutError


async def pass_a_wrong_argument(connection: Connection) -> None:
    await connection.fetch("SELECT id FROM tenants WHERE id = $1", 7)


@pytest.mark.parametrize("interrupted", [cancel_after_prepare, wait_too_long_after_prepare, pass_a_wrong_argument])
async def test_a_prepared_statement_that_was_not_run_holds_no_lock(
    core: Core, interrupted: Callable[[Connection], Awaitable[None]]
) -> None:
    """The pool hands out the connection that was used last, so without the fix the next user gets this one."""
    database = core.databases.central
    process = 0

    async def use_a_connection() -> None:
        nonlocal process
        async with database.connection() as connection:
            process = connection.get_server_pid()
            await interrupted(connection)

    with pytest.raises((asyncio.CancelledError, TimeoutError, asyncpg.DataError)):
        await use_a_connection()
    async with database.connection() as connection, connection.transaction(isolation="repeatable_read"):
        assert await connection.fetchval("SELECT 1") == 1

    async def has_no_lock() -> bool:
        async with database.connection() as connection:
            return not await connection.fetchval(
                "SELECT count(*) FROM pg_locks WHERE pid = $1 AND relation = 'tenants'::regclass", process
            )

    await until(has_no_lock)
