"""Records logins and failed logins in the audit log, with limits, so that no client can fill the table.

Anyone who reaches the server can cause a failed login, so lines are limited like attempts: per account, and in total.
Failures at unknown accounts have their own limit; otherwise they could hide the others. Neither the password nor the
entered name is stored, because the name may be a password in the wrong field.
"""

from __future__ import annotations

from uuid import UUID

from callsheet.identity.access.attempts import Attempts
from callsheet.identity.audit_log import ANONYMOUS, record, user_actor
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import Connection

LOGIN, FAILED, UNLISTED = "user.login", "user.login_failed", "user.logins_unlisted"
# Used instead of a user's id.
UNKNOWN, ALL = "unknown", "all"
WINDOW_SECONDS = 3600
# Maximum number of lines per window: logins of one account, failures of one account, all failures, and failures at
# unknown accounts.
LOGINS = 60
FAILURES = 20
ALL_FAILURES = 200
UNKNOWN_FAILURES = 50
# Details of the line that is written once per window if there were more failures.
OF_A_WINDOW = {"window_seconds": WINDOW_SECONDS}
# A proxy may write any text as a network address.
MAX_ADDRESS_LENGTH = 64


class LoginAudit:
    def __init__(self, databases: Databases, attempts: Attempts):
        self._databases = databases
        self._attempts = attempts

    async def succeeded(self, connection: Connection, user_id: UUID, tenant_id: UUID, address: str) -> None:
        """Records a login, in the transaction that creates the session."""
        if await self._count(connection, "logins listed", str(user_id)) <= LOGINS:
            details = {"address": address[:MAX_ADDRESS_LENGTH]}
            await record(connection, user_actor(user_id), LOGIN, "user", user_id, tenant_id, **details)

    async def failed(self, user: tuple[UUID, UUID] | None, address: str, where: str = "login") -> None:
        """Records a failed login of this user and tenant, or of an unknown account (None). `where`: where the
        password was entered.
        """
        user_id, tenant_id = user or (UNKNOWN, None)
        limit, maximum = (FAILURES, ALL_FAILURES) if user else (UNKNOWN_FAILURES, UNKNOWN_FAILURES + 1)
        async with self._databases.central.transaction() as connection:
            own = await self._count(connection, "failures of account listed", str(user_id))
            if own > limit + 1:
                return
            # Only failures that would be listed are counted: attacks on one account must not hide the others.
            total = await self._count(connection, "failures listed", ALL if user else UNKNOWN)
            if total > maximum + 1:
                return
            if total > maximum:
                await record(connection, ANONYMOUS, UNLISTED, "user", ALL, None, **OF_A_WINDOW)
            elif own > limit:
                await record(connection, ANONYMOUS, UNLISTED, "user", user_id, tenant_id, **OF_A_WINDOW)
            else:
                details = {"address": address[:MAX_ADDRESS_LENGTH], "where": where}
                await record(connection, ANONYMOUS, FAILED, "user", user_id, tenant_id, **details)

    async def _count(self, connection: Connection, kind: str, value: str) -> int:
        return await self._attempts.count_once(connection, self._attempts.bucket(kind, value), WINDOW_SECONDS)
