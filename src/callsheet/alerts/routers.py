"""All routes of the alerts room."""

from __future__ import annotations

from fastapi import APIRouter

from callsheet.alerts.room import AlertsRoom
from callsheet.alerts.routes import alerts_router
from callsheet.identity.authentication import Authentication


def alerts_routers(alerts: AlertsRoom, authentication: Authentication) -> list[APIRouter]:
    return [alerts_router(alerts.keeper, authentication)]
