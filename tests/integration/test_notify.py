"""Wake-ups: many become one statement, a lost connection is restored, and a listener that may have missed one is
woken."""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import AsyncIterator, Callable

import asyncpg
import pytest

from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.notify import MAX_PAYLOAD_BYTES, Listener, Notifier
from callsheet.plumbing.embedded import EmbeddedPostgres
from callsheet.settings import DatabaseSettings
from tests.support.waiting import PATIENCE_SECONDS, until

numbers = itertools.count(1)

SEND_FROM_ANOTHER_PROCESS = """
import asyncio, sys
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.notify import Notifier
from callsheet.settings import DatabaseSettings

async def main(dsn):
    database = Database("central", "central", dsn, DatabaseSettings())
    await database.open()
    notifier = Notifier(database)
    notifier.notify("jobs", "from elsewhere")
    await notifier.close()
    await database.close()

asyncio.run(main(sys.stdin.read()))
"""


class Inbox:
    """A subscriber that remembers."""

    def __init__(self) -> None:
        self.received: list[str | None] = []
        self._arrived = asyncio.Event()

    def __call__(self, payload: str | None) -> None:
        self.received.append(payload)
        self._arrived.set()

    async def until(self, condition: Callable[[list[str | None]], bool]) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not condition(self.received):
                await self._arrived.wait()
                self._arrived.clear()

    async def until_received(self, payload: str | None) -> None:
        await self.until(lambda received: payload in received)


@pytest.fixture
async def database(postgres: EmbeddedPostgres) -> AsyncIterator[Database]:
    """An empty one: messages need no schema. Of its own, because channels are shared by all who use a database."""
    name = f"notify_{next(numbers)}"
    admin = await asyncpg.connect(postgres.dsn("postgres"))
    try:
        await admin.execute(f"CREATE DATABASE {name}")
        database = Database("central", "central", postgres.dsn(name), DatabaseSettings())
        await database.open()
        yield database
        await database.close()
        await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
    finally:
        await admin.close()


@pytest.fixture
async def listener(database: Database) -> AsyncIterator[Listener]:
    listener = Listener(database)
    yield listener
    await listener.stop()


@pytest.fixture
async def notifier(database: Database) -> AsyncIterator[Notifier]:
    notifier = Notifier(database)
    yield notifier
    await notifier.close()


async def queries_like(database: Database, pattern: str) -> bool:
    """Whether the last thing some connection of this database ran looks like that."""
    async with database.connection() as connection:
        found = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND query LIKE $1)"
        return bool(await connection.fetchval(found, pattern))


async def terminate_backends(database: Database, condition: str) -> int:
    """Ends server processes of this database, as an administrator or a failover would."""
    connection = await asyncpg.connect(database.dsn)
    try:
        return await connection.fetchval(
            "SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_stat_activity "
            f"WHERE datname = current_database() AND pid <> pg_backend_pid() AND {condition}"
        )
    finally:
        await connection.close()


async def test_a_thousand_messages_are_one_statement_and_each_arrives_once(
    listener: Listener, notifier: Notifier
) -> None:
    inbox, other = Inbox(), Inbox()
    listener.subscribe("jobs", inbox)
    listener.subscribe("workers", other)
    listener.start()
    await inbox.until_received(None)
    await other.until_received(None)
    for number in range(1000):
        notifier.notify("jobs", str(number % 10))
        notifier.notify("workers")
    await notifier.close()
    await inbox.until(lambda received: len(received) >= 11)
    await other.until(lambda received: len(received) >= 2)
    assert notifier.statements == 1
    assert inbox.received == [None, *(str(number) for number in range(10))]
    assert other.received == [None, ""]


@pytest.mark.thorough
async def test_messages_of_another_process_arrive(listener: Listener, database: Database) -> None:
    inbox = Inbox()
    listener.subscribe("jobs", inbox)
    listener.start()
    await inbox.until_received(None)
    sender = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SEND_FROM_ANOTHER_PROCESS, stdin=asyncio.subprocess.PIPE
    )
    await sender.communicate(database.dsn.encode())
    assert sender.returncode == 0
    await inbox.until_received("from elsewhere")


async def test_closing_sends_what_is_waiting(listener: Listener, database: Database) -> None:
    inbox = Inbox()
    listener.subscribe("jobs", inbox)
    listener.start()
    await inbox.until_received(None)
    slow = Notifier(database, delay_seconds=0.2)
    slow.notify("jobs", "last words")
    await slow.close()
    assert slow.statements == 1
    await inbox.until_received("last words")


async def test_a_killed_listener_reconnects_and_reports_that_messages_may_have_been_missed(
    listener: Listener, notifier: Notifier, database: Database
) -> None:
    inbox = Inbox()
    listener.subscribe("jobs", inbox)
    listener.start()
    await inbox.until_received(None)
    inbox.received.clear()
    assert await terminate_backends(database, "query LIKE 'LISTEN%'") == 1
    await inbox.until_received(None)
    notifier.notify("jobs", "after")
    await inbox.until_received("after")
    assert inbox.received == [None, "after"]


