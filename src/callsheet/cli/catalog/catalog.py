"""Opens the catalog for the commands about workflows and effects."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import typer

from callsheet.settings import load_settings

if TYPE_CHECKING:
    from callsheet.catalog.room import CatalogRoom

Result = TypeVar("Result")

AS_JSON = typer.Option(False, "--json", help="Print JSON.")
LISTED = 10_000


def with_catalog(work: Callable[[CatalogRoom], Awaitable[Result]]) -> Result:
    return asyncio.run(_opened(work))


async def _opened(work: Callable[[CatalogRoom], Awaitable[Result]]) -> Result:
    from callsheet.catalog.room import open_catalog
    from callsheet.media.storage import open_storage
    from callsheet.media.storage.owner import StorageOwner
    from callsheet.plumbing.database.databases import open_installation
    from callsheet.plumbing.installation.secrets import master_secret

    settings = load_settings()
    databases = await open_installation(settings)
    try:
        secret = master_secret(settings, create=False)
        storage = open_storage(settings, secret, StorageOwner(databases))
        try:
            return await work(open_catalog(databases, storage, settings.storage.max_upload_bytes, secret))
        finally:
            await storage.close()
    finally:
        await databases.close()
