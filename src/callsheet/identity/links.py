"""Links that let a person into an account: they work once, expire, and are stored as hashes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import UUID

from callsheet.identity.credentials import end_all
from callsheet.identity.keys import hash_secret
from callsheet.identity.passwords import Passwords
from callsheet.plumbing.databases import Databases
from callsheet.plumbing.sql import Connection, Row, Statement, statements
from callsheet.settings import Settings
from callsheet.toolbox.ids import secret_token
from callsheet.wire.errors import NotFound
from callsheet.wire.identity import ResetLink

SQL = statements("callsheet.identity", "links_statements.sql")
ACCOUNTS = statements("callsheet.identity")
PREFIX = "csl"
UNUSABLE = "This link does not work: it was used, it has expired, or it was replaced by a newer one. Ask for a new one."


@dataclass(frozen=True, slots=True)
class LinkKind:
    """The page it leads to, what a link of a token is for, and the lock that is taken before one is used."""

    path: str
    find: Statement
    lock: Statement


INVITATION = LinkKind("/account/invitation", SQL["find_invitation_by_link"], SQL["lock_invitation"])
RESET = LinkKind("/account/password", SQL["find_user_by_link"], SQL["lock_user_of_link"])


class Links:
    """What a link is: a page of this control plane, and a token that only the link has."""

    def __init__(self, settings: Settings):
        self._public_url = settings.public_url
        self._reset_minutes = settings.identity.reset_minutes

    async def to_invitation(self, connection: Connection, invitation_id: UUID) -> str:
        link, token_hash = self._made(INVITATION)
        await SQL["add_invitation_link"].run(connection, token_hash=token_hash, invitation_id=invitation_id)
        return link

    async def to_reset(self, connection: Connection, user_id: UUID) -> ResetLink:
        link, token_hash = self._made(RESET)
        expires_at = await SQL["add_reset_link"].value(
            connection, token_hash=token_hash, user_id=user_id, minutes=self._reset_minutes
        )
        return ResetLink(link=link, expires_at=expires_at)

    def _made(self, kind: LinkKind) -> tuple[str, bytes]:
        token = secret_token(PREFIX)
        return f"{self._public_url}{kind.path}/{token}", hash_secret(token)


async def find_by_link(databases: Databases, kind: LinkKind, token: str) -> Row:
    """What a link is for. Reading it does not use it up."""
    async with databases.central.connection() as connection:
        return await _found(connection, kind, token)


@asynccontextmanager
async def using_link(
    databases: Databases, passwords: Passwords, kind: LinkKind, token: str, password: str
) -> AsyncIterator[tuple[Connection, Row, str]]:
    """Uses a link to set a password: gives the transaction, what the link is for, and the password's hash.

    Hashing takes long, and is done outside the transaction, only for links that work. Of links for the same that are
    used at once, the second finds nothing when the first is done: using one deletes them all.
    """
    found = await find_by_link(databases, kind, token)
    password_hash = await passwords.hash(password)
    async with databases.central.transaction() as connection:
        await kind.lock.row(connection, id=found["id"])
        yield connection, await _found(connection, kind, token), password_hash


async def _found(connection: Connection, kind: LinkKind, token: str) -> Row:
    row = await kind.find.row(connection, token_hash=hash_secret(token))
    if row is None:
        raise NotFound(UNUSABLE)
    return row


async def replace_password(connection: Connection, user_id: UUID, password_hash: str) -> int:
    """Also ends every session, key and link of the user: anyone who knew the old password is out. Returns how
    many keys were revoked."""
    await ACCOUNTS["replace_password"].run(connection, user_id=user_id, password_hash=password_hash)
    return await end_all(connection, user_id)
