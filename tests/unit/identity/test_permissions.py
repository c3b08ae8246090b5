"""The table of roles: what each may do, and what none but an operator ever may."""

from __future__ import annotations

from callsheet.identity.access.permissions import (
    GRANTED,
    MANAGED,
    Permission,
    Scope,
    key_scope_for,
    key_scopes_of,
    scope_of,
)
from callsheet.wire.identity import KeyScope, Role

READING = {permission for permission in Permission if permission.name.startswith(("READ_", "SEE_"))}


def test_every_role_is_in_the_table() -> None:
    assert GRANTED.keys() == MANAGED.keys() == set(Role)


def test_an_operator_may_do_everything_everywhere() -> None:
    assert {scope_of(Role.OPERATOR, permission) for permission in Permission} == {Scope.EVERY_TENANT}


def test_a_viewer_only_sees_and_no_payload_or_file() -> None:
    assert GRANTED[Role.VIEWER].keys() == READING - {Permission.SEE_PAYLOADS, Permission.SEE_FILES}
    assert MANAGED[Role.VIEWER] == frozenset()


def test_a_tenant_admin_stays_in_its_tenant_and_makes_no_tokens() -> None:
    granted = GRANTED[Role.TENANT_ADMIN]
    assert set(granted.values()) == {Scope.OWN_TENANT}
    assert not granted.keys() & {Permission.GIVE_CREDITS, Permission.SUBMIT_FOR_USERS, Permission.IGNORE_LIMITS}
    assert MANAGED[Role.TENANT_ADMIN] == {Role.USER, Role.TENANT_ADMIN}


def test_a_user_has_permissions_for_their_own_data_only() -> None:
    assert GRANTED[Role.USER].keys() == {Permission.READ_OWN, Permission.WRITE_OWN}


def test_every_other_permission_requires_the_admin_scope_except_the_fleet_size() -> None:
    own = {
        Permission.READ_OWN: KeyScope.READ,
        Permission.WRITE_OWN: KeyScope.SUBMIT,
        Permission.SEE_FLEET_SIZE: KeyScope.READ,
    }
    assert {each: key_scope_for(each) for each in Permission} == dict.fromkeys(Permission, KeyScope.ADMIN) | own


def test_a_role_has_only_scopes_that_allow_something() -> None:
    assert {role: set(key_scopes_of(role)) for role in Role} == {
        Role.USER: {KeyScope.READ, KeyScope.SUBMIT},
        Role.TENANT_ADMIN: set(KeyScope),
        Role.OPERATOR: set(KeyScope),
        Role.VIEWER: {KeyScope.READ, KeyScope.ADMIN},
    }