async def test_a_listener_that_starts_while_the_database_is_unavailable_receives_after_it_is_back(
    database: Database, notifier: Notifier
) -> None:
    async with database.connection() as connection:
        name = await connection.fetchval("SELECT current_database()")
    inbox, listener = Inbox(), Listener(database)
    listener.subscribe("jobs", inbox)
    admin = await asyncpg.connect(database.dsn, database="postgres")
    try:
        await admin.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        listener.start()
        await asyncio.sleep(0.05)
        assert not listener.connected.is_set()
        await admin.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')
        await inbox.until_received(None)
        notifier.notify("jobs", "back")
        await inbox.until_received("back")
    finally:
        await admin.close()
        await listener.stop()
    assert not listener.connected.is_set()


async def test_a_subscriber_that_raises_does_not_silence_the_others(listener: Listener, notifier: Notifier) -> None:
    first, last = Inbox(), Inbox()

    def broken(payload: str | None) -> None:
        raise RuntimeError("broken subscriber")

    for subscriber in (first, broken, last):
        listener.subscribe("jobs", subscriber)
    listener.start()
    await last.until_received(None)
    for word in ("one", "two"):
        notifier.notify("jobs", word)
        await last.until_received(word)
    assert first.received == last.received == [None, "one", "two"]


async def test_subscribing_after_the_start_works_and_leaving_ends_it(
    listener: Listener, notifier: Notifier, database: Database
) -> None:
    listener.start()
    await listener.connected.wait()
    inbox, stays = Inbox(), Inbox()
    leave = listener.subscribe("jobs", inbox)
    listener.subscribe("jobs", stays)
    await inbox.until_received(None)
    notifier.notify("jobs", "one")
    await inbox.until_received("one")
    leave()
    notifier.notify("jobs", "two")
    await stays.until_received("two")
    assert inbox.received == [None, "one"]


async def test_a_channel_without_subscribers_is_unlistened_and_can_be_used_again(
    listener: Listener, notifier: Notifier, database: Database
) -> None:
    listener.start()
    first, again = Inbox(), Inbox()
    leave = listener.subscribe("jobs", first)
    await first.until_received(None)
    leave()
    await until(lambda: queries_like(database, "UNLISTEN%"))
    listener.subscribe("jobs", again)
    await again.until_received(None)
    notifier.notify("jobs", "heard")
    await again.until_received("heard")
    assert first.received == [None]


async def test_a_silent_connection_is_checked_regularly(database: Database, notifier: Notifier) -> None:
    inbox, listener = Inbox(), Listener(database, ping_seconds=0.01)
    listener.subscribe("jobs", inbox)
    listener.start()
    try:
        await inbox.until_received(None)
        await until(lambda: queries_like(database, "SELECT 1"))
        notifier.notify("jobs", "still here")
        await inbox.until_received("still here")
    finally:
        await listener.stop()


async def test_a_notifier_whose_connections_were_killed_sends_on_new_ones(
    listener: Listener, notifier: Notifier, database: Database
) -> None:
    inbox = Inbox()
    listener.subscribe("jobs", inbox)
    listener.start()
    await inbox.until_received(None)
    notifier.notify("jobs", "before")
    await inbox.until_received("before")
    assert await terminate_backends(database, "query NOT LIKE 'LISTEN%'") >= 1
    notifier.notify("jobs", "after")
    await inbox.until_received("after")


async def test_messages_that_cannot_be_sent_for_long_are_dropped_and_later_messages_are_sent(
    listener: Listener, database: Database
) -> None:
    inbox = Inbox()
    listener.subscribe("jobs", inbox)
    listener.start()
    await inbox.until_received(None)
    closed = Database("central", "central", database.dsn, DatabaseSettings())
    notifier = Notifier(closed)
    notifier.notify("jobs", "lost")
    await notifier.close()
    assert notifier.statements == 0
    await closed.open()
    try:
        notifier.notify("jobs", "found")
        await notifier.close()
    finally:
        await closed.close()
    await inbox.until_received("found")
    assert inbox.received == [None, "found"]


@pytest.mark.parametrize(("channel", "payload"), [("", ""), ("c" * 64, ""), ("jobs", "p" * 8000), ("jobs", "ü" * 4000)])
async def test_a_message_that_postgresql_would_refuse_is_refused_before_the_batch_is_sent(
    listener: Listener, notifier: Notifier, channel: str, payload: str
) -> None:
    inbox = Inbox()
    listener.subscribe("jobs", inbox)
    listener.start()
    await inbox.until_received(None)
    notifier.notify("jobs", "x" * MAX_PAYLOAD_BYTES)
    with pytest.raises(ValueError, match="cannot be sent"):
        notifier.notify(channel, payload)
    await inbox.until_received("x" * MAX_PAYLOAD_BYTES)
