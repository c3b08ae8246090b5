"""Images and videos of the catalog, for example overlays and masks, that a workflow needs beside the user's file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Literal, NamedTuple
from uuid import UUID

from callsheet.catalog.properties import an
from callsheet.identity.audit_log import record
from callsheet.media.sniffing import PROBED_BYTES, contradiction
from callsheet.media.storage import Storage
from callsheet.media.storage.responses import shows_inline
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.pages import page_of
from callsheet.plumbing.database.sql import Connection, statements
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.toolbox.ids import uuid7
from callsheet.wire.base import Page
from callsheet.wire.catalog import Asset, AssetUse, CreateAsset, CreatedAsset, Property
from callsheet.wire.errors import ContentMismatch, FieldProblem, InUse, InvalidRequest, NotFound, Refusal
from callsheet.wire.media import UploadRequest
from callsheet.wire.plurals import counted

SQL = statements("callsheet.catalog")
FOLDER = "catalog/assets"
# Maximum number of workflows and effects that an error names.
MAX_NAMED = 5


class AssetRow(NamedTuple):
    id: UUID
    status: Literal["pending", "ready"]
    path: str
    name: str
    mime_type: str
    size: int
    sha256: str | None
    created_at: datetime


class ReadyAsset(NamedTuple):
    id: UUID
    path: str
    name: str
    mime_type: str
    size: int
    sha256: str


class UseRow(NamedTuple):
    asset_id: str
    type: Literal["workflow", "effect"]
    slug: str
    name: str


class Assets:
    def __init__(self, databases: Databases, storage: Storage, max_bytes: int, require_space: Callable[[int], None]):
        """`require_space` refuses an upload of a size that the disk has no room for."""
        self._databases = databases
        self._storage = storage
        self._max_bytes = max_bytes
        self._require_space = require_space

    async def create(self, request: CreateAsset, actor: str) -> CreatedAsset:
        if request.size > self._max_bytes:
            raise InvalidRequest.field("size", f"The size must be at most {counted(self._max_bytes, 'byte')}.")
        self._require_space(request.size)
        asset_id = uuid7()
        path = f"{FOLDER}/{asset_id}/upload"
        async with self._databases.central.transaction() as connection:
            row = await SQL["create_asset"].row(connection, AssetRow, id=asset_id, path=path, **request.model_dump())
            assert row is not None
            await record(connection, actor, "asset.create", "asset", asset_id, name=request.name)
        signed = self._storage.presign_put(
            path, content_type=request.mime_type, size=request.size, sha256=request.sha256
        )
        upload = UploadRequest(method="PUT", url=signed.url, headers=dict(signed.headers), expires_at=signed.expires_at)
        return CreatedAsset(asset=self._view(row), upload=upload)

    async def confirm(self, asset_id: UUID, actor: str) -> Asset:
        """Makes an uploaded asset usable if it matches its declaration. A repeated confirmation changes nothing."""
        row = await self._row(asset_id)
        if row.status == "ready":
            return await self.get(asset_id)
        try:
            await self._make_ready(row, actor)
        except Refusal:
            # Another request for the same asset may have been faster, and deleted the object that is checked here.
            if (await self._row(asset_id)).status != "ready":
                raise
        return await self.get(asset_id)

    async def _make_ready(self, row: AssetRow, actor: str) -> None:
        asset_id = row.id
        if await self._storage.head(row.path) is None:
            raise ContentMismatch("Nothing was uploaded for this asset. Upload the file, then confirm it.")
        # This is a copy that no signed URL can write to, so that jobs get the bytes that are checked here.
        path = f"{FOLDER}/{asset_id}/{uuid7()}"
        await self._storage.copy(row.path, path)
        try:
            sha256 = await self._verify(row, path)
            await hit(Failpoint.CATALOG_BEFORE_ROW)
            async with self._databases.central.transaction() as connection:
                ready = await SQL["confirm_asset"].value(connection, id=asset_id, path=path, sha256=sha256)
                if ready is not None:
                    await record(connection, actor, "asset.confirm", "asset", asset_id, sha256=sha256)
        except Refusal:
            # The object stays after a database error: the row may have been written, and then it names this object.
            await self._storage.delete(path)
            raise
        # The accepted object may belong to a faster request.
        kept = (await self._row(asset_id)).path
        leftovers = [entry.key async for entry in self._storage.list(f"{FOLDER}/{asset_id}") if entry.key != kept]
        await self._storage.delete_many(leftovers)

    async def _verify(self, row: AssetRow, path: str) -> str:
        found = await self._storage.head(path)
        sha256 = await self._storage.sha256_of(path)
        if found is None or sha256 is None:
            raise ContentMismatch("The uploaded file no longer exists. Create the asset again.")
        if found.size != row.size:
            raise ContentMismatch(
                errors=[FieldProblem("size", f"The size is {found.size}, but {row.size} was declared.")]
            )
        beginning = b"".join([piece async for piece in self._storage.stream(path, 0, PROBED_BYTES)])
        actual = contradiction(row.mime_type, beginning)
        if actual is not None:
            reason = f"The file {row.name!r} was declared as {row.mime_type}, but its bytes look like {actual}."
            raise ContentMismatch(errors=[FieldProblem("mime_type", reason)])
        if row.sha256 is not None and sha256 != row.sha256:
            raise ContentMismatch(
                errors=[FieldProblem("sha256", f"The SHA-256 is {sha256}, but {row.sha256} was declared.")]
            )
        return sha256

    async def delete(self, asset_id: UUID, actor: str) -> None:
        """Deletes an asset that no workflow and no effect names. Jobs that were submitted before can still read the
        file: `DeletedAssets` removes it when they have ended."""
        async with self._databases.central.transaction() as connection:
            row = await SQL["lock_asset"].row(connection, AssetRow, id=asset_id)
            if row is None:
                raise _no_asset()
            uses = (await uses_of(connection, [asset_id])).get(asset_id, [])
            if uses:
                listed = ", ".join(f"{use.type} {use.slug}" for use in uses[:MAX_NAMED])
                more = f" and {len(uses) - MAX_NAMED} more" if len(uses) > MAX_NAMED else ""
                raise InUse(f"The asset is used by {listed}{more}. Choose another asset there first.")
            await SQL["mark_asset_deleted"].run(connection, id=asset_id)
            await record(connection, actor, "asset.delete", "asset", asset_id, name=row.name)

    async def get(self, asset_id: UUID) -> Asset:
        row = await self._row(asset_id)
        async with self._databases.central.ordinary() as connection:
            uses = await uses_of(connection, [asset_id])
        return self._view(row, uses.get(asset_id, ()))

    async def ready(self, asset_id: UUID) -> ReadyAsset | None:
        async with self._databases.central.connection() as connection:
            return (await ready_assets(connection, [asset_id])).get(asset_id)

    async def list(self, status: str | None, before: UUID | None, limit: int) -> Page[Asset]:
        async with self._databases.central.ordinary() as connection:
            rows = await SQL["list_assets"].rows(connection, AssetRow, status=status, before=before, limit=limit + 1)
            uses = await uses_of(connection, [row.id for row in rows])
        return page_of([self._view(row, uses.get(row.id, ())) for row in rows], limit)

    async def _row(self, asset_id: UUID) -> AssetRow:
        async with self._databases.central.connection() as connection:
            row = await SQL["find_asset"].row(connection, AssetRow, id=asset_id)
        if row is None:
            raise _no_asset()
        return row

    def _view(self, row: AssetRow, uses: Sequence[AssetUse] = ()) -> Asset:
        url = None
        if row.status == "ready":
            # Types that a browser could run are downloaded and not shown.
            saved = None if shows_inline(row.mime_type) else row.name
            url = self._storage.presign_get(row.path, download_name=saved, content_type=row.mime_type).url
        return Asset(
            id=row.id,
            status=row.status,
            name=row.name,
            mime_type=row.mime_type,
            size=row.size,
            sha256=row.sha256,
            created_at=row.created_at,
            url=url,
            used_by=[*uses],
        )


def _no_asset() -> NotFound:
    return NotFound("There is no such asset.")


async def uses_of(connection: Connection, ids: Sequence[UUID]) -> Mapping[UUID, list[AssetUse]]:
    uses: dict[UUID, list[AssetUse]] = {}
    if ids:
        for use in await SQL["uses_of_assets"].rows(connection, UseRow, ids=[str(each) for each in ids]):
            uses.setdefault(UUID(use.asset_id), []).append(AssetUse(type=use.type, slug=use.slug, name=use.name))
    return uses


async def ready_assets(connection: Connection, ids: Iterable[UUID]) -> Mapping[UUID, ReadyAsset]:
    assets = await SQL["ready_assets"].rows(connection, ReadyAsset, ids=list(ids))
    return {asset.id: asset for asset in assets}


async def check_assets(connection: Connection, wanted: Mapping[str, tuple[Property, str]]) -> list[FieldProblem]:
    """The problems of assets that properties name. `wanted`: property and asset id by field. The assets cannot be
    deleted until the transaction ends."""
    ids = [*{UUID(asset_id) for _, asset_id in wanted.values()}]
    assets = await SQL["hold_ready_assets"].rows(connection, ReadyAsset, ids=ids) if ids else []
    found = {asset.id: asset for asset in assets}
    problems: list[FieldProblem] = []
    for field, (each, asset_id) in wanted.items():
        asset = found.get(UUID(asset_id))
        if asset is None:
            problems.append(FieldProblem(field, "There is no such asset, or it is not uploaded and confirmed."))
        elif not asset.mime_type.startswith(f"{each.type.value}/"):
            problems.append(
                FieldProblem(field, f"The value must be {an(each.type)}, but the asset is {asset.mime_type}.")
            )
    return problems
