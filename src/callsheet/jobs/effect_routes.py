"""`POST /api/ai-jobs`: submits a job of an effect."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends, Response

from callsheet.identity.authentication import Authentication
from callsheet.identity.principal import Principal
from callsheet.jobs.effects import EffectJobs
from callsheet.jobs.presenter import Presenter
from callsheet.plumbing.routing import Router
from callsheet.wire.catalog import SubmitEffectJob
from callsheet.wire.jobs import Job

REPLAYED: dict[int | str, dict[str, Any]] = {
    200: {"model": Job, "description": "The job that was created with this idempotency key. No new job was created."}
}


def effect_job_router(effect_jobs: EffectJobs, presenter: Presenter, authentication: Authentication) -> APIRouter:
    router = Router(prefix="/api/ai-jobs", tags=["jobs"])

    @router.post("", status_code=201, responses=REPLAYED)
    async def submit_effect_job(
        body: SubmitEffectJob, response: Response, principal: Principal = Depends(authentication.user)
    ) -> Job:
        """Applies an effect to a video or file of yours; its cost is reserved.

        A request with the same `idempotency_key` returns the same job, with 200 and `Idempotent-Replayed: true`.
        """
        submitted = await effect_jobs.submit(principal, body)
        if submitted.replayed:
            response.status_code = 200
            response.headers["Idempotent-Replayed"] = "true"
        return await presenter.one(principal.tenant_id, submitted.job)

    return router
