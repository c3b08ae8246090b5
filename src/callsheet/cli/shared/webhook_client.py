"""The client of the commands for webhook endpoints."""

from __future__ import annotations

import asyncio
from uuid import UUID

from callsheet.cli.shared.operations_client import CommandClient
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

ENDPOINTS = "/api/webhook-endpoints"
# Longer than the timeout of a request to an endpoint.
TEST_SECONDS, TEST_POLL_SECONDS = 15.0, 0.3


class WebhookClient(CommandClient):
    async def endpoints(self) -> list[WebhookEndpoint]:
        return await self.all_of(WebhookEndpoint, ENDPOINTS)

    async def create(self, wanted: CreateWebhookEndpoint) -> CreatedWebhookEndpoint:
        return await self.post(CreatedWebhookEndpoint, ENDPOINTS, wanted.model_dump(mode="json"))

    async def change(self, endpoint: UUID, wanted: ChangeWebhookEndpoint) -> WebhookEndpoint:
        body = wanted.model_dump(mode="json", exclude_none=True)
        return await self.ask(WebhookEndpoint, "PATCH", f"{ENDPOINTS}/{endpoint}", body, repeat=True)

    async def delete(self, endpoint: UUID) -> None:
        await self.request("DELETE", f"{ENDPOINTS}/{endpoint}")

    async def rotate(self, endpoint: UUID) -> RotatedSecret:
        return await self.post(RotatedSecret, f"{ENDPOINTS}/{endpoint}/rotate-secret")

    async def test(self, endpoint: UUID) -> Delivery:
        return await self.post(Delivery, f"{ENDPOINTS}/{endpoint}/test")

    async def attempted(self, endpoint: UUID, sent: Delivery) -> Delivery:
        """The delivery after its first attempt, or as it is after a while."""
        path = f"{ENDPOINTS}/{endpoint}/deliveries"
        found = sent
        for _ in range(round(TEST_SECONDS / TEST_POLL_SECONDS)):
            [found] = await self.first_of(Delivery, path, 1, cursor=str(sent.id + 1))
            if found.status is not DeliveryStatus.WAITING or found.error is not None:
                break
            await asyncio.sleep(TEST_POLL_SECONDS)
        return found

    async def log(self, endpoint: UUID, status: DeliveryStatus | None, max_items: int) -> list[Delivery]:
        return await self.first_of(Delivery, f"{ENDPOINTS}/{endpoint}/deliveries", max_items, status=status)

    async def redeliver(self, endpoint: UUID, delivery: int) -> Delivery:
        return await self.post(Delivery, f"{ENDPOINTS}/{endpoint}/deliveries/{delivery}/redeliver")

    async def replay(self, endpoint: UUID, wanted: ReplayRange) -> int:
        """The number of events that are sent again."""
        total = 0
        while True:
            body = wanted.model_dump(mode="json", exclude_none=True)
            part = await self.post(Replayed, f"{ENDPOINTS}/{endpoint}/replay", body)
            total += part.deliveries
            if part.next_since is None or part.next_since == wanted.since:
                return total
            wanted = wanted.model_copy(update={"since": part.next_since})
