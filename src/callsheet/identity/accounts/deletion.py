"""Deletes a user in steps that can be repeated: disable, cancel or wait for active work, anonymise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from callsheet.identity.access.principal import Owner
from callsheet.identity.accounts.management import UserManagement, lock_user
from callsheet.identity.accounts.managers import Manager
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.wire.errors import InUse
from callsheet.wire.identity import User
from callsheet.wire.plurals import counted

REASON = "The user was deleted."


@dataclass(frozen=True, slots=True)
class Active:
    jobs: int
    runs: int

    def __str__(self) -> str:
        return f"{counted(self.jobs, 'job')} and {counted(self.runs, 'run')}"

    def __bool__(self) -> bool:
        return bool(self.jobs or self.runs)


class UserWork(Protocol):
    """Active jobs and runs of a user. A higher room implements it."""

    async def active(self, owner: Owner) -> Active: ...
    async def cancel(self, owner: Owner, actor: str, reason: str) -> None: ...


@dataclass(frozen=True, slots=True)
class _Owner:
    user_id: UUID
    tenant_id: UUID
    pool: str


class UserDeletion:
    def __init__(self, databases: Databases, management: UserManagement, work: UserWork):
        self._databases = databases
        self._management = management
        self._work = work

    async def delete(self, manager: Manager, user_id: UUID, *, cancel_jobs: bool) -> User:
        """Deletes a user. Refused while jobs or runs are active, unless `cancel_jobs` is set. Jobs and ledger keep
        the user's id.
        """
        owner = await self._owner(manager, user_id)
        active = await self._work.active(owner)
        if active and not cancel_jobs:
            raise InUse(
                f"The user has {active} active. Wait until they end, or cancel them: send cancel_jobs=true, or on "
                "the command line use --cancel-jobs."
            )
        # The user is disabled first, so that the user submits nothing while active work is canceled.
        await self._management.disable(manager, user_id)
        await hit(Failpoint.DELETE_USER_BEFORE_CANCEL)
        if active:
            await self._work.cancel(owner, manager.actor, REASON)
        if left := await self._work.active(owner):
            raise InUse(f"The user is disabled, but still has {left} active. Try again in a few seconds.")
        await hit(Failpoint.DELETE_USER_BEFORE_ROW)
        return await self._management.anonymise(manager, user_id)

    async def _owner(self, manager: Manager, user_id: UUID) -> _Owner:
        manager.check_not_self(user_id)
        async with self._databases.central.transaction() as connection:
            user = await lock_user(connection, manager, user_id)
        return _Owner(user.id, user.tenant_id, user.pool)
