"""Ends sessions, keys and links of users, and notifies all control planes.

Each request looks up its credential, so requests are refused as soon as the change is committed. An open stream checks
its credential only at intervals. The notification, which is sent with the commit, makes it check at once.
"""

from __future__ import annotations

from uuid import UUID

from callsheet.plumbing.database.sql import Connection, statements

SQL = statements("callsheet.identity.access", "credentials_statements.sql")
# Payload: the id of a user, or of a tenant for all its users.
CREDENTIALS_CHANNEL = "credentials"


async def announce(connection: Connection, user_or_tenant: UUID) -> None:
    """Makes open streams of the user, or of the tenant's users, check their credentials after the commit."""
    await SQL["announce"].run(connection, channel=CREDENTIALS_CHANNEL, payload=str(user_or_tenant))


async def end_all(connection: Connection, user_id: UUID, kept_session: bytes | None = None) -> int:
    """Ends every session, key and link of a user, except the session with this hash. Returns the number of keys."""
    await SQL["end_sessions"].run(connection, user_id=user_id, kept=kept_session)
    await SQL["end_links"].run(connection, user_id=user_id)
    revoked = await SQL["revoke_keys"].run(connection, user_id=user_id)
    await announce(connection, user_id)
    return revoked


async def end_sessions(connection: Connection, user_id: UUID, kept: bytes | None = None) -> int:
    """Ends all sessions of a user, except the session with this hash. The keys stay. Returns the number of sessions."""
    ended = await SQL["end_sessions"].run(connection, user_id=user_id, kept=kept)
    await announce(connection, user_id)
    return ended


async def end_sessions_of_tenant(connection: Connection, tenant_id: UUID) -> None:
    await SQL["end_sessions_of_tenant"].run(connection, tenant_id=tenant_id)
    await announce(connection, tenant_id)
