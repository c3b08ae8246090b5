"""Links that give a person access to an account. They work once, expire, and are stored as hashes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, NamedTuple, TypeVar
from uuid import UUID

from callsheet.identity.access.credentials import end_all
from callsheet.identity.access.keys import hash_secret
from callsheet.identity.access.passwords import Passwords
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import Connection, Statement, statements
from callsheet.settings import Settings
from callsheet.toolbox.ids import secret_token
from callsheet.wire.errors import NotFound
from callsheet.wire.identity import ResetLink

SQL = statements("callsheet.identity.links")
ACCESS_SQL = statements("callsheet.identity.access")
PREFIX = "csl"
UNUSABLE = "This link no longer works: it was used, has expired, or was replaced by a newer link. Ask for a new link."


class LinkedInvitation(NamedTuple):
    id: UUID
    tenant_id: UUID
    tenant: str
    tenant_name: str
    email: str
    role: str
    expires_at: datetime


class LinkedUser(NamedTuple):
    id: UUID
    tenant_id: UUID
    email: str


# The invitation or the user that a link is for.
Target = TypeVar("Target", LinkedInvitation, LinkedUser)


@dataclass(frozen=True, slots=True)
class LinkKind(Generic[Target]):
    """The page of a link, how its target is found by the hash of the token, and the lock that its use takes."""

    path: str
    find: Callable[[Connection, bytes], Awaitable[Target | None]]
    lock: Statement


async def _find_invitation(connection: Connection, token_hash: bytes) -> LinkedInvitation | None:
    return await SQL["find_invitation_by_link"].row(connection, LinkedInvitation, token_hash=token_hash)


async def _find_user(connection: Connection, token_hash: bytes) -> LinkedUser | None:
    return await SQL["find_user_by_link"].row(connection, LinkedUser, token_hash=token_hash)


INVITATION = LinkKind("/account/invitation", _find_invitation, SQL["lock_invitation"])
RESET = LinkKind("/account/password", _find_user, SQL["lock_user_of_link"])


class Links:
    """Creates links: the URL of a page with a token that only the link contains."""

    def __init__(self, settings: Settings):
        self._public_url = settings.public_url
        self._reset_minutes = settings.identity.reset_minutes

    async def to_invitation(self, connection: Connection, invitation_id: UUID) -> str:
        link, token_hash = self._create(INVITATION)
        await SQL["add_invitation_link"].run(connection, token_hash=token_hash, invitation_id=invitation_id)
        return link

    async def to_reset(self, connection: Connection, user_id: UUID) -> ResetLink:
        link, token_hash = self._create(RESET)
        expires_at = await SQL["add_reset_link"].value(
            connection, token_hash=token_hash, user_id=user_id, minutes=self._reset_minutes
        )
        return ResetLink(link=link, expires_at=expires_at)

    def _create(self, kind: LinkKind[Target]) -> tuple[str, bytes]:
        token = secret_token(PREFIX)
        return f"{self._public_url}{kind.path}/{token}", hash_secret(token)


async def find_by_link(databases: Databases, kind: LinkKind[Target], token: str) -> Target:
    """The target of a link. The link can still be used afterwards."""
    async with databases.central.connection() as connection:
        return await _target(connection, kind, token)


@asynccontextmanager
async def using_link(
    databases: Databases, passwords: Passwords, kind: LinkKind[Target], token: str, password: str
) -> AsyncIterator[tuple[Connection, Target, str]]:
    """Uses a link to set a password. Yields the transaction, the target of the link, and the hash of the password.

    Hashing takes long, so it happens outside the transaction, and only for valid links. If two links of one target are
    used at once, the second fails, because the use of a link deletes all links of its target.
    """
    target = await find_by_link(databases, kind, token)
    password_hash = await passwords.hash(password)
    async with databases.central.transaction() as connection:
        await kind.lock.run(connection, id=target.id)
        yield connection, await _target(connection, kind, token), password_hash


async def _target(connection: Connection, kind: LinkKind[Target], token: str) -> Target:
    target = await kind.find(connection, hash_secret(token))
    if target is None:
        raise NotFound(UNUSABLE)
    return target


async def replace_password(connection: Connection, user_id: UUID, password_hash: str) -> int:
    """Sets the hash of a password. Also ends every session, key and link of the user, so that a person who knew the
    old password has no access. Returns the number of revoked keys.
    """
    await ACCESS_SQL["replace_password"].run(connection, user_id=user_id, password_hash=password_hash)
    return await end_all(connection, user_id)
