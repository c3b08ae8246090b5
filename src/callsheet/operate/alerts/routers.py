"""All routes of the alerts room."""

from __future__ import annotations

from callsheet.identity.access.authentication import Authentication
from callsheet.operate.alerts.room import AlertsRoom
from callsheet.operate.alerts.routes import alerts_router
from callsheet.plumbing.http.routing import Router


def alerts_routers(alerts: AlertsRoom, authentication: Authentication) -> list[Router]:
    return [alerts_router(alerts.keeper, authentication)]
