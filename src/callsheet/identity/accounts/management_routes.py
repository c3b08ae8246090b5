"""`/api/admin/users/{user_id}` and `/api/admin/tenants/{tenant_id}`: existing accounts and their keys."""

from __future__ import annotations

from uuid import UUID

from fastapi import Query

from callsheet.identity.access.authentication import Authentication
from callsheet.identity.access.permissions import Permission
from callsheet.identity.access.principal import Principal
from callsheet.identity.access.service_keys import ServiceKeys
from callsheet.identity.accounts.accounts import NO_TENANT, Accounts
from callsheet.identity.accounts.deletion import UserDeletion
from callsheet.identity.accounts.management import UserManagement
from callsheet.identity.accounts.managers import Manager
from callsheet.identity.audit_log import actor_of
from callsheet.plumbing.database.pages import CURSOR, LIMIT
from callsheet.plumbing.http.routing import Router
from callsheet.wire.base import Page
from callsheet.wire.identity import (
    ChangeRoleRequest,
    CreatedKey,
    CreateKeyRequest,
    EndedSessions,
    Key,
    Session,
    Tenant,
    User,
)
from callsheet.wire.tenant.service_keys import CreatedServiceKey, CreateServiceKey, ServiceKey


def user_management_router(
    management: UserManagement, deletion: UserDeletion, authentication: Authentication
) -> Router:
    see = authentication.may_in_tenant(Permission.SEE_USERS)
    manage = authentication.may_in_tenant(Permission.MANAGE_USERS)
    router = Router(prefix="/api/admin/users/{user_id}", tags=["admin"])

    @router.get("")
    async def get_user(user_id: UUID, principal: Principal = see) -> User:
        """A user, including deleted users."""
        return await management.get(user_id, principal.only_tenant(Permission.SEE_USERS))

    @router.put("/role")
    async def change_role(user_id: UUID, body: ChangeRoleRequest, principal: Principal = manage) -> User:
        """Changes the role of a user. A user who becomes an operator or a viewer loses all keys and sessions."""
        return await management.change_role(Manager.of(principal), user_id, body.role)

    @router.post("/disable")
    async def disable_user(user_id: UUID, principal: Principal = manage) -> User:
        """Blocks the user's keys and ends the sessions at once. Active jobs continue and are settled."""
        return await management.disable(Manager.of(principal), user_id)

    @router.post("/enable")
    async def enable_user(user_id: UUID, principal: Principal = manage) -> User:
        """Lets a disabled user sign in again. The user's keys work again."""
        return await management.enable(Manager.of(principal), user_id)

    @router.delete("")
    async def delete_user(
        user_id: UUID,
        cancel_jobs: bool = Query(
            False, description="Cancel the user's active jobs and runs instead of refusing the request."
        ),
        principal: Principal = manage,
    ) -> User:
        """Deletes a user permanently: keys and sessions are removed, e-mail address and name are anonymized. Jobs
        and the ledger keep the user's id. Refused while jobs or runs are active, unless `cancel_jobs` is true.
        """
        return await deletion.delete(Manager.of(principal), user_id, cancel_jobs=cancel_jobs)

    return router


