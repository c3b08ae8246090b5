"""API keys: 256 random bits, stored as their SHA-256, shown once."""

from __future__ import annotations

import hashlib
from datetime import datetime
from uuid import UUID

from callsheet.identity.credentials import announce
from callsheet.plumbing.database import DATABASE_AWAY
from callsheet.plumbing.databases import Databases
from callsheet.plumbing.pages import page_of
from callsheet.plumbing.sql import Connection, statements
from callsheet.toolbox.ids import secret_token, uuid7
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.loops import Loop
from callsheet.wire.base import Page
from callsheet.wire.errors import NotFound
from callsheet.wire.identity import CreatedKey, Key

log = get_logger(__name__)
SQL = statements("callsheet.identity")
PREFIX = "cs"
SHOWN_CHARACTERS = 11


def hash_secret(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


class Keys:
    def __init__(self, databases: Databases):
        self._databases = databases

    async def create(self, user_id: UUID, name: str) -> CreatedKey:
        async with self._databases.central.transaction() as connection:
            return await self.create_in(connection, user_id, name)

    async def create_in(self, connection: Connection, user_id: UUID, name: str) -> CreatedKey:
        key = secret_token(PREFIX)
        row = await SQL["create_key"].row(
            connection,
            id=uuid7(),
            user_id=user_id,
            name=name,
            prefix=key[:SHOWN_CHARACTERS],
            key_hash=hash_secret(key),
        )
        if row is None:
            raise NotFound("There is no such user.")
        return CreatedKey(**row, key=key)

    async def list(self, user_id: UUID, before: UUID | None, limit: int) -> Page[Key]:
        async with self._databases.central.connection() as connection:
            rows = await SQL["list_keys"].rows(connection, user_id=user_id, before=before, limit=limit + 1)
        return page_of([Key(**row) for row in rows], limit)

    async def revoke(self, user_id: UUID, key_id: UUID) -> Key:
        async with self._databases.central.transaction() as connection:
            return await self.revoke_in(connection, user_id, key_id)

    async def revoke_in(self, connection: Connection, user_id: UUID, key_id: UUID) -> Key:
        """Revoking again changes nothing: the first time stays."""
        row = await SQL["revoke_key"].row(connection, id=key_id, user_id=user_id)
        if row is None:
            raise NotFound("There is no such key.")
        await announce(connection, user_id)
        return Key(**row)

    async def revoke_as_operator(self, id_or_prefix: str) -> Key:
        """By the key's id, or by the characters that lists show, where they fit only one key."""
        async with self._databases.central.connection() as connection:
            rows = await SQL["find_key_for_operator"].rows(connection, id_or_prefix=id_or_prefix)
        if not rows:
            raise NotFound(f"There is no key {id_or_prefix!r}.")
        if len(rows) > 1:
            raise NotFound(f"{id_or_prefix!r} fits {len(rows)} keys. Name one by its id.")
        return await self.revoke(rows[0]["user_id"], rows[0]["id"])


class KeyUsage(Loop):
    """Writes `last_used_at` behind the requests, once a while for all keys: a request must not wait for a write."""

    name = "key_usage"
    interval_seconds = 30.0

    def __init__(self, databases: Databases):
        super().__init__()
        self._databases = databases
        self._used: dict[UUID, datetime] = {}

    def record(self, key_id: UUID) -> None:
        self._used[key_id] = self._clock.now()

    async def tick(self, now: datetime) -> None:
        used, self._used = self._used, {}
        if not used:
            return
        try:
            async with self._databases.central.transaction() as connection:
                await SQL["touch_keys"].run(connection, ids=list(used.keys()), times=list(used.values()))
        except BaseException:
            self._used = {**used, **self._used}
            raise

    async def stop(self) -> None:
        await super().stop()
        try:
            await self.tick(self._clock.now())
        except DATABASE_AWAY as error:  # the rest of the shutdown matters more than when a key was used last
            log.warning("key_usage.lost", keys=len(self._used), error=repr(error))
