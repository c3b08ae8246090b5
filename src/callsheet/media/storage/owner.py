"""Whose storage it is: a small object in it names the installation that may delete there (decision 0023).

A copy of an installation that was left with the original's bucket would delete the original's files when their time is
over. Reading and writing do no harm: whatever is written has an id of its own in its key.
"""

from __future__ import annotations

import time
from uuid import UUID

from pydantic import ValidationError

from callsheet.media.storage.port import Storage
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import statements
from callsheet.toolbox.logs import get_logger
from callsheet.wire.base import ResponseModel
from callsheet.wire.errors import ContentMismatch, NotFound, Unavailable

SQL = statements("callsheet.plumbing.database")

log = get_logger(__name__)
KEY = "callsheet/installation.json"
MAX_BYTES = 1000
# For how long a check is good: objects are deleted in bursts, and a bucket changes hands by a command.
TRUSTED_SECONDS = 30.0


class Marker(ResponseModel):
    installation: UUID


async def read_owner(storage: Storage) -> UUID | None:
    """The installation that may delete there; None if the storage has no marker yet."""
    try:
        return Marker.model_validate_json(await storage.read(KEY, MAX_BYTES)).installation
    except NotFound:
        return None
    except (ContentMismatch, ValidationError):
        raise Unavailable(
            f"The object {KEY} of the storage at {storage.place} cannot be read. If this installation may delete the "
            "files there, run: callsheet db adopt --storage"
        ) from None


async def mark(storage: Storage, installation: UUID) -> None:
    marker = Marker(installation=installation)
    await storage.put(KEY, marker.model_dump_json().encode(), content_type="application/json")


async def refusal(storage: Storage, installation: UUID) -> str | None:
    """Why this installation may delete nothing there; None where it may.

    A copy of all objects has the marker too. Nothing distinguishes such a copy from the original under another URL, so
    an operator says what it is.
    """
    owner = await read_owner(storage)
    if owner is None or owner == installation:
        return None
    return (
        f"The storage at {storage.place} belongs to installation {owner}, and this is installation {installation}: "
        "nothing is deleted there. If these are the files of the original, give this copy storage of its own: "
        "CALLSHEET_STORAGE__S3__BUCKET, or CALLSHEET_HOME for local files. If they are this installation's own (copied "
        "for it, or the other installation is gone), run: callsheet db adopt --storage"
    )


class StorageOwner:
    """Checks ownership before objects are deleted. Storage without a marker becomes this installation's."""

    def __init__(self, databases: Databases) -> None:
        self._databases = databases
        self._checked = float("-inf")
        # Why nothing is deleted, as of the latest check.
        self.problem: str | None = None

    async def require(self, storage: Storage) -> None:
        if time.monotonic() - self._checked < TRUSTED_SECONDS:
            return
        before, self.problem = self.problem, await self._check(storage)
        if self.problem is not None:
            if before is None:
                log.error("storage.not_owned", reason=self.problem)
            raise Unavailable(self.problem)
        self._checked = time.monotonic()

    async def _check(self, storage: Storage) -> str | None:
        async with self._databases.central.connection() as connection:
            installation = await SQL["read_installation"].value(connection)
        if await read_owner(storage) is None:
            # Another installation may do the same at this moment; one of the two stays.
            await mark(storage, installation)
        return await refusal(storage, installation)
