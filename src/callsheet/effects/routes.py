"""`POST /api/ai-jobs`: submits a job of an effect."""

from __future__ import annotations

from fastapi import Depends, Response

from callsheet.effects.effect_jobs import EffectJobs
from callsheet.identity.access.authentication import Authentication
from callsheet.identity.access.principal import Principal
from callsheet.jobs.show.presenter import Presenter
from callsheet.plumbing.http.idempotency import IdempotencyKey, or_earlier, replayed, with_key
from callsheet.plumbing.http.routing import Router
from callsheet.wire.effects import SubmitEffectJob
from callsheet.wire.jobs import Job


def effect_job_router(effect_jobs: EffectJobs, presenter: Presenter, authentication: Authentication) -> Router:
    router = Router(prefix="/api/ai-jobs", tags=["jobs"])

    @router.post("", status_code=201, responses=or_earlier(Job))
    async def submit_effect_job(
        body: SubmitEffectJob,
        response: Response,
        idempotency_key: IdempotencyKey = None,
        principal: Principal = Depends(authentication.user),
    ) -> Job:
        """Applies an effect to a video or file of yours; its cost is reserved.

        A repeated request with the same `idempotency_key`, or the same header Idempotency-Key, returns the same
        job with 200 and `Idempotent-Replayed: true`.
        """
        submitted = replayed(response, await effect_jobs.submit(principal, with_key(body, idempotency_key)))
        return await presenter.one(principal.tenant_id, submitted.job)

    return router
