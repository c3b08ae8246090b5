"""Test runs of workflows: jobs of an operator without an effect and without a price."""

from __future__ import annotations

from dataclasses import replace

from fastapi import Response

from callsheet.catalog.payloads import FIELD
from callsheet.catalog.room import CatalogRoom
from callsheet.effects.effect_jobs import EffectJobs, refuse_both
from callsheet.identity.access.authentication import Authentication
from callsheet.identity.access.permissions import Permission
from callsheet.identity.access.principal import Principal
from callsheet.identity.accounts.quotas import check_payload
from callsheet.identity.audit_log import AuditLog, actor_of
from callsheet.jobs.show.presenter import Presenter
from callsheet.jobs.submit.new_jobs import NewJob
from callsheet.jobs.submit.submission import Submission, SubmittedJob
from callsheet.plumbing.http.idempotency import IdempotencyKey, or_earlier, replayed, with_key
from callsheet.plumbing.http.routing import Router
from callsheet.wire.forms import WorkflowSlug
from callsheet.wire.jobs import Job
from callsheet.wire.workflow_editing import WorkflowTest


def workflow_test_router(
    catalog: CatalogRoom,
    effect_jobs: EffectJobs,
    submission: Submission,
    presenter: Presenter,
    audit: AuditLog,
    authentication: Authentication,
) -> Router:
    router = Router(prefix="/api/admin/workflows", tags=["admin"])
    manage = authentication.may(Permission.MANAGE_CATALOG)

    async def submitted_by(principal: Principal, workflow: WorkflowSlug, body: WorkflowTest) -> SubmittedJob:
        refuse_both(body)
        check_payload(await submission.quotas.of(principal.tenant_id), FIELD, body.input_payload)

        async def prepare() -> NewJob:
            recipe = await catalog.tests.recipe(workflow, body)
            return replace(await effect_jobs.build(principal, body, recipe), actor=actor_of(principal))

        return await submission.once(principal, body, prepare, also={"test": workflow})

    @router.post("/{workflow}/test-runs", status_code=201, responses=or_earlier(Job))
    async def test_workflow(
        workflow: WorkflowSlug,
        body: WorkflowTest,
        response: Response,
        idempotency_key: IdempotencyKey = None,
        principal: Principal = manage,
    ) -> Job:
        """Runs a workflow, or an unsaved change of it, as a job of yours that costs nothing."""
        submitted = replayed(response, await submitted_by(principal, workflow, with_key(body, idempotency_key)))
        if not submitted.replayed:
            job_id = submitted.job.id
            actor, tenant_id = actor_of(principal), principal.tenant_id
            await audit.add(actor, "workflow.test", "workflow", workflow, tenant_id, job_id=job_id)
        return await presenter.one(principal.tenant_id, submitted.job)

    return router
