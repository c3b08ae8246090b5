"""Priorities of queued dispatches, which operators change."""

from __future__ import annotations

from callsheet.dispatch.facts import LaneKey
from callsheet.dispatch.operate.lists import DispatchLists
from callsheet.dispatch.placing import open_lanes
from callsheet.dispatch.queue import Queue
from callsheet.dispatch.rows import MovedRow
from callsheet.identity.audit_log import record
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.sql import statements
from callsheet.wire.errors import WrongState

SQL = statements("callsheet.dispatch.operate")


class DispatchPriorities:
    def __init__(self, central: Database, queue: Queue, lists: DispatchLists):
        self._central = central
        self._queue = queue
        self._lists = lists

    async def change(self, dispatch_id: int, priority: int, actor: str) -> MovedRow:
        """Moves a queued dispatch to the lane of another priority."""
        async with self._central.transaction() as connection:
            lane = await SQL["lane_of_queued"].row(connection, LaneKey, dispatch_id=dispatch_id)
            if lane is not None:
                await open_lanes(connection, [lane._replace(priority=priority)])
            moved = await SQL["change_priority"].row(connection, MovedRow, dispatch_id=dispatch_id, priority=priority)
            if moved is not None:
                await record(
                    connection,
                    actor,
                    "dispatch.priority",
                    "dispatch",
                    dispatch_id,
                    moved.tenant_id,
                    job_id=moved.job_id,
                    old_priority=moved.old_priority,
                    priority=priority,
                )
        if moved is None:
            status = (await self._lists.get(dispatch_id)).status
            raise WrongState(f"The dispatch is {status}. Only the priority of a queued dispatch can be changed.")
        if moved.not_before is None:
            self._queue.announce_arrivals([(moved.lane, moved.dispatch_id)])
        return moved
