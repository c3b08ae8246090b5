"""API keys: 256 random bits, stored as their SHA-256, shown once."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from callsheet.identity.access.credentials import announce
from callsheet.identity.access.permissions import key_scopes_of
from callsheet.identity.accounts.quotas import Quotas
from callsheet.identity.audit_log import OPERATOR, record, user_actor
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.errors import DATABASE_AWAY
from callsheet.plumbing.database.pages import page_of
from callsheet.plumbing.database.sql import Connection, statements
from callsheet.toolbox.clock import SystemClock
from callsheet.toolbox.ids import secret_token, uuid7
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.loops import Loop
from callsheet.wire.base import Page
from callsheet.wire.errors import InvalidRequest, NotAuthenticated, NotFound, RateLimited, RatePolicy
from callsheet.wire.identity import CreatedKey, CreateKeyRequest, Key, KeyScope, Role

log = get_logger(__name__)
SQL = statements("callsheet.identity.access")
PREFIX = "cs"
SHOWN_CHARACTERS = 11
MAX_LIFETIME = timedelta(days=3653)
KEYS_PER_HOUR = 100
RATE_SECONDS = 3600


def hash_secret(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def chosen_scopes(role: Role, wanted: Sequence[KeyScope] | None) -> Sequence[str]:
    """The scopes of a new key, each once: the requested scopes, or all scopes that the user's role can use."""
    possible = key_scopes_of(role)
    impossible = [scope.value for scope in wanted or () if scope not in possible]
    if impossible:
        raise InvalidRequest.field(
            "scopes",
            f"The scope {impossible[0]} does not suit the role {role.value}. Choose: {', '.join(sorted(possible))}.",
        )
    return sorted(set(wanted) if wanted is not None else possible)


def check_expiry(expires_at: datetime | None, now: datetime) -> None:
    if expires_at is not None and not now < expires_at <= now + MAX_LIFETIME:
        raise InvalidRequest.field("expires_at", "The time must be in the future, and at most ten years from now.")


