"""Removes the files of deleted assets when no job that was submitted before can need them."""

from __future__ import annotations

from datetime import datetime

from callsheet.catalog.assets import FOLDER
from callsheet.media.storage import Storage
from callsheet.media.storage.owner import StorageOwner
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import statements
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.toolbox.loops import Loop
from callsheet.wire.errors import Unavailable

SQL = statements("callsheet.catalog")


class DeletedAssets(Loop):
    """Removes files of deleted assets. Safe on any number of control planes: removing a missing file changes
    nothing.
    """

    name = "deleted_assets"
    interval_seconds = 600.0
    batch = 20

    def __init__(self, databases: Databases, storage: Storage, kept_seconds: int, owner: StorageOwner):
        super().__init__()
        self._owner = owner
        self._databases = databases
        self._storage = storage
        self._kept_seconds = kept_seconds

    async def tick(self, now: datetime) -> bool:
        """Removes files. Returns whether there may be more."""
        async with self._databases.central.ordinary() as connection:
            ids = await SQL["assets_to_remove"].column(
                connection, now=now, kept_seconds=self._kept_seconds, limit=self.batch
            )
        if not ids or not await self._may_delete():
            return False
        for asset_id in ids:
            # The row is deleted last: after a crash, the next tick finds the row and removes the rest.
            await self._storage.delete_many([entry.key async for entry in self._storage.list(f"{FOLDER}/{asset_id}")])
            await hit(Failpoint.CATALOG_BEFORE_ROW)
            async with self._databases.central.connection() as connection:
                await SQL["remove_asset"].run(connection, id=asset_id)
        return len(ids) == self.batch

    async def _may_delete(self) -> bool:
        """Whether files may be deleted. False on a copy of an installation, whose storage belongs to the original.
        An alert shows that.
        """
        try:
            await self._owner.require(self._storage)
        except Unavailable:
            if self._owner.problem is None:
                raise
            return False
        return True
