"""`/api/admin/alerts`."""

from __future__ import annotations

from datetime import UTC, datetime

from callsheet.identity.access.authentication import Authentication
from callsheet.identity.access.permissions import Permission
from callsheet.identity.access.principal import Principal
from callsheet.identity.audit_log import actor_of
from callsheet.operate.alerts.keeper import AlertKeeper
from callsheet.plumbing.http.routing import Router
from callsheet.wire.operate.operations import AlertRecipients, Alerts


def alerts_router(keeper: AlertKeeper, authentication: Authentication) -> Router:
    manage = authentication.may(Permission.MANAGE_QUEUE)
    router = Router(prefix="/api/admin", tags=["admin"])

    @router.get("/alerts", dependencies=[authentication.may(Permission.SEE_QUEUE)])
    async def get_alerts(fresh: bool = True) -> Alerts:
        """The alerts, critical ones first. An empty list means that no action is needed.

        With `fresh=false`, the alerts of the last check, which is about 15 seconds old. This costs less.
        """
        if not fresh:
            return Alerts(at=datetime.now(UTC), checked_at=await keeper.checked_at(), alerts=await keeper.last())
        found, now = await keeper.now(), datetime.now(UTC)
        return Alerts(at=now, checked_at=now, alerts=found)

    @router.post("/alerts/test", status_code=202, once=True)
    async def send_test_alert(principal: Principal = manage) -> AlertRecipients:
        """Sends a test message to the webhook and the e-mail addresses that the settings name."""
        return AlertRecipients(recipients=await keeper.write_test(actor_of(principal)))

    return router
