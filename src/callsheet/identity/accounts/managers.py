"""The manager of accounts: a signed-in user within the limits of a role, or a person at the command line."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from callsheet.identity.access.permissions import MANAGED, Permission
from callsheet.identity.access.principal import Principal
from callsheet.identity.audit_log import OPERATOR, actor_of
from callsheet.wire.errors import Forbidden
from callsheet.wire.identity import Role


@dataclass(frozen=True, slots=True)
class Manager:
    # The manager's name in the audit log.
    actor: str
    # The roles that the manager may give, and whose users the manager may change.
    roles: frozenset[Role] = frozenset(Role)
    # The only tenant of the manager; `None` means every tenant.
    tenant_id: UUID | None = None
    # `None` on the command line.
    user_id: UUID | None = None
    # Whether the request came with an API key, and not with a browser session.
    by_key: bool = False

    @classmethod
    def of(cls, principal: Principal) -> Manager:
        only_tenant = principal.only_tenant(Permission.MANAGE_USERS)
        by_key = principal.signed_in_with == "api_key"
        return cls(actor_of(principal), MANAGED[principal.role], only_tenant, principal.user_id, by_key)

    def reaches(self, tenant_id: UUID) -> bool:
        return self.tenant_id in (None, tenant_id)

    def check_role(self, role: Role) -> None:
        """Refuses to give the role, or to change a user who has it."""
        if role not in self.roles:
            raise Forbidden(f"Only an operator may give the role {role.value} or change who has it.")

    def check_not_self_by_key(self, user_id: UUID) -> None:
        """Refuses an API key that would create another key or a session of its own user: those would stay valid when
        the key is revoked.
        """
        if self.by_key and user_id == self.user_id:
            raise Forbidden("An API key cannot do this for its own user. Sign in with your password.")

    def check_not_self(self, user_id: UUID) -> None:
        if user_id == self.user_id:
            raise Forbidden("You cannot do this to your own account. Ask another operator or tenant admin to do it.")


COMMAND_LINE = Manager(OPERATOR)
