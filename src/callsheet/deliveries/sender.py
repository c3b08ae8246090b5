"""Sends the events of jobs to endpoints, at least once and in the order of each job.

Each endpoint is served by a task of its own, so a slow one delays no other. Any number of control planes send at the
same time: a claim sets the time of the next attempt before the request, and an event waits for the earlier ones of its
job. If a process dies, its claims are due again after their time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from uuid import UUID

from callsheet.deliveries.delivery_rows import MAX_ERROR_LENGTH, SQL, Claim, DeliveryRows, DueEndpoint, result_of
from callsheet.deliveries.endpoint_secrets import EndpointSecrets
from callsheet.jobs.machine.journal import CHANNEL
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.errors import DATABASE_AWAY
from callsheet.plumbing.database.notify import Listener
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.plumbing.http.webhook_sender import WebhookMessage, WebhookResponse, WebhookSender
from callsheet.settings.deliveries import DeliverySettings
from callsheet.toolbox.concurrently import all_of
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.loops import Loop

log = get_logger(__name__)
# Endpoints that one process serves at the same time.
MAX_ENDPOINTS = 400
MAX_TENANTS = 100_000
GONE = 410
NOT_DECRYPTED = (
    "The secret of the endpoint cannot be decrypted, because the secret key of the installation was replaced. "
    "Rotate the secret of the endpoint."
)


def webhook_id(endpoint_id: UUID, number: int) -> str:
    """The header webhook-id, which is the same for each attempt."""
    return f"msg_{endpoint_id.hex}_{number}"


class DeliverySender(Loop):
    name = "delivery_sender"
    interval_seconds = 1.0

    def __init__(
        self,
        pools: Callable[[], Sequence[Database]],
        sender: WebhookSender,
        secrets: EndpointSecrets,
        settings: DeliverySettings,
    ):
        super().__init__()
        self._pools = pools
        self._sender = sender
        self._secrets = secrets
        self._disable_seconds = settings.retry_hours * 3600
        # A request, and the time until its result is written.
        self._lease_seconds = settings.timeout_seconds + 20
        self._rows: dict[str, DeliveryRows] = {}
        self._serving: dict[UUID, asyncio.Task[None]] = {}
        # Endpoints that were due when they were served already: what a claim has just not found may be there now.
        self._due_again: set[UUID] = set()
        self._tenants: frozenset[str] = frozenset()

    def listen(self, listener: Listener) -> None:
        listener.subscribe(CHANNEL, self.received)

    def received(self, payload: str | None) -> None:
        """A job has changed. Jobs of tenants without endpoints wake nothing."""
        if payload is None or payload.partition("/")[0] in self._tenants:
            self.wake()

    async def tick(self, now: datetime) -> None:
        """Starts to serve each endpoint that has events to send."""
        tenants: set[str] = set()
        for found in await all_of(self._start(pool) for pool in self._pools()):
            tenants |= found
        self._tenants = frozenset(tenants)

    async def idle(self) -> None:
        """Waits until no endpoint is served."""
        while self._serving:
            await asyncio.gather(*self._serving.values())

    async def stop(self) -> None:
        await super().stop()
        tasks = [*self._serving.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _start(self, pool: Database) -> set[str]:
        async with pool.connection() as connection:
            tenants = await SQL["tenants_with_endpoints"].column(connection, limit=MAX_TENANTS)
            # Those that are served already may be among them, so there is room for all others.
            due = await SQL["due_endpoints"].rows(connection, DueEndpoint, limit=MAX_ENDPOINTS) if tenants else []
        for endpoint in due:
            if endpoint.id in self._serving:
                self._due_again.add(endpoint.id)
            elif len(self._serving) < MAX_ENDPOINTS:
                self._serving[endpoint.id] = task = asyncio.create_task(self._serve(pool, endpoint))
                task.add_done_callback(partial(self._served, endpoint.id))
        return {str(tenant) for tenant in tenants}

    def _served(self, endpoint_id: UUID, task: asyncio.Task[None]) -> None:
        if self._serving.get(endpoint_id) is task:
            del self._serving[endpoint_id]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("delivery.failed", endpoint=str(endpoint_id), exc_info=error)

    async def _serve(self, pool: Database, endpoint: DueEndpoint) -> None:
        """Sends what is due, batch by batch."""
        rows = self.rows_of(pool)
        try:
            while claims := await self._claim(rows, endpoint):
                await hit(Failpoint.DELIVERY_CLAIMED_BEFORE_SEND)
                responses = await all_of(self._send(endpoint, claim) for claim in claims)
                await hit(Failpoint.DELIVERY_SENT_BEFORE_ROW)
                await self._record(pool, endpoint, list(zip(claims, responses, strict=True)))
        except DATABASE_AWAY as error:
            # The next tick starts again when the database is back.
            log.warning("delivery.postponed", endpoint=str(endpoint.id), error=repr(error))

    async def _claim(self, rows: DeliveryRows, endpoint: DueEndpoint) -> Sequence[Claim]:
        """What is due. If it is nothing, the endpoint is not served any more from this moment on."""
        while True:
            self._due_again.discard(endpoint.id)
            claims = await rows.claim(endpoint)
            # An event that is written while a claim finds nothing would otherwise wait for the next tick.
            if not claims and endpoint.id in self._due_again:
                continue
            if not claims:
                del self._serving[endpoint.id]
            return claims

    def rows_of(self, pool: Database) -> DeliveryRows:
        if (rows := self._rows.get(pool.name)) is None:
            rows = self._rows[pool.name] = DeliveryRows(pool, self._lease_seconds)
        return rows

    async def _send(self, endpoint: DueEndpoint, claim: Claim) -> WebhookResponse:
        secrets = self._secrets.opened(claim.sealed_secret, claim.sealed_old_secret)
        if not secrets:
            return WebhookResponse(None, "", NOT_DECRYPTED, 0)
        return await self._sender.send(
            WebhookMessage(claim.url, webhook_id(endpoint.id, claim.number), claim.body.encode(), secrets)
        )

    async def _record(
        self, pool: Database, endpoint: DueEndpoint, sent: Sequence[tuple[Claim, WebhookResponse]]
    ) -> None:
        names = {"tenant_id": endpoint.tenant_id, "endpoint_id": endpoint.id}
        failed = [response for _, response in sent if not response.is_accepted]
        await self.rows_of(pool).record([result_of(claim, response) for claim, response in sent])
        if len(failed) == len(sent):
            await hit(Failpoint.DELIVERY_ROW_BEFORE_ENDPOINT)
            async with pool.connection() as connection:
                disabled = await SQL["endpoint_fails"].value(
                    connection,
                    **names,
                    error=(failed[-1].error or "")[:MAX_ERROR_LENGTH],
                    is_gone=any(response.status == GONE for response in failed),
                    disable_seconds=self._disable_seconds,
                )
            if disabled is not None:
                log.warning("endpoint.disabled", endpoint=str(endpoint.id), reason=disabled)
        elif any(claim.failures for claim, _ in sent):
            await hit(Failpoint.DELIVERY_ROW_BEFORE_ENDPOINT)
            async with pool.connection() as connection:
                await SQL["endpoint_works"].run(connection, **names)
