"""Leases that prefer warm models.

They are used only if affinity chooses another job than the normal lease would. A worker that does not report its loaded
models, or for which the choice is the same, gets a normal lease.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from callsheet.dispatch.facts import Criteria, Lane, Lease
from callsheet.dispatch.lease.leasing import SPARE_ROWS, Leasing
from callsheet.dispatch.lease.taking import Poller, take, undrawn_on_error
from callsheet.dispatch.order.affinity import AffinityLimits, Cold
from callsheet.dispatch.order.queue_view import QueueView
from callsheet.dispatch.order.user_queues import UserQueue
from callsheet.plumbing.database.database import Database


class WarmChoice(NamedTuple):
    view: QueueView
    queue: UserQueue
    # The lanes to take the job from: all lanes of the queue, or those of some workflows.
    lanes: Mapping[int, Lane]
    # The value of `Turns.moment` before the draw.
    moment: int


class WarmLeasing:
    def __init__(self, central: Database, leasing: Leasing, limits: AffinityLimits):
        self._central = central
        self._leasing = leasing
        self._limits = limits
        # How many leases got a preferred job.
        self.preferred = 0

    async def choose(self, criteria: Criteria, cold: Cold) -> WarmChoice | None:
        """Draws a job that goes before others that are equally due. None if there is no such job."""
        if not self._limits.look_ahead or not self._leasing.is_fair:
            return None
        # This reads only the rows that the normal lease would read next, and waits for no lock: workers keep their
        # order.
        view = await self._leasing.fresh_view(criteria)
        moment = self._leasing.turns.moment
        drawn = view.draw_warm(cold, self._limits)
        return None if drawn is None else WarmChoice(view, *drawn, moment)

    async def lease(self, chosen: WarmChoice, poller: Poller) -> Lease | None:
        """The lease of the chosen job. None if other processes took the job at this moment; the caller then tries a
        normal lease.
        """
        view, queue, lanes, moment = chosen
        async with undrawn_on_error(view, [(queue, 1)]):
            lease, rows_seen = await self._take(view, lanes, poller)
        if lease is None:
            view.undo(queue, 1)
        # The lanes have no rows left, or other processes are taking the last ones at this moment.
        if rows_seen <= (lease is not None) or (lease is None and rows_seen <= SPARE_ROWS):
            self._leasing.turns.leave(tuple(lanes.values()), moment)
        self.preferred += lease is not None
        return lease

    async def _take(self, view: QueueView, lanes: Mapping[int, Lane], poller: Poller) -> tuple[Lease | None, int]:
        """The lease, and how many rows were seen in the lanes."""
        async with self._central.connection() as connection:
            [row] = await take(connection, [(lanes, 1)], [poller], SPARE_ROWS)
        rows_seen = sum(row.found_counts or ())
        if row.lease is not None:
            self._leasing.started(row.lease.dispatch_id, lanes[row.lane_id], view)
        return row.lease, rows_seen
