"""How many jobs of a concurrency identifier may run at once."""

from __future__ import annotations

from callsheet.dispatch.queue import Queue
from callsheet.dispatch.rows import RouteRow
from callsheet.identity.audit_log import record
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.sql import statements
from callsheet.wire.base import Page
from callsheet.wire.operate.operations import ConcurrencyLimit

SQL = statements("callsheet.dispatch.operate")


class ConcurrencyLimits:
    def __init__(self, central: Database, queue: Queue):
        self._central = central
        self._queue = queue

    async def page(self, after: str | None, limit: int) -> Page[ConcurrencyLimit]:
        async with self._central.ordinary() as connection:
            found = await SQL["list_limits"].rows(connection, ConcurrencyLimit, after=after, limit=limit + 1)
        items = found[:limit]
        return Page(items=items, next_cursor=items[-1].identifier if len(found) > limit else None)

    async def set(self, identifier: str, max_concurrent: int | None, actor: str) -> None:
        """Sets the limit of an identifier. None removes the limit."""
        async with self._central.transaction() as connection:
            if max_concurrent is None:
                await SQL["remove_limit"].run(connection, identifier=identifier)
            else:
                await SQL["set_limit"].run(connection, identifier=identifier, max_concurrent=max_concurrent)
            routes = await SQL["routes_of_identifier"].rows(connection, RouteRow, identifier=identifier)
            await record(
                connection,
                actor,
                "concurrency_limit.set",
                "concurrency_limit",
                identifier,
                max_concurrent=max_concurrent,
            )
        # If the limit was raised, jobs may be waiting for the new slots.
        for route in routes:
            self._queue.announce_free_slot(*route)

    async def declare(self, identifier: str, max_concurrent: int) -> None:
        """Sets the limit of concurrent jobs that a provider declares. A limit that an admin has set stays."""
        async with self._central.connection() as connection:
            values = {"identifier": identifier, "max_concurrent": max_concurrent}
            changed = await SQL["declare_limit"].value(connection, **values)
            routes = (
                await SQL["routes_of_identifier"].rows(connection, RouteRow, identifier=identifier) if changed else []
            )
        for route in routes:
            self._queue.announce_free_slot(*route)
