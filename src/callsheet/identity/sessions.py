"""Browser sessions: signing in with a password, and the cookie that remembers it.

The cookie holds a random token that scripts cannot read and other sites cannot send; the database holds its hash.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import IPv6Address, IPv6Network, ip_address

import asyncpg

from callsheet.identity.keys import hash_secret
from callsheet.identity.passwords import Passwords
from callsheet.identity.principal import Principal
from callsheet.plumbing.databases import Databases
from callsheet.plumbing.sql import statements
from callsheet.settings import IdentitySettings
from callsheet.toolbox.ids import secret_token
from callsheet.toolbox.loops import Loop
from callsheet.toolbox.signing import derive_key, sign, verify
from callsheet.wire.errors import InvalidCredentials, RateLimited

SQL = statements("callsheet.identity")


@dataclass(frozen=True, slots=True)
class OpenedSession:
    token: str
    principal: Principal


class Sessions:
    def __init__(self, databases: Databases, passwords: Passwords, settings: IdentitySettings, secret: bytes):
        self._databases = databases
        self._passwords = passwords
        self._settings = settings
        self._csrf_key = derive_key(secret, "csrf token")
        self._bucket_key = derive_key(secret, "login attempts")

    async def sign_in(self, email: str, password: str, address: str) -> OpenedSession:
        """Counts the attempt first, so that parallel guesses cannot pass the limit, and forgives it on success."""
        buckets = await self._count_attempt(email, address)
        async with self._databases.central.connection() as connection:
            row = await SQL["find_login"].row(connection, email=_storable(email))
        matched = await self._passwords.matches(row["password_hash"] if row else None, password)
        if row is None or not matched:
            raise InvalidCredentials()
        checked = row["password_hash"]
        fresh = await self._passwords.hash(password) if self._passwords.needs_rehash(checked) else checked
        token = secret_token("css")
        async with self._databases.central.transaction() as connection:
            await SQL["forgive_attempts"].run(
                connection, buckets=buckets, window_seconds=self._settings.login_window_seconds
            )
            created = await SQL["create_session"].run(
                connection,
                id_hash=hash_secret(token),
                user_id=row["user_id"],
                checked=checked,
                fresh=fresh,
                hours=self._settings.session_hours,
            )
            if not created:
                raise InvalidCredentials()
        return OpenedSession(token, self._principal(row, token))

    async def sign_out(self, token: str) -> None:
        async with self._databases.central.transaction() as connection:
            await SQL["delete_session"].run(connection, id_hash=hash_secret(token))

    async def find(self, token: str) -> Principal | None:
        async with self._databases.central.connection() as connection:
            row = await SQL["find_by_session"].row(connection, id_hash=hash_secret(token))
        return self._principal(row, token) if row else None

    def csrf_matches(self, token: str, given: str) -> bool:
        return verify(self._csrf_key, given, token)

    async def _count_attempt(self, email: str, address: str) -> list[bytes]:
        # Keyed hashes: the table must not become a list of who tried to sign in from where.
        limits = {
            self._bucket("account", email): self._settings.login_attempts,
            self._bucket("address", _neighbourhood(address)): self._settings.login_attempts_per_address,
        }
        async with self._databases.central.transaction() as connection:
            rows = await SQL["count_attempts"].rows(
                connection, buckets=list(limits), window_seconds=self._settings.login_window_seconds
            )
        waits = [row["seconds_left"] for row in rows if row["attempts"] > limits[row["bucket"]]]
        if waits:
            raise RateLimited(max(1, *waits))
        return list(limits)

    def _bucket(self, kind: str, value: str) -> bytes:
        return hmac.digest(self._bucket_key, f"{kind}:{value}".encode("utf-8", "surrogatepass"), hashlib.sha256)

    def _principal(self, row: asyncpg.Record, token: str) -> Principal:
        return Principal.of(row, "session", sign(self._csrf_key, token))


class SessionSweeper(Loop):
    """Removes sessions that have ended and login attempts that no longer count."""

    name = "session_sweeper"
    interval_seconds = 600.0

    def __init__(self, databases: Databases, settings: IdentitySettings):
        super().__init__()
        self._databases = databases
        self._settings = settings

    async def tick(self, now: datetime) -> None:
        async with self._databases.central.transaction() as connection:
            await SQL["sweep_sessions"].run(connection, now=now)
            before = now - timedelta(seconds=2 * self._settings.login_window_seconds)
            await SQL["sweep_attempts"].run(connection, before=before)


def _neighbourhood(address: str) -> str:
    """A subscriber of IPv6 has a /64 at least: counted one by one, its addresses would never run out."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    return str(IPv6Network((parsed, 64), strict=False)) if isinstance(parsed, IPv6Address) else address


def _storable(text: str) -> str:
    """Nobody's address has these characters, and PostgreSQL would refuse to compare with them."""
    return text.replace("\0", "").encode("utf-8", "ignore").decode()
