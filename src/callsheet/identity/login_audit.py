"""Logins in the audit log, failed ones too, and few enough lines that no user can fill the table with them.

A failed login is written by anyone who reaches the server, so lines are counted like attempts: per account, and in all.
Failures at accounts that do not exist have a count of their own, or they could hide the others. Neither the password
nor the name that was typed is kept: it may be a password in the wrong field.
"""

from __future__ import annotations

from uuid import UUID

from callsheet.identity.attempts import Attempts
from callsheet.identity.audit import ANONYMOUS, record, user_actor
from callsheet.plumbing.databases import Databases
from callsheet.plumbing.sql import Connection

LOGIN, FAILED, UNLISTED = "user.login", "user.login_failed", "user.logins_unlisted"
# In place of a user's id.
UNKNOWN, ALL = "unknown", "all"
WINDOW_SECONDS = 3600
# Lines per window: of one account's logins, of its failures, of all failures, and of those at no account.
LOGINS = 60
FAILURES = 20
ALL_FAILURES = 200
UNKNOWN_FAILURES = 50
# Details of the line that says, once per window, that there were more failures.
OF_A_WINDOW = {"window_seconds": WINDOW_SECONDS}
# What a proxy wrote as a network address may be anything.
LONGEST_ADDRESS = 64


class LoginAudit:
    def __init__(self, databases: Databases, attempts: Attempts):
        self._databases = databases
        self._attempts = attempts

    async def succeeded(self, connection: Connection, user_id: UUID, tenant_id: UUID, address: str) -> None:
        """Records a login, in the transaction that creates the session."""
        if await self._count(connection, "logins listed", str(user_id)) <= LOGINS:
            details = {"address": address[:LONGEST_ADDRESS]}
            await record(connection, user_actor(user_id), LOGIN, "user", user_id, tenant_id, **details)

    async def failed(self, user: tuple[UUID, UUID] | None, address: str, where: str = "login") -> None:
        """At the account of this user and tenant, or at none; `where` the password was asked for."""
        user_id, tenant_id = user or (UNKNOWN, None)
        limit, most = (FAILURES, ALL_FAILURES) if user else (UNKNOWN_FAILURES, UNKNOWN_FAILURES + 1)
        async with self._databases.central.transaction() as connection:
            own = await self._count(connection, "failures of account listed", str(user_id))
            if own > limit + 1:
                return
            # Only of what would be a line: one account that is guessed at must not hide the others.
            total = await self._count(connection, "failures listed", ALL if user else UNKNOWN)
            if total > most + 1:
                return
            if total > most:
                await record(connection, ANONYMOUS, UNLISTED, "user", ALL, None, **OF_A_WINDOW)
            elif own > limit:
                await record(connection, ANONYMOUS, UNLISTED, "user", user_id, tenant_id, **OF_A_WINDOW)
            else:
                details = {"address": address[:LONGEST_ADDRESS], "where": where}
                await record(connection, ANONYMOUS, FAILED, "user", user_id, tenant_id, **details)

    async def _count(self, connection: Connection, kind: str, value: str) -> int:
        return await self._attempts.count_once(connection, self._attempts.bucket(kind, value), WINDOW_SECONDS)
