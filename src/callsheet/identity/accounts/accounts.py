"""Creates and lists tenants and users, for the command line and for HTTP."""

from __future__ import annotations

import re
from collections.abc import Set
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from callsheet.identity.access.passwords import Passwords
from callsheet.identity.accounts.managers import COMMAND_LINE, Manager
from callsheet.identity.audit_log import OPERATOR, record
from callsheet.identity.links.links import replace_password
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.pages import page_of
from callsheet.plumbing.database.sql import Connection, statements
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.toolbox.ids import uuid7
from callsheet.wire.base import Page
from callsheet.wire.errors import EMAIL_IN_USE, Conflict, FieldProblem, InvalidRequest, NotFound
from callsheet.wire.identity import CreateTenantRequest, CreateUserRequest, Tenant, User

POOL_SQL = statements("callsheet.identity.accounts", "pool_statements.sql")
SQL = statements("callsheet.identity.accounts")
NO_TENANT = "There is no such tenant."
SPECIAL = re.compile(r"[\\%_]")


@dataclass(frozen=True, slots=True)
class UserIds:
    tenant_id: UUID
    user_id: UUID


class ExternalUser(NamedTuple):
    id: UUID
    external_id: str


def containing(search: str) -> str | None:
    """The LIKE pattern for lower-case texts that contain this text; None if the text is empty."""
    escaped = SPECIAL.sub(lambda sign: f"\\{sign[0]}", search.strip().lower())
    return f"%{escaped}%" if escaped else None


class Accounts:
    def __init__(self, databases: Databases, passwords: Passwords):
        self._databases = databases
        self._passwords = passwords

    async def create_tenant(self, request: CreateTenantRequest, actor: str = OPERATOR) -> Tenant:
        tenant_id = uuid7()
        async with self._databases.central.connection() as connection:
            pool = await self._choose_pool(connection, request.pool)
        # The pool comes first: a tenant that routing can see must be admitted in its pool. After a crash, an admission
        # without a tenant may be left, but it is never read.
        database = await self._databases.pool(pool)
        async with database.transaction() as connection:
            await POOL_SQL["admit_tenant"].run(connection, tenant_id=tenant_id)
        await hit(Failpoint.CREATE_TENANT_BEFORE_CENTRAL)
        async with self._databases.central.transaction() as connection:
            tenant = await SQL["create_tenant"].row(
                connection, Tenant, id=tenant_id, slug=request.slug, name=request.name, pool=pool
            )
            if tenant is not None:
                await record(
                    connection, actor, "tenant.create", "tenant", tenant_id, tenant_id, slug=request.slug, pool=pool
                )
        if tenant is None:
            raise Conflict(
                f"A tenant {request.slug!r} already exists.",
                errors=[FieldProblem("slug", "This slug is already in use.")],
            )
        return tenant

    async def create_user(self, request: CreateUserRequest, manager: Manager = COMMAND_LINE) -> User:
        manager.check_role(request.role)
        password_hash = await self._passwords.hash(request.password)
        async with self._databases.central.transaction() as connection:
            tenant = await SQL["find_tenant"].row(connection, Tenant, slug=request.tenant)
            if tenant is None or not manager.reaches(tenant.id):
                raise InvalidRequest.field("tenant", f"There is no tenant {request.tenant!r}.")
            user = await SQL["create_user"].row(
                connection,
                User,
                id=uuid7(),
                tenant_id=tenant.id,
                email=request.email,
                name=request.name,
                password_hash=password_hash,
                role=request.role.value,
            )
            if user is not None:
                await record(
                    connection,
                    manager.actor,
                    "user.create",
                    "user",
                    user.id,
                    tenant.id,
                    email=request.email,
                    role=request.role,
                )
        if user is None:
            raise Conflict(EMAIL_IN_USE, errors=[FieldProblem("email", EMAIL_IN_USE)])
        return user

    async def set_password(self, email: str, password: str) -> User:
        """Sets a password, for the command line. Also ends every session, key and link of the user, so that a person
        who knew the old password has no access.
        """
        password_hash = await self._passwords.hash(password)
        async with self._databases.central.transaction() as connection:
            user = await SQL["find_user"].row(connection, User, email=email)
            if user is None:
                raise NotFound(f"There is no user {email!r}.")
            revoked = await replace_password(connection, user.id, password_hash)
            tenant_id = await SQL["find_owner"].value(connection, user_id=user.id)
            details = {"by": "command line", "keys_revoked": revoked}
            await record(connection, OPERATOR, "user.password", "user", user.id, tenant_id, **details)
        return user

    async def find_tenant(self, slug: str) -> Tenant | None:
        async with self._databases.central.connection() as connection:
            return await SQL["find_tenant"].row(connection, Tenant, slug=slug)

    async def get_tenant(self, tenant_id: UUID) -> Tenant:
        async with self._databases.central.connection() as connection:
            tenant = await SQL["get_tenant"].row(connection, Tenant, tenant_id=tenant_id)
        if tenant is None:
            raise NotFound(NO_TENANT)
        return tenant

    async def find_user(self, email: str) -> User | None:
        async with self._databases.central.connection() as connection:
            return await SQL["find_user"].row(connection, User, email=email)

    async def owner_of(self, user_id: UUID) -> UserIds | None:
        """The tenant a user belongs to, if there is such a user."""
        async with self._databases.central.connection() as connection:
            tenant_id = await SQL["find_owner"].value(connection, user_id=user_id)
        return None if tenant_id is None else UserIds(tenant_id, user_id)

    async def external_ids(self, tenant_id: UUID, user_ids: Set[UUID]) -> dict[UUID, str]:
        """What the tenant's own system calls these users, as far as it does."""
        if not user_ids:
            return {}
        async with self._databases.central.connection() as connection:
            names = {"tenant_id": tenant_id, "ids": sorted(user_ids)}
            return dict(await SQL["external_ids"].rows(connection, ExternalUser, **names))

    async def list_tenants(
        self, before: UUID | None, limit: int, only: UUID | None = None, search: str = ""
    ) -> Page[Tenant]:
        """The tenants, newest first; with `only`, this one tenant. `search`: a part of the slug or the name."""
        values = {"only": only, "before": before, "limit": limit + 1, "pattern": containing(search)}
        async with self._databases.central.ordinary() as connection:
            tenants = await SQL["list_tenants"].rows(connection, Tenant, **values)
        return page_of(tenants, limit)

    async def list_users(
        self, tenant: str | None, before: UUID | None, limit: int, only: UUID | None = None, search: str = ""
    ) -> Page[User]:
        """The users, newest first, without deleted users; with `only`, the users of this tenant. `search`: a part of
        the e-mail address or the name.
        """
        values = {"only": only, "tenant": tenant, "before": before, "limit": limit + 1, "pattern": containing(search)}
        async with self._databases.central.ordinary() as connection:
            users = await SQL["list_users"].rows(connection, User, **values)
        return page_of(users, limit)

    async def _choose_pool(self, connection: Connection, wanted: str | None) -> str:
        if wanted is None:
            pool = await SQL["emptiest_pool"].value(connection, unavailable=list(self._databases.unavailable))
            if pool is None:
                raise InvalidRequest.field("pool", "There is no pool. Add one: callsheet db add-pool NAME DSN.")
            return str(pool)
        if not await SQL["pool_exists"].value(connection, name=wanted):
            raise InvalidRequest.field("pool", f"There is no pool {wanted!r}.")
        return wanted
