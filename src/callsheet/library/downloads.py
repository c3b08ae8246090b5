"""The outputs of several jobs as one zip, which is created while it is sent."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from pathlib import PurePosixPath
from uuid import UUID

from callsheet.identity.principal import Principal
from callsheet.library.lists import SQL
from callsheet.media.archive import Entry, opened_content, zipped
from callsheet.media.files import Files
from callsheet.media.storage.responses import clean_name
from callsheet.plumbing.databases import Databases
from callsheet.plumbing.sql import Row
from callsheet.wire.errors import NotFound


class Downloads:
    def __init__(self, databases: Databases, files: Files):
        self._databases = databases
        self._files = files

    async def open(self, principal: Principal, job_ids: Sequence[UUID]) -> AsyncIterator[bytes]:
        """Raises before the first byte is sent, if the request is refused."""
        pool = await self._databases.pool(principal.pool)
        async with pool.ordinary() as connection:
            rows = await SQL["outputs_of_jobs"].rows(
                connection,
                tenant_id=principal.tenant_id,
                user_id=principal.user_id,
                job_ids=list(dict.fromkeys(job_ids)),
            )
        if not rows:
            raise NotFound("You have no files of these jobs.")
        return zipped(self._entries(rows))

    async def _entries(self, rows: Sequence[Row]) -> AsyncGenerator[Entry, None]:
        for row in rows:
            # No database connection is held meanwhile. A file that is deleted before its turn is left out.
            if (content := await opened_content(self._files, row["path"], row["disk"])) is not None:
                yield Entry(name_of(row), row["created_at"], content, size=row["size"])


def name_of(row: Row) -> str:
    """A file name that is unique by job id and output number, and safe on every system."""
    made = row["job_created_at"].strftime("%Y%m%d-%H%M%S")
    # The end of the id, because the beginning is the time.
    stem = clean_name(f"{made} {row['title'] or 'job'} {row['job_id'].hex[-8:]}")
    number = "" if row["number"] == 1 else f"-{row['number']}"
    return f"{stem}{number}{PurePosixPath(clean_name(row['name'])).suffix}"
