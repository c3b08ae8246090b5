"""The user who sends a request. The user is found once per request and passed on as a value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, Protocol
from uuid import UUID

from callsheet.identity.access.permissions import OF_SERVICE_KEYS, Permission, Scope, key_scope_for, scope_of
from callsheet.wire.errors import NotFound
from callsheet.wire.identity import KeyScope, Role
from callsheet.wire.tenant.service_keys import ServiceScope


class Owner(Protocol):
    """The owner of a job or file: a principal, or the ids that a loop has without a request."""

    @property
    def user_id(self) -> UUID: ...
    @property
    def tenant_id(self) -> UUID: ...
    @property
    def pool(self) -> str: ...


class UserRow(NamedTuple):
    """The user of a session, with the tenant."""

    user_id: UUID
    email: str
    name: str
    role: str
    tenant_id: UUID
    tenant: str
    pool: str


class KeyRow(NamedTuple):
    """The user of an API key, with the tenant. `place`: position of the key among those that were looked up, from 1.
    A service key has no user: the row has the id of the tenant and the name of the key instead.
    """

    place: int
    user_id: UUID
    email: str
    name: str
    role: str
    tenant_id: UUID
    tenant: str
    pool: str
    key_id: UUID
    scopes: Sequence[str]
    is_service_key: bool


class LoginRow(NamedTuple):
    """A user who signs in, with the tenant and the hash of the password."""

    user_id: UUID
    email: str
    name: str
    role: str
    password_hash: str
    tenant_id: UUID
    tenant: str
    pool: str


@dataclass(frozen=True, slots=True)
class Principal:
    user_id: UUID
    tenant_id: UUID
    tenant: str
    pool: str
    email: str
    name: str
    role: Role
    signed_in_with: Literal["api_key", "session"]
    csrf_token: str | None = None
    # Id of the API key, if the request has one.
    key_id: UUID | None = None
    # Scopes of the API key. None: a session, which may do everything that the role allows.
    key_scopes: frozenset[KeyScope] | None = None
    # Scopes of the service key, if the request has one. The user is then the one that the key acts for, or the tenant.
    service_scopes: frozenset[ServiceScope] | None = None

    @classmethod
    def of_key(cls, row: KeyRow) -> Principal:
        if row.is_service_key:
            service = frozenset(ServiceScope(scope) for scope in row.scopes)
            return replace(cls.of(row, "api_key"), key_id=row.key_id, service_scopes=service)
        scopes = frozenset(KeyScope(scope) for scope in row.scopes)
        return replace(cls.of(row, "api_key"), key_id=row.key_id, key_scopes=scopes)

    @classmethod
    def of(
        cls,
        row: UserRow | KeyRow | LoginRow,
        signed_in_with: Literal["api_key", "session"],
        csrf_token: str | None = None,
    ) -> Principal:
        return cls(
            user_id=row.user_id,
            tenant_id=row.tenant_id,
            tenant=row.tenant,
            pool=row.pool,
            email=row.email,
            name=row.name,
            role=Role(row.role),
            signed_in_with=signed_in_with,
            csrf_token=csrf_token,
        )

    @property
    def is_tenant(self) -> bool:
        """Whether a service key acts for its tenant, and not for a user."""
        return self.user_id == self.tenant_id

    def acts_for(self, user_id: UUID, email: str, name: str) -> Principal:
        """The same caller with a service key, for a user of its tenant."""
        return replace(self, user_id=user_id, email=email, name=name)

    def scope(self, permission: Permission) -> Scope | None:
        """How far a permission of the caller reaches. The scopes of a key of a user do not matter here."""
        if self.service_scopes is None:
            return scope_of(self.role, permission)
        return Scope.OWN_TENANT if OF_SERVICE_KEYS.get(permission) in self.service_scopes else None

    def may(self, permission: Permission) -> bool:
        """Whether the caller has a permission, at least for its own tenant."""
        return self.key_allows(permission) and self.scope(permission) is not None

    def key_allows(self, permission: Permission) -> bool:
        """Whether the caller's API key, if there is one, has the scope for a permission."""
        return self.key_scopes is None or key_scope_for(permission) in self.key_scopes

    def only_tenant(self, permission: Permission) -> UUID | None:
        """The only tenant that a permission of the caller reaches; `None` means every tenant."""
        return None if self.scope(permission) is Scope.EVERY_TENANT else self.tenant_id

    def reach(self, permission: Permission, tenant_id: UUID, missing: str) -> None:
        """Refuses a tenant that the permission does not reach, with the same error as for a tenant that does not
        exist.
        """
        if self.only_tenant(permission) not in (None, tenant_id):
            raise NotFound(missing)
