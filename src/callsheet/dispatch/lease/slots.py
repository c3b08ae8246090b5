"""The terms of tenants, and how many more jobs their bounds and the limits of identifiers allow."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from callsheet.dispatch.facts import NO_OWNER, QueueEntry
from callsheet.dispatch.order.user_queues import Bound, Terms, bounds
from callsheet.dispatch.rows import BoundUse, TenantTerms
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.sql import Connection, statements

SQL = statements("callsheet.dispatch")
UNBOUNDED = 1_000_000_000


class Slots:
    """`default_terms`: for a tenant without terms of its own."""

    def __init__(self, central: Database, default_terms: Terms):
        self._central = central
        self.default_terms = default_terms
        # None before the first read.
        self._terms: dict[UUID, Terms] | None = None

    @property
    def has_terms(self) -> bool:
        return self._terms is not None

    async def read_terms(self) -> bool:
        """Returns whether the terms of a tenant have changed."""
        async with self._central.connection() as connection:
            rows = await SQL["terms"].rows(connection, TenantTerms)
        terms = {
            row.tenant_id: Terms(
                row.weight,
                _either(row.max_running, self.default_terms.max_running),
                _either(row.max_running_per_user, self.default_terms.max_running_per_user),
            )
            for row in rows
        }
        has_changed = terms != self._terms
        self._terms = terms
        return has_changed

    def terms_of(self, tenant_id: UUID) -> Terms:
        if self._terms is None or tenant_id == NO_OWNER:
            return Terms() if tenant_id == NO_OWNER else self.default_terms
        return self._terms.get(tenant_id, self.default_terms)

    def is_bounded(self, entry: QueueEntry) -> bool:
        return bool(self._bounds_of(entry))

    async def has_free(self, connection: Connection, entry: QueueEntry) -> bool:
        """Whether one more job may be in flight. The limits it depends on stay locked until the transaction ends."""
        free = await self.locked(connection, self._bounds_of(entry))
        return all(count > 0 for count in free.values())

    async def locked(self, connection: Connection, wanted: Iterable[Bound]) -> dict[Bound, int]:
        """Like `free`, after locking the limits until the transaction ends."""
        wanted = tuple(wanted)
        await SQL["lock_bounds"].run(
            connection,
            identifiers=[bound.identifier for bound in wanted if bound.identifier],
            tenant_ids=[*{bound.tenant_id for bound in wanted if bound.tenant_id}],
        )
        return await self.free(connection, wanted)

    async def free(self, connection: Connection, wanted: Iterable[Bound]) -> dict[Bound, int]:
        """How many more jobs of each bound may be in flight."""
        wanted = tuple(wanted)
        users = [bound for bound in wanted if bound.user_id]
        rows = await SQL["count_bounds"].rows(
            connection,
            BoundUse,
            identifiers=[bound.identifier for bound in wanted if bound.identifier],
            tenant_ids=[bound.tenant_id for bound in wanted if bound.tenant_id and not bound.user_id],
            users_tenants=[bound.tenant_id for bound in users],
            users=[bound.user_id for bound in users],
        )
        counted = {Bound(row.identifier or "", row.tenant_id, row.user_id): row for row in rows}
        return {bound: self._limit_of(bound, row.max_concurrent) - row.in_use for bound, row in counted.items()}

    def _limit_of(self, bound: Bound, max_concurrent: int | None) -> int:
        if bound.tenant_id is not None:
            terms = self.terms_of(bound.tenant_id)
            max_concurrent = terms.max_running_per_user if bound.user_id else terms.max_running
        return UNBOUNDED if max_concurrent is None else max_concurrent

    def _bounds_of(self, entry: QueueEntry) -> tuple[Bound, ...]:
        terms = self.terms_of(entry.tenant_id)
        return bounds(entry.concurrency_identifier, entry.tenant_id, entry.user_id, terms)


def _either(value: int | None, otherwise: int | None) -> int | None:
    return otherwise if value is None else value
