"""Passwords: argon2id, off the event loop, and never more than a few at once."""

from __future__ import annotations

import asyncio

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

# OWASP's second recommendation: 19 MiB and two passes. Each running check holds that memory, hence the gate below.
MEMORY_KIB = 19_456
PASSES = 2
AT_ONCE = 4


class Passwords:
    def __init__(self) -> None:
        self._hasher = PasswordHasher(time_cost=PASSES, memory_cost=MEMORY_KIB, parallelism=1)
        self._gate = asyncio.Semaphore(AT_ONCE)
        # Checked in place of an unknown user's hash, so that both answers cost the same.
        self._nobody = self._hasher.hash("nobody has this password")

    async def hash(self, password: str) -> str:
        async with self._gate:
            return await asyncio.to_thread(self._hasher.hash, _encoded(password))

    async def matches(self, password_hash: str | None, password: str) -> bool:
        """Takes the same time whether there is a hash or not."""
        async with self._gate:
            matched = await asyncio.to_thread(self._verify, password_hash or self._nobody, password)
        return matched and password_hash is not None

    def needs_rehash(self, password_hash: str) -> bool:
        return self._hasher.check_needs_rehash(password_hash)

    def _verify(self, password_hash: str, password: str) -> bool:
        try:
            return self._hasher.verify(password_hash, _encoded(password))
        except (VerificationError, InvalidHashError):
            return False


def _encoded(password: str) -> bytes:
    return password.encode("utf-8", "surrogatepass")
