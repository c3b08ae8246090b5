"""The outputs of several jobs as one zip, which is created while it is sent."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from datetime import datetime
from pathlib import PurePosixPath
from typing import NamedTuple
from uuid import UUID

from callsheet.identity.access.principal import Principal
from callsheet.library.lists import SQL
from callsheet.media.archive import ArchiveEntry, opened_content, zipped
from callsheet.media.files import Files
from callsheet.media.storage.keys import clean_name
from callsheet.media.storage.responses import download_name
from callsheet.plumbing.database.databases import Databases
from callsheet.wire.errors import NotFound


class OutputRow(NamedTuple):
    job_id: UUID
    job_created_at: datetime
    title: str | None
    id: UUID
    name: str
    mime_type: str
    size: int
    path: str
    disk: str
    created_at: datetime
    # Name of the input of the job, and number of the job in its batch.
    input_name: str | None
    batch_item: int | None
    # Position among the outputs of the job, from 1.
    number: int


class LibraryDownloads:
    def __init__(self, databases: Databases, files: Files):
        self._databases = databases
        self._files = files

    async def open(
        self, principal: Principal, job_ids: Sequence[UUID], *, by_item: bool = False
    ) -> AsyncIterator[bytes]:
        """The zip of the outputs. Raises before the first byte is sent if the request is refused. `by_item`: the jobs
        are of one batch, and the files are named for its items.
        """
        pool = await self._databases.pool(principal.pool)
        async with pool.ordinary() as connection:
            rows = await SQL["outputs_of_jobs"].rows(
                connection,
                OutputRow,
                tenant_id=principal.tenant_id,
                user_id=principal.user_id,
                job_ids=list(dict.fromkeys(job_ids)),
            )
        if not rows:
            raise NotFound("These jobs have no files that you can download.")
        return zipped(self._entries(rows, name_of_item if by_item else name_of))

    async def _entries(
        self, rows: Sequence[OutputRow], name: Callable[[OutputRow], str]
    ) -> AsyncGenerator[ArchiveEntry, None]:
        for row in rows:
            # No connection is held during the download. A file that is deleted before its turn is left out.
            if (content := await opened_content(self._files, row.path, row.disk)) is not None:
                yield ArchiveEntry(name(row), row.created_at, content, size=row.size)


def name_of(row: OutputRow) -> str:
    """The name of a file in the zip. It is unique by the job's id and the number of the output, and valid on every
    file system.
    """
    made = row.job_created_at.strftime("%Y%m%d-%H%M%S")
    # The end of an id is random. Its beginning is the time.
    return _named(f"{made} {row.title or 'job'} {row.job_id.hex[-8:]}", row)


def name_of_item(row: OutputRow) -> str:
    """The name of a file in the zip of a batch: unique by the numbers of the item and of the output."""
    source = PurePosixPath(row.input_name).stem if row.input_name else row.title or "job"
    return _named(f"{row.batch_item or 0:04} {source}", row)


def _named(stem: str, row: OutputRow) -> str:
    number = "" if row.number == 1 else f"-{row.number}"
    return f"{clean_name(stem)}{number}{PurePosixPath(download_name(row.name, row.mime_type)).suffix}"
