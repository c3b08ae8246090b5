"""The catalog: its parts and its routes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from callsheet.catalog.assets import Assets
from callsheet.catalog.deleted_assets import DeletedAssets
from callsheet.catalog.effect_previews import EffectPreviews
from callsheet.catalog.effects import Effects
from callsheet.catalog.engines.live_engines import EngineRegister
from callsheet.catalog.graph_store import GraphStore
from callsheet.catalog.image_effects import ImageEffects
from callsheet.catalog.payloads import Payloads
from callsheet.catalog.routes import (
    WaitsOf,
    admin_asset_router,
    admin_effect_router,
    admin_workflow_router,
    effect_router,
    workflow_editing_router,
)
from callsheet.catalog.workflow_tests import WorkflowTests
from callsheet.catalog.workflow_versions import WorkflowVersions
from callsheet.catalog.workflows import Workflows
from callsheet.identity.access.authentication import Authentication
from callsheet.media.files import previewed
from callsheet.media.previews.urls import PreviewUrls
from callsheet.media.storage import Storage
from callsheet.media.storage.owner import StorageOwner
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.http.routing import Router
from callsheet.plumbing.room import Room
from callsheet.settings import Settings
from callsheet.toolbox.loops import Loop


@dataclass(frozen=True, slots=True)
class CatalogRoom(Room):
    workflows: Workflows
    versions: WorkflowVersions
    tests: WorkflowTests
    effects: Effects
    effect_previews: EffectPreviews
    image_effects: ImageEffects
    assets: Assets
    payloads: Payloads
    deleted_assets: DeletedAssets
    engines: EngineRegister

    @property
    def loops(self) -> tuple[Loop, ...]:
        return (self.deleted_assets,)


def open_catalog(
    databases: Databases,
    storage: Storage,
    owner: StorageOwner,
    settings: Settings,
    preview_urls: PreviewUrls,
    require_space: Callable[[int], None],
) -> CatalogRoom:
    """Opens the room. `require_space` refuses an upload of a size that the disk has no room for."""
    graphs = GraphStore(storage)
    workflows = Workflows(databases, graphs)
    return CatalogRoom(
        workflows=workflows,
        versions=WorkflowVersions(databases, graphs),
        tests=WorkflowTests(workflows, graphs),
        effects=Effects(databases, storage, preview_urls, previewed(settings)),
        effect_previews=EffectPreviews(databases, storage, preview_urls),
        image_effects=ImageEffects(databases, graphs, preview_urls),
        assets=Assets(databases, storage, settings.storage.max_upload_bytes, require_space),
        payloads=Payloads(databases, graphs),
        deleted_assets=DeletedAssets(databases, storage, settings.jobs.lifetime_seconds, owner),
        engines=EngineRegister(databases),
    )


def catalog_routers(catalog: CatalogRoom, authentication: Authentication, waits_of: WaitsOf) -> list[Router]:
    return [
        effect_router(catalog, waits_of, authentication),
        admin_workflow_router(catalog, authentication),
        workflow_editing_router(catalog, authentication),
        admin_effect_router(catalog, authentication),
        admin_asset_router(catalog, authentication),
    ]
