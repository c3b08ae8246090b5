"""`/api/library`: actions on several jobs, and their outputs as a zip; `DELETE /api/ai-jobs/{job_id}`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from fastapi import Depends, Query
from fastapi.responses import StreamingResponse

from callsheet.identity.access.authentication import Authentication
from callsheet.identity.access.principal import Principal
from callsheet.jobs.change.deletion import JobDeletion
from callsheet.library.bulk import LibraryActions
from callsheet.library.downloads import LibraryDownloads
from callsheet.media.storage.keys import content_disposition
from callsheet.plumbing.http.idempotency import IdempotencyKey
from callsheet.plumbing.http.routing import Router
from callsheet.wire.library import MAX_JOBS, JobOutcomes, ManyJobs

ZIP = "application/zip"
ARCHIVE: dict[int | str, dict[str, Any]] = {
    200: {"description": "The archive.", "content": {ZIP: {"schema": {"type": "string", "format": "binary"}}}}
}


def library_action_router(bulk: LibraryActions, downloads: LibraryDownloads, authentication: Authentication) -> Router:
    router = Router(prefix="/api/library", tags=["library"])

    @router.post("/cancel")
    async def cancel_jobs(body: ManyJobs, principal: Principal = Depends(authentication.user)) -> JobOutcomes:
        """Cancels several of your jobs, each as `POST /api/ai-jobs/{job_id}/cancel` does."""
        return await bulk.cancel(principal, body.job_ids)

    @router.post("/retry", once=True)
    async def retry_jobs(
        body: ManyJobs, idempotency_key: IdempotencyKey = None, principal: Principal = Depends(authentication.user)
    ) -> JobOutcomes:
        """Retries several of your jobs, each as `POST /api/ai-jobs/{job_id}/retry` does: its cost is reserved again.

        A repeated request with the same header Idempotency-Key reserves nothing again, even if jobs have failed again.
        """
        return await bulk.retry(principal, body.job_ids, idempotency_key)

    @router.post("/delete")
    async def delete_jobs(body: ManyJobs, principal: Principal = Depends(authentication.user)) -> JobOutcomes:
        """Deletes several of your jobs, each as `DELETE /api/ai-jobs/{job_id}` does."""
        return await bulk.delete(principal, body.job_ids)

    @router.get("/download", response_class=StreamingResponse, responses=ARCHIVE)
    async def download_jobs(
        job_id: list[UUID] = Query(
            min_length=1, max_length=MAX_JOBS, description="Ids of your jobs. The zip has this order."
        ),
        principal: Principal = Depends(authentication.user),
    ) -> StreamingResponse:
        """The outputs of these jobs as a zip file. Jobs without outputs are left out."""
        content = await downloads.open(principal, job_id)
        name = f"callsheet-{datetime.now(UTC):%Y%m%d-%H%M%S}.zip"
        headers = {"content-disposition": content_disposition(name), "cache-control": "no-store"}
        return StreamingResponse(content, media_type=ZIP, headers=headers)

    return router


def job_deletion_router(deletion: JobDeletion, authentication: Authentication) -> Router:
    # The path matches only ids: `DELETE /api/ai-jobs/stream` must return that the method is not allowed.
    router = Router(prefix="/api/ai-jobs", tags=["jobs"])

    @router.delete("/{job_id:uuid}", status_code=204)
    async def delete_job(job_id: UUID, principal: Principal = Depends(authentication.user)) -> None:
        """Deletes a job that has ended, with its prompt, its result and its output files, except files that a video
        shows. Its public links end. The wallet's transactions stay. Deleting it again changes nothing.
        """
        await deletion.delete(principal, job_id)

    return router
