"""Backfills: fill columns of rows from before a migration in the background, in small steps and once only.

Each step is one transaction, which also records the reached place (migration 0022 of the pools). A step that is killed
has no effect, and several control planes take turns. A new installation has nothing to do.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.sql import Connection, statements
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.loops import Loop

SQL = statements("callsheet.plumbing", "pool_statements.sql")

log = get_logger(__name__)


class BackfillPlace(NamedTuple):
    """A key of a table. The table is processed in the order of this key."""

    tenant_id: UUID
    id: UUID


class Backfill(Loop):
    # Pause between two steps, so that the database has time for other work.
    interval_seconds = 1.0

    def __init__(self, pools: Callable[[], Sequence[Database]]):
        super().__init__()
        self._pools = pools
        self._done: set[str] = set()

    async def tick(self, now: datetime) -> None:
        for pool in self._pools():
            if pool.name not in self._done and not await self.step(pool):
                self._done.add(pool.name)

    async def step(self, pool: Database) -> bool:
        """Fills the next batch. Returns False if the backfill is done."""
        async with pool.connection() as connection:
            row = await SQL["backfill_place"].row(connection, name=self.name)
        if row is None:
            return False
        await self.fill(pool, BackfillPlace(row["tenant_id"], row["id"]))
        return True

    @abstractmethod
    async def fill(self, pool: Database, after: BackfillPlace) -> None:
        """Reads the rows after that place, then writes them in one transaction: `hold`, the rows, `move`."""

    async def hold(self, connection: Connection, after: BackfillPlace) -> bool:
        return await SQL["hold_backfill"].value(connection, name=self.name, **after._asdict()) is not None

    async def move(self, connection: Connection, to: BackfillPlace | None) -> None:
        """Records the place that was reached. None ends the backfill."""
        if to is not None:
            await SQL["move_backfill"].run(connection, name=self.name, **to._asdict())
            return
        await SQL["end_backfill"].run(connection, name=self.name)
        log.info("backfill.done", backfill=self.name)
