"""The parts that all quotes have: problems, and the limits of storage."""

from __future__ import annotations

from collections.abc import Sequence

from callsheet.identity.access.principal import Principal
from callsheet.media.usage import StorageUsage
from callsheet.wire.errors import Refusal
from callsheet.wire.money.quotes import QuoteLimit, QuoteProblem


def problems_of(refusal: Refusal) -> Sequence[QuoteProblem]:
    wait = refusal.retry_after_seconds
    if refusal.errors:
        return [
            QuoteProblem(code=refusal.code, message=each.reason, field=each.field, retry_after_seconds=wait)
            for each in refusal.errors
        ]
    return [QuoteProblem(code=refusal.code, message=refusal.detail or refusal.title(), retry_after_seconds=wait)]


async def storage_limits(usage: StorageUsage, principal: Principal) -> list[QuoteLimit]:
    storage = await usage.of(principal.tenant_id, principal.user_id, principal.pool)
    if storage is None:
        return []
    mine, ours, rows = storage.user, storage.tenant, storage.database
    return [
        QuoteLimit(code="user_storage_bytes", limit=mine.bytes_limit, used=mine.bytes),
        QuoteLimit(code="user_storage_files", limit=mine.files_limit, used=mine.files),
        QuoteLimit(code="tenant_storage_bytes", limit=ours.bytes_limit, used=ours.bytes),
        QuoteLimit(code="tenant_storage_files", limit=ours.files_limit, used=ours.files),
        QuoteLimit(code="user_database_bytes", limit=rows.bytes_limit, used=rows.bytes),
    ]
