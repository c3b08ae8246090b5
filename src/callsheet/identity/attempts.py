"""Counting attempts to guess a secret, in windows of time that all control planes share."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from callsheet.plumbing.client_address import neighbourhood
from callsheet.plumbing.databases import Databases
from callsheet.plumbing.sql import Connection, statements
from callsheet.settings import IdentitySettings
from callsheet.toolbox.signing import Master, SigningKeys
from callsheet.wire.errors import RateLimited

SQL = statements("callsheet.identity")
# What any client gets for free from a tunnel of IPv6: 65,536 times what one subscriber has.
SITE_BITS = 48


class BucketRow(NamedTuple):
    bucket: bytes
    attempts: int
    # Time until the window of the bucket ends.
    seconds_left: int


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
        return self.bucket(kind, neighbourhood(address))

    async def count(self, limits: Mapping[bytes, int]) -> None:
        """One more attempt in each bucket; refused where that is more than its limit."""
        rows = await self._count(list(limits))
        waits = [row.seconds_left for row in rows if row.attempts > limits[row.bucket]]
        if waits:
            raise RateLimited(max(1, *waits))

    async def count_login(self, email: str, address: str) -> list[bytes]:
        """One more attempt to know a user's password, wherever it is asked for; returns what to forgive on success.

        An account has no limit that refuses every client, or any stranger could lock its owner out. Attempts are
        limited per account and network address. What passes is counted for the account as a whole; an account that is
        guessed at from many network addresses leaves each network one attempt per window, the owner's too.

        One after the other, each in a transaction of its own: what is refused for its network address makes no row for
        the account it names, or one network address could fill the table with names.
        """
        settings = self._settings
        here = self.address(address)
        await self.count({here: settings.login_attempts_per_address})
        at_account = self.bucket("account-and-address", f"{neighbourhood(address)} {email}")
        await self.count({at_account: settings.login_attempts})
        everywhere = self.bucket("account", email)
        (total,) = await self._count([everywhere])
        if total.attempts <= settings.login_attempts_per_account:
            return [here, at_account, everywhere]
        slowed = self.bucket("account and network", f"{neighbourhood(address, SITE_BITS)} {email}")
        await self.count({slowed: 1})
        return [here, at_account, everywhere, slowed]

    async def count_once(self, connection: Connection, bucket: bytes, window_seconds: int) -> int:
        """One more in a bucket, in windows of another length; returns how many that makes."""
        [row] = await SQL["count_attempts"].rows(connection, BucketRow, buckets=[bucket], window_seconds=window_seconds)
        return row.attempts

    async def _count(self, buckets: Sequence[bytes]) -> Sequence[BucketRow]:
        async with self._databases.central.transaction() as connection:
            return await SQL["count_attempts"].rows(
                connection, BucketRow, buckets=list(buckets), window_seconds=self._window_seconds
            )

    async def forgive(self, connection: Connection, buckets: Sequence[bytes]) -> None:
        await SQL["forgive_attempts"].run(connection, buckets=list(buckets), window_seconds=self._window_seconds)
