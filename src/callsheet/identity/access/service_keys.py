"""Service keys: they belong to a tenant, and its server acts with them for the tenant's users."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from callsheet.identity.access.credentials import announce
from callsheet.identity.access.keys import (
    KEYS_PER_HOUR,
    PREFIX,
    RATE_SECONDS,
    SHOWN_CHARACTERS,
    check_expiry,
    hash_secret,
)
from callsheet.identity.audit_log import record
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.pages import page_of
from callsheet.plumbing.database.sql import statements
from callsheet.toolbox.clock import SystemClock
from callsheet.toolbox.ids import secret_token, uuid7
from callsheet.wire.base import Page
from callsheet.wire.errors import Forbidden, NotFound, QuotaExceeded, RateLimited, RatePolicy
from callsheet.wire.plurals import counted
from callsheet.wire.tenant.service_keys import CreatedServiceKey, CreateServiceKey, ServiceKey, ServiceScope

SQL = statements("callsheet.identity.access", "service_key_statements.sql")
MAX_SERVICE_KEYS = 100
NO_KEY = "There is no such key."


class KeyCounts(NamedTuple):
    usable: int
    new: int


class ServiceKeys:
    def __init__(self, databases: Databases):
        self._databases = databases
        self._clock = SystemClock()

    async def create(
        self, tenant_id: UUID, request: CreateServiceKey, actor: str, *, may_credit: bool
    ) -> CreatedServiceKey:
        """Creates a key of a tenant. `may_credit`: whether the caller may give tokens away, which the key then may."""
        scopes = sorted(set(request.scopes))
        if ServiceScope.CREDIT in scopes and not may_credit:
            raise Forbidden("Only an operator may create a service key with the scope credit, because it gives tokens.")
        check_expiry(request.expires_at, self._clock.now())
        key = secret_token(PREFIX)
        async with self._databases.central.transaction() as connection:
            if await SQL["lock_tenant"].value(connection, tenant_id=tenant_id) is None:
                raise NotFound("There is no such tenant.")
            counts = await SQL["count_service_keys"].row(
                connection, KeyCounts, tenant_id=tenant_id, seconds=RATE_SECONDS
            )
            _check_limits(counts or KeyCounts(0, 0))
            created = await SQL["create_service_key"].row(
                connection,
                ServiceKey,
                id=uuid7(),
                tenant_id=tenant_id,
                name=request.name,
                prefix=key[:SHOWN_CHARACTERS],
                key_hash=hash_secret(key),
                scopes=scopes,
                expires_at=request.expires_at,
            )
            assert created is not None, "an insert returns its row"
            details = {"key_id": created.id, "name": request.name, "scopes": scopes, "expires_at": request.expires_at}
            await record(connection, actor, "service_key.create", "tenant", tenant_id, tenant_id, **details)
        return CreatedServiceKey(**dict(created), key=key)

    async def list(self, tenant_id: UUID, before: UUID | None, limit: int) -> Page[ServiceKey]:
        async with self._databases.central.ordinary() as connection:
            keys = await SQL["list_service_keys"].rows(
                connection, ServiceKey, tenant_id=tenant_id, before=before, limit=limit + 1
            )
        return page_of(keys, limit)

    async def revoke(self, tenant_id: UUID, key_id: UUID, actor: str) -> ServiceKey:
        """Revokes a key. Revoking again changes nothing: the first time stays."""
        names = {"id": key_id, "tenant_id": tenant_id}
        async with self._databases.central.transaction() as connection:
            is_revoked = await SQL["revoke_service_key"].value(connection, **names) is not None
            key = await SQL["get_service_key"].row(connection, ServiceKey, **names)
            if key is None:
                raise NotFound(NO_KEY)
            if is_revoked:
                await announce(connection, tenant_id)
                details = {"key_id": key_id, "name": key.name}
                await record(connection, actor, "service_key.revoke", "tenant", tenant_id, tenant_id, **details)
        return key


def _check_limits(counts: KeyCounts) -> None:
    if counts.new >= KEYS_PER_HOUR:
        raise RateLimited(RATE_SECONDS // KEYS_PER_HOUR, RatePolicy("service-keys", KEYS_PER_HOUR, RATE_SECONDS))
    if counts.usable >= MAX_SERVICE_KEYS:
        sentence = (
            f"The tenant has {counted(counts.usable, 'usable service key')}, and the limit is "
            f"{MAX_SERVICE_KEYS}. Revoke keys that you no longer use."
        )
        raise QuotaExceeded("service_keys", counts.usable, MAX_SERVICE_KEYS, sentence)
