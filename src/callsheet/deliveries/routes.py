"""`/api/webhook-endpoints`: URLs that get events of jobs, and the log of what was sent."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import Depends, Path, Query

from callsheet.deliveries.endpoints import Endpoints
from callsheet.identity.access.authentication import Authentication
from callsheet.identity.access.principal import Principal
from callsheet.plumbing.database.pages import CURSOR, LIMIT
from callsheet.plumbing.http.routing import Router
from callsheet.wire.base import Page
from callsheet.wire.webhook_endpoints import (
    ChangeWebhookEndpoint,
    CreatedWebhookEndpoint,
    CreateWebhookEndpoint,
    Delivery,
    DeliveryStatus,
    Replayed,
    ReplayRange,
    RotatedSecret,
    WebhookEndpoint,
)

DeliveryId = Annotated[int, Path(ge=1, le=2**62)]
DELIVERY_CURSOR = Query(None, ge=1, le=2**62, description="`next_cursor` of the page before.")
STATUS = Query(None, description="Only deliveries with this status.")


def endpoint_router(endpoints: Endpoints, authentication: Authentication) -> Router:
    router = Router(prefix="/api/webhook-endpoints", tags=["webhook endpoints"])
    user = Depends(authentication.user)

    @router.post("", status_code=201, once=True)
    async def create_webhook_endpoint(
        body: CreateWebhookEndpoint, principal: Principal = user
    ) -> CreatedWebhookEndpoint:
        """Creates a URL that gets events of jobs by POST, signed by Standard Webhooks. The secret is shown once."""
        return await endpoints.create(principal, body)

    @router.get("")
    async def list_webhook_endpoints(
        cursor: UUID | None = CURSOR, limit: int = LIMIT, principal: Principal = user
    ) -> Page[WebhookEndpoint]:
        """Your endpoints, newest first. Administrators of a tenant also get those for all of its jobs."""
        return await endpoints.page(principal, cursor, limit)

    @router.get("/{endpoint_id}")
    async def get_webhook_endpoint(endpoint_id: UUID, principal: Principal = user) -> WebhookEndpoint:
        """An endpoint: its events, and whether it fails."""
        return await endpoints.get(principal, endpoint_id)

    @router.patch("/{endpoint_id}")
    async def change_webhook_endpoint(
        endpoint_id: UUID, body: ChangeWebhookEndpoint, principal: Principal = user
    ) -> WebhookEndpoint:
        """Changes an endpoint. `enabled` switches it on and off, and on again after it was disabled."""
        return await endpoints.change(principal, endpoint_id, body)

    @router.delete("/{endpoint_id}", status_code=204)
    async def delete_webhook_endpoint(endpoint_id: UUID, principal: Principal = user) -> None:
        """Deletes an endpoint. Its events that wait are not sent any more."""
        await endpoints.delete(principal, endpoint_id)

    @router.post("/{endpoint_id}/rotate-secret", once=True)
    async def rotate_webhook_secret(endpoint_id: UUID, principal: Principal = user) -> RotatedSecret:
        """Creates a new secret. For a day, requests are signed with the old one too."""
        return await endpoints.rotate_secret(principal, endpoint_id)

    @router.post("/{endpoint_id}/test", status_code=202, once=True)
    async def test_webhook_endpoint(endpoint_id: UUID, principal: Principal = user) -> Delivery:
        """Sends the event `webhook.test`. The log of deliveries shows what became of it."""
        return await endpoints.write_test(principal, endpoint_id)

    return router


def delivery_router(endpoints: Endpoints, authentication: Authentication) -> Router:
    router = Router(prefix="/api/webhook-endpoints/{endpoint_id}", tags=["webhook endpoints"])
    user = Depends(authentication.user)

    @router.get("/deliveries")
    async def list_deliveries(
        endpoint_id: UUID,
        status: DeliveryStatus | None = STATUS,
        cursor: int | None = DELIVERY_CURSOR,
        limit: int = LIMIT,
        principal: Principal = user,
    ) -> Page[Delivery]:
        """The events for an endpoint with the last attempt to send each, newest first."""
        return await endpoints.deliveries(principal, endpoint_id, status, cursor, limit)

    @router.post("/deliveries/{delivery_id}/redeliver", status_code=202, once=True)
    async def redeliver(endpoint_id: UUID, delivery_id: DeliveryId, principal: Principal = user) -> Delivery:
        """Sends an event again, with the same `webhook-id`."""
        return await endpoints.redeliver(principal, endpoint_id, delivery_id)

    @router.post("/replay", status_code=202, once=True)
    async def replay_deliveries(endpoint_id: UUID, body: ReplayRange, principal: Principal = user) -> Replayed:
        """Sends the events of a time range again, up to 1,000 per request, for example after an outage."""
        return await endpoints.replay(principal, endpoint_id, body)

    return router
