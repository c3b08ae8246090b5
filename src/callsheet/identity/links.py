"""Links that let a person into an account: they work once, expire, and are stored as hashes."""

from __future__ import annotations

from uuid import UUID

from callsheet.identity.keys import hash_secret
from callsheet.plumbing.sql import Connection, statements
from callsheet.settings import Settings
from callsheet.toolbox.ids import secret_token
from callsheet.wire.identity import ResetLink

SQL = statements("callsheet.identity", "links_statements.sql")
ACCOUNTS = statements("callsheet.identity")
PREFIX = "csl"
INVITATION_PATH = "/account/invitation"
RESET_PATH = "/account/password"
UNUSABLE = "This link does not work: it was used, it has expired, or it was replaced by a newer one. Ask for a new one."


class Links:
    """What a link is: a page of this control plane, and a token that only the link has."""

    def __init__(self, settings: Settings):
        self._public_url = settings.public_url
        self._reset_minutes = settings.identity.reset_minutes

    async def to_invitation(self, connection: Connection, invitation_id: UUID) -> str:
        token = secret_token(PREFIX)
        await SQL["add_invitation_link"].run(connection, token_hash=hash_secret(token), invitation_id=invitation_id)
        return f"{self._public_url}{INVITATION_PATH}/{token}"

    async def to_reset(self, connection: Connection, user_id: UUID) -> ResetLink:
        token = secret_token(PREFIX)
        expires_at = await SQL["add_reset_link"].value(
            connection, token_hash=hash_secret(token), user_id=user_id, minutes=self._reset_minutes
        )
        return ResetLink(link=f"{self._public_url}{RESET_PATH}/{token}", expires_at=expires_at)


async def replace_password(connection: Connection, user_id: UUID, password_hash: str) -> None:
    """Also ends every session and every link of the user: whoever knew the old password is out."""
    await ACCOUNTS["replace_password"].run(connection, user_id=user_id, password_hash=password_hash)
    await ACCOUNTS["delete_sessions_of_user"].run(connection, user_id=user_id)
    await SQL["delete_links_of_user"].run(connection, user_id=user_id)
