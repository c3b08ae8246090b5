"""The limits of a tenant: the limits of the settings, or the limits that an operator set for the tenant."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple
from uuid import UUID

from callsheet.identity.audit_log import record
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import Connection, statements
from callsheet.settings import QuotaSettings
from callsheet.toolbox.clock import Clock, SystemClock
from callsheet.wire.errors import FieldProblem, InvalidRequest, NotFound, QuotaExceeded
from callsheet.wire.operate.quotas import ChangeQuotas, QuotaLimits
from callsheet.wire.plurals import counted

SQL = statements("callsheet.identity.accounts", "quota_statements.sql")
NAMES = tuple(QuotaLimits.model_fields)
# The limits are cached for this time, because every upload and every job needs them. A change applies in every process
# after this time.
FRESH_SECONDS = 5.0
MAX_REMEMBERED = 10_000


class QuotaRow(NamedTuple):
    """The limits of a tenant. None: the installation's default applies."""

    tenant_id: UUID
    tenant_storage_bytes: int | None
    tenant_storage_files: int | None
    user_storage_bytes: int | None
    user_storage_files: int | None
    user_database_bytes: int | None
    payload_bytes: int | None
    pipelines_per_user: int | None
    versions_per_pipeline: int | None
    keys_per_user: int | None

    def own(self) -> dict[str, int]:
        """The limits that differ from the defaults."""
        return {name: limit for name, limit in self._asdict().items() if name in NAMES and limit is not None}


class Quotas:
    def __init__(self, databases: Databases, settings: QuotaSettings, clock: Clock | None = None):
        self._databases = databases
        self._defaults = settings.model_dump(include=set(NAMES))
        # The limits of tenants without own limits. Most tenants have none.
        self._usual = self.limits({})
        self._clock = clock or SystemClock()
        self._remembered: dict[UUID, tuple[float, QuotaLimits]] = {}

    async def of(self, tenant_id: UUID) -> QuotaLimits:
        return (await self.of_each([tenant_id]))[tenant_id]

    async def of_each(self, tenant_ids: Iterable[UUID]) -> dict[UUID, QuotaLimits]:
        """The limits of several tenants. Limits that are not cached are read with one statement."""
        oldest = self._clock.monotonic() - FRESH_SECONDS
        limits: dict[UUID, QuotaLimits] = {}
        unknown: set[UUID] = set()
        for tenant_id in tenant_ids:
            found = self._remembered.get(tenant_id)
            if found is None or found[0] < oldest:
                unknown.add(tenant_id)
            else:
                limits[tenant_id] = found[1]
        if unknown:
            async with self._databases.central.connection() as connection:
                rows = await SQL["quotas_of_tenants"].rows(connection, QuotaRow, tenant_ids=list(unknown))
            own = {row.tenant_id: row.own() for row in rows}
            limits |= {tenant_id: self._remember(tenant_id, own.get(tenant_id, {})) for tenant_id in unknown}
        return limits

    async def changed(self, tenant_id: UUID) -> dict[str, int]:
        """The limits that were set for this tenant."""
        async with self._databases.central.connection() as connection:
            return await _own_quotas(connection, tenant_id)

    async def change(self, actor: str, tenant_id: UUID, request: ChangeQuotas) -> dict[str, int]:
        changes = request.model_dump(exclude_unset=True)
        async with self._databases.central.transaction() as connection:
            if await SQL["lock_tenant"].value(connection, tenant_id=tenant_id) is None:
                raise NotFound("There is no such tenant.")
            before = await _own_quotas(connection, tenant_id)
            after: dict[str, int | None] = {**dict.fromkeys(NAMES), **before, **changes}
            await SQL["set_quotas"].run(connection, tenant_id=tenant_id, **after)
            if changes:
                await record(connection, actor, "tenant.quotas", "tenant", tenant_id, tenant_id, **changes)
        own = {name: value for name, value in after.items() if value is not None}
        self._remember(tenant_id, own)
        return own

    async def check_keys(self, connection: Connection, tenant_id: UUID, user_id: UUID) -> None:
        """Checks the limit of keys, in the transaction that creates a key. The user is locked, so two new keys are
        counted one after the other.
        """
        # This uses the given connection: waiting for a second one would block the first meanwhile.
        own = await _own_quotas(connection, tenant_id)
        limit = self.limits(own).keys_per_user
        used = await SQL["count_keys"].value(connection, user_id=user_id)
        if used >= limit:
            sentence = (
                f"The user has {used} API keys that are neither revoked nor expired, and the limit is {limit} "
                "(keys_per_user). Revoke keys that you no longer use, or ask an operator for more."
            )
            raise QuotaExceeded("keys_per_user", used, limit, sentence)

    def limits(self, own: Mapping[str, int]) -> QuotaLimits:
        return QuotaLimits(**{**self._defaults, **own})

    def _remember(self, tenant_id: UUID, own: Mapping[str, int]) -> QuotaLimits:
        if len(self._remembered) >= MAX_REMEMBERED:
            self._remembered.clear()
        limits = self.limits(own) if own else self._usual
        self._remembered[tenant_id] = self._clock.monotonic(), limits
        return limits


def check_payload(limits: QuotaLimits, field: str, payload: Mapping[str, Any]) -> None:
    problems = list(payload_problems(limits, field, payload))
    if problems:
        raise InvalidRequest.of(problems)


def payload_problems(limits: QuotaLimits, field: str, payload: Mapping[str, Any]) -> Iterator[FieldProblem]:
    size = _json_bytes(payload)
    if size > limits.payload_bytes:
        excess = f"The value has {counted(size, 'byte')} as JSON, and the limit is {limits.payload_bytes}"
        yield FieldProblem(field, f"{excess} (payload_bytes). Send less data, or a file.")


def _json_bytes(document: object) -> int:
    return len(json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass"))


async def _own_quotas(connection: Connection, tenant_id: UUID) -> dict[str, int]:
    row = await SQL["quotas_of_tenant"].row(connection, QuotaRow, tenant_id=tenant_id)
    return {} if row is None else row.own()
