"""Who is asking: found once per request, passed on as a value."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Protocol
from uuid import UUID

from callsheet.identity.permissions import Permission, Scope, key_scope_for, scope_of
from callsheet.plumbing.sql import Row
from callsheet.wire.errors import NotFound
from callsheet.wire.identity import KeyScope, Role


class Owner(Protocol):
    """Whose something is, also where no request is made: a principal, or what a loop knows of one."""

    @property
    def user_id(self) -> UUID: ...
    @property
    def tenant_id(self) -> UUID: ...
    @property
    def pool(self) -> str: ...


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
    # With an API key.
    key_id: UUID | None = None
    # What the API key is limited to; `None`: to what the role allows.
    key_scopes: frozenset[KeyScope] | None = None

    @classmethod
    def of_key(cls, row: Row) -> Principal:
        scopes = None if row["scopes"] is None else frozenset(KeyScope(scope) for scope in row["scopes"])
        return replace(cls.of(row, "api_key"), key_id=row["key_id"], key_scopes=scopes)

    @classmethod
    def of(cls, row: Row, signed_in_with: Literal["api_key", "session"], csrf_token: str | None = None) -> Principal:
        return cls(
            user_id=row["user_id"],
            tenant_id=row["tenant_id"],
            tenant=row["tenant"],
            pool=row["pool"],
            email=row["email"],
            name=row["name"],
            role=Role(row["role"]),
            signed_in_with=signed_in_with,
            csrf_token=csrf_token,
        )

    def may(self, permission: Permission) -> bool:
        """Whether the caller has a permission, for its own tenant at least."""
        return self.key_allows(permission) and scope_of(self.role, permission) is not None

    def key_allows(self, permission: Permission) -> bool:
        """Whether the API key that the caller came with, if any, has the scope for a permission."""
        return self.key_scopes is None or key_scope_for(permission) in self.key_scopes

    def only_tenant(self, permission: Permission) -> UUID | None:
        """The tenant that a permission of the caller is limited to; `None` means every tenant."""
        return None if scope_of(self.role, permission) is Scope.EVERY_TENANT else self.tenant_id

    def reach(self, permission: Permission, tenant_id: UUID, missing: str) -> None:
        """Refuses a tenant that the permission does not reach in the words for one that does not exist."""
        if self.only_tenant(permission) not in (None, tenant_id):
            raise NotFound(missing)
