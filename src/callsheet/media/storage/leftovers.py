"""Objects that are not needed any more."""

from __future__ import annotations

from collections.abc import Collection

from callsheet.media.storage.port import Storage
from callsheet.toolbox.logs import get_logger
from callsheet.wire.errors import Unavailable

log = get_logger(__name__)


async def discard(storage: Storage, keys: Collection[str]) -> None:
    """Deletes them if the storage can be used. What stays, a sweep finds: callers have left a row that leads to it."""
    if keys:
        try:
            await storage.delete_many(keys)
        except Unavailable as error:
            log.warning("media.objects_left_to_sweep", objects=len(keys), error=repr(error))
