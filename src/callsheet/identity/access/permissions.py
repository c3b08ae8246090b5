"""The permissions of each role: one table, which `Authentication` reads. Routes name a permission, not a role."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, StrEnum
from types import MappingProxyType

from callsheet.wire.identity import KeyScope, Role
from callsheet.wire.tenant.service_keys import ServiceScope


class Permission(StrEnum):
    """A kind of action of a route. The values appear in the text of a refusal."""

    READ_OWN = "read your own data"
    WRITE_OWN = "upload, submit and change your own data"
    IGNORE_LIMITS = "use a priority above 0 or pass a user's limits"
    SEE_USERS = "see users and their keys"
    MANAGE_USERS = "manage users and their keys"
    SEE_TENANTS = "see tenants"
    MANAGE_TENANTS = "manage tenants"
    SEE_WALLETS = "see wallets of users"
    GIVE_CREDITS = "give tokens to users"
    AUDIT_LEDGER = "audit the ledger"
    MANAGE_BUDGETS = "change budgets"
    SEE_JOBS = "see jobs of users"
    MANAGE_JOBS = "cancel and retry jobs of users"
    # The payload of a job names the operator's graphs and models, and the traceback of an error names the operator's
    # machines.
    SEE_PAYLOADS = "see payloads and tracebacks of jobs"
    # Uploads and results of users are private. A key for monitoring does not need them.
    SEE_FILES = "see files and results of users' jobs"
    # The request contains its price, so it can give work away, as credits give tokens away.
    SUBMIT_FOR_USERS = "submit jobs for users"
    SEE_QUEUE = "see the queue, its limits, metrics and alerts"
    MANAGE_QUEUE = "change the queue and its limits"
    SEE_FLEET = "see workers, fleets and providers"
    MANAGE_FLEET = "manage workers, fleets and providers"
    # One number for an external autoscaler, whose key should have no other rights.
    SEE_FLEET_SIZE = "see how many workers a fleet needs"
    SEE_CATALOG = "see workflows, effects and assets as operators do"
    MANAGE_CATALOG = "manage workflows, effects and assets"
    SEE_AUDIT_LOG = "see the audit log"
    SEE_INSTALLATION = "see settings and health of the installation"


class Scope(Enum):
    """Whose data a permission reaches."""

    OWN_TENANT = "own tenant"
    EVERY_TENANT = "every tenant"


_OWN = frozenset({Permission.READ_OWN, Permission.WRITE_OWN})
_OWN_TENANT = frozenset(
    {
        Permission.SEE_USERS,
        Permission.MANAGE_USERS,
        Permission.SEE_TENANTS,
        Permission.SEE_WALLETS,
        Permission.MANAGE_BUDGETS,
        Permission.SEE_JOBS,
        Permission.SEE_FILES,
        Permission.MANAGE_JOBS,
    }
)
# A viewer sees everything that an operator sees, except secrets and private data of users, and changes nothing.
_SEEN = frozenset(
    {
        Permission.READ_OWN,
        Permission.SEE_USERS,
        Permission.SEE_TENANTS,
        Permission.SEE_WALLETS,
        Permission.SEE_JOBS,
        Permission.SEE_QUEUE,
        Permission.SEE_FLEET,
        Permission.SEE_FLEET_SIZE,
        Permission.SEE_CATALOG,
        Permission.SEE_AUDIT_LOG,
        Permission.SEE_INSTALLATION,
    }
)

GRANTED: Mapping[Role, Mapping[Permission, Scope]] = MappingProxyType(
    {
        Role.USER: dict.fromkeys(_OWN, Scope.OWN_TENANT),
        Role.TENANT_ADMIN: dict.fromkeys(_OWN | _OWN_TENANT, Scope.OWN_TENANT),
        Role.OPERATOR: dict.fromkeys(Permission, Scope.EVERY_TENANT),
        Role.VIEWER: dict.fromkeys(_SEEN, Scope.EVERY_TENANT),
    }
)

# The roles that the holder of MANAGE_USERS may give, and whose users it may change. A viewer sees every tenant, so only
# operators may create viewers.
MANAGED: Mapping[Role, frozenset[Role]] = MappingProxyType(
    {
        Role.USER: frozenset(),
        Role.TENANT_ADMIN: frozenset({Role.USER, Role.TENANT_ADMIN}),
        Role.OPERATOR: frozenset(Role),
        Role.VIEWER: frozenset(),
    }
)


# What a service key may do, with the scope that it needs: for users of its tenant, and never what their roles allow
# beyond their own data.
OF_SERVICE_KEYS: Mapping[Permission, ServiceScope] = MappingProxyType(
    {
        Permission.READ_OWN: ServiceScope.READ,
        Permission.WRITE_OWN: ServiceScope.SUBMIT_FOR_USERS,
        Permission.GIVE_CREDITS: ServiceScope.CREDIT,
    }
)


def scope_of(role: Role, permission: Permission) -> Scope | None:
    """How far a permission of the role reaches; `None` if the role does not have it."""
    return GRANTED[role].get(permission)


def key_scope_for(permission: Permission) -> KeyScope:
    """The scope that an API key needs for a permission of its user. Everything that is not about the user's own data
    is administration, including new permissions. The only exception is the number for an autoscaler.
    """
    match permission:
        case Permission.READ_OWN | Permission.SEE_FLEET_SIZE:
            return KeyScope.READ
        case Permission.WRITE_OWN:
            return KeyScope.SUBMIT
        case _:
            return KeyScope.ADMIN


def key_scopes_of(role: Role) -> frozenset[KeyScope]:
    """The scopes that a key of a user with this role can have: the scopes that allow something."""
    return frozenset(key_scope_for(permission) for permission in GRANTED[role])
