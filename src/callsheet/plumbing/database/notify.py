"""Wake-ups through PostgreSQL: `Notifier` sends, `Listener` receives.

A NOTIFY per row from a trigger serializes commits (trap 13), so sending is debounced here: messages within a few
milliseconds are sent in one statement, each message once. A notification is a hint that something changed, never the
change itself: after a reconnect every subscriber reads the data again.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable
from random import Random

import asyncpg

from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.errors import CANNOT_CONNECT, DATABASE_AWAY
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.outages import Outage, backoff_seconds
from callsheet.wire.plurals import counted

log = get_logger(__name__)

# Sends any number of messages with one statement.
SEND = "SELECT pg_notify(channel, payload) FROM unnest($1::text[], $2::text[]) AS message (channel, payload)"

# Limits of PostgreSQL.
MAX_CHANNEL_BYTES = 63
MAX_PAYLOAD_BYTES = 7999
ATTEMPTS = 5

RANDOM = Random()  # noqa: S311 - spreads load, guards nothing

Subscriber = Callable[[str | None], None]
# Sends a payload on a channel, as `Notifier.notify` does.
Notify = Callable[[str, str], None]


class Notifier:
    def __init__(self, database: Database, delay_seconds: float = 0.005):
        self._database = database
        self._delay = delay_seconds
        self._sent_at = float("-inf")
        self._waiting: dict[tuple[str, str], None] = {}
        self._sender: asyncio.Task[None] | None = None
        self.statements = 0
        self._outage = Outage("notifier")

    def notify(self, channel: str, payload: str = "") -> None:
        """Sends a notification soon. Call it after the commit of the change."""
        if not 0 < len(channel.encode()) <= MAX_CHANNEL_BYTES or len(payload.encode()) > MAX_PAYLOAD_BYTES:
            # Such a message is refused here, because PostgreSQL would refuse the whole statement with all other
            # messages.
            raise ValueError(f"a message of {counted(len(payload), 'character')} on channel {channel!r} cannot be sent")
        self._waiting[channel, payload] = None
        if self._sender is None:
            self._sender = asyncio.create_task(self._send(), name="notifier")

    async def close(self) -> None:
        if self._sender is not None:
            await self._sender

    async def _send(self) -> None:
        attempt = 0
        try:
            while self._waiting:
                # The first message after a pause is sent at once. Messages of a burst are sent together.
                pause = self._sent_at + self._delay - time.monotonic()
                await asyncio.sleep(max(0.0, pause) if attempt == 0 else backoff_seconds(attempt, 0.05, 1.0, RANDOM))
                self._sent_at = time.monotonic()
                messages, self._waiting = self._waiting, {}
                try:
                    async with self._database.connection() as connection:
                        await connection.execute(SEND, [c for c, _ in messages], [p for _, p in messages])
                    self.statements += 1
                    attempt = 0
                    self._outage.ended()
                except DATABASE_AWAY as error:
                    attempt += 1
                    self._outage.failed(error)
                    if attempt < ATTEMPTS:
                        self._waiting = {**messages, **self._waiting}
                    else:
                        # Subscribers also check from time to time, so a message may be dropped after some attempts.
                        attempt = 0
        finally:
            self._sender = None


class Listener:
    """One connection for all channels of a process. It reconnects automatically."""

    def __init__(self, database: Database, ping_seconds: float = 30.0):
        self._database = database
        self._ping_seconds = ping_seconds
        self._subscribers: defaultdict[str, list[Subscriber]] = defaultdict(list)
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.connected = asyncio.Event()
        self._outage = Outage("listener")

    def subscribe(self, channel: str, subscriber: Subscriber) -> Callable[[], None]:
        """`subscriber` gets each payload, and None if messages may be missing. Returns a function that unsubscribes."""
        self._subscribers[channel].append(subscriber)
        self._changed.set()

        def unsubscribe() -> None:
            self._subscribers[channel].remove(subscriber)
            if not self._subscribers[channel]:
                del self._subscribers[channel]
            self._changed.set()

        return unsubscribe

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="listener")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _run(self) -> None:
        failures = 0
        try:
            while True:
                try:
                    await self._listen()
                    self._outage.failed(ConnectionError("the connection was closed"))
                except CANNOT_CONNECT as error:
                    # This includes any error, also a name that cannot be resolved or a password that is being changed.
                    self._outage.failed(error)
                failures = 1 if self.connected.is_set() else failures + 1
                self.connected.clear()
                await asyncio.sleep(backoff_seconds(failures, 0.1, 5.0, RANDOM))
        finally:
            self.connected.clear()

    async def _listen(self) -> None:
        connection = await self._database.connect_apart()
        try:
            await self._follow(connection)
        finally:
            connection.terminate()

    async def _follow(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        closed = asyncio.Event()
        connection.add_termination_listener(lambda _: closed.set())
        listening: set[str] = set()
        while not connection.is_closed():
            self._changed.clear()
            wanted = set(self._subscribers)
            for channel in wanted - listening:
                await connection.add_listener(channel, self._received)
                listening.add(channel)
                # Messages that were sent before this moment are lost.
                self._notify_subscribers(channel, None)
            for channel in listening - wanted:
                await connection.remove_listener(channel, self._received)
                listening.remove(channel)
            self.connected.set()
            self._outage.ended()
            if not await self._wait_for_either(closed, self._changed):
                # A server that disappeared without closing the connection is noticed only by a query.
                await connection.execute("SELECT 1", timeout=10)

    async def _wait_for_either(self, *events: asyncio.Event) -> bool:
        tasks = [asyncio.create_task(event.wait()) for event in events]
        try:
            done, _ = await asyncio.wait(tasks, timeout=self._ping_seconds, return_when=asyncio.FIRST_COMPLETED)
            return bool(done)
        finally:
            for task in tasks:
                task.cancel()

    def _received(self, connection: object, pid: int, channel: str, payload: object) -> None:
        self._notify_subscribers(channel, str(payload))

    def _notify_subscribers(self, channel: str, payload: str | None) -> None:
        for subscriber in tuple(self._subscribers.get(channel, ())):
            try:
                subscriber(payload)
            except Exception:  # An error of one subscriber must not affect the others.
                log.exception("listener.subscriber_failed", channel=channel)
