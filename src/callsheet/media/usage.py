"""Counts the storage use of users and tenants, and checks the quotas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from callsheet.identity.access.principal import Owner
from callsheet.identity.accounts.quotas import Quotas
from callsheet.media.files import SQL
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.errors import DATABASE_AWAY
from callsheet.plumbing.database.sql import Connection
from callsheet.toolbox.batching import Batcher
from callsheet.wire.errors import QuotaExceeded, Refusal, Unavailable
from callsheet.wire.operate.quotas import DatabaseUse, QuotaLimits, Storage, StorageUse
from callsheet.wire.plurals import counted

# The user id of the row with the sums of the whole tenant.
WHOLE_TENANT = UUID(int=0)

Key = tuple[UUID, UUID]


class UsageRow(NamedTuple):
    bytes: int
    files: int
    reserved_bytes: int
    reserved_files: int
    tenant_bytes: int
    tenant_files: int
    tenant_reserved_bytes: int
    tenant_reserved_files: int
    database_bytes: int


class StorageUsage:
    def __init__(self, databases: Databases, quotas: Quotas):
        self._databases = databases
        self.quotas = quotas
        self._batchers: dict[str, Batcher[Key, UsageRow]] = {}

    async def of(self, tenant_id: UUID, user_id: UUID, pool: str) -> Storage | None:
        """The storage use of a user; None while the tenant's pool is unreachable."""
        limits = await self.quotas.of(tenant_id)
        try:
            row = await self._row(await self._databases.pool(pool), (tenant_id, user_id))
        except (Unavailable, *DATABASE_AWAY):
            return None
        return storage_of(row, limits)

    async def check(self, connection: Connection, owner: Owner, limits: QuotaLimits) -> None:
        """Checks the quotas, in the transaction that wrote files of the owner. Raises QuotaExceeded if a limit is
        exceeded.
        """
        [row] = await _rows(connection, [(owner.tenant_id, owner.user_id)])
        exceeded = excess(storage_of(row, limits), with_new=True)
        if exceeded is not None:
            raise exceeded

    async def recount(self, tenant_id: UUID, pool: str) -> None:
        """Repairs wrong sums, for example after files were restored without their triggers."""
        async with (await self._databases.pool(pool)).transaction() as connection:
            await SQL["recount_storage"].run(connection, tenant_id=tenant_id)

    async def refusal(self, pool: Database, tenant_id: UUID, user_id: UUID) -> Refusal:
        """The reason why no job that makes more files may start."""
        storage = storage_of(await self._row(pool, (tenant_id, user_id)), await self.quotas.of(tenant_id))
        # Files may have been deleted since the refusal.
        return excess(storage) or Unavailable(
            "The storage quota was used up a moment ago, but files were deleted since. Try again."
        )

    async def _row(self, pool: Database, key: Key) -> UsageRow:
        batcher = self._batchers.get(pool.name)
        if batcher is None:

            async def read(keys: Sequence[Key]) -> list[UsageRow]:
                async with pool.connection() as connection:
                    return await _rows(connection, keys)

            batcher = self._batchers[pool.name] = Batcher(read)
        return await batcher(key)


async def _rows(connection: Connection, keys: Sequence[Key]) -> list[UsageRow]:
    return await SQL["storage_of"].rows(
        connection,
        UsageRow,
        tenant_ids=[tenant_id for tenant_id, _ in keys],
        user_ids=[user_id for _, user_id in keys],
        whole_tenant=WHOLE_TENANT,
    )


def storage_of(row: UsageRow, limits: QuotaLimits) -> Storage:
    return Storage(
        user=StorageUse(
            bytes=row.bytes,
            files=row.files,
            reserved_bytes=row.reserved_bytes,
            reserved_files=row.reserved_files,
            bytes_limit=limits.user_storage_bytes,
            files_limit=limits.user_storage_files,
        ),
        tenant=StorageUse(
            bytes=row.tenant_bytes,
            files=row.tenant_files,
            reserved_bytes=row.tenant_reserved_bytes,
            reserved_files=row.tenant_reserved_files,
            bytes_limit=limits.tenant_storage_bytes,
            files_limit=limits.tenant_storage_files,
        ),
        database=DatabaseUse(bytes=row.database_bytes, bytes_limit=limits.user_database_bytes),
    )


async def check_database(connection: Connection, owner: Owner, limits: QuotaLimits) -> None:
    """Checks the quota of bytes in the database, in the transaction that wrote a pipeline or a run of the owner. That
    write locked the row of the owner.
    """
    used = await SQL["database_bytes"].value(connection, tenant_id=owner.tenant_id, user_id=owner.user_id) or 0
    if used > limits.user_database_bytes:
        raise database_excess(used, limits.user_database_bytes)


def database_excess(used: int, limit: int) -> QuotaExceeded:
    return QuotaExceeded(
        "user_database_bytes",
        used,
        limit,
        f"Your pipelines, runs and jobs would take {counted(used, 'byte')} in the database, and the limit is {limit} "
        "(user_database_bytes). Delete jobs or runs that have ended, or pipelines that have no runs, or ask an "
        "operator for more.",
    )


def excess(storage: Storage, *, with_new: bool = False) -> QuotaExceeded | None:
    """The refusal for the first reached limit. With `with_new`, a file was just written, and the refusal is for the
    first exceeded limit. Only a new file needs room beside the reserved bytes: a job may start on a confirmed upload.
    """
    mine, ours = storage.user, storage.tenant
    if not with_new and storage.database.bytes >= storage.database.bytes_limit:
        return database_excess(storage.database.bytes, storage.database.bytes_limit)
    take, have = ("would take", "would have") if with_new else ("take", "have")
    has = "would have" if with_new else "has"
    for quota, used, reserved, limit, text, unit in (
        ("user_storage_bytes", mine.bytes, mine.reserved_bytes, mine.bytes_limit, f"Your files {take}", "byte"),
        ("user_storage_files", mine.files, mine.reserved_files, mine.files_limit, f"You {have}", "file"),
        (
            "tenant_storage_bytes",
            ours.bytes,
            ours.reserved_bytes,
            ours.bytes_limit,
            f"The files of your tenant {take}",
            "byte",
        ),
        ("tenant_storage_files", ours.files, ours.reserved_files, ours.files_limit, f"Your tenant {has}", "file"),
    ):
        held = reserved if with_new else 0
        total = used + held
        if total > limit or (total == limit and not with_new):
            with_it = " with this one" if with_new else ""
            sentence = f"{text} {counted(total, unit)}{with_it}, and the limit is {limit} ({quota})."
            if held:
                reserved_units = counted(held, f"{unit} that is", f"{unit}s that are")
                sentence += (
                    f" This includes {reserved_units} reserved for a short time after an upload is confirmed, because "
                    "its URL is still valid."
                )
            remedy = "Delete videos or files, or ask an operator for more."
            return QuotaExceeded(quota, total, limit, f"{sentence} {remedy}")
    return None
