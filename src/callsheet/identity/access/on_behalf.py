"""The user that a service key acts for: the header Callsheet-On-Behalf-Of (decision 0059)."""

from __future__ import annotations

import re
from typing import Any, NamedTuple
from uuid import UUID

from callsheet.identity.access.permissions import Permission
from callsheet.identity.access.principal import Principal
from callsheet.identity.access.service_keys import SQL
from callsheet.identity.audit_log import actor_of, record
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import Statement
from callsheet.toolbox.ids import uuid7
from callsheet.wire.errors import Forbidden, InvalidRequest, NotFound, QuotaExceeded
from callsheet.wire.identity import Role
from callsheet.wire.plurals import counted

HEADER = "Callsheet-On-Behalf-Of"
FORMS = "`external:ID`, `user:UUID` or `email:ADDRESS`"
# A first use creates a user only in requests that write something for the user.
CREATING = (Permission.WRITE_OWN, Permission.GIVE_CREDITS)
_EXTERNAL_ID = re.compile(r"[!-~]{1,128}")
_EMAIL = re.compile(r"[!-~]{1,254}")


class UserOfTenant(NamedTuple):
    user_id: UUID
    email: str
    name: str
    role: str
    is_disabled: bool


class OnBehalf:
    """Finds the user that a request names, or creates it if the request names an external id for the first time."""

    def __init__(self, databases: Databases, max_users: int):
        self._databases = databases
        self._max_users = max_users

    async def principal(self, key: Principal, named: str, *, writes: bool) -> Principal:
        """The key as it acts for the user. The user has the role of a user: the key gets no right from it."""
        kind, statement, value = _parsed(named)
        async with self._databases.central.connection() as connection:
            user = await statement.row(connection, UserOfTenant, tenant_id=key.tenant_id, **value)
        if user is None and kind == "external" and writes and any(key.may(permission) for permission in CREATING):
            user = await self._create(key, value["external_id"])
        if user is None:
            hint = " The first request that writes for this id creates the user." if kind == "external" else ""
            raise NotFound(f"There is no user {named} in your tenant.{hint}")
        if user.is_disabled:
            raise Forbidden(f"The user {named} is disabled.")
        if user.role != Role.USER:
            raise Forbidden(f"A service key acts for users only. {named} has the role {user.role}.")
        return key.acts_for(user.user_id, user.email, user.name)

    async def _create(self, key: Principal, external_id: str) -> UserOfTenant:
        """Creates the user, or finds the one that another request created meanwhile."""
        names = {"tenant_id": key.tenant_id, "external_id": external_id}
        async with self._databases.central.transaction() as connection:
            await SQL["lock_tenant"].value(connection, tenant_id=key.tenant_id)
            user = await SQL["find_user_by_external_id"].row(connection, UserOfTenant, **names)
            if user is not None:
                return user
            if await SQL["has_external_users"].value(connection, tenant_id=key.tenant_id, max_users=self._max_users):
                sentence = (
                    f"The tenant has {counted(self._max_users, 'user')} with an external id, which is the limit "
                    "(identity.external_users_per_tenant). Delete users, or ask an operator for more."
                )
                raise QuotaExceeded("external_users_per_tenant", self._max_users, self._max_users, sentence)
            user = await SQL["create_external_user"].row(connection, UserOfTenant, id=uuid7(), **names)
            assert user is not None, "an insert returns its row"
            details = {"external_id": external_id, "role": user.role}
            await record(connection, actor_of(key), "user.create", "user", user.user_id, key.tenant_id, **details)
        return user


def _parsed(named: str) -> tuple[str, Statement, dict[str, Any]]:
    """The kind of the name, and how its user is found. The kind is explicit: people outside choose their e-mail
    address, and perhaps their id at the shop, and must not be able to write one that means another user.
    """
    kind, separator, value = named.partition(":")
    if separator and kind == "external":
        if _EXTERNAL_ID.fullmatch(value) is None:
            raise _wrong("An external id has 1 to 128 printable ASCII characters and no space.")
        return kind, SQL["find_user_by_external_id"], {"external_id": value}
    if separator and kind == "email":
        if _EMAIL.fullmatch(value) is None:
            raise _wrong("The e-mail address has characters that a header cannot have. Name the user by its id.")
        return kind, SQL["find_user_by_email"], {"email": value.lower()}
    if separator and kind == "user":
        try:
            return kind, SQL["find_user_by_id"], {"id": UUID(value)}
        except ValueError:
            raise _wrong("After `user:`, the value must be the id of a user.") from None
    raise _wrong(f"The value must be {FORMS}.")


def _wrong(reason: str) -> InvalidRequest:
    return InvalidRequest.field(HEADER, reason)
