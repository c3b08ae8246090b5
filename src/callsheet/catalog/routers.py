"""All routes of the catalog."""

from __future__ import annotations

from callsheet.catalog.room import CatalogRoom
from callsheet.catalog.routes import (
    WaitsOf,
    admin_asset_router,
    admin_effect_router,
    admin_workflow_router,
    effect_router,
    workflow_editing_router,
)
from callsheet.identity.access.authentication import Authentication
from callsheet.plumbing.http.routing import Router


def catalog_routers(catalog: CatalogRoom, authentication: Authentication, waits_of: WaitsOf) -> list[Router]:
    return [
        effect_router(catalog, waits_of, authentication),
        admin_workflow_router(catalog, authentication),
        workflow_editing_router(catalog, authentication),
        admin_effect_router(catalog, authentication),
        admin_asset_router(catalog, authentication),
    ]
