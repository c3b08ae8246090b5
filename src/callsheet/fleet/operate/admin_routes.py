"""`/api/admin/workers`, `/api/admin/fleets` and the workers' logs, for admins."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query

from callsheet.fleet.fleets.fleet_tokens import FleetTokens
from callsheet.fleet.fleets.fleets import Fleets
from callsheet.fleet.operate.workers import WorkerFilter, Workers
from callsheet.identity.access.authentication import Authentication
from callsheet.identity.access.permissions import Permission
from callsheet.identity.access.principal import Principal
from callsheet.identity.audit_log import actor_of
from callsheet.plumbing.database.pages import CURSOR, LIMIT
from callsheet.plumbing.http.routing import Router
from callsheet.wire.base import OptionalLine, Page
from callsheet.wire.fleet import (
    AssignWorkflowsRequest,
    ChangeWorkflowsRequest,
    CreatedFleetToken,
    CreateFleetRequest,
    CreateFleetTokenRequest,
    DrainRequest,
    Fleet,
    FleetToken,
    FleetWorkflow,
    RevokeWorkerRequest,
    RotateFleetTokenRequest,
    UpdateFleetRequest,
    Worker,
    WorkerDetails,
    WorkerEvent,
    WorkerSession,
    WorkflowWorkers,
)
from callsheet.wire.forms import Slug, WorkerId, WorkflowSlug

NUMBER_CURSOR = Query(None, ge=1, le=2**62, description="`next_cursor` of the page before.")
OF_WORKER = Query(None, description="Only entries of this worker.")
FleetId = Annotated[int, Path(ge=1, le=2**62)]
FleetTokenId = Annotated[int, Path(ge=1, le=2**62)]


def admin_worker_router(workers: Workers, authentication: Authentication) -> Router:
    see, manage = authentication.may(Permission.SEE_FLEET), authentication.may(Permission.MANAGE_FLEET)
    router = Router(prefix="/api/admin/workers", tags=["admin"], dependencies=[see])

    @router.get("")
    async def list_workers(
        fleet: Slug | None = Query(None, description="Only workers of fleets with this slug."),
        stage: Slug | None = Query(None, description="Only workers of this stage."),
        live: bool | None = Query(
            None, description="Only workers seen (true) or not seen (false) in the last 90 seconds."
        ),
        approved: bool | None = Query(None, description="Only approved (true) or unapproved (false) workers."),
        q: OptionalLine | None = Query(
            None, description="Only workers whose id, display name or fleet contains this text. Case does not matter."
        ),
        busy: bool | None = Query(
            None,
            description="Only workers that have a job (true) or no job (false), and are online, approved and not "
            "drained.",
        ),
        cursor: WorkerId | None = CURSOR,
        limit: int = LIMIT,
    ) -> Page[Worker]:
        """The registered workers, and drained workers that are not connected, ordered by id."""
        return await workers.list(WorkerFilter(fleet, stage, live, approved, q, busy), cursor, limit)

    @router.get("/{worker_id}")
    async def get_worker(worker_id: WorkerId) -> WorkerDetails:
        """A worker with its leases and its last sessions."""
        return await workers.get(worker_id)

    @router.post("/{worker_id}/approve")
    async def approve_worker(worker_id: WorkerId, principal: Principal = manage) -> Worker:
        """Approves a worker: it gets jobs. A worker that was revoked may register again."""
        return await workers.approve(worker_id, actor_of(principal))

    @router.post("/{worker_id}/revoke")
    async def revoke_worker(
        worker_id: WorkerId, body: RevokeWorkerRequest | None = None, principal: Principal = manage
    ) -> Worker:
        """Revokes the worker's token at once, requeues its jobs, and blocks its id until it is approved."""
        return await workers.revoke(worker_id, actor_of(principal), with_token=body is not None and body.with_token)

    @router.post("/{worker_id}/drain")
    async def drain_worker(
        worker_id: WorkerId, body: DrainRequest | None = None, principal: Principal = manage
    ) -> Worker:
        """Drains a worker: it finishes its jobs and gets no new ones, also after it registers again."""
        return await workers.drain(worker_id, actor_of(principal), body.reason if body else None)

    @router.post("/{worker_id}/undrain")
    async def undrain_worker(worker_id: WorkerId, principal: Principal = manage) -> Worker:
        """Ends a drain: the worker gets jobs again. It need not be registered."""
        return await workers.undrain(worker_id, actor_of(principal))

    @router.post("/{worker_id}/rotate-token", once=True)
    async def rotate_worker_token(worker_id: WorkerId, principal: Principal = manage) -> Worker:
        """Gives the worker a new token with its next response. The old token is valid for ten minutes, or until the new
        one is used."""
        return await workers.rotate_token(worker_id, actor_of(principal))

    @router.put("/{worker_id}/workflows")
    async def assign_worker_workflows(
        worker_id: WorkerId, body: AssignWorkflowsRequest, principal: Principal = manage
    ) -> Worker:
        """Sets the workflows of a worker that has no fleet."""
        return await workers.assign(worker_id, body.workflow_slugs, actor_of(principal))

    return router


