"""The deliveries room: the parts that exist as long as the process, and its routes."""

from __future__ import annotations

from dataclasses import dataclass

from callsheet.deliveries.endpoint_mails import EndpointMails
from callsheet.deliveries.endpoint_secrets import EndpointSecrets
from callsheet.deliveries.endpoints import Endpoints
from callsheet.deliveries.keeper import DeliveryKeeper
from callsheet.deliveries.routes import delivery_router, endpoint_router
from callsheet.deliveries.sender import DeliverySender
from callsheet.identity.access.authentication import Authentication
from callsheet.identity.links.mail import Mailer
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.notify import Listener
from callsheet.plumbing.http.routing import Router
from callsheet.plumbing.http.webhook_sender import WebhookSender
from callsheet.plumbing.room import Room
from callsheet.settings import Settings
from callsheet.toolbox.loops import Loop
from callsheet.toolbox.signing import Master


@dataclass(frozen=True, slots=True)
class DeliveriesRoom(Room):
    endpoints: Endpoints
    sender: DeliverySender
    keeper: DeliveryKeeper
    client: WebhookSender

    @property
    def loops(self) -> tuple[Loop, ...]:
        return (self.sender, self.keeper)

    def listen(self, listener: Listener) -> None:
        self.sender.listen(listener)

    async def close(self) -> None:
        await self.client.close()


def open_deliveries(databases: Databases, settings: Settings, secret: Master) -> DeliveriesRoom:
    secrets = EndpointSecrets(secret)
    chosen = settings.deliveries
    client = WebhookSender(allow_networks=settings.outgoing.allow_networks, timeout_seconds=chosen.timeout_seconds)
    return DeliveriesRoom(
        Endpoints(databases, secrets, chosen, settings.outgoing.allow_networks),
        DeliverySender(lambda: databases.pools, client, secrets, chosen),
        DeliveryKeeper(lambda: databases.pools, secrets, chosen, EndpointMails(databases, Mailer(settings.mail))),
        client,
    )


def delivery_routers(deliveries: DeliveriesRoom, authentication: Authentication) -> list[Router]:
    endpoints = deliveries.endpoints
    return [endpoint_router(endpoints, authentication), delivery_router(endpoints, authentication)]
