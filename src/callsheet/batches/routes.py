"""`/api/batches`: many jobs of one effect in one request."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import Depends, Query, Response
from fastapi.responses import StreamingResponse

from callsheet.batches.batches import Batches
from callsheet.identity.access.authentication import Authentication
from callsheet.identity.access.principal import Principal
from callsheet.library.action_routes import ARCHIVE, ZIP
from callsheet.media.storage.keys import content_disposition
from callsheet.plumbing.database.pages import CURSOR, LIMIT
from callsheet.plumbing.http.idempotency import IdempotencyKey, or_earlier, replayed, with_key
from callsheet.plumbing.http.routing import Router
from callsheet.wire.base import Page
from callsheet.wire.effects import Batch, BatchFilter, BatchValues, SubmitBatch


async def filter_of(wanted: Annotated[BatchFilter, Query()]) -> BatchFilter:
    return wanted


def batch_router(batches: Batches, authentication: Authentication) -> Router:
    router = Router(prefix="/api/batches", tags=["batches"])

    @router.post("", status_code=201, responses=or_earlier(Batch))
    async def submit_batch(
        body: SubmitBatch,
        response: Response,
        idempotency_key: IdempotencyKey = None,
        principal: Principal = Depends(authentication.user),
    ) -> Batch:
        """Applies an effect to up to 1,000 files, or with up to 1,000 combinations of values.

        All items are accepted and their tokens are held, or none. Each item is a job of yours with the `batch_id`. A
        repeated request with the same `idempotency_key`, or the same header Idempotency-Key, returns the same batch
        with 200 and `Idempotent-Replayed: true`.
        """
        return replayed(response, await batches.submit(principal, with_key(body, idempotency_key))).batch

    @router.get("")
    async def list_batches(
        wanted: BatchFilter = Depends(filter_of),
        cursor: UUID | None = CURSOR,
        limit: int = LIMIT,
        principal: Principal = Depends(authentication.user),
    ) -> Page[Batch]:
        """Your batches, newest first."""
        return await batches.page(principal, wanted, cursor, limit)

    @router.get("/{batch_id}")
    async def get_batch(batch_id: UUID, principal: Principal = Depends(authentication.user)) -> Batch:
        """One of your batches, with the number of items by outcome. Its jobs are in `GET /api/ai-jobs?batch_id=…`."""
        return await batches.get(principal, batch_id)

    @router.get("/{batch_id}/values")
    async def get_batch_values(batch_id: UUID, principal: Principal = Depends(authentication.user)) -> BatchValues:
        """The values in which the items differ, for the headings of a grid. A drawn seed is one of them."""
        return await batches.values(principal, batch_id)

    @router.post("/{batch_id}/cancel")
    async def cancel_batch(batch_id: UUID, principal: Principal = Depends(authentication.user)) -> Batch:
        """Cancels all items that have not ended, and refunds their tokens."""
        return await batches.cancel(principal, batch_id)

    @router.post("/{batch_id}/retry")
    async def retry_batch(
        batch_id: UUID,
        response: Response,
        idempotency_key: IdempotencyKey = None,
        principal: Principal = Depends(authentication.user),
    ) -> Batch:
        """Retries all items that failed or expired: their tokens are held again. All are retried, or none. A repeated
        request with the same header Idempotency-Key returns the batch as it is, even if items have failed again.
        """
        return replayed(response, await batches.retry(principal, batch_id, idempotency_key)).shown

    @router.get("/{batch_id}/download", response_class=StreamingResponse, responses=ARCHIVE)
    async def download_batch(batch_id: UUID, principal: Principal = Depends(authentication.user)) -> StreamingResponse:
        """The results of all completed items as a zip file, in the order of the items."""
        content = await batches.download(principal, batch_id)
        headers = {
            "content-disposition": content_disposition(f"batch-{batch_id}.zip"),
            "cache-control": "no-store",
        }
        return StreamingResponse(content, media_type=ZIP, headers=headers)

    return router
