"""What a process does when the server of a database is lost, frozen, read-only or no longer the primary."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.errors import DATABASE_AWAY, is_away
from callsheet.plumbing.database.notify import Listener
from callsheet.plumbing.database.servers import connecting
from callsheet.plumbing.database.servers.connecting import NotThePrimary, PrimaryConnection, ServerState
from callsheet.plumbing.database.sql import Connection
from callsheet.settings import DatabaseSettings
from tests.support.database.replication import Pair, Server
from tests.support.waiting import until

WRITE = "INSERT INTO written (number) VALUES ($1)"


@asynccontextmanager
async def opened(dsn: str) -> AsyncIterator[Database]:
    """A database with a pulse, as in a control plane."""
    database = Database("central", "central", dsn, DatabaseSettings(connections=4))
    database.has_pulse = True
    await database.open()
    try:
        yield database
    finally:
        await database.close()


@pytest.fixture
async def database(pair: Pair) -> AsyncIterator[Database]:
    await pair.primary.value("CREATE TABLE written (number int)", "central")
    await pair.replicated()
    async with opened(pair.dsn("central")) as database:
        await until(database.pulse.is_fine)
        yield database


async def write(database: Database, number: int) -> None:
    async with database.transaction() as connection:
        await connection.execute(WRITE, number)


async def writes_go_on(database: Database, number: int) -> None:
    """Tries until it succeeds. Each failure until then is an outage, not an error of the request."""

    async def is_written() -> bool:
        try:
            await write(database, number)
        except DATABASE_AWAY:
            return False
        return True

    await until(is_written)


async def numbers(server: Server) -> set[int]:
    found = await server.value("SELECT array_agg(number) FROM written", "central")
    assert found is None or isinstance(found, list)
    return set(found or ())


async def test_writes_go_on_at_the_new_primary_after_the_old_one_was_killed(database: Database, pair: Pair) -> None:
    await write(database, 1)
    await pair.replicated()
    await pair.primary.kill()
    await until(lambda: database.pulse.lost)
    await pair.standby.promote()
    await writes_go_on(database, 2)
    assert await numbers(pair.standby) == {1, 2}
    await until(database.pulse.is_fine)


# Twelve seconds pass until a host that accepts connections and says nothing counts as lost.
@pytest.mark.thorough
async def test_a_frozen_primary_gets_no_write_after_it_is_thawed(database: Database, pair: Pair) -> None:
    async with database.connection() as kept:
        pair.primary.freeze()
        # A statement waits for the frozen server until the pulse ends its connection.
        with pytest.raises(asyncpg.PostgresConnectionError):
            await kept.execute("SELECT 1")
    await pair.standby.promote()
    await writes_go_on(database, 1)
    pair.primary.thaw()
    for number in range(2, 8):
        await asyncio.gather(write(database, number), write(database, 10 * number))
        await database.pulse.check()
    assert await numbers(pair.primary) == set()
    assert await numbers(pair.standby) >= set(range(1, 8))


async def test_a_primary_that_was_frozen_for_a_moment_is_left_when_another_one_was_promoted(
    database: Database, pair: Pair
) -> None:
    await pair.standby.promote()
    await write(database, 1)
    assert await numbers(pair.primary) == {1}, "nothing says yet that there is another one"
    database.pulse.wake(renew=True)

    async def is_at_the_other_one() -> bool:
        async with database.connection() as connection:
            return bool(await connection.fetchval("SHOW port") == str(pair.standby.port))

    await until(is_at_the_other_one)
    await write(database, 2)
    assert await numbers(pair.primary) == {1}
    assert await numbers(pair.standby) == {2}


async def test_a_write_on_a_read_only_primary_is_an_outage_and_the_next_one_reaches_the_new_primary(
    database: Database, pair: Pair
) -> None:
    await write(database, 1)
    await pair.replicated()
    await pair.primary.set("default_transaction_read_only", "'on'")
    with pytest.raises(NotThePrimary, match=r"accepts no writes|is read-only") as refused:
        await write(database, 2)
    assert is_away(refused.value)
    await pair.standby.promote()
    await writes_go_on(database, 3)
    assert await numbers(pair.standby) == {1, 3}


@pytest.mark.parametrize(
    "ended",
    [
        asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation"),
        asyncpg.AdminShutdownError("terminating connection due to administrator command"),
        asyncpg.InternalClientError("cannot switch to state 11; another operation (2) is in progress"),
    ],
)
async def test_a_refused_write_is_an_outage_also_if_the_connection_ends_when_the_server_is_asked(
    database: Database, pair: Pair, monkeypatch: pytest.MonkeyPatch, ended: Exception
) -> None:
    async def ends(connection: Connection) -> ServerState:
        raise ended

    await pair.primary.set("default_transaction_read_only", "'on'")
    monkeypatch.setattr(connecting, "look", ends)
    with pytest.raises(ConnectionError) as refused:
        await write(database, 1)
    assert is_away(refused.value)


async def test_a_statement_whose_connection_ends_between_two_of_its_messages_is_an_outage(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare = PrimaryConnection._get_statement

    async def prepare_and_end(self: PrimaryConnection, *values: Any, **options: Any) -> Any:
        prepared = await prepare(self, *values, **options)
        # Not when the pulse asks its server.
        if WRITE in values:
            database._keep_only(None)
        return prepared

    with monkeypatch.context() as patched:
        patched.setattr(PrimaryConnection, "_get_statement", prepare_and_end)
        with pytest.raises(ConnectionResetError, match="the connection ended inside a statement"):
            async with database.connection() as connection:
                await connection.execute(WRITE, 1)
    await write(database, 2)


async def test_a_wrong_statement_on_a_primary_is_not_an_outage(database: Database) -> None:
    async with database.connection() as connection:
        with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
            async with database.connection() as other, other.transaction(readonly=True):
                await other.execute(WRITE, 1)
        with pytest.raises(asyncpg.FeatureNotSupportedError):
            async with database.connection() as other:
                await other.execute("SELECT count(*) FROM written FOR UPDATE")
        assert await connection.fetchval("SELECT 1") == 1
    assert database.pulse.lost is None


@pytest.mark.thorough
async def test_a_listener_follows_to_the_new_primary_and_logs_one_line(
    database: Database, pair: Pair, logged: io.StringIO
) -> None:
    listener = Listener(database)
    received: list[str | None] = []
    listener.subscribe("news", received.append)
    listener.start()
    try:
        await listener.connected.wait()
        await pair.primary.kill()
        await until(lambda: database.pulse.lost)
        await until(lambda: not listener.connected.is_set())
        await pair.standby.promote()

        async def is_received() -> bool:
            await pair.standby.value("SELECT pg_notify('news', 'from the new primary')", "central")
            return "from the new primary" in received

        await until(is_received)
    finally:
        await listener.stop()
    lines = [line for line in logged.getvalue().splitlines() if '"component": "listener"' in line]
    assert sum('"event": "database.unreachable"' in line for line in lines) == 1
    assert "Traceback" not in logged.getvalue()


async def test_a_server_that_refuses_one_more_connection_is_not_lost(database: Database, pair: Pair) -> None:
    await pair.primary.value("ALTER DATABASE central ALLOW_CONNECTIONS false")
    async with database.connection() as connection:
        await connection.execute(WRITE, 1)
        database.pulse.wake(renew=True)
        await database.pulse.check()
        assert database.pulse.lost is None
        await connection.execute(WRITE, 2)
    assert await database.pulse.is_fine()
