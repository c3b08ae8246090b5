"""Tenants and users: created and listed, on the command line or over HTTP."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from callsheet.identity.audit import OPERATOR, record
from callsheet.identity.links import replace_password
from callsheet.identity.managers import COMMAND_LINE, Manager
from callsheet.identity.passwords import Passwords
from callsheet.plumbing.databases import Databases
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.plumbing.pages import page_of
from callsheet.plumbing.sql import Connection, statements
from callsheet.toolbox.ids import uuid7
from callsheet.wire.base import Page
from callsheet.wire.errors import EMAIL_IN_USE, Conflict, FieldProblem, InvalidRequest, NotFound
from callsheet.wire.identity import CreateTenantRequest, CreateUserRequest, Tenant, User

SQL = statements("callsheet.identity")
POOL_SQL = statements("callsheet.identity", "pool_statements.sql")


@dataclass(frozen=True, slots=True)
class Owner:
    tenant_id: UUID
    user_id: UUID


class Accounts:
    def __init__(self, databases: Databases, passwords: Passwords):
        self._databases = databases
        self._passwords = passwords

    async def create_tenant(self, request: CreateTenantRequest, actor: str = OPERATOR) -> Tenant:
        tenant_id = uuid7()
        async with self._databases.central.connection() as connection:
            pool = await self._choose_pool(connection, request.pool)
        # The pool first: a tenant that routing can see must be admitted where it is routed to. Left over after a
        # crash, an admission without a tenant is never looked at.
        database = await self._databases.pool(pool)
        async with database.transaction() as connection:
            await POOL_SQL["admit_tenant"].run(connection, tenant_id=tenant_id)
        await hit(Failpoint.CREATE_TENANT_BEFORE_CENTRAL)
        async with self._databases.central.transaction() as connection:
            row = await SQL["create_tenant"].row(
                connection, id=tenant_id, slug=request.slug, name=request.name, pool=pool
            )
            if row is not None:
                await record(
                    connection, actor, "tenant.create", "tenant", tenant_id, tenant_id, slug=request.slug, pool=pool
                )
        if row is None:
            raise Conflict(
                f"A tenant {request.slug!r} already exists.",
                errors=[FieldProblem("slug", "This slug is already in use.")],
            )
        return Tenant(**row)

    async def create_user(self, request: CreateUserRequest, manager: Manager = COMMAND_LINE) -> User:
        manager.check_role(request.role)
        password_hash = await self._passwords.hash(request.password)
        async with self._databases.central.transaction() as connection:
            tenant = await SQL["find_tenant"].row(connection, slug=request.tenant)
            if tenant is None or not manager.reaches(tenant["id"]):
                raise InvalidRequest.field("tenant", f"There is no tenant {request.tenant!r}.")
            row = await SQL["create_user"].row(
                connection,
                id=uuid7(),
                tenant_id=tenant["id"],
                email=request.email,
                name=request.name,
                password_hash=password_hash,
                role=request.role.value,
            )
            if row is not None:
                await record(
                    connection,
                    manager.actor,
                    "user.create",
                    "user",
                    row["id"],
                    tenant["id"],
                    email=request.email,
                    role=request.role,
                )
        if row is None:
            raise Conflict(EMAIL_IN_USE, errors=[FieldProblem("email", EMAIL_IN_USE)])
        return User(**row, tenant=request.tenant)

    async def set_password(self, email: str, password: str) -> User:
        """On the command line. Also ends every session, key and link of the user: anyone who knew the old
        password is out."""
        password_hash = await self._passwords.hash(password)
        async with self._databases.central.transaction() as connection:
            row = await SQL["find_user"].row(connection, email=email)
            if row is None:
                raise NotFound(f"There is no user {email!r}.")
            revoked = await replace_password(connection, row["id"], password_hash)
            owner = await SQL["find_owner"].value(connection, user_id=row["id"])
            details = {"by": "command line", "keys_revoked": revoked}
            await record(connection, OPERATOR, "user.password", "user", row["id"], owner, **details)
        return User(**row)

    async def find_tenant(self, slug: str) -> Tenant | None:
        async with self._databases.central.connection() as connection:
            row = await SQL["find_tenant"].row(connection, slug=slug)
        return Tenant(**row) if row else None

    async def get_tenant(self, tenant_id: UUID) -> Tenant:
        async with self._databases.central.connection() as connection:
            row = await SQL["get_tenant"].row(connection, tenant_id=tenant_id)
        if row is None:
            raise NotFound("There is no such tenant.")
        return Tenant(**row)

    async def find_user(self, email: str) -> User | None:
        async with self._databases.central.connection() as connection:
            row = await SQL["find_user"].row(connection, email=email)
        return User(**row) if row else None

    async def owner_of(self, user_id: UUID) -> Owner | None:
        """The tenant a user belongs to, if there is such a user."""
        async with self._databases.central.connection() as connection:
            row = await SQL["find_owner"].row(connection, user_id=user_id)
        return Owner(row["tenant_id"], user_id) if row else None

    async def list_tenants(self, before: UUID | None, limit: int, only: UUID | None = None) -> Page[Tenant]:
        """Newest first; with `only` this one tenant."""
        async with self._databases.central.ordinary() as connection:
            rows = await SQL["list_tenants"].rows(connection, only=only, before=before, limit=limit + 1)
        return page_of([Tenant(**row) for row in rows], limit)

    async def list_users(
        self, tenant: str | None, before: UUID | None, limit: int, only: UUID | None = None
    ) -> Page[User]:
        """Newest first, without those who were deleted; with `only` those of this tenant."""
        async with self._databases.central.ordinary() as connection:
            rows = await SQL["list_users"].rows(connection, only=only, tenant=tenant, before=before, limit=limit + 1)
        return page_of([User(**row) for row in rows], limit)

    async def _choose_pool(self, connection: Connection, wanted: str | None) -> str:
        if wanted is None:
            pool = await SQL["emptiest_pool"].value(connection, unavailable=list(self._databases.unavailable))
            if pool is None:
                raise InvalidRequest.field("pool", "There is no pool. Add one: callsheet db add-pool NAME DSN.")
            return str(pool)
        if not await SQL["pool_exists"].value(connection, name=wanted):
            raise InvalidRequest.field("pool", f"There is no pool {wanted!r}.")
        return wanted
