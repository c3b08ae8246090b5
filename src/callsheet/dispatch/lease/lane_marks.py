"""The low-water marks of lanes: where the first queued row of a lane may be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.sql import statements

SQL = statements("callsheet.dispatch")
# Lanes per page. A submit into one of these lanes waits until the page is done.
SWEPT_AT_ONCE = 200
# Each lease leaves a dead index entry at the head of its lane. Fewer than this many cost little to scan.
LEASES_PER_RAISE = 64
SETTLE_SECONDS = 60.0


class LaneMarks:
    def __init__(self, central: Database):
        self._central = central
        # How many rows were leased from each lane since its mark was moved.
        self._leased: Counter[int] = Counter()

    def leased(self, lane_id: int) -> None:
        """Counts a lease from this lane."""
        self._leased[lane_id] += 1

    async def raise_due(self) -> None:
        """Raises the marks of the lanes that this process leased many rows from. Other lanes are left out: each
        raised mark leaves a dead row, and while a long session blocks vacuum, every lease scans the dead rows.
        """
        due = sorted(lane_id for lane_id, rows in self._leased.items() if rows >= LEASES_PER_RAISE)
        for lane_id in due:
            del self._leased[lane_id]
        if due:
            await self.raise_low_water(due)

    async def raise_low_water(self, lane_ids: Sequence[int] | None = None) -> None:
        """Moves the marks of the lanes up to their first queued row. Default: of all lanes. This takes two statements,
        because the second must see the commits that the first waited for.
        """
        async with self._central.transaction() as connection:
            locked = await SQL["lock_lanes"].column(connection, lane_ids=lane_ids)
            await SQL["raise_low_water"].run(connection, lane_ids=locked)

    async def sweep(self, settle_seconds: float = SETTLE_SECONDS) -> int:
        """Removes lanes without dispatches, moves the marks of the others, and records which lanes have no work."""
        removed, after = 0, 0
        while True:
            async with self._central.transaction() as connection:
                lane_ids: list[int] = await SQL["lock_lanes_after"].column(
                    connection, after=after, limit=SWEPT_AT_ONCE, settle_seconds=settle_seconds
                )
                if lane_ids:
                    await SQL["raise_low_water"].run(connection, lane_ids=lane_ids)
                    removed += await SQL["remove_lanes"].run(connection, lane_ids=lane_ids)
            if len(lane_ids) < SWEPT_AT_ONCE:
                self._leased.clear()
                return removed
            after = lane_ids[-1]
