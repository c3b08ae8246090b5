"""`/api/admin/jobs/{job_id}/waterfall`: the spans of a job."""

from __future__ import annotations

from callsheet.identity.access.authentication import Authentication
from callsheet.identity.access.permissions import Permission
from callsheet.identity.access.principal import Principal
from callsheet.jobs.operate.job_history import JobHistory
from callsheet.jobs.operate.operations import JobOperations
from callsheet.plumbing.http.routing import Router
from callsheet.wire.operate.waterfall import Waterfall
from callsheet.wire.tasks import JobOrTaskId


def waterfall_router(history: JobHistory, operations: JobOperations, authentication: Authentication) -> Router:
    see = authentication.may_in_tenant(Permission.SEE_JOBS)
    router = Router(prefix="/api/admin/jobs", tags=["admin"])

    @router.get("/{job_id}/waterfall")
    async def get_waterfall(job_id: JobOrTaskId, principal: Principal = see) -> Waterfall:
        """Everything that happened to a job, with durations: each wait, each attempt with its phases and the nodes of
        its graph, callbacks of providers, events and tokens. Operators also see the ids of the
        requests that caused the events."""
        own = principal.only_tenant(Permission.SEE_JOBS)
        tenant_id = await operations.tenant_of(job_id) if own is None else own
        return await history.waterfall(principal, tenant_id, job_id)

    return router
