"""Browser sessions: sign-in with a password, and the cookie of the session.

The cookie contains a random token that scripts cannot read and other sites cannot send. The database has its hash.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from hmac import compare_digest
from uuid import UUID

from callsheet.identity.access.attempts import Attempts
from callsheet.identity.access.credentials import announce, end_sessions
from callsheet.identity.access.devices import device_of
from callsheet.identity.access.kept_responses import KEPT
from callsheet.identity.access.keys import hash_secret
from callsheet.identity.access.login_audit import LoginAudit
from callsheet.identity.access.passwords import Passwords
from callsheet.identity.access.principal import LoginRow, Principal, UserRow
from callsheet.identity.audit_log import record, user_actor
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import Connection, statements
from callsheet.settings import IdentitySettings
from callsheet.toolbox.ids import secret_token
from callsheet.toolbox.loops import Loop
from callsheet.toolbox.signing import Master, SigningKeys
from callsheet.wire.errors import InvalidCredentials, NotFound
from callsheet.wire.identity import Session

SQL = statements("callsheet.identity.access")
KEPT_SQL = statements("callsheet.identity.access", "kept_response_statements.sql")
LINKS_SQL = statements("callsheet.identity.links")
AUDIT_LOG_SQL = statements("callsheet.identity", "audit_log_statements.sql")
# No user has this many browsers. A program that signs in repeatedly ends its own oldest sessions.
SESSIONS_PER_USER = 100
FAILED_MAILS_KEPT = timedelta(days=7)
# Deleting this many rows takes some tens of milliseconds, and no more rows can be written until the next time.
SWEPT_LINES = 5000


@dataclass(frozen=True, slots=True)
class OpenedSession:
    token: str
    principal: Principal


class Sessions:
    def __init__(
        self,
        databases: Databases,
        passwords: Passwords,
        settings: IdentitySettings,
        secret: Master,
        attempts: Attempts,
    ):
        self._databases = databases
        self._passwords = passwords
        self._settings = settings
        self._csrf_keys = SigningKeys(secret, "csrf token")
        self._attempts = attempts
        self._audit = LoginAudit(databases, self._attempts)

    async def sign_in(self, email: str, password: str, address: str, user_agent: str | None = None) -> OpenedSession:
        """Signs a user in. Counts the attempt first, so that parallel guesses cannot pass the limit, and forgives it on
        success.

        `email` is an `AnyEmail`: PostgreSQL would refuse to compare with a NUL.
        """
        buckets = await self._attempts.count_login(email, address)
        async with self._databases.central.connection() as connection:
            row = await SQL["find_login"].row(connection, LoginRow, email=email)
        matched = await self._passwords.matches(row.password_hash if row else None, password)
        if row is None or not matched:
            await self._audit.failed((row.user_id, row.tenant_id) if row is not None else None, address)
            raise InvalidCredentials()
        checked = row.password_hash
        fresh = await self._passwords.hash(password) if self._passwords.needs_rehash(checked) else checked
        async with self._databases.central.transaction() as connection:
            await self._attempts.forgive(connection, buckets)
            return await self._open(connection, row, fresh, address, user_agent)

    async def sign_in_once(self, email: str, address: str, user_agent: str | None = None) -> OpenedSession:
        """Signs in to the account of a one-time link that was just used up."""
        async with self._databases.central.transaction() as connection:
            row = await SQL["find_login"].row(connection, LoginRow, email=email)
            if row is None:
                raise NotFound("The account of this link no longer exists, or is disabled.")
            return await self._open(connection, row, row.password_hash, address, user_agent)

    async def _open(
        self, connection: Connection, row: LoginRow, fresh: str, address: str, user_agent: str | None
    ) -> OpenedSession:
        """Opens a session of the user of `find_login`, unless the password has changed meanwhile."""
        token = secret_token("css")
        created = await SQL["create_session"].run(
            connection,
            id_hash=hash_secret(token),
            user_id=row.user_id,
            checked=row.password_hash,
            fresh=fresh,
            hours=self._settings.session_hours,
            address=address,
            device=device_of(user_agent),
        )
        if not created:
            raise InvalidCredentials()
        ended = await SQL["end_oldest_sessions"].run(connection, user_id=row.user_id, max_rows=SESSIONS_PER_USER)
        if ended:
            await announce(connection, row.user_id)
        await self._audit.succeeded(connection, row.user_id, row.tenant_id, address)
        return OpenedSession(token, self._principal(row, token))

    async def sign_out(self, token: str) -> None:
        async with self._databases.central.transaction() as connection:
            user_id = await SQL["delete_session_by_hash"].value(connection, id_hash=hash_secret(token))
            if user_id is not None:
                await announce(connection, user_id)

    async def list(self, user_id: UUID, token: str | None) -> list[Session]:
        """The sessions, newest first. `token`: the token of the current session."""
        current = hash_secret(token) if token else None
        async with self._databases.central.ordinary() as connection:
            return await SQL["list_sessions"].rows(connection, Session, user_id=user_id, current=current)

    async def end(self, principal: Principal, session_id: UUID, token: str) -> bool:
        """Ends one of the user's own sessions. Returns whether it is the current session."""
        async with self._databases.central.transaction() as connection:
            ended = await SQL["delete_session_by_id"].value(connection, id=session_id, user_id=principal.user_id)
            if ended is None:
                raise NotFound("There is no such session.")
            await announce(connection, principal.user_id)
            is_current = compare_digest(ended, hash_secret(token))
            if not is_current:
                await self._record_end(connection, principal, 1)
        return is_current

    async def end_all(self, principal: Principal, token: str, *, keep_current: bool) -> int:
        """Ends every session of the user, or every other session. Returns the number of ended sessions."""
        async with self._databases.central.transaction() as connection:
            ended = await end_sessions(connection, principal.user_id, hash_secret(token) if keep_current else None)
            if ended:
                await self._record_end(connection, principal, ended)
        return ended

    @staticmethod
    async def _record_end(connection: Connection, principal: Principal, sessions: int) -> None:
        actor, user_id = user_actor(principal.user_id), principal.user_id
        await record(connection, actor, "user.end_sessions", "user", user_id, principal.tenant_id, sessions=sessions)

    async def find(self, token: str) -> Principal | None:
        async with self._databases.central.connection() as connection:
            row = await SQL["find_by_session"].row(connection, UserRow, id_hash=hash_secret(token))
        return self._principal(row, token) if row else None

    async def find_by_hash(self, id_hash: bytes) -> Principal | None:
        """Finds a session by the hash of its cookie. The caller may only read."""
        async with self._databases.central.connection() as connection:
            row = await SQL["find_by_session"].row(connection, UserRow, id_hash=id_hash)
        return Principal.of(row, "session") if row else None

    def csrf_matches(self, token: str, given: str) -> bool:
        return self._csrf_keys.verify(given, token)

    def _principal(self, row: UserRow | LoginRow, token: str) -> Principal:
        return Principal.of(row, "session", self._csrf_keys.sign(token))


