"""Deliveries without HTTP to the control plane: endpoints of users, and a sender that the test drives.

async with delivering(core) as deliveries:
    endpoint = await deliveries.endpoint(ann, receiver.url)
    await core.submit(ann)
    await deliveries.send()
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from ipaddress import ip_network
from typing import Any

from callsheet.deliveries.room import DeliveriesRoom, open_deliveries
from callsheet.identity.access.principal import Principal
from callsheet.settings import Settings
from callsheet.settings.deliveries import DeliverySettings
from callsheet.settings.identity import MailSettings
from callsheet.settings.server import OutgoingSettings
from callsheet.toolbox.signing import Master
from callsheet.wire.identity import Role
from callsheet.wire.webhook_endpoints import CreatedWebhookEndpoint, CreateWebhookEndpoint, WebhookEvent
from tests.support.jobs.core import Core, Member, Row
from tests.support.media.media_harness import principal_of

SECRET = b"the secret key of an installation"
LOOPBACK = OutgoingSettings(allow_networks=(ip_network("127.0.0.0/8"),))
ALL_EVENTS = tuple(WebhookEvent)


def admin_of(member: Member) -> Principal:
    return replace(principal_of(member), role=Role.TENANT_ADMIN)


@dataclass(slots=True)
class Deliveries:
    core: Core
    room: DeliveriesRoom

    async def endpoint(self, member: Member, url: str, **wanted: Any) -> CreatedWebhookEndpoint:
        values = {"events": ALL_EVENTS, **wanted, "url": url}
        principal = admin_of(member) if wanted.get("scope") == "tenant" else principal_of(member)
        return await self.room.endpoints.create(principal, CreateWebhookEndpoint.model_validate(values))

    async def send(self) -> None:
        """One turn of the sender, until nothing more is due."""
        await self.room.sender.tick(datetime.now(UTC))
        await self.room.sender.idle()

    async def let_time_pass(self) -> None:
        """Every event is due, no endpoint is paused, and every claim of a dead process is over."""
        for pool in self.core.databases.pools:
            async with pool.connection() as connection:
                await connection.execute("UPDATE webhook_deliveries SET due_at = '-infinity' WHERE status = 'waiting'")
                await connection.execute("UPDATE webhook_endpoints SET paused_until = NULL")

    async def rows(self, member: Member) -> list[Row]:
        query = "SELECT * FROM webhook_deliveries WHERE tenant_id = $1 ORDER BY number"
        return await self.core.rows(member.pool, query, member.tenant_id)


@asynccontextmanager
async def delivering(
    core: Core,
    *,
    outgoing: OutgoingSettings = LOOPBACK,
    secret: Master = SECRET,
    mail: MailSettings | None = None,
    **settings: Any,
) -> AsyncIterator[Deliveries]:
    chosen = Settings(deliveries=DeliverySettings(**settings), outgoing=outgoing, mail=mail or MailSettings())
    room = open_deliveries(core.databases, chosen, secret)
    try:
        yield Deliveries(core, room)
    finally:
        await room.sender.stop()
        await room.close()
