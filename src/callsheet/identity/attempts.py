"""Counting attempts to guess a secret, in windows of time that all control planes share."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from ipaddress import IPv6Address, IPv6Network, ip_address

from callsheet.plumbing.databases import Databases
from callsheet.plumbing.sql import Connection, statements
from callsheet.settings import IdentitySettings
from callsheet.toolbox.signing import Master, SigningKeys
from callsheet.wire.errors import RateLimited

SQL = statements("callsheet.identity")


class Attempts:
    """Buckets are keyed hashes: the table must not become a list of who tried to sign in from where."""

    def __init__(self, databases: Databases, settings: IdentitySettings, secret: Master):
        self._databases = databases
        self._settings = settings
        self._window_seconds = settings.login_window_seconds
        # After a rotation of the secret all counts start anew.
        self._key = SigningKeys(secret, "login attempts").first

    def bucket(self, kind: str, value: str) -> bytes:
        return hmac.digest(self._key, f"{kind}:{value}".encode("utf-8", "surrogatepass"), hashlib.sha256)

    def address(self, address: str, kind: str = "address") -> bytes:
        return self.bucket(kind, _neighbourhood(address))

    async def count(self, limits: Mapping[bytes, int]) -> None:
        """One more attempt in each bucket; refused where that is more than its limit."""
        async with self._databases.central.transaction() as connection:
            rows = await SQL["count_attempts"].rows(
                connection, buckets=list(limits), window_seconds=self._window_seconds
            )
        waits = [row["seconds_left"] for row in rows if row["attempts"] > limits[row["bucket"]]]
        if waits:
            raise RateLimited(max(1, *waits))

    async def count_login(self, email: str, address: str) -> list[bytes]:
        """One more attempt to know a user's password, wherever it is asked for; answers what to forgive on success."""
        limits = {
            self.bucket("account", email): self._settings.login_attempts,
            self.address(address): self._settings.login_attempts_per_address,
        }
        await self.count(limits)
        return list(limits)

    async def forgive(self, connection: Connection, buckets: Sequence[bytes]) -> None:
        await SQL["forgive_attempts"].run(connection, buckets=list(buckets), window_seconds=self._window_seconds)


def _neighbourhood(address: str) -> str:
    """A subscriber of IPv6 has a /64 at least: counted one by one, its addresses would never run out."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    return str(IPv6Network((parsed, 64), strict=False)) if isinstance(parsed, IPv6Address) else address
