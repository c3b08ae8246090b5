"""Counts attempts to guess a secret, in time windows that all control planes share."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import Connection, statements
from callsheet.plumbing.http.client_address import neighbourhood
from callsheet.settings import IdentitySettings
from callsheet.toolbox.signing import Master, SigningKeys
from callsheet.wire.errors import RateLimited, RatePolicy

SQL = statements("callsheet.identity.access")
# Any client can get a network of this prefix length for free from an IPv6 tunnel: 65,536 times the network of one
# subscriber.
SITE_BITS = 48
# A client sees one limit of logins, whichever of the three it reached.
LOGINS = "logins"


class BucketRow(NamedTuple):
    bucket: bytes
    attempts: int
    # Time until the window of the bucket ends.
    seconds_left: int


class Attempts:
    """Counts attempts in buckets. Bucket names are keyed hashes, so that the table is not a list of users and their
    network addresses.
    """

    def __init__(self, databases: Databases, settings: IdentitySettings, secret: Master):
        self._databases = databases
        self._settings = settings
        self._window_seconds = settings.login_window_seconds
        # After a rotation of the secret, all counts start again.
        self._key = SigningKeys(secret, "login attempts").first

    def bucket(self, kind: str, value: str) -> bytes:
        return hmac.digest(self._key, f"{kind}:{value}".encode("utf-8", "surrogatepass"), hashlib.sha256)

    def address(self, address: str, kind: str = "address") -> bytes:
        return self.bucket(kind, neighbourhood(address))

    async def count(self, name: str, limits: Mapping[bytes, int]) -> None:
        """Counts one more attempt in each bucket. Raises RateLimited if a bucket exceeds its limit."""
        rows = await self._count(list(limits))
        exceeded = [(row.seconds_left, limits[row.bucket]) for row in rows if row.attempts > limits[row.bucket]]
        if exceeded:
            seconds, quota = max(exceeded)
            raise RateLimited(max(1, seconds), RatePolicy(name, quota, self._window_seconds))

    async def count_login(self, email: str, address: str) -> list[bytes]:
        """Counts one more attempt to enter a user's password, on any route. Returns the buckets to forgive on success.

        No limit of an account refuses every client, because any stranger could then lock its owner out. Attempts are
        limited per account and network address. Attempts within that limit are also counted for the account as a whole.
        If an account is attacked from many network addresses, each network has one attempt per window, including the
        network of the owner.

        The counts run one after the other, each in its own transaction. If the network address is refused, there is no
        row for the account. Otherwise one network address could fill the table with names.
        """
        settings = self._settings
        here = self.address(address)
        await self.count(LOGINS, {here: settings.login_attempts_per_address})
        at_account = self.bucket("account-and-address", f"{neighbourhood(address)} {email}")
        await self.count(LOGINS, {at_account: settings.login_attempts})
        everywhere = self.bucket("account", email)
        (total,) = await self._count([everywhere])
        if total.attempts <= settings.login_attempts_per_account:
            return [here, at_account, everywhere]
        slowed = self.bucket("account and network", f"{neighbourhood(address, SITE_BITS)} {email}")
        await self.count(LOGINS, {slowed: 1})
        return [here, at_account, everywhere, slowed]

    async def count_once(self, connection: Connection, bucket: bytes, window_seconds: int) -> int:
        """Counts one more event in a bucket, in windows of another length. Returns the new count."""
        [row] = await SQL["count_attempts"].rows(connection, BucketRow, buckets=[bucket], window_seconds=window_seconds)
        return row.attempts

    async def _count(self, buckets: Sequence[bytes]) -> Sequence[BucketRow]:
        async with self._databases.central.transaction() as connection:
            return await SQL["count_attempts"].rows(
                connection, BucketRow, buckets=list(buckets), window_seconds=self._window_seconds
            )

    async def forgive(self, connection: Connection, buckets: Sequence[bytes]) -> None:
        await SQL["forgive_attempts"].run(connection, buckets=list(buckets), window_seconds=self._window_seconds)
