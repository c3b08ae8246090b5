"""What lets a user in, ended: sessions, keys and links, and word of it to all control planes.

Each request looks its credential up, so it is refused from the commit on. A stream that is open looks only now and
then; the notification, sent with the commit, makes it look at once.
"""

from __future__ import annotations

from uuid import UUID

from callsheet.plumbing.sql import Connection, statements

SQL = statements("callsheet.identity", "credentials_statements.sql")
# Payload: the id of a user, or of a tenant for all its users.
CREDENTIALS_CHANNEL = "credentials"


async def announce(connection: Connection, user_or_tenant: UUID) -> None:
    """When this has committed, open streams of the user, or of the tenant's users, check whether they may go on."""
    await SQL["announce"].run(connection, channel=CREDENTIALS_CHANNEL, payload=str(user_or_tenant))


async def end_all(connection: Connection, user_id: UUID, kept_session: bytes | None = None) -> int:
    """Ends every session, key and link of a user, except the session of this hash. Returns the number of keys."""
    await SQL["end_sessions"].run(connection, user_id=user_id, kept=kept_session)
    await SQL["end_links"].run(connection, user_id=user_id)
    revoked = await SQL["revoke_keys"].run(connection, user_id=user_id)
    await announce(connection, user_id)
    return revoked


async def end_sessions(connection: Connection, user_id: UUID, kept: bytes | None = None) -> int:
    """All but the one of this hash. The keys stay. Returns how many there were."""
    ended = await SQL["end_sessions"].run(connection, user_id=user_id, kept=kept)
    await announce(connection, user_id)
    return ended


async def end_sessions_of_tenant(connection: Connection, tenant_id: UUID) -> None:
    await SQL["end_sessions_of_tenant"].run(connection, tenant_id=tenant_id)
    await announce(connection, tenant_id)
