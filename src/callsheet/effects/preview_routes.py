"""`/api/admin/effects/{effect}/preview`: the preview of an effect in the gallery."""

from __future__ import annotations

from uuid import UUID

from callsheet.catalog.effect_previews import Example, stored_example
from callsheet.catalog.room import CatalogRoom
from callsheet.effects.previews import JobExamples
from callsheet.identity.access.authentication import Authentication
from callsheet.identity.access.permissions import Permission
from callsheet.identity.access.principal import Principal
from callsheet.identity.audit_log import actor_of
from callsheet.media.storage import Storage
from callsheet.plumbing.http.routing import Router
from callsheet.wire.effects import EffectPreview, SetEffectPreview
from callsheet.wire.errors import InvalidRequest
from callsheet.wire.forms import Slug


def effect_preview_router(
    catalog: CatalogRoom, examples: JobExamples, storage: Storage, authentication: Authentication
) -> Router:
    router = Router(prefix="/api/admin/effects/{effect}/preview", tags=["admin"])
    manage = authentication.may(Permission.MANAGE_CATALOG)

    async def of_asset(field: str, asset_id: UUID) -> Example:
        asset = await catalog.assets.ready(asset_id)
        if asset is None:
            raise InvalidRequest.field(field, "There is no such asset, or it is not uploaded and confirmed.")
        return stored_example(storage, field, asset.path, asset.mime_type, asset.size)

    async def chosen(principal: Principal, body: SetEffectPreview) -> tuple[Example | None, Example]:
        if (body.job_id is None) == (body.after_asset_id is None):
            raise InvalidRequest.field("job_id", "Send either job_id or after_asset_id.")
        if body.job_id is not None:
            if body.before_asset_id is not None:
                raise InvalidRequest.field(
                    "before_asset_id", "Send before_asset_id only together with after_asset_id, not with job_id."
                )
            return await examples.of_own(principal, body.job_id)
        assert body.after_asset_id is not None
        before = None
        if body.before_asset_id is not None:
            before = await of_asset("before_asset_id", body.before_asset_id)
        return before, await of_asset("after_asset_id", body.after_asset_id)

    @router.put("")
    async def set_effect_preview(effect: Slug, body: SetEffectPreview, principal: Principal = manage) -> EffectPreview:
        """Makes the effect's preview from a job of yours or from assets. Posters, thumbnails and clips are copies.
        The request takes some seconds.
        """
        before, after = await chosen(principal, body)
        return await catalog.effect_previews.set(effect, before, after, actor_of(principal))

    @router.delete("", status_code=204)
    async def remove_effect_preview(effect: Slug, principal: Principal = manage) -> None:
        """Removes the effect's preview."""
        await catalog.effect_previews.remove(effect, actor_of(principal))

    return router
