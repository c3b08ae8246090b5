"""Hashes and checks passwords with argon2id, in a few threads of its own, outside the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from callsheet.identity.access.principal import LoginRow
from callsheet.plumbing.database.sql import Connection, statements

SQL = statements("callsheet.identity.access")

# OWASP's second recommendation: 19 MiB and two passes. Checks in the default pool, which has up to 32 threads, would
# take 600 MB at the same time.
MEMORY_KIB = 19_456
PASSES = 2
THREADS = 4
# Checked instead of an unknown user's hash, so that both responses take the same time. The result is ignored.
UNKNOWN_USER_HASH = "$argon2id$v=19$m=19456,t=2,p=1$OL9LQB1aKI3iXxEZTceduQ$UxX4wTmbqQtSoEk5ueORPs0bergxYLKOg1BMG2sUeLQ"
Result = TypeVar("Result")


class Passwords:
    def __init__(self) -> None:
        self._hasher = PasswordHasher(time_cost=PASSES, memory_cost=MEMORY_KIB, parallelism=1)
        self._threads = ThreadPoolExecutor(THREADS, "passwords")

    async def hash(self, password: str) -> str:
        return await self._run(lambda: self._hasher.hash(_encoded(password)))

    async def matches(self, password_hash: str | None, password: str) -> bool:
        """Whether the password matches. Takes the same time with and without a hash."""
        matched = await self._run(lambda: self._verify(password_hash or UNKNOWN_USER_HASH, password))
        return matched and password_hash is not None

    def needs_rehash(self, password_hash: str) -> bool:
        return self._hasher.check_needs_rehash(password_hash)

    async def _run(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def _verify(self, password_hash: str, password: str) -> bool:
        try:
            return self._hasher.verify(password_hash, _encoded(password))
        except (VerificationError, InvalidHashError):
            return False


async def password_fits(connection: Connection, email: str, password: str) -> bool:
    """Whether a user who can sign in has this password. This is for processes with access to the database, so it
    does not count as an attempt.
    """
    login = await SQL["find_login"].row(connection, LoginRow, email=email)
    return login is not None and await Passwords().matches(login.password_hash, password)


def _encoded(password: str) -> bytes:
    return password.encode("utf-8", "surrogatepass")
