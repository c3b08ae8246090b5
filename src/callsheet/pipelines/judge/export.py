"""Exports a run: its files as one zip with a manifest. The export is read page by page and sent while it is read."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, AsyncIterator
from datetime import datetime
from tempfile import SpooledTemporaryFile
from typing import IO, Any, NamedTuple
from uuid import UUID

from callsheet.identity.access.principal import Principal
from callsheet.media.archive import ArchiveEntry, opened_content, zipped
from callsheet.media.files import Files
from callsheet.pipelines.judge.gallery import Gallery, OwnRun, rejection_of
from callsheet.pipelines.rows import StepRow
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import statements
from callsheet.wire.pipelines.pipelines import CandidateStatus

SQL = statements("callsheet.pipelines.judge")

PAGE = 200
# The manifest is the last entry, because all files are known only at the end. It is kept in memory up to this size,
# then on disk.
SPOOLED_BYTES = 1024 * 1024
PIECE = 262_144
MANIFEST = "manifest.json"
_DEVICE = re.compile(r"con|prn|aux|nul|(com|lpt)[0-9]")


class ExportedCandidate(NamedTuple):
    """A candidate with its file. The file fields are None if the file was deleted."""

    id: UUID
    number: int
    position: int
    parent_id: UUID | None
    job_id: UUID
    output_index: int
    seed: int
    elo: int
    votes: int
    status: str
    rejected_with: UUID | None
    rejected_by: UUID | None
    child_count: int
    failure_count: int
    created_at: datetime
    path: str | None
    disk: str | None
    name: str | None
    mime_type: str | None
    size: int | None
    sha256: str | None


class LastNumber(NamedTuple):
    last: int
    now: datetime


class Exports:
    def __init__(self, databases: Databases, gallery: Gallery, files: Files):
        self._databases = databases
        self._gallery = gallery
        self._files = files

    async def open(
        self, principal: Principal, run_id: UUID, status: CandidateStatus | None
    ) -> tuple[str, AsyncIterator[bytes]]:
        """The name and the bytes of the archive. Errors are raised before the first byte is sent."""
        run = await self._gallery.run(principal, run_id)
        steps = await self._gallery.steps(principal, run_id)
        pool = await self._databases.pool(principal.pool)
        async with pool.ordinary() as connection:
            until = await SQL["last_number"].row(connection, LastNumber, tenant_id=principal.tenant_id, run_id=run_id)
        assert until is not None
        entries = self._entries(principal, run, steps, status, until.last, until.now)
        return f"{folder_in_archive(run.target_folder)}.zip", zipped(entries)

    async def _entries(
        self,
        principal: Principal,
        run: OwnRun,
        steps: list[StepRow],
        status: CandidateStatus | None,
        last: int,
        now: datetime,
    ) -> AsyncGenerator[ArchiveEntry, None]:
        root = folder_in_archive(run.target_folder)
        folders = {step.position: f"{step.position:02}-{step.slug}" for step in steps}
        with SpooledTemporaryFile(SPOOLED_BYTES) as manifest:
            _begin(manifest, run, steps, now)
            first = True
            async for row in self._candidates(principal, run, status, last):
                name = None
                if (content := await opened_content(self._files, row.path, row.disk)) is not None and row.path:
                    # A path in storage consists of slugs. Its last segment has the id and the time of the candidate.
                    name = f"{root}/{folders[row.position]}/{row.path.rpartition('/')[2]}"
                    yield ArchiveEntry(name, row.created_at, content, size=row.size or 0)
                manifest.write((b"" if first else b",") + b"\n  " + _line(row, name))
                first = False
            manifest.write(b"\n]}\n")
            manifest.seek(0)
            yield ArchiveEntry(f"{root}/{MANIFEST}", now, _read(manifest), packed=True)

    async def _candidates(
        self, principal: Principal, run: OwnRun, status: CandidateStatus | None, last: int
    ) -> AsyncIterator[ExportedCandidate]:
        pool = await self._databases.pool(principal.pool)
        after = 0
        while True:
            # No connection is held while files are sent: that may take an hour.
            async with pool.ordinary() as connection:
                rows = await SQL["exported_candidates"].rows(
                    connection,
                    ExportedCandidate,
                    tenant_id=principal.tenant_id,
                    run_id=run.id,
                    after=after,
                    last=last,
                    status=status.value if status else None,
                    limit=PAGE,
                )
            for row in rows:
                yield row
            if len(rows) < PAGE:
                return
            after = rows[-1].number


def folder_in_archive(target_folder: str) -> str:
    """The name of the folder in the archive. Windows opens a device instead of a folder called `con`, so such names
    are changed.
    """
    return f"run-{target_folder}" if _DEVICE.fullmatch(target_folder) else target_folder


def _begin(manifest: IO[bytes], run: OwnRun, steps: list[StepRow], now: datetime) -> None:
    head = {
        "run": {name: value for name, value in run._asdict().items() if name != "steps"},
        "exported_at": now,
        "steps": [
            {"position": step.position, "slug": step.slug, "name": step.name, "workflow": step.workflow}
            for step in steps
        ],
    }
    manifest.write(_json(head)[:-1] + b', "candidates": [')


def _line(row: ExportedCandidate, name: str | None) -> bytes:
    left_out = {"path", "disk", "name", "rejected_with", "rejected_by"}
    kept = {key: value for key, value in row._asdict().items() if key not in left_out}
    return _json({**kept, "rejection": rejection_of(row.id, row.rejected_with, row.rejected_by), "file": name})


def _json(value: Any) -> bytes:
    return json.dumps(value, default=_plain, ensure_ascii=False).encode()


def _plain(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


async def _read(file: IO[bytes]) -> AsyncIterator[bytes]:
    while piece := file.read(PIECE):
        yield piece