def worker_log_router(workers: Workers, authentication: Authentication) -> Router:
    router = Router(prefix="/api/admin", tags=["admin"], dependencies=[authentication.may(Permission.SEE_FLEET)])

    @router.get("/worker-sessions")
    async def list_worker_sessions(
        worker_id: WorkerId | None = OF_WORKER, cursor: int | None = NUMBER_CURSOR, limit: int = LIMIT
    ) -> Page[WorkerSession]:
        """Sessions of workers, newest first, including workers that are gone."""
        return await workers.sessions(worker_id, cursor, limit)

    @router.get("/worker-audit-logs")
    async def list_worker_audit_logs(
        worker_id: WorkerId | None = OF_WORKER, cursor: int | None = NUMBER_CURSOR, limit: int = LIMIT
    ) -> Page[WorkerEvent]:
        """Events of workers, newest first, including workers that are gone."""
        return await workers.events(worker_id, cursor, limit)

    @router.get("/workflows/{workflow}/workers")
    async def list_workers_of_workflow(workflow: WorkflowSlug) -> WorkflowWorkers:
        """The live workers that a workflow is assigned to: how many can run it, and what the others lack."""
        return await workers.of_workflow(workflow)

    return router


def admin_fleet_router(fleets: Fleets, authentication: Authentication) -> Router:
    manage = authentication.may(Permission.MANAGE_FLEET)
    router = Router(prefix="/api/admin/fleets", tags=["admin"], dependencies=[authentication.may(Permission.SEE_FLEET)])

    @router.get("")
    async def list_fleets(
        slug: Slug | None = Query(None, description="Only fleets with this slug."),
        stage: Slug | None = Query(None, description="Only fleets of this stage."),
        cursor: int | None = NUMBER_CURSOR,
        limit: int = LIMIT,
    ) -> Page[Fleet]:
        """The fleets, newest first."""
        return await fleets.list(slug, stage, cursor, limit)

    @router.post("", status_code=201, once=True)
    async def create_fleet(body: CreateFleetRequest, principal: Principal = manage) -> Fleet:
        """Creates a fleet that workers can join."""
        return await fleets.create(body, actor_of(principal))

    @router.get("/{fleet_id}")
    async def get_fleet(fleet_id: FleetId) -> Fleet:
        return await fleets.get(fleet_id)

    @router.patch("/{fleet_id}")
    async def update_fleet(fleet_id: FleetId, body: UpdateFleetRequest, principal: Principal = manage) -> Fleet:
        """Renames a fleet, switches it on or off, or sets the wanted number of workers."""
        return await fleets.update(fleet_id, body, actor_of(principal))

    @router.get("/{fleet_id}/workflows")
    async def list_fleet_workflows(fleet_id: FleetId) -> list[FleetWorkflow]:
        """The workflows of a fleet: whether its live workers can run each workflow, and how many jobs wait in the
        fleet's stage.
        """
        return list(await fleets.workflows(fleet_id))

    @router.put("/{fleet_id}/workflows")
    async def set_fleet_workflows(
        fleet_id: FleetId, body: AssignWorkflowsRequest, principal: Principal = manage
    ) -> Fleet:
        """Replaces the workflows whose jobs the fleet's workers get. This also removes a workflow that another operator
        assigned since you read the list. To add or remove single workflows, send PATCH.
        """
        return await fleets.set_workflows(fleet_id, body.workflow_slugs, actor_of(principal))

    @router.patch("/{fleet_id}/workflows")
    async def change_fleet_workflows(
        fleet_id: FleetId, body: ChangeWorkflowsRequest, principal: Principal = manage
    ) -> Fleet:
        """Adds workflows to a fleet and removes others. All workflows that you do not name stay as they are, also if
        another operator changes them at the same time.
        """
        return await fleets.change_workflows(fleet_id, body, actor_of(principal))

    @router.delete("/{fleet_id}", status_code=204)
    async def delete_fleet(fleet_id: FleetId, principal: Principal = manage) -> None:
        """Removes a fleet that has no workers."""
        await fleets.delete(fleet_id, actor_of(principal))

    return router


def fleet_token_router(tokens: FleetTokens, authentication: Authentication) -> Router:
    manage = authentication.may(Permission.MANAGE_FLEET)
    router = Router(
        prefix="/api/admin/fleets/{fleet_id}/tokens",
        tags=["admin"],
        dependencies=[authentication.may(Permission.SEE_FLEET)],
    )

    @router.get("")
    async def list_fleet_tokens(
        fleet_id: FleetId, cursor: int | None = NUMBER_CURSOR, limit: int = LIMIT
    ) -> Page[FleetToken]:
        """The registration tokens of a fleet, newest first, with their last use."""
        return await tokens.list(fleet_id, cursor, limit)

    @router.post("", status_code=201, once=True)
    async def create_fleet_token(
        fleet_id: FleetId, body: CreateFleetTokenRequest | None = None, principal: Principal = manage
    ) -> CreatedFleetToken:
        """Creates a token that workers of the fleet register with. Only this response shows it."""
        return await tokens.create(fleet_id, body.name if body else None, actor_of(principal))

    @router.post("/{fleet_token_id}/rotate", status_code=201, once=True)
    async def rotate_fleet_token(
        fleet_id: FleetId,
        fleet_token_id: FleetTokenId,
        body: RotateFleetTokenRequest | None = None,
        principal: Principal = manage,
    ) -> CreatedFleetToken:
        """Creates a token that replaces this one. The old token is still accepted during the overlap."""
        overlap = (body or RotateFleetTokenRequest()).overlap_seconds
        return await tokens.rotate(fleet_token_id, overlap, actor_of(principal), fleet_id)

    @router.post("/{fleet_token_id}/revoke")
    async def revoke_fleet_token(
        fleet_id: FleetId, fleet_token_id: FleetTokenId, principal: Principal = manage
    ) -> FleetToken:
        """Revokes a token: no worker can register with it. Registered workers continue."""
        return await tokens.revoke(fleet_token_id, actor_of(principal), fleet_id)

    return router
