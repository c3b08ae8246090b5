"""Gives up events that no endpoint accepted in time, deletes old ones, disables endpoints for which too many wait, and
seals secrets again after a new key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from callsheet.deliveries.delivery_rows import SQL
from callsheet.deliveries.endpoint_mails import EndpointMails
from callsheet.deliveries.endpoint_secrets import EndpointSecrets
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.databases import Databases
from callsheet.settings.deliveries import DeliverySettings
from callsheet.toolbox.concurrently import all_of
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.loops import Loop

log = get_logger(__name__)


class SealedSecrets(NamedTuple):
    tenant_id: UUID
    id: UUID
    sealed_secret: bytes
    sealed_old_secret: bytes | None


class FullEndpoint(NamedTuple):
    id: UUID
    disabled_reason: str


class DisabledEndpoint(NamedTuple):
    """An endpoint that was disabled because it failed for too long, or because too many events wait for it."""

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


async def endpoints_sealed_with(databases: Databases, key: str) -> int:
    """The number of endpoints, in all pools, whose secrets are encrypted with the key of this fingerprint."""
    found = 0
    for pool in databases.require_all():
        async with pool.ordinary() as connection:
            found += await SQL["sealed_with"].value(connection, key=key)
    return found


class DeliveryKeeper(Loop):
    name = "delivery_keeper"
    interval_seconds = 60.0
    batch = 1000

    def __init__(
        self,
        pools: Callable[[], Sequence[Database]],
        secrets: EndpointSecrets,
        settings: DeliverySettings,
        mails: EndpointMails,
    ):
        super().__init__()
        self._pools = pools
        self._mails = mails
        self._secrets = secrets
        self._settings = settings

    async def tick(self, now: datetime) -> bool:
        """Returns whether there may be more to do."""
        has_more = any(await all_of(self._keep(pool) for pool in self._pools()))
        for pool in self._pools():
            await self._mails.send(pool)
        return has_more

    async def _keep(self, pool: Database) -> bool:
        async with pool.ordinary() as connection:
            seconds = self._settings.retry_hours * 3600
            given_up = await SQL["give_up"].run(connection, seconds=seconds, limit=self.batch)
            deleted = await SQL["delete_old"].run(
                connection, seconds=self._settings.keep_days * 86_400, limit=self.batch
            )
            beyond = await SQL["delete_beyond"].run(connection, kept=self._settings.keep_per_endpoint, limit=self.batch)
            for full in await SQL["fill_endpoints"].rows(
                connection,
                FullEndpoint,
                max_deliveries=self._settings.waiting_per_endpoint,
                max_bytes=self._settings.waiting_bytes_per_endpoint,
            ):
                log.warning("endpoint.full", endpoint=str(full.id), reason=full.disabled_reason)
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
        return self.batch in (given_up, deleted, beyond)
