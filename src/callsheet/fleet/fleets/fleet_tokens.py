"""Registration tokens of fleets: 256 random bits, stored as their SHA-256, shown once."""

from __future__ import annotations

import hmac
from datetime import datetime
from typing import NamedTuple

from callsheet.fleet.protocol.authentication import FLEET_TOKEN_PREFIX, hash_token
from callsheet.identity.audit_log import record
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import Connection, statements
from callsheet.toolbox.ids import secret_token
from callsheet.wire.base import Page
from callsheet.wire.errors import Conflict, NotFound, WrongState
from callsheet.wire.fleet import CreatedFleetToken, FleetToken
from callsheet.wire.plurals import counted

SQL = statements("callsheet.fleet.fleets", "fleet_statements.sql")

SHOWN_CHARACTERS = 12


class LockedToken(NamedTuple):
    id: int
    fleet_id: int
    name: str
    revoked_at: datetime | None
    has_expired: bool | None


class FleetTokens:
    def __init__(self, databases: Databases):
        self._databases = databases

    async def create(self, fleet_id: int, name: str | None, actor: str) -> CreatedFleetToken:
        """Creates a token that workers register with until it is revoked or rotated."""
        async with self._databases.central.transaction() as connection:
            if await SQL["lock_fleet"].value(connection, id=fleet_id) is None:
                raise NotFound("There is no such fleet.")
            created = await _create(connection, fleet_id, name or "workers", actor, None)
            await _log(connection, created, actor, "create_token")
            return created

    async def list(self, fleet_id: int | None, before: int | None, limit: int) -> Page[FleetToken]:
        """The tokens of a fleet, newest first, including tokens that are no longer accepted."""
        async with self._databases.central.ordinary() as connection:
            tokens = await _tokens(connection, fleet_id=fleet_id, before=before, limit=limit + 1)
        items = tokens[:limit]
        return Page(items=items, next_cursor=str(items[-1].id) if len(tokens) > limit else None)

    async def rotate(
        self, token_id: int, overlap_seconds: float, actor: str, fleet_id: int | None = None
    ) -> CreatedFleetToken:
        """Replaces a token; the old one is accepted during the overlap. One of two concurrent rotations succeeds."""
        async with self._databases.central.transaction() as connection:
            token = await _lock(connection, token_id, fleet_id)
            if token.revoked_at is not None or token.has_expired:
                raise WrongState("The token is no longer accepted. Create a new one.")
            created = await _create(connection, token.fleet_id, token.name, actor, token_id)
            await SQL["expire_fleet_token"].run(connection, id=token_id, seconds=overlap_seconds)
            await _log(connection, created, actor, "rotate_token", overlap_seconds=overlap_seconds)
            return created

    async def revoke(self, token_id: int, actor: str, fleet_id: int | None = None) -> FleetToken:
        """Revokes a token, so that workers can no longer register with it. Registered workers continue until they
        are revoked.
        """
        async with self._databases.central.transaction() as connection:
            await _lock(connection, token_id, fleet_id)
            return await revoke_in(connection, token_id, actor)

    async def is_accepted(self, token: str) -> bool:
        """Whether workers can register with the token now. A registration checks again, in its transaction."""
        if not token.startswith(FLEET_TOKEN_PREFIX):
            return False
        wanted = hash_token(token)
        async with self._databases.central.connection() as connection:
            kept = await SQL["find_fleet_token"].value(connection, token_hash=wanted)
        return kept is not None and hmac.compare_digest(kept, wanted)

    async def find(self, id_or_prefix: str) -> int:
        """Finds a token by its id, or by the prefix that lists show if it fits only one token."""
        async with self._databases.central.connection() as connection:
            ids = await SQL["find_fleet_token_for_operator"].column(connection, id_or_prefix=id_or_prefix)
        if not ids:
            raise NotFound(f"There is no registration token {id_or_prefix!r}.")
        if len(ids) > 1:
            raise NotFound(f"{id_or_prefix!r} fits {counted(len(ids), 'registration token')}. Name one by its id.")
        return int(ids[0])


async def revoke_in(connection: Connection, token_id: int, actor: str) -> FleetToken:
    await SQL["revoke_fleet_token"].run(connection, id=token_id)
    [token] = await _tokens(connection, token_id=token_id)
    await _log(connection, token, actor, "revoke_token")
    return token


async def _create(
    connection: Connection, fleet_id: int, name: str, actor: str, replaces: int | None
) -> CreatedFleetToken:
    token = secret_token(FLEET_TOKEN_PREFIX.rstrip("_"))
    token_id = await SQL["create_fleet_token"].value(
        connection,
        fleet_id=fleet_id,
        name=name,
        prefix=token[:SHOWN_CHARACTERS],
        token_hash=hash_token(token),
        created_by=actor,
        replaces=replaces,
    )
    if token_id is None:
        raise Conflict(f"Token {replaces} was already rotated. Rotate the token that replaced it.")
    [created] = await _tokens(connection, token_id=token_id)
    return CreatedFleetToken(**dict(created), token=token)


async def _lock(connection: Connection, token_id: int, fleet_id: int | None) -> LockedToken:
    token = await SQL["lock_fleet_token"].row(connection, LockedToken, id=token_id, fleet_id=fleet_id)
    if token is None:
        raise NotFound("There is no such registration token.")
    return token


async def _tokens(
    connection: Connection,
    *,
    token_id: int | None = None,
    fleet_id: int | None = None,
    before: int | None = None,
    limit: int = 1,
) -> list[FleetToken]:
    return await SQL["list_fleet_tokens"].rows(
        connection, FleetToken, id=token_id, fleet_id=fleet_id, before=before, limit=limit
    )


async def _log(connection: Connection, token: FleetToken, actor: str, action: str, **details: object) -> None:
    # The field is not named "token", because such fields are masked.
    shown = {"token_id": token.id, "name": token.name, "replaces": token.replaces, **details}
    await record(connection, actor, f"fleet.{action}", "fleet", token.fleet_id, None, **shown)
