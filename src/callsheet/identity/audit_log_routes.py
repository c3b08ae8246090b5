"""`/api/admin/audit-logs`: the audit log."""

from __future__ import annotations

from uuid import UUID

from fastapi import Query

from callsheet.identity.access.authentication import Authentication
from callsheet.identity.access.permissions import Permission
from callsheet.identity.audit_log import AuditLog
from callsheet.plumbing.database.pages import LIMIT
from callsheet.plumbing.http.routing import Router
from callsheet.wire.base import Moment, OptionalLine, Page
from callsheet.wire.operate.audit import AuditEntry, AuditFilter


def audit_router(log: AuditLog, authentication: Authentication) -> Router:
    router = Router(prefix="/api/admin", tags=["admin"], dependencies=[authentication.may(Permission.SEE_AUDIT_LOG)])

    @router.get("/audit-logs")
    async def list_audit_logs(
        actor: OptionalLine | None = Query(
            None, description="Only entries of this actor: an e-mail address, or `admin:{user_id}`."
        ),
        action: OptionalLine | None = Query(None, description="Only this action, for example `workflow.create`."),
        subject_type: OptionalLine | None = Query(None, description="Only entries about subjects of this type."),
        subject_id: OptionalLine | None = Query(None, description="Only entries about the subject with this id."),
        tenant_id: UUID | None = Query(None, description="Only entries about this tenant."),
        since: Moment | None = Query(None, description="Only entries of this time or later."),
        until: Moment | None = Query(None, description="Only entries before this time."),
        cursor: int | None = Query(None, ge=1, le=2**62, description="`next_cursor` of the page before."),
        limit: int = LIMIT,
    ) -> Page[AuditEntry]:
        """The audit log of admins and operators, newest first."""
        wanted = AuditFilter(actor, action, subject_type, subject_id, tenant_id, since, until)
        return await log.list(wanted, cursor, limit)

    return router