async def _check_rate(connection: Connection, user_id: UUID) -> None:
    """Limits the number of new keys. Revoked keys stay in the list and in the audit log, so their number must be
    limited.
    """
    limits = {"seconds": RATE_SECONDS, "max_rows": KEYS_PER_HOUR}
    if await SQL["count_new_keys"].value(connection, user_id=user_id, **limits) >= KEYS_PER_HOUR:
        raise RateLimited(RATE_SECONDS // KEYS_PER_HOUR, RatePolicy("keys", KEYS_PER_HOUR, RATE_SECONDS))


class KeyOwner(NamedTuple):
    id: UUID
    tenant_id: UUID
    role: str


class KeyToRevoke(NamedTuple):
    id: UUID
    tenant_id: UUID
    # None: a service key of the tenant.
    user_id: UUID | None


class Keys:
    def __init__(self, databases: Databases, quotas: Quotas):
        self._databases = databases
        self._clock = SystemClock()
        self._quotas = quotas

    async def create(self, user_id: UUID, request: CreateKeyRequest, actor: str = OPERATOR) -> CreatedKey:
        """Creates a key of any user, for the command line. Routes use `create_own` and `UserManagement.create_key`."""
        async with self._databases.central.transaction() as connection:
            return await self.create_in(connection, user_id, request, actor)

    async def create_own(self, user_id: UUID, session: str, request: CreateKeyRequest) -> CreatedKey:
        """Creates a key of the user with this browser session. The session must still be valid when the key is created:
        a change of the password ends sessions, and no key may be created with an ended one."""
        async with self._databases.central.transaction() as connection:
            await SQL["lock_key_owner"].run(connection, user_id=user_id)
            if not await SQL["session_lives"].value(connection, id_hash=hash_secret(session)):
                raise NotAuthenticated("The session has ended. Sign in again.")
            return await self.create_in(connection, user_id, request, user_actor(user_id))

    async def create_in(
        self, connection: Connection, user_id: UUID, request: CreateKeyRequest, actor: str
    ) -> CreatedKey:
        owner = await SQL["lock_key_owner"].row(connection, KeyOwner, user_id=user_id)
        if owner is None:
            raise NotFound("There is no such user.")
        scopes = chosen_scopes(Role(owner.role), request.scopes)
        check_expiry(request.expires_at, self._clock.now())
        await _check_rate(connection, user_id)
        await self._quotas.check_keys(connection, owner.tenant_id, user_id)
        key = secret_token(PREFIX)
        created = await SQL["create_key"].row(
            connection,
            Key,
            id=uuid7(),
            tenant_id=owner.tenant_id,
            user_id=user_id,
            name=request.name,
            prefix=key[:SHOWN_CHARACTERS],
            key_hash=hash_secret(key),
            scopes=scopes,
            expires_at=request.expires_at,
        )
        assert created is not None, "an insert returns its row"
        details = {"key_id": created.id, "name": request.name, "scopes": scopes, "expires_at": request.expires_at}
        await record(connection, actor, "key.create", "user", user_id, owner.tenant_id, **details)
        return CreatedKey(**dict(created), key=key)

    async def list(self, user_id: UUID, before: UUID | None, limit: int) -> Page[Key]:
        async with self._databases.central.ordinary() as connection:
            keys = await SQL["list_keys"].rows(connection, Key, user_id=user_id, before=before, limit=limit + 1)
        return page_of(keys, limit)

    async def revoke(self, user_id: UUID, key_id: UUID, actor: str = OPERATOR) -> Key:
        async with self._databases.central.transaction() as connection:
            return await self.revoke_in(connection, user_id, key_id, actor)

    async def revoke_in(self, connection: Connection, user_id: UUID, key_id: UUID, actor: str) -> Key:
        """Revokes a key. Revoking again changes nothing: the first time stays."""
        names = {"id": key_id, "user_id": user_id}
        tenant_id = await SQL["revoke_key"].value(connection, **names)
        key = await SQL["get_key"].row(connection, Key, **names)
        if key is None:
            raise NotFound("There is no such key.")
        if tenant_id is not None:
            await announce(connection, user_id)
            details = {"key_id": key_id, "name": key.name}
            await record(connection, actor, "key.revoke", "user", user_id, tenant_id, **details)
        return key

    async def find_for_operator(self, id_or_prefix: str) -> KeyToRevoke:
        """A key by its id, or by its first characters, as lists show them, if only one key matches."""
        async with self._databases.central.connection() as connection:
            keys = await SQL["find_key_for_operator"].rows(connection, KeyToRevoke, id_or_prefix=id_or_prefix)
        if not keys:
            raise NotFound(f"There is no key {id_or_prefix!r}.")
        if len(keys) > 1:
            raise NotFound(f"Several keys start with {id_or_prefix!r}. Use the whole id of the key.")
        return keys[0]


class KeyUsage(Loop):
    """Records when keys and sessions were last used: outside the requests, once a minute for all of them."""

    name = "key_usage"
    interval_seconds = 60.0

    def __init__(self, databases: Databases):
        super().__init__()
        self._databases = databases
        self._used: dict[UUID, datetime] = {}
        self._seen: dict[bytes, datetime] = {}

    def record(self, key_id: UUID) -> None:
        self._used[key_id] = self._clock.now()

    def record_session(self, id_hash: bytes) -> None:
        self._seen[id_hash] = self._clock.now()

    async def tick(self, now: datetime) -> None:
        used, self._used = self._used, {}
        seen, self._seen = self._seen, {}
        if not used and not seen:
            return
        try:
            async with self._databases.central.transaction() as connection:
                await SQL["touch_keys"].run(connection, ids=list(used.keys()), times=list(used.values()))
                await SQL["touch_sessions"].run(connection, id_hashes=list(seen.keys()), times=list(seen.values()))
        except BaseException:
            self._used, self._seen = {**used, **self._used}, {**seen, **self._seen}
            raise

    async def stop(self) -> None:
        await super().stop()
        try:
            await self.tick(self._clock.now())
        # The rest of the shutdown is more important than the time when a key was last used.
        except DATABASE_AWAY as error:
            log.warning("key_usage.lost", keys=len(self._used), error=repr(error))
