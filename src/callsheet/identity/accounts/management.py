"""Changes existing accounts: roles, disabling and deletion of users, keys of users, disabling of tenants."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from callsheet.identity.access.credentials import announce, end_all, end_sessions, end_sessions_of_tenant
from callsheet.identity.access.keys import Keys
from callsheet.identity.access.permissions import GRANTED, Scope
from callsheet.identity.accounts.managers import Manager
from callsheet.identity.audit_log import record
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import Connection, statements
from callsheet.wire.base import Page
from callsheet.wire.errors import NotFound, WrongState
from callsheet.wire.identity import CreatedKey, CreateKeyRequest, Key, Role, Session, Tenant, User

MANAGEMENT_SQL = statements("callsheet.identity.accounts", "management_statements.sql")
ACCESS_SQL = statements("callsheet.identity.access")
KEPT_SQL = statements("callsheet.identity.access", "kept_response_statements.sql")
NO_USER = "There is no such user."
LAST_OPERATOR = "After this change, no operator could sign in. Make another user an operator first."


class ManagedUser(NamedTuple):
    id: UUID
    tenant_id: UUID
    tenant: str
    pool: str
    email: str
    name: str
    role: str
    external_id: str | None
    created_at: datetime
    disabled_at: datetime | None
    deleted_at: datetime | None


class AnonymousUser(NamedTuple):
    """The columns that the deletion of a user changes."""

    email: str
    name: str
    role: str
    external_id: str | None
    disabled_at: datetime
    deleted_at: datetime


class OperatorRow(NamedTuple):
    id: UUID
    tenant_id: UUID


class UserManagement:
    def __init__(self, databases: Databases, keys: Keys):
        self._databases = databases
        self._keys = keys

    async def get(self, user_id: UUID, only: UUID | None = None) -> User:
        """Returns a user, also a deleted one. `only`: the user must belong to this tenant."""
        async with self._databases.central.ordinary() as connection:
            row = await MANAGEMENT_SQL["get_user"].row(connection, ManagedUser, user_id=user_id)
        if row is None or only not in (None, row.tenant_id):
            raise NotFound(NO_USER)
        return user_view(row)

    async def change_role(self, manager: Manager, user_id: UUID, role: Role) -> User:
        manager.check_not_self(user_id)
        manager.check_role(role)
        async with self._databases.central.transaction() as connection:
            operators = await self._lock_operators(connection)
            row = await lock_user(connection, manager, user_id)
            if row.role == role.value:
                return user_view(row)
            if role is not Role.OPERATOR:
                _keep_an_operator(operators, user_id=user_id)
            await MANAGEMENT_SQL["change_role"].run(connection, user_id=user_id, role=role.value)
            if Scope.EVERY_TENANT in GRANTED[role].values():
                # A tenant admin may have created these keys, and must not have the keys of an operator.
                await end_all(connection, user_id)
            await _record_user(connection, manager, "user.role", row, role=role, was=row.role)
        return user_view(row._replace(role=role.value))

    async def disable(self, manager: Manager, user_id: UUID) -> User:
        """Disables a user: refuses keys and sessions at once and ends open streams. Active jobs continue and are
        settled.
        """
        manager.check_not_self(user_id)
        async with self._databases.central.transaction() as connection:
            operators = await self._lock_operators(connection)
            row = await lock_user(connection, manager, user_id)
            if row.disabled_at is not None:
                return user_view(row)
            _keep_an_operator(operators, user_id=user_id)
            disabled_at = await MANAGEMENT_SQL["disable_user"].value(connection, user_id=user_id)
            await end_sessions(connection, user_id)
            await _record_user(connection, manager, "user.disable", row)
        return user_view(row._replace(disabled_at=disabled_at))

    async def enable(self, manager: Manager, user_id: UUID) -> User:
        """Enables a user: the keys work again. Browser sessions have ended, so the user signs in again."""
        manager.check_not_self(user_id)
        async with self._databases.central.transaction() as connection:
            row = await lock_user(connection, manager, user_id)
            if row.disabled_at is None:
                return user_view(row)
            await MANAGEMENT_SQL["enable_user"].run(connection, user_id=user_id)
            await _record_user(connection, manager, "user.enable", row)
        return user_view(row._replace(disabled_at=None))

    async def anonymise(self, manager: Manager, user_id: UUID) -> User:
        """Deletes personal data, keys, sessions and links of a user. The row stays for jobs and the ledger."""
        async with self._databases.central.transaction() as connection:
            operators = await self._lock_operators(connection)
            row = await lock_user(connection, manager, user_id)
            _keep_an_operator(operators, user_id=user_id)
            await end_all(connection, user_id)
            await KEPT_SQL["delete_kept_responses_of_user"].run(connection, caller_id=user_id)
            await MANAGEMENT_SQL["delete_keys_of_user"].run(connection, user_id=user_id)
            await MANAGEMENT_SQL["delete_mails_of_user"].run(connection, email=row.email)
            await MANAGEMENT_SQL["delete_invitation_of_user"].run(connection, user_id=user_id)
            await MANAGEMENT_SQL["anonymise_audit_log"].run(connection, user_id=str(user_id))
            deleted = await MANAGEMENT_SQL["anonymise_user"].row(connection, AnonymousUser, user_id=user_id)
            assert deleted is not None, "the user is locked"
            await _record_user(connection, manager, "user.delete", row)
        return user_view(row._replace(**deleted._asdict()))

    async def create_key(self, manager: Manager, user_id: UUID, request: CreateKeyRequest) -> CreatedKey:
        async with self._databases.central.transaction() as connection:
            await lock_user(connection, manager, user_id)
            return await self._keys.create_in(connection, user_id, request, manager.actor)

    async def list_keys(self, user_id: UUID, before: UUID | None, limit: int, only: UUID | None = None) -> Page[Key]:
        await self.get(user_id, only)
        return await self._keys.list(user_id, before, limit)

    async def revoke_key(self, manager: Manager, user_id: UUID, key_id: UUID) -> Key:
        async with self._databases.central.transaction() as connection:
            await lock_user(connection, manager, user_id)
            return await self._keys.revoke_in(connection, user_id, key_id, manager.actor)

    async def list_sessions(self, user_id: UUID, only: UUID | None = None) -> list[Session]:
        await self.get(user_id, only)
        async with self._databases.central.ordinary() as connection:
            return await ACCESS_SQL["list_sessions"].rows(connection, Session, user_id=user_id, current=None)

    async def end_sessions(self, manager: Manager, user_id: UUID) -> int:
        """Signs the user out everywhere. Returns the number of ended sessions. Keys stay."""
        async with self._databases.central.transaction() as connection:
            row = await lock_user(connection, manager, user_id)
            ended = await end_sessions(connection, user_id)
            if ended:
                await _record_user(connection, manager, "user.end_sessions", row, sessions=ended)
        return ended

    async def end_session(self, manager: Manager, user_id: UUID, session_id: UUID) -> None:
        async with self._databases.central.transaction() as connection:
            row = await lock_user(connection, manager, user_id)
            if await ACCESS_SQL["delete_session_by_id"].value(connection, id=session_id, user_id=user_id) is None:
                raise NotFound("There is no such session.")
            await announce(connection, user_id)
            await _record_user(connection, manager, "user.end_sessions", row, sessions=1)

    async def disable_tenant(self, manager: Manager, tenant_id: UUID) -> Tenant:
        """Disables a tenant: all its users are refused at once. Accepted jobs, including queued ones, run and are
        settled.
        """
        async with self._databases.central.transaction() as connection:
            operators = await self._lock_operators(connection)
            tenant = await self._lock_tenant(connection, tenant_id)
            disabled_at = tenant.disabled_at
            if disabled_at is None:
                _keep_an_operator(operators, tenant_id=tenant_id)
                disabled_at = await MANAGEMENT_SQL["disable_tenant"].value(connection, tenant_id=tenant_id)
                await end_sessions_of_tenant(connection, tenant_id)
                await record(connection, manager.actor, "tenant.disable", "tenant", tenant_id, tenant_id)
        return tenant.model_copy(update={"disabled_at": disabled_at})

    async def enable_tenant(self, manager: Manager, tenant_id: UUID) -> Tenant:
        async with self._databases.central.transaction() as connection:
            tenant = await self._lock_tenant(connection, tenant_id)
            if tenant.disabled_at is not None:
                await MANAGEMENT_SQL["enable_tenant"].run(connection, tenant_id=tenant_id)
                await record(connection, manager.actor, "tenant.enable", "tenant", tenant_id, tenant_id)
        return tenant.model_copy(update={"disabled_at": None})

    async def _lock_operators(self, connection: Connection) -> dict[UUID, UUID]:
        """Locks the operators who can sign in; returns them with their tenants. This lock comes first: if two parallel
        changes would each leave one operator, the second one sees the result of the first."""
        return dict(await MANAGEMENT_SQL["lock_operators"].rows(connection, OperatorRow))

    async def _lock_tenant(self, connection: Connection, tenant_id: UUID) -> Tenant:
        tenant = await MANAGEMENT_SQL["lock_tenant"].row(connection, Tenant, tenant_id=tenant_id)
        if tenant is None:
            raise NotFound("There is no such tenant.")
        return tenant


async def lock_user(connection: Connection, manager: Manager, user_id: UUID) -> ManagedUser:
    """Locks a user that the manager may change, until the end of the transaction."""
    row = await MANAGEMENT_SQL["lock_user"].row(connection, ManagedUser, user_id=user_id)
    if row is None or not manager.reaches(row.tenant_id):
        raise NotFound(NO_USER)
    manager.check_role(Role(row.role))
    return row


def user_view(row: ManagedUser) -> User:
    return User(
        id=row.id,
        tenant_id=row.tenant_id,
        tenant=row.tenant,
        email=row.email,
        name=row.name,
        role=Role(row.role),
        external_id=row.external_id,
        created_at=row.created_at,
        disabled_at=row.disabled_at,
        deleted_at=row.deleted_at,
    )


def _keep_an_operator(
    operators: dict[UUID, UUID], *, user_id: UUID | None = None, tenant_id: UUID | None = None
) -> None:
    """Refuses a change that would lock out the last operator. `user_id`, `tenant_id`: the user, or the tenant, that
    would lose access.
    """
    left = {user for user, tenant in operators.items() if user != user_id and tenant != tenant_id}
    if operators and not left:
        raise WrongState(LAST_OPERATOR)


async def _record_user(
    connection: Connection, manager: Manager, action: str, user: ManagedUser, **details: object
) -> None:
    await record(connection, manager.actor, action, "user", user.id, user.tenant_id, **details)
