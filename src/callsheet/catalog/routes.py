"""`/api/effects` for users; `/api/admin/workflows`, `/effects` and `/assets` for admins."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Literal
from uuid import UUID

from fastapi import Depends, Path, Query

from callsheet.catalog.offers import EffectOffer
from callsheet.catalog.proposing.proposal_view import proposal_of, readable_graph
from callsheet.identity.access.authentication import Authentication
from callsheet.identity.access.permissions import Permission
from callsheet.identity.access.principal import Principal
from callsheet.identity.audit_log import actor_of
from callsheet.plumbing.database.pages import CURSOR, LIMIT
from callsheet.plumbing.http.routing import Router
from callsheet.providers.comfy.models import classes_of_graph
from callsheet.wire.base import OptionalLine, Page
from callsheet.wire.catalog import (
    Asset,
    CreateAsset,
    CreatedAsset,
    CreateWorkflow,
    UpdateWorkflow,
    WorkflowDetail,
    WorkflowSummary,
)
from callsheet.wire.effects import CreateEffect, Effect, EffectRecord, EffectWait, UpdateEffect
from callsheet.wire.forms import Slug, WorkflowSlug
from callsheet.wire.workflow_editing import ProposeWorkflow, WorkflowProposal, WorkflowVersion, WorkflowVersionDetail

if TYPE_CHECKING:
    from callsheet.catalog.room import CatalogRoom

# Returns the expected wait of a user's job on each route. A higher room implements it, because the catalog does not
# know workers.
WaitsOf = Callable[[Principal, Sequence[tuple[int, str, str]]], Awaitable[Mapping[tuple[int, str, str], EffectWait]]]
OFF = EffectWait(code="off", message="This effect currently accepts no jobs.")


def effect_router(catalog: CatalogRoom, waits_of: WaitsOf, authentication: Authentication) -> Router:
    router = Router(prefix="/api/effects", tags=["effects"])

    async def shown(principal: Principal, offers: Sequence[EffectOffer]) -> list[Effect]:
        waits = await waits_of(principal, [offer.route for offer in offers if offer.effect.is_available])
        return [offer.effect.model_copy(update={"wait": waits.get(offer.route, OFF)}) for offer in offers]

    @router.get("")
    async def list_effects(
        search: OptionalLine | None = Query(None, description="Only effects whose name contains this text."),
        category: OptionalLine | None = Query(None, description="Only effects of this category."),
        cursor: UUID | None = CURSOR,
        limit: int = LIMIT,
        principal: Principal = Depends(authentication.user),
    ) -> Page[Effect]:
        """The published effects, newest first, each with its preview and the current waiting time of a job."""
        offers, more = await catalog.effects.list_published(search, category, cursor, limit)
        effects = await shown(principal, offers)
        return Page(items=effects, next_cursor=str(effects[-1].id) if more else None)

    @router.get("/{effect}")
    async def get_effect(effect: Slug, principal: Principal = Depends(authentication.user)) -> Effect:
        """One effect, by id or slug: its input, the values you may set, and the current waiting time of a job."""
        [found] = await shown(principal, [await catalog.effects.get_published(effect)])
        return found

    return router


def admin_workflow_router(catalog: CatalogRoom, authentication: Authentication) -> Router:
    manage = authentication.may(Permission.MANAGE_CATALOG)
    router = Router(
        prefix="/api/admin/workflows",
        tags=["admin"],
        dependencies=[authentication.may(Permission.SEE_CATALOG)],
    )

    async def warned(detail: WorkflowDetail) -> WorkflowDetail:
        return detail.model_copy(update={"warnings": (await catalog.engines.read([])).warnings(detail.required)})

    @router.get("")
    async def list_workflows(
        is_active: bool | None = Query(None, description="Only workflows that are switched on (true) or off (false)."),
        with_actors: bool = Query(
            False, description="Include the workflows of actors, whose slugs start with `actor:`."
        ),
        cursor: int | None = Query(None, ge=1, le=2**62, description="`next_cursor` of the page before."),
        limit: int = LIMIT,
    ) -> Page[WorkflowSummary]:
        """The workflows, newest first."""
        return await catalog.workflows.list(is_active, cursor, limit, with_actors=with_actors)

    @router.post("", status_code=201, once=True)
    async def create_workflow(body: CreateWorkflow, principal: Principal = manage) -> WorkflowDetail:
        """Creates a workflow from a ComfyUI graph in API format."""
        return await warned(await catalog.workflows.create(body, actor_of(principal)))

    @router.get("/{workflow}")
    async def get_workflow(workflow: WorkflowSlug) -> WorkflowDetail:
        """One workflow with its graph."""
        return await catalog.workflows.get(workflow)

    @router.patch("/{workflow}")
    async def update_workflow(
        workflow: WorkflowSlug, body: UpdateWorkflow, principal: Principal = manage
    ) -> WorkflowDetail:
        """Changes a workflow. Jobs that were already submitted do not change."""
        return await warned(await catalog.workflows.update(workflow, body, actor_of(principal)))

    @router.delete("/{workflow}", status_code=204)
    async def delete_workflow(workflow: WorkflowSlug, principal: Principal = manage) -> None:
        """Deletes a workflow that is switched off, has no effects and was never used by a job."""
        await catalog.workflows.delete(workflow, actor_of(principal))

    @router.post("/{workflow}/activate")
    async def activate_workflow(workflow: WorkflowSlug, principal: Principal = manage) -> WorkflowDetail:
        """Switches the workflow on: its effects accept jobs, and workers get them."""
        return await catalog.workflows.update(workflow, UpdateWorkflow(is_active=True), actor_of(principal))

    @router.post("/{workflow}/deactivate")
    async def deactivate_workflow(workflow: WorkflowSlug, principal: Principal = manage) -> WorkflowDetail:
        """Switches the workflow off: its effects accept no jobs, and queued jobs wait until their deadline."""
        return await catalog.workflows.update(workflow, UpdateWorkflow(is_active=False), actor_of(principal))

    return router


def workflow_editing_router(catalog: CatalogRoom, authentication: Authentication) -> Router:
    """The additional routes for an editor of workflows."""
    manage = authentication.may(Permission.MANAGE_CATALOG)
    router = Router(
        prefix="/api/admin/workflows", tags=["admin"], dependencies=[authentication.may(Permission.SEE_CATALOG)]
    )

    @router.post("/proposals")
    async def propose_workflow(body: ProposeWorkflow, principal: Principal = manage) -> WorkflowProposal:
        """Checks a graph and proposes its properties and its output. Nothing is stored."""
        graph = readable_graph(body.graph)
        engines = await catalog.engines.read(classes_of_graph(graph))
        return proposal_of(graph, engines, everything=body.everything)

    @router.get("/{workflow}/versions")
    async def list_workflow_versions(
        workflow: WorkflowSlug,
        cursor: int | None = Query(None, ge=1, le=2**31 - 1, description="`next_cursor` of the page before."),
        limit: int = LIMIT,
    ) -> Page[WorkflowVersion]:
        """The versions of a workflow, newest first. Each change creates one."""
        return await catalog.versions.list(workflow, cursor, limit)

    @router.get("/{workflow}/versions/{version}")
    async def get_workflow_version(
        workflow: WorkflowSlug, version: Annotated[int, Path(ge=1, le=2**31 - 1)]
    ) -> WorkflowVersionDetail:
        """One version of a workflow with its graph."""
        return await catalog.versions.get(workflow, version)

    return router


def admin_effect_router(catalog: CatalogRoom, authentication: Authentication) -> Router:
    manage = authentication.may(Permission.MANAGE_CATALOG)
    router = Router(
        prefix="/api/admin/effects", tags=["admin"], dependencies=[authentication.may(Permission.SEE_CATALOG)]
    )

    @router.get("")
    async def list_effect_records(
        workflow: WorkflowSlug | None = Query(None, description="Only effects of this workflow."),
        is_published: bool | None = Query(None, description="Only published (true) or unpublished (false) effects."),
        cursor: UUID | None = CURSOR,
        limit: int = LIMIT,
    ) -> Page[EffectRecord]:
        """All effects, newest first."""
        return await catalog.effects.list(workflow, is_published, cursor, limit)

    @router.post("", status_code=201, once=True)
    async def create_effect(body: CreateEffect, principal: Principal = manage) -> EffectRecord:
        return await catalog.effects.create(body, actor_of(principal))

    @router.get("/{effect}")
    async def get_effect_record(effect: Slug) -> EffectRecord:
        """One effect, by id or slug, published or not."""
        return await catalog.effects.get(effect)

    @router.patch("/{effect}")
    async def update_effect(effect: Slug, body: UpdateEffect, principal: Principal = manage) -> EffectRecord:
        """Changes an effect. Jobs that were already submitted do not change."""
        return await catalog.effects.update(effect, body, actor_of(principal))

    @router.delete("/{effect}", status_code=204)
    async def delete_effect(effect: Slug, principal: Principal = manage) -> None:
        """Deletes an effect that has no jobs. Unpublish an effect with jobs instead."""
        await catalog.effects.delete(effect, actor_of(principal))

    return router


def admin_asset_router(catalog: CatalogRoom, authentication: Authentication) -> Router:
    manage = authentication.may(Permission.MANAGE_CATALOG)
    router = Router(
        prefix="/api/admin/assets", tags=["admin"], dependencies=[authentication.may(Permission.SEE_CATALOG)]
    )

    @router.get("")
    async def list_assets(
        status: Literal["pending", "ready"] | None = Query(None, description="Only assets with this status."),
        cursor: UUID | None = CURSOR,
        limit: int = LIMIT,
    ) -> Page[Asset]:
        """Images and videos of the catalog, newest first."""
        return await catalog.assets.list(status, cursor, limit)

    @router.post("", status_code=201, once=True)
    async def create_asset(body: CreateAsset, principal: Principal = manage) -> CreatedAsset:
        """Returns a URL to upload the file to."""
        return await catalog.assets.create(body, actor_of(principal))

    @router.get("/{asset_id}")
    async def get_asset(asset_id: UUID) -> Asset:
        return await catalog.assets.get(asset_id)

    @router.post("/{asset_id}/confirm")
    async def confirm_asset(asset_id: UUID, principal: Principal = manage) -> Asset:
        """Checks the uploaded file. After that workflows and effects can use the asset."""
        return await catalog.assets.confirm(asset_id, actor_of(principal))

    @router.delete("/{asset_id}", status_code=204)
    async def delete_asset(asset_id: UUID, principal: Principal = manage) -> None:
        """Deletes an asset that no workflow and no effect uses. Jobs that were submitted before can still read it."""
        await catalog.assets.delete(asset_id, actor_of(principal))

    return router
