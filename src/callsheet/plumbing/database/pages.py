"""Lists are read by cursor, which is the id of the last item. UUIDv7 ids are in order of time, newest first."""

from __future__ import annotations

from typing import Protocol, TypeVar
from uuid import UUID

from fastapi import Query

from callsheet.wire.base import Page

DEFAULT_LIMIT = 50
MAXIMUM_LIMIT = 200
# Maximum size of results, errors and outputs of one page. With the maximum number of items, each with the largest
# result, a page would have hundreds of megabytes.
MAX_PAGE_BYTES = 4 * 2**20

CURSOR = Query(None, description="`next_cursor` of the page before.")
LIMIT = Query(DEFAULT_LIMIT, ge=1, le=MAXIMUM_LIMIT, description="Maximum number of items on the page.")


class HasId(Protocol):
    @property
    def id(self) -> UUID: ...


Item = TypeVar("Item", bound=HasId)


def page_of(items: list[Item], limit: int) -> Page[Item]:
    """A page of `limit` items, out of up to `limit + 1`. The extra item shows that there is a next page."""
    shown = items[:limit]
    return Page(items=shown, next_cursor=str(shown[-1].id) if len(items) > limit else None)
