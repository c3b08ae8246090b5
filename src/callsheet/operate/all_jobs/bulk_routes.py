"""`/api/admin/bulk-actions`: actions on all jobs of a filter."""

from __future__ import annotations

from uuid import UUID

from fastapi import Response

from callsheet.identity.access.authentication import Authentication
from callsheet.identity.access.permissions import Permission
from callsheet.identity.access.principal import Principal
from callsheet.operate.all_jobs.bulk_actions import BulkActions
from callsheet.plumbing.database.pages import CURSOR, LIMIT
from callsheet.plumbing.http.idempotency import IdempotencyKey, or_earlier, replayed
from callsheet.plumbing.http.routing import Router
from callsheet.wire.base import Page
from callsheet.wire.operate.all_jobs import BulkAction, StartBulkAction


def bulk_action_router(actions: BulkActions, authentication: Authentication) -> Router:
    see = authentication.may(Permission.SEE_JOBS)
    manage = authentication.may(Permission.MANAGE_JOBS)
    router = Router(prefix="/api/admin/bulk-actions", tags=["admin"])

    @router.post("", status_code=201, responses=or_earlier(BulkAction))
    async def start_bulk_action(
        body: StartBulkAction,
        response: Response,
        idempotency_key: IdempotencyKey = None,
        principal: Principal = manage,
    ) -> BulkAction:
        """Retries, cancels or changes the priority of all jobs that match a filter now.

        The request returns at once. Control planes then act on one batch of jobs after the other, each job as the
        route for one job does. The limit of active jobs of a user does not apply. A repeated request with the same
        header Idempotency-Key returns the same action with 200 and `Idempotent-Replayed: true`.
        """
        return replayed(response, await actions.start(principal, body, idempotency_key)).shown

    @router.get("")
    async def list_bulk_actions(
        cursor: UUID | None = CURSOR, limit: int = LIMIT, principal: Principal = see
    ) -> Page[BulkAction]:
        """Bulk actions of all operators, newest first."""
        return await actions.page(cursor, limit)

    @router.get("/{bulk_action_id}")
    async def get_bulk_action(bulk_action_id: UUID, principal: Principal = see) -> BulkAction:
        """A bulk action and its progress."""
        return await actions.get(bulk_action_id)

    @router.post("/{bulk_action_id}/stop")
    async def stop_bulk_action(bulk_action_id: UUID, principal: Principal = manage) -> BulkAction:
        """Stops a bulk action. Jobs that were changed stay changed; the other jobs are left alone.

        A few jobs that are being changed at this moment may still be added to `done`.
        """
        return await actions.stop(principal, bulk_action_id)

    return router
