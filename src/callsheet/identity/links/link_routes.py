"""`/api/invitations`, `/api/password-resets`, `/api/me/password`, and for administration `/api/admin/invitations`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated
from uuid import UUID

from fastapi import Depends, Path, Query, Request

from callsheet.identity.access.authentication import COOKIE, Authentication
from callsheet.identity.access.permissions import Permission
from callsheet.identity.access.principal import Principal
from callsheet.identity.accounts.managers import Manager
from callsheet.identity.audit_log import actor_of
from callsheet.plumbing.database.pages import CURSOR, LIMIT
from callsheet.plumbing.http.routing import Router
from callsheet.wire.base import Page
from callsheet.wire.identity import (
    AcceptInvitationRequest,
    AskPasswordReset,
    ChangePasswordRequest,
    CreatedInvitation,
    CreateInvitationRequest,
    Invitation,
    Mail,
    OpenInvitation,
    PasswordResetRequested,
    ResetLink,
    SetPasswordRequest,
    User,
)

if TYPE_CHECKING:
    from callsheet.identity.room import AccountLinks

ON_ITS_WAY = "If a user has this e-mail address, a mail with a link to set a new password is on its way."
NO_MAIL = (
    "This installation sends no mail. Ask an operator or an admin of your tenant for a link to set a new password."
)


def link_router(links: AccountLinks, authentication: Authentication) -> Router:
    invitations, resets = links.invitations, links.resets
    router = Router(prefix="/api", tags=["identity"])

    @router.get("/invitations/{token}")
    async def get_invitation(token: str) -> OpenInvitation:
        """The tenant and the role of an invitation. Reading it does not use up the link."""
        return await invitations.find(token)

    @router.post("/invitations/{token}", status_code=201)
    async def accept_invitation(token: str, body: AcceptInvitationRequest) -> User:
        """Creates your user with the password you choose. The link works once."""
        return await invitations.accept(token, body)

    @router.post("/password-resets", status_code=202)
    async def ask_password_reset(body: AskPasswordReset, request: Request) -> PasswordResetRequested:
        """Sends a link to set a new password. The response is the same whether the e-mail address belongs to a user or
        not."""
        by_mail = await resets.ask(body.email, authentication.client_address(request))
        return PasswordResetRequested(message=ON_ITS_WAY if by_mail else NO_MAIL)

    @router.post("/password-resets/{token}", status_code=204)
    async def reset_password(token: str, body: SetPasswordRequest) -> None:
        """Sets a new password. The link works once; all sessions and API keys of the user end."""
        await resets.set_password(token, body.password)

    @router.post("/me/password", status_code=204)
    async def change_password(
        body: ChangePasswordRequest, request: Request, principal: Principal = Depends(authentication.person)
    ) -> None:
        """Changes your password. Your other sessions end, and all your API keys are revoked."""
        kept = request.cookies.get(COOKIE) if principal.signed_in_with == "session" else None
        await resets.change(principal, body, authentication.client_address(request), kept)

    return router


def admin_link_router(links: AccountLinks, authentication: Authentication) -> Router:
    invitations, resets = links.invitations, links.resets
    see = authentication.may_in_tenant(Permission.SEE_USERS)
    manage = authentication.may_in_tenant(Permission.MANAGE_USERS)
    manage_all = authentication.may(Permission.MANAGE_USERS)
    router = Router(prefix="/api/admin", tags=["admin"])

    @router.get("/invitations")
    async def list_invitations(
        cursor: UUID | None = CURSOR, limit: int = LIMIT, principal: Principal = see
    ) -> Page[Invitation]:
        """Invitations, newest first. A tenant admin gets those of its tenant."""
        return await invitations.list(cursor, limit, principal.only_tenant(Permission.SEE_USERS))

    @router.post("/invitations", status_code=201, once=True)
    async def create_invitation(body: CreateInvitationRequest, principal: Principal = manage) -> CreatedInvitation:
        """Invites a person to a tenant. The link is sent by e-mail, or returned if no mail server is configured. A new
        invitation of the same e-mail address replaces the old one."""
        return await invitations.create(Manager.of(principal), body)

    @router.delete("/invitations/{invitation_id}")
    async def revoke_invitation(invitation_id: UUID, principal: Principal = manage) -> Invitation:
        """Revokes an invitation. Its link stops working."""
        return await invitations.revoke(Manager.of(principal), invitation_id)

    @router.post("/users/{user_id}/password-reset", status_code=201, once=True)
    async def create_reset_link(user_id: UUID, principal: Principal = manage) -> ResetLink:
        """Creates a link with which the user sets a new password. This response is the only place that shows it. With
        an API key you cannot create one for yourself."""
        manager = Manager.of(principal)
        manager.check_not_self_by_key(user_id)
        return await resets.create_link(manager, user_id)

    @router.get("/mails", dependencies=[authentication.may(Permission.SEE_USERS)])
    async def list_mails(
        cursor: int | None = Query(None, ge=1, le=2**62, description="`next_cursor` of the page before."),
        limit: int = LIMIT,
    ) -> Page[Mail]:
        """E-mails that the mail server has not accepted yet, newest first, with the last error."""
        return await links.mails.list(cursor, limit)

    @router.post("/mails/{mail_id}/send", status_code=202, once=True)
    async def send_mail(
        mail_id: Annotated[int, Path(ge=1, le=2**62)],
        principal: Principal = manage_all,
    ) -> Mail:
        """Sends an e-mail again that waits for its next attempt or was given up."""
        return await links.mails.send_again(actor_of(principal), mail_id)

    return router
