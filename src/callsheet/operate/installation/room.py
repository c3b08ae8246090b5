"""The routes of the room."""

from __future__ import annotations

from callsheet.identity.access.authentication import Authentication
from callsheet.operate.installation.figures import TenantFigureReader
from callsheet.operate.installation.health import HealthChecks
from callsheet.operate.installation.routes import installation_router, tenant_figure_router
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.http.routing import Router
from callsheet.settings import Settings


def administration_routers(settings: Settings, databases: Databases, authentication: Authentication) -> list[Router]:
    return [
        tenant_figure_router(TenantFigureReader(databases), authentication),
        installation_router(settings, databases, HealthChecks(settings, databases), authentication),
    ]
