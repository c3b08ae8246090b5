"""Claims events and records what became of them, for many endpoints in one statement.

Two commits per endpoint and batch limited a control plane to a few hundred deliveries per second.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg

from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.sql import statements
from callsheet.plumbing.http.webhook_sender import WebhookResponse
from callsheet.toolbox.batching import Batcher

SQL = statements("callsheet.deliveries", "sending_statements.sql")
# Requests to one endpoint at the same time.
BATCH = 4
MAX_ERROR_LENGTH = 500


class DueEndpoint(NamedTuple):
    tenant_id: UUID
    id: UUID


class Claim(NamedTuple):
    """An event that this process sends now, and how often its endpoint has failed in a row."""

    endpoint_id: UUID
    failures: int
    number: int
    attempts: int
    body: str
    url: str
    sealed_secret: bytes
    sealed_old_secret: bytes | None


class DeliveryRows:
    """The deliveries of one pool."""

    def __init__(self, pool: Database, lease_seconds: float):
        self._pool = pool
        self._lease_seconds = lease_seconds
        self._claims = Batcher(self._claim, isolate=(asyncpg.PostgresError,))
        self._results = Batcher(self._record, isolate=(asyncpg.PostgresError,))

    async def claim(self, endpoint: DueEndpoint) -> Sequence[Claim]:
        """What is due for an endpoint, up to a batch."""
        return await self._claims(endpoint)

    async def record(self, results: Sequence[dict[str, Any]]) -> None:
        await self._results(results)

    async def _claim(self, endpoints: Sequence[DueEndpoint]) -> Sequence[Sequence[Claim]]:
        async with self._pool.connection() as connection:
            claims = await SQL["claim"].rows(
                connection,
                Claim,
                tenant_ids=[endpoint.tenant_id for endpoint in endpoints],
                endpoint_ids=[endpoint.id for endpoint in endpoints],
                limit=BATCH,
                lease_seconds=self._lease_seconds,
            )
        return [[claim for claim in claims if claim.endpoint_id == endpoint.id] for endpoint in endpoints]

    async def _record(self, sent: Sequence[Sequence[dict[str, Any]]]) -> Sequence[None]:
        async with self._pool.connection() as connection:
            await SQL["record"].run(connection, results=[result for results in sent for result in results])
        return [None] * len(sent)


def result_of(claim: Claim, response: WebhookResponse) -> dict[str, Any]:
    return {
        "number": claim.number,
        "attempts": claim.attempts,
        "is_accepted": response.is_accepted,
        "response_status": response.status,
        "response_text": response.text,
        "error": None if response.error is None else response.error[:MAX_ERROR_LENGTH],
        "milliseconds": response.milliseconds,
    }