def user_credential_router(management: UserManagement, authentication: Authentication) -> Router:
    """Keys and sessions of a user."""
    see = authentication.may_in_tenant(Permission.SEE_USERS)
    manage = authentication.may_in_tenant(Permission.MANAGE_USERS)
    router = Router(prefix="/api/admin/users/{user_id}", tags=["admin"])

    @router.get("/keys")
    async def list_keys_of_user(
        user_id: UUID, cursor: UUID | None = CURSOR, limit: int = LIMIT, principal: Principal = see
    ) -> Page[Key]:
        """A user's API keys, newest first."""
        return await management.list_keys(user_id, cursor, limit, principal.only_tenant(Permission.SEE_USERS))

    @router.post("/keys", status_code=201, once=True)
    async def create_key_of_user(user_id: UUID, body: CreateKeyRequest, principal: Principal = manage) -> CreatedKey:
        """Creates an API key that acts for a user. This response is the only place that shows the key. With an API key
        you cannot create one for yourself."""
        manager = Manager.of(principal)
        manager.check_not_self_by_key(user_id)
        return await management.create_key(manager, user_id, body)

    @router.delete("/keys/{key_id}")
    async def revoke_key_of_user(user_id: UUID, key_id: UUID, principal: Principal = manage) -> Key:
        """Revokes a user's API key at once and permanently."""
        return await management.revoke_key(Manager.of(principal), user_id, key_id)

    @router.get("/sessions")
    async def list_sessions_of_user(user_id: UUID, principal: Principal = see) -> list[Session]:
        """A user's browser sessions, newest first."""
        return await management.list_sessions(user_id, principal.only_tenant(Permission.SEE_USERS))

    @router.delete("/sessions")
    async def end_sessions_of_user(user_id: UUID, principal: Principal = manage) -> EndedSessions:
        """Signs a user out everywhere. Live streams end at once; API keys stay."""
        return EndedSessions(ended=await management.end_sessions(Manager.of(principal), user_id))

    @router.delete("/sessions/{session_id}", status_code=204)
    async def end_session_of_user(user_id: UUID, session_id: UUID, principal: Principal = manage) -> None:
        """Ends one session of a user. Its live streams end at once."""
        await management.end_session(Manager.of(principal), user_id, session_id)

    return router


def tenant_management_router(accounts: Accounts, management: UserManagement, authentication: Authentication) -> Router:
    see = authentication.may_in_tenant(Permission.SEE_TENANTS)
    manage = authentication.may(Permission.MANAGE_TENANTS)
    router = Router(prefix="/api/admin/tenants/{tenant_id}", tags=["admin"])

    @router.get("")
    async def get_tenant(tenant_id: UUID, principal: Principal = see) -> Tenant:
        """One tenant."""
        principal.reach(Permission.SEE_TENANTS, tenant_id, NO_TENANT)
        return await accounts.get_tenant(tenant_id)

    @router.post("/disable")
    async def disable_tenant(tenant_id: UUID, principal: Principal = manage) -> Tenant:
        """Blocks all users of a tenant at once. Its accepted jobs, including queued ones, still run and are settled."""
        return await management.disable_tenant(Manager.of(principal), tenant_id)

    @router.post("/enable")
    async def enable_tenant(tenant_id: UUID, principal: Principal = manage) -> Tenant:
        """Unblocks the users of a disabled tenant."""
        return await management.enable_tenant(Manager.of(principal), tenant_id)

    return router


def service_key_router(accounts: Accounts, keys: ServiceKeys, authentication: Authentication) -> Router:
    see = authentication.may_in_tenant(Permission.SEE_USERS)
    manage = authentication.may_in_tenant(Permission.MANAGE_USERS)
    router = Router(prefix="/api/admin/tenants/{tenant_id}/service-keys", tags=["admin"])

    @router.get("")
    async def list_service_keys(
        tenant_id: UUID, cursor: UUID | None = CURSOR, limit: int = LIMIT, principal: Principal = see
    ) -> Page[ServiceKey]:
        """The service keys of a tenant, newest first."""
        principal.reach(Permission.SEE_USERS, tenant_id, NO_TENANT)
        await accounts.get_tenant(tenant_id)
        return await keys.list(tenant_id, cursor, limit)

    @router.post("", status_code=201, once=True)
    async def create_service_key(
        tenant_id: UUID, body: CreateServiceKey, principal: Principal = manage
    ) -> CreatedServiceKey:
        """Creates a service key of a tenant, with which a server acts for the tenant's users. This response is the only
        place that shows the key. Only an operator may give the scope `credit`."""
        principal.reach(Permission.MANAGE_USERS, tenant_id, NO_TENANT)
        may_credit = principal.may(Permission.GIVE_CREDITS)
        return await keys.create(tenant_id, body, actor_of(principal), may_credit=may_credit)

    @router.delete("/{service_key_id}")
    async def revoke_service_key(tenant_id: UUID, service_key_id: UUID, principal: Principal = manage) -> ServiceKey:
        """Revokes a service key at once and permanently. Its streams end."""
        principal.reach(Permission.MANAGE_USERS, tenant_id, NO_TENANT)
        return await keys.revoke(tenant_id, service_key_id, actor_of(principal))

    return router
