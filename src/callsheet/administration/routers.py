"""All routes of the administration room."""

from __future__ import annotations

from fastapi import APIRouter

from callsheet.administration.figures import TenantFigureReader
from callsheet.administration.health import HealthChecks
from callsheet.administration.routes import installation_router, tenant_figure_router
from callsheet.identity.authentication import Authentication
from callsheet.plumbing.databases import Databases
from callsheet.settings import Settings


def administration_routers(settings: Settings, databases: Databases, authentication: Authentication) -> list[APIRouter]:
    return [
        tenant_figure_router(TenantFigureReader(databases), authentication),
        installation_router(settings, databases, HealthChecks(settings, databases), authentication),
    ]