class SessionSweeper(Loop):
    """Removes ended sessions and links, mails that were given up, attempts that no longer count, responses that are no
    longer kept, and old lines of the audit log; logins sooner than other lines.
    """

    name = "session_sweeper"
    interval_seconds = 600.0

    def __init__(self, databases: Databases, settings: IdentitySettings):
        super().__init__()
        self._databases = databases
        self._settings = settings

    async def tick(self, now: datetime) -> None:
        async with self._databases.central.ordinary() as connection, connection.transaction():
            await SQL["sweep_sessions"].run(connection, now=now)
            await LINKS_SQL["sweep_links"].run(connection, now=now)
            await LINKS_SQL["sweep_mails"].run(connection, before=now - FAILED_MAILS_KEPT)
            await SQL["sweep_attempts"].run(connection, now=now)
            await KEPT_SQL["sweep_kept_responses"].run(connection, before=now - KEPT, limit=SWEPT_LINES)
            before = now - timedelta(days=self._settings.login_log_days)
            await AUDIT_LOG_SQL["sweep_logins"].run(connection, before=before, limit=SWEPT_LINES)
            if self._settings.audit_log_days is not None:
                before = now - timedelta(days=self._settings.audit_log_days)
                await AUDIT_LOG_SQL["delete_old_lines"].run(connection, before=before, limit=SWEPT_LINES)
