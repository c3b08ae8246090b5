"""What is done to accounts that exist: roles, disabling, keys, and tenants that are switched off."""

from __future__ import annotations

from uuid import UUID

from callsheet.identity.audit import record
from callsheet.identity.credentials import end_all, end_sessions, end_sessions_of_tenant
from callsheet.identity.keys import Keys
from callsheet.identity.managers import Manager
from callsheet.identity.permissions import GRANTED, Scope
from callsheet.plumbing.databases import Databases
from callsheet.plumbing.sql import Connection, Row, statements
from callsheet.wire.base import Page
from callsheet.wire.errors import NotFound, WrongState
from callsheet.wire.identity import CreatedKey, CreateKeyRequest, Key, Role, Tenant, User

SQL = statements("callsheet.identity", "management_statements.sql")
NO_USER = "There is no such user."
LAST_OPERATOR = "No operator could sign in any more. Make another user an operator first."


class UserManagement:
    def __init__(self, databases: Databases, keys: Keys):
        self._databases = databases
        self._keys = keys

    async def get(self, user_id: UUID, only: UUID | None = None) -> User:
        """Also of a user who was deleted; with `only` of this tenant."""
        async with self._databases.central.ordinary() as connection:
            row = await SQL["get_user"].row(connection, user_id=user_id)
        if row is None or only not in (None, row["tenant_id"]):
            raise NotFound(NO_USER)
        return user_view(row)

    async def change_role(self, manager: Manager, user_id: UUID, role: Role) -> User:
        manager.check_not_self(user_id)
        manager.check_role(role)
        async with self._databases.central.transaction() as connection:
            operators = await self._lock_operators(connection)
            row = await held_user(connection, manager, user_id)
            if row["role"] == role.value:
                return user_view(row)
            if role is not Role.OPERATOR:
                _keep_an_operator(operators, user_id=user_id)
            await SQL["change_role"].run(connection, user_id=user_id, role=role.value)
            if Scope.EVERY_TENANT in GRANTED[role].values():
                # A tenant admin may have made these keys, and must not get the keys of an operator.
                await end_all(connection, user_id)
            await _record_user(connection, manager, "user.role", row, role=role, was=row["role"])
        return user_view({**row, "role": role.value})

    async def disable(self, manager: Manager, user_id: UUID) -> User:
        """Keys and sessions are refused at once and open streams end; jobs under way go on and are settled."""
        manager.check_not_self(user_id)
        async with self._databases.central.transaction() as connection:
            operators = await self._lock_operators(connection)
            row = await held_user(connection, manager, user_id)
            if row["disabled_at"] is not None:
                return user_view(row)
            _keep_an_operator(operators, user_id=user_id)
            disabled_at = await SQL["disable_user"].value(connection, user_id=user_id)
            await end_sessions(connection, user_id)
            await _record_user(connection, manager, "user.disable", row)
        return user_view({**row, "disabled_at": disabled_at})

    async def enable(self, manager: Manager, user_id: UUID) -> User:
        """Keys work again; the browser has to sign in again."""
        manager.check_not_self(user_id)
        async with self._databases.central.transaction() as connection:
            row = await held_user(connection, manager, user_id)
            if row["disabled_at"] is None:
                return user_view(row)
            await SQL["enable_user"].run(connection, user_id=user_id)
            await _record_user(connection, manager, "user.enable", row)
        return user_view({**row, "disabled_at": None})

    async def anonymise(self, manager: Manager, user_id: UUID) -> User:
        """The row stays for jobs and the ledger; what it says of a person, and every way in, is gone."""
        async with self._databases.central.transaction() as connection:
            operators = await self._lock_operators(connection)
            row = await held_user(connection, manager, user_id)
            _keep_an_operator(operators, user_id=user_id)
            await end_all(connection, user_id)
            await SQL["delete_keys_of_user"].run(connection, user_id=user_id)
            await SQL["delete_mails_of_user"].run(connection, email=row["email"])
            await SQL["delete_invitation_of_user"].run(connection, user_id=user_id)
            await SQL["anonymise_audit_log"].run(connection, user_id=str(user_id))
            deleted = await SQL["anonymise_user"].row(connection, user_id=user_id)
            assert deleted is not None, "it is locked"
            await _record_user(connection, manager, "user.delete", row)
        return user_view({**row, **deleted})

    async def create_key(self, manager: Manager, user_id: UUID, request: CreateKeyRequest) -> CreatedKey:
        async with self._databases.central.transaction() as connection:
            await held_user(connection, manager, user_id)
            return await self._keys.create_in(connection, user_id, request, manager.actor)

    async def list_keys(self, user_id: UUID, before: UUID | None, limit: int, only: UUID | None = None) -> Page[Key]:
        await self.get(user_id, only)
        return await self._keys.list(user_id, before, limit)

    async def revoke_key(self, manager: Manager, user_id: UUID, key_id: UUID) -> Key:
        async with self._databases.central.transaction() as connection:
            await held_user(connection, manager, user_id)
            return await self._keys.revoke_in(connection, user_id, key_id, manager.actor)

    async def disable_tenant(self, manager: Manager, tenant_id: UUID) -> Tenant:
        """Refuses all its users at once; jobs that were accepted, queued ones too, run and are settled."""
        async with self._databases.central.transaction() as connection:
            operators = await self._lock_operators(connection)
            row = await self._held_tenant(connection, tenant_id)
            disabled_at = row["disabled_at"]
            if disabled_at is None:
                _keep_an_operator(operators, tenant_id=tenant_id)
                disabled_at = await SQL["disable_tenant"].value(connection, tenant_id=tenant_id)
                await end_sessions_of_tenant(connection, tenant_id)
                await record(connection, manager.actor, "tenant.disable", "tenant", tenant_id, tenant_id)
        return Tenant(**{**row, "disabled_at": disabled_at})

    async def enable_tenant(self, manager: Manager, tenant_id: UUID) -> Tenant:
        async with self._databases.central.transaction() as connection:
            row = await self._held_tenant(connection, tenant_id)
            if row["disabled_at"] is not None:
                await SQL["enable_tenant"].run(connection, tenant_id=tenant_id)
                await record(connection, manager.actor, "tenant.enable", "tenant", tenant_id, tenant_id)
        return Tenant(**{**row, "disabled_at": None})

    async def _lock_operators(self, connection: Connection) -> dict[UUID, UUID]:
        """Operators who can sign in, with their tenants. Locked before anything else, so that of two changes that would
        each leave one operator, the second sees what the first has left."""
        rows = await SQL["lock_operators"].rows(connection)
        return {row["id"]: row["tenant_id"] for row in rows}

    async def _held_tenant(self, connection: Connection, tenant_id: UUID) -> Row:
        row = await SQL["lock_tenant"].row(connection, tenant_id=tenant_id)
        if row is None:
            raise NotFound("There is no such tenant.")
        return row


async def held_user(connection: Connection, manager: Manager, user_id: UUID) -> Row:
    """The user's row, locked, if the manager may change it."""
    row = await SQL["lock_user"].row(connection, user_id=user_id)
    if row is None or not manager.reaches(row["tenant_id"]):
        raise NotFound(NO_USER)
    manager.check_role(Role(row["role"]))
    return row


def user_view(row: Row) -> User:
    return User.model_validate({name: row[name] for name in User.model_fields})


def _keep_an_operator(
    operators: dict[UUID, UUID], *, user_id: UUID | None = None, tenant_id: UUID | None = None
) -> None:
    """Refuses to shut out the last operator: one user, or all users of a tenant."""
    left = {user for user, tenant in operators.items() if user != user_id and tenant != tenant_id}
    if operators and not left:
        raise WrongState(LAST_OPERATOR)


async def _record_user(connection: Connection, manager: Manager, action: str, row: Row, **details: object) -> None:
    await record(connection, manager.actor, action, "user", row["id"], row["tenant_id"], **details)
