"""Finds local storage that several machines would have to share: each control plane keeps its files on its own disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from callsheet.plumbing.database.database import connected
from callsheet.plumbing.database.databases import CENTRAL, pool_addresses
from callsheet.plumbing.database.migrate import inspect
from callsheet.plumbing.database.sql import statements
from callsheet.settings import Settings
from callsheet.settings.findings import SettingsFinding
from callsheet.toolbox.errors import OperatorError
from callsheet.wire.plurals import counted

if TYPE_CHECKING:
    from callsheet.media.storage import Storage

CENTRAL_SQL = statements("callsheet.operate.installation", "central_statements.sql")
POOL_SQL = statements("callsheet.operate.installation", "pool_statements.sql")
# The newest files of each pool: a control plane on another machine writes some of them.
FILES = 20
ADVICE = (
    "Control planes on several machines need storage that all of them reach: use S3 (CALLSHEET_STORAGE__BACKEND=s3), "
    "or mount one shared directory as storage in the data directory of each."
)


class FileRow(NamedTuple):
    path: str


class AddressRow(NamedTuple):
    network_address: str


async def local_storage_findings(settings: Settings, storage: Storage, central_dsn: str) -> list[SettingsFinding]:
    missing, files = 0, 0
    for path in await _newest_files(settings, central_dsn):
        files += 1
        missing += await storage.head(path) is None
    if missing:
        message = (
            f"Missing in {storage.place}: {missing} of the {counted(files, 'newest file')}. Another control plane "
            "stored them on its machine, or the storage was not restored with the databases."
        )
        return [SettingsFinding("storage", "problem", message, ADVICE)]
    others = await _other_machines(central_dsn)
    if not others:
        return []
    message = f"Callsheet also runs on other machines ({', '.join(others)}), and the storage is local to this one."
    return [SettingsFinding("storage", "warning", message, ADVICE)]


async def _newest_files(settings: Settings, central_dsn: str) -> list[str]:
    paths: list[str] = []
    for pool in await pool_addresses(settings, central_dsn):
        try:
            if (await inspect(pool.dsn, "pool", pool.name)).pending:
                continue
            async with connected(pool.dsn, pool.name) as connection:
                rows = await POOL_SQL["newest_local_files"].rows(connection, FileRow, max_rows=FILES)
        except OperatorError:
            continue  # The finding about the database explains this.
        paths += [row.path for row in rows]
    return paths


async def _other_machines(central_dsn: str) -> list[str]:
    async with connected(central_dsn, CENTRAL) as connection:
        rows = await CENTRAL_SQL["other_machines"].rows(connection, AddressRow)
    return [row.network_address for row in rows]
