"""Refuses bytes for uploads that are no longer awaited. Local storage asks before and after it stores an object."""

from __future__ import annotations

from callsheet.identity.accounts.tenant_pools import TenantRouting
from callsheet.media.files import SQL
from callsheet.media.names import upload_of
from callsheet.wire.errors import WrongState

ENDED = (
    "The upload of this URL was confirmed or deleted, so the URL accepts no more bytes. Create a new upload to send "
    "another file."
)


class AwaitedUploads:
    def __init__(self, routing: TenantRouting):
        self._routing = routing

    async def require(self, key: str) -> None:
        """Raises WrongState if the key belongs to an upload that was confirmed or deleted."""
        upload = upload_of(key)
        if upload is None:
            return
        tenant_id, file_id = upload
        pool = await self._routing.pool_of_tenant(tenant_id)
        async with pool.connection() as connection:
            awaited = await SQL["awaits_upload"].value(connection, tenant_id=tenant_id, file_id=file_id, path=key)
        if not awaited:
            raise WrongState(ENDED)
