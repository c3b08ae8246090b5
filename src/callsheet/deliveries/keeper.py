"""Gives up events that no endpoint accepted in time, deletes old ones, and seals secrets again after a new key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from callsheet.deliveries.endpoint_secrets import EndpointSecrets
from callsheet.deliveries.sender import SQL
from callsheet.plumbing.database.database import Database
from callsheet.settings.deliveries import DeliverySettings
from callsheet.toolbox.concurrently import all_of
from callsheet.toolbox.loops import Loop


class SealedSecrets(NamedTuple):
    tenant_id: UUID
    id: UUID
    sealed_secret: bytes
    sealed_old_secret: bytes | None


class DisabledEndpoint(NamedTuple):
    """An endpoint that was disabled because it failed for too long."""

    tenant_id: UUID
    id: UUID
    url: str
    disabled_reason: str


async def disabled_endpoints(pools: Sequence[Database], limit: int) -> list[DisabledEndpoint]:
    """Endpoints that were disabled in the last week."""
    found: list[DisabledEndpoint] = []
    for pool in pools:
        async with pool.ordinary() as connection:
            found += await SQL["disabled_endpoints"].rows(connection, DisabledEndpoint, limit=limit)
    return found[:limit]


class DeliveryKeeper(Loop):
    name = "delivery_keeper"
    interval_seconds = 60.0
    batch = 1000

    def __init__(self, pools: Callable[[], Sequence[Database]], secrets: EndpointSecrets, settings: DeliverySettings):
        super().__init__()
        self._pools = pools
        self._secrets = secrets
        self._settings = settings

    async def tick(self, now: datetime) -> bool:
        """Returns whether there may be more to do."""
        return any(await all_of(self._keep(pool) for pool in self._pools()))

    async def _keep(self, pool: Database) -> bool:
        async with pool.ordinary() as connection:
            seconds = self._settings.retry_hours * 3600
            given_up = await SQL["give_up"].run(connection, seconds=seconds, limit=self.batch)
            deleted = await SQL["delete_old"].run(
                connection, seconds=self._settings.keep_days * 86_400, limit=self.batch
            )
            for row in await SQL["sealed_with_another_key"].rows(
                connection, SealedSecrets, sealed_with=self._secrets.sealed_with, limit=self.batch
            ):
                sealed = self._secrets.sealed_again(row.sealed_secret)
                if sealed is not None:
                    await SQL["reseal"].run(
                        connection,
                        tenant_id=row.tenant_id,
                        id=row.id,
                        before=row.sealed_secret,
                        sealed_secret=sealed,
                        sealed_old_secret=self._secrets.sealed_again(row.sealed_old_secret),
                        sealed_with=self._secrets.sealed_with,
                    )
        return self.batch in (given_up, deleted)
