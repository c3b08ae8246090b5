"""Lists of dispatches. Each page reads a bounded number of rows for any length of the queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from callsheet.dispatch.facts import JobCycle
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.sql import Connection, statements
from callsheet.wire.base import Page
from callsheet.wire.errors import NotFound
from callsheet.wire.operate.operations import Dispatch, DispatchFilter

SQL = statements("callsheet.dispatch.operate")

# Maximum number of rows that a filtered list reads per request.
MAX_INSPECTED = 5000


class ListWindow(NamedTuple):
    """The rows that a filtered list reads for one page: the smallest id, and the number of rows."""

    smallest_id: int | None
    rows: int


class DispatchLists:
    def __init__(self, central: Database):
        self._central = central

    async def list(self, wanted: DispatchFilter, before: int | None, limit: int) -> Page[Dispatch]:
        """The dispatches, newest first. A page of the queue or the history may be shorter than `limit` and still
        have a next page.
        """
        filters = {
            "before": before,
            "status": wanted.status,
            "workflow": wanted.workflow,
            "tenant_id": wanted.tenant_id,
            "limit": limit + 1,
        }
        async with self._central.reports() as connection:
            if wanted.finished or (wanted.worker_id is None and wanted.status not in ("leased", "waiting")):
                return await _filtered(connection, wanted, filters, limit)
            if wanted.worker_id is not None:
                rows = await SQL["list_held_by_worker"].rows(
                    connection, Dispatch, **filters, worker_id=wanted.worker_id
                )
            else:
                rows = await SQL["list_held"].rows(connection, Dispatch, **filters)
        return _page(rows, limit, None)

    async def get(self, dispatch_id: int) -> Dispatch:
        async with self._central.ordinary() as connection:
            found = await SQL["get_open"].row(connection, Dispatch, dispatch_id=dispatch_id)
            # The history is read second, because the dispatch may finish between the two statements.
            found = found or await SQL["get_finished"].row(connection, Dispatch, dispatch_id=dispatch_id)
        if found is None:
            raise NotFound("There is no such dispatch.")
        return found

    async def of_job(self, job: JobCycle) -> Dispatch | None:
        async with self._central.ordinary() as connection:
            dispatch_id = await SQL["dispatch_of_job"].value(connection, **job._asdict())
        return await self.get(dispatch_id) if dispatch_id is not None else None


async def _filtered(
    connection: Connection, wanted: DispatchFilter, filters: Mapping[str, object], limit: int
) -> Page[Dispatch]:
    """A filtered page. No index covers the filters, so a page reads a limited number of rows, and the next page
    continues there.
    """
    finished = wanted.finished
    window = await SQL["window_of_history" if finished else "window_of_queue"].row(
        connection, ListWindow, before=filters["before"], max_rows=MAX_INSPECTED
    )
    if window is None or window.smallest_id is None:
        return Page(items=[], next_cursor=None)
    if finished:
        rows = await SQL["list_finished"].rows(
            connection, Dispatch, **filters, worker_id=wanted.worker_id, from_id=window.smallest_id
        )
    else:
        rows = await SQL["list_queue"].rows(connection, Dispatch, **filters, from_id=window.smallest_id)
    return _page(rows, limit, window.smallest_id if window.rows >= MAX_INSPECTED else None)


def _page(rows: Sequence[Dispatch], limit: int, next_id: int | None) -> Page[Dispatch]:
    """Builds a page. `next_id`: where the list continues if these rows do not fill the page; None at its end."""
    items = list(rows[:limit])
    cursor = items[-1].dispatch_id if len(rows) > limit else next_id
    return Page(items=items, next_cursor=None if cursor is None else str(cursor))
