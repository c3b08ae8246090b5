"""Test runs of workflows: jobs of an operator without an effect and without a price."""

from __future__ import annotations

from dataclasses import replace

from fastapi import APIRouter

from callsheet.catalog.payloads import FIELD
from callsheet.catalog.room import CatalogRoom
from callsheet.identity.audit import AuditLog, actor_of
from callsheet.identity.authentication import Authentication
from callsheet.identity.permissions import Permission
from callsheet.identity.principal import Principal
from callsheet.identity.quotas import check_payload
from callsheet.jobs.effects import EffectJobs, refuse_both
from callsheet.jobs.presenter import Presenter
from callsheet.jobs.submit import Submission
from callsheet.plumbing.routing import Router
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
) -> APIRouter:
    router = Router(prefix="/api/admin/workflows", tags=["admin"])
    manage = authentication.may(Permission.MANAGE_CATALOG)

    @router.post("/{workflow}/test-runs", status_code=201)
    async def test_workflow(workflow: WorkflowSlug, body: WorkflowTest, principal: Principal = manage) -> Job:
        """Runs a workflow, or an unsaved change of it, as a job of yours that costs nothing."""
        refuse_both(body)
        check_payload(await submission.quotas.of(principal.tenant_id), FIELD, body.input_payload)
        recipe = await catalog.tests.recipe(workflow, body)
        new = await effect_jobs.build(principal, body, recipe)
        submitted = await submission.submit(replace(new, actor=actor_of(principal)))
        await audit.add(
            actor_of(principal), "workflow.test", "workflow", workflow, principal.tenant_id, job_id=submitted.job.id
        )
        return await presenter.one(principal.tenant_id, submitted.job)

    return router
