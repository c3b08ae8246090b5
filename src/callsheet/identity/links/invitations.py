"""Invitations: an invited person sets a password and becomes a user with a role in a tenant."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from callsheet.identity.access.passwords import Passwords
from callsheet.identity.accounts.managers import Manager
from callsheet.identity.audit_log import record, user_actor
from callsheet.identity.links.links import INVITATION, Links, find_by_link, using_link
from callsheet.identity.links.mail import Mailer
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.pages import page_of
from callsheet.plumbing.database.sql import Connection, statements
from callsheet.settings import Settings
from callsheet.toolbox.ids import uuid7
from callsheet.wire.base import Page
from callsheet.wire.errors import EMAIL_IN_USE, Conflict, FieldProblem, InvalidRequest, NotFound, WrongState
from callsheet.wire.identity import (
    AcceptInvitationRequest,
    CreatedInvitation,
    CreateInvitationRequest,
    Invitation,
    OpenInvitation,
    Role,
    Tenant,
    User,
)

ACCOUNTS_SQL = statements("callsheet.identity.accounts")
SQL = statements("callsheet.identity.links")

INVITED_TWICE = "Another request is inviting this e-mail address at the same time. Try again."


class LockedInvitation(NamedTuple):
    id: UUID
    tenant_id: UUID
    email: str
    role: str
    invited_by: str
    created_at: datetime
    expires_at: datetime
    mail_sent_at: datetime | None
    accepted_at: datetime | None
    revoked_at: datetime | None
    tenant: str

    def invitation(self, revoked_at: datetime) -> Invitation:
        return Invitation(
            id=self.id,
            tenant=self.tenant,
            email=self.email,
            role=Role(self.role),
            invited_by=self.invited_by,
            created_at=self.created_at,
            expires_at=self.expires_at,
            mail_sent_at=self.mail_sent_at,
            accepted_at=self.accepted_at,
            revoked_at=revoked_at,
        )


class Invitations:
    def __init__(
        self,
        databases: Databases,
        passwords: Passwords,
        mailer: Mailer,
        links: Links,
        settings: Settings,
        wake: Callable[[], None],
    ):
        """`wake` is called when there is a mail to send."""
        self._databases = databases
        self._passwords = passwords
        self._mailer = mailer
        self._links = links
        self._hours = settings.identity.invitation_hours
        self._wake = wake

    async def create(
        self, manager: Manager, request: CreateInvitationRequest, *, by_mail: bool = True
    ) -> CreatedInvitation:
        """Creates an invitation. Sends its link, or returns it if no mail server is configured. A later invitation
        of the same e-mail address replaces this one.
        """
        manager.check_role(request.role)
        by_mail = by_mail and self._mailer.is_configured
        async with self._databases.central.transaction() as connection:
            tenant = await ACCOUNTS_SQL["find_tenant"].row(connection, Tenant, slug=request.tenant)
            if tenant is None or not manager.reaches(tenant.id):
                raise InvalidRequest.field("tenant", f"There is no tenant {request.tenant!r}.")
            if await ACCOUNTS_SQL["find_user"].value(connection, email=request.email) is not None:
                raise _email_in_use()
            await SQL["revoke_open_invitation"].run(connection, tenant_id=tenant.id, email=request.email)
            created = await SQL["create_invitation"].row(
                connection,
                Invitation,
                id=uuid7(),
                tenant_id=tenant.id,
                email=request.email,
                role=request.role.value,
                invited_by=manager.actor,
                hours=self._hours,
            )
            if created is None:
                raise Conflict(INVITED_TWICE, errors=[FieldProblem("email", INVITED_TWICE)])
            link = None if by_mail else await self._links.to_invitation(connection, created.id)
            if by_mail:
                await SQL["mail_invitation"].run(connection, invitation_id=created.id)
            await record(
                connection,
                manager.actor,
                "user.invite",
                "user",
                created.id,
                tenant.id,
                email=request.email,
                role=request.role,
            )
        if by_mail:
            self._wake()
        return CreatedInvitation(**dict(created), link=link)

    async def list(self, before: UUID | None, limit: int, only: UUID | None = None) -> Page[Invitation]:
        async with self._databases.central.ordinary() as connection:
            invitations = await SQL["list_invitations"].rows(
                connection, Invitation, only=only, before=before, limit=limit + 1
            )
        return page_of(invitations, limit)

    async def revoke(self, manager: Manager, invitation_id: UUID) -> Invitation:
        """Revokes an invitation, so that its links stop working. Revoking again changes nothing."""
        async with self._databases.central.transaction() as connection:
            row = await SQL["lock_invitation"].row(connection, LockedInvitation, id=invitation_id)
            if row is None or not manager.reaches(row.tenant_id):
                raise NotFound("There is no such invitation.")
            manager.check_role(Role(row.role))
            if row.accepted_at is not None:
                raise WrongState("The invitation was accepted. Disable or delete the user instead.")
            revoked_at = row.revoked_at
            if revoked_at is None:
                revoked_at = await SQL["revoke_invitation"].value(connection, id=invitation_id)
                await _close(connection, invitation_id)
                await record(connection, manager.actor, "user.uninvite", "user", invitation_id, row.tenant_id)
        return row.invitation(revoked_at)

    async def find(self, token: str) -> OpenInvitation:
        invitation = await find_by_link(self._databases, INVITATION, token)
        return OpenInvitation(
            tenant=invitation.tenant,
            tenant_name=invitation.tenant_name,
            email=invitation.email,
            role=Role(invitation.role),
            expires_at=invitation.expires_at,
        )

    async def accept(self, token: str, request: AcceptInvitationRequest) -> User:
        """Creates the user of the invitation. This works once."""
        async with using_link(self._databases, self._passwords, INVITATION, token, request.password) as used:
            connection, invitation, password_hash = used
            user = await ACCOUNTS_SQL["create_user"].row(
                connection,
                User,
                id=invitation.id,
                tenant_id=invitation.tenant_id,
                email=invitation.email,
                name=request.name,
                password_hash=password_hash,
                role=invitation.role,
            )
            if user is None:
                raise _email_in_use()
            await SQL["accept_invitation"].run(connection, id=invitation.id)
            await _close(connection, invitation.id)
            await record(connection, user_actor(user.id), "user.accept", "user", user.id, invitation.tenant_id)
        return user


async def _close(connection: Connection, invitation_id: UUID) -> None:
    """Deletes the links of the invitation and its unsent mails."""
    await SQL["delete_links_of_invitation"].run(connection, invitation_id=invitation_id)
    await SQL["delete_mail_of_invitation"].run(connection, invitation_id=invitation_id)


def _email_in_use() -> Conflict:
    return Conflict(EMAIL_IN_USE, errors=[FieldProblem("email", EMAIL_IN_USE)])
