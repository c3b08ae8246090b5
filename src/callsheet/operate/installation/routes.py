"""`/api/admin/tenant-figures`, `/api/admin/pools`, `/api/admin/settings` and `/api/admin/health`."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import Query

from callsheet.identity.access.authentication import Authentication
from callsheet.identity.access.permissions import Permission
from callsheet.identity.access.principal import Principal
from callsheet.operate.installation.figures import TenantFigureReader
from callsheet.operate.installation.health import HealthChecks
from callsheet.operate.installation.pools import read_pools
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.pages import MAXIMUM_LIMIT
from callsheet.plumbing.http.routing import Router
from callsheet.settings import Settings
from callsheet.settings.effective import EffectiveSetting, effective_settings
from callsheet.wire.operate.administration import Health, Pools, Setting, SettingList, TenantFigureList


def tenant_figure_router(figures: TenantFigureReader, authentication: Authentication) -> Router:
    see = authentication.may_in_tenant(Permission.SEE_TENANTS)
    router = Router(prefix="/api/admin", tags=["admin"])

    @router.get("/tenant-figures")
    async def list_tenant_figures(
        tenant_id: Annotated[
            list[UUID], Query(max_length=MAXIMUM_LIMIT, description="Ids of tenants. Repeat the parameter.")
        ] = [],  # noqa: B006 - FastAPI copies it
        principal: Principal = see,
    ) -> TenantFigureList:
        """Users, tokens, active jobs and storage of tenants. A tenant admin gets those of its own."""
        only = principal.only_tenant(Permission.SEE_TENANTS)
        return TenantFigureList(items=await figures.read(tenant_id, only))

    return router


def installation_router(
    settings: Settings, databases: Databases, checks: HealthChecks, authentication: Authentication
) -> Router:
    router = Router(prefix="/api/admin", tags=["admin"], dependencies=[authentication.may(Permission.SEE_INSTALLATION)])
    # The settings are read when the process starts, because a later change of a file has no effect on it.
    in_force = [_setting(each) for each in effective_settings(settings)]

    @router.get("/pools")
    async def list_pools() -> Pools:
        """The pools that hold the data of tenants."""
        return Pools(pools=await read_pools(databases))

    @router.get("/settings")
    async def list_settings() -> SettingList:
        """Every setting of this control plane: the value in force, its source, its default and its documentation.
        Secrets are masked."""
        return SettingList(items=in_force)

    @router.get("/health")
    async def get_health() -> Health:
        """Checks settings, databases, storage, clock, engine and providers of this control plane, as `callsheet doctor`
        does. The result is at most ten seconds old."""
        return await checks.read()

    return router


def _setting(each: EffectiveSetting) -> Setting:
    return Setting(
        name=each.name,
        variable=each.variable,
        value=each.value,
        default=each.default,
        source=each.source,
        is_secret=each.is_secret,
        unit=each.unit,
        description=each.description,
    )
