"""Sends the mails of invitations and password resets. Each mail is tried again until the mail server accepts it."""

from __future__ import annotations

import smtplib
from datetime import UTC, datetime
from typing import NamedTuple
from uuid import UUID

from callsheet.identity.audit_log import record
from callsheet.identity.links.links import Links
from callsheet.identity.links.mail import Mailer, MailRefused
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import Connection, statements
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.loops import Loop
from callsheet.wire.base import Page
from callsheet.wire.errors import NotFound
from callsheet.wire.identity import Mail

SQL = statements("callsheet.identity.links")

log = get_logger(__name__)
# The delay doubles each time, up to an hour: the last attempt is about six hours after the first.
MAX_ATTEMPTS = 12
# Normally a mail is sent within seconds. After this time, three attempts have failed.
LATE_SECONDS = 600
# A mail that was given up causes an alert for this time.
FAILED_SECONDS = 86_400
MAX_COUNTED = 1000
MAX_ERROR_LENGTH = 500

INVITATION = """You are invited to {tenant} on Callsheet, as {role}.

Open this link to set your password:
{link}

The link works once, until {expires}. If you did not expect this mail, do nothing.
"""
RESET = """Someone requested a new password for your account on Callsheet.

Open this link to set one:
{link}

The link works once, until {expires}. If it was not you, do nothing: your password does not change.
"""


class UnsentMails(NamedTuple):
    """Mails that the server should have by now: mails that are still tried, and mails that were given up in the last
    day.
    """

    late: int = 0
    given_up: int = 0


class DueMail(NamedTuple):
    """A mail that is due. It is for an invitation, or for the user with the e-mail address `reset_email`."""

    id: int
    invitation_id: UUID | None
    reset_email: str | None
    attempts: int
    created_at: datetime


class InvitationToMail(NamedTuple):
    id: UUID
    email: str
    role: str
    expires_at: datetime
    tenant_name: str


class UserToMail(NamedTuple):
    id: UUID
    email: str


class MailSender(Loop):
    name = "mail_sender"
    interval_seconds = 15.0

    def __init__(self, databases: Databases, mailer: Mailer, links: Links):
        super().__init__()
        self._databases = databases
        self._mailer = mailer
        self._links = links

    async def tick(self, now: datetime) -> bool:
        """Sends one mail that is due. Returns whether there may be more."""
        if not self._mailer.is_configured:
            return False
        async with self._databases.central.transaction() as connection:
            mail = await SQL["claim_mail"].row(connection, DueMail, now=now)
            if mail is None:
                return False
            # Each attempt has its own token: if the response of the mail server is lost, both mails work.
            written = await self._write(connection, mail)
        await hit(Failpoint.MAIL_CLAIMED_BEFORE_SEND)
        if written is not None and not await self._send(mail, *written):
            return True
        await hit(Failpoint.MAIL_SENT_BEFORE_ROW)
        async with self._databases.central.transaction() as connection:
            # The invitation is locked first, as at its acceptance. If the person accepts it before this is written, the
            # mail is already deleted.
            if written is not None and mail.invitation_id is not None:
                await SQL["invitation_was_mailed"].run(connection, id=mail.invitation_id)
            await SQL["delete_mail"].run(connection, id=mail.id)
        return True

    async def list(self, before: int | None, limit: int) -> Page[Mail]:
        """Mails that were not sent yet, newest first."""
        async with self._databases.central.ordinary() as connection:
            mails = await SQL["list_mails"].rows(connection, Mail, before=before, limit=limit + 1)
        items = mails[:limit]
        return Page(items=items, next_cursor=str(items[-1].id) if len(mails) > limit else None)

    async def send_again(self, actor: str, mail_id: int) -> Mail:
        """Sends a mail now that waits for its next attempt or was given up."""
        async with self._databases.central.transaction() as connection:
            mail = await SQL["send_mail_again"].row(connection, Mail, id=mail_id)
            if mail is None:
                raise NotFound("This e-mail no longer waits: it was sent, or its invitation or user was deleted.")
            await record(connection, actor, "mail.send", "mail", mail.id, email=mail.email)
        self.wake()
        return mail

    async def unsent(self) -> UnsentMails:
        async with self._databases.central.ordinary() as connection:
            unsent = await SQL["count_unsent_mails"].row(
                connection, UnsentMails, late_seconds=LATE_SECONDS, failed_seconds=FAILED_SECONDS, max_rows=MAX_COUNTED
            )
        assert unsent is not None
        return unsent

    async def _write(self, connection: Connection, mail: DueMail) -> tuple[str, str, str] | None:
        """Recipient, subject and text; `None` if the invitation or the user no longer exists."""
        if mail.invitation_id is not None:
            invitation = await SQL["invitation_to_mail"].row(connection, InvitationToMail, id=mail.invitation_id)
            if invitation is None:
                return None
            text = INVITATION.format(
                tenant=invitation.tenant_name,
                role=invitation.role.replace("_", " "),
                link=await self._links.to_invitation(connection, invitation.id),
                expires=_as_text(invitation.expires_at),
            )
            return invitation.email, "You are invited to Callsheet", text
        user = await SQL["user_to_mail"].row(connection, UserToMail, email=mail.reset_email)
        if user is None:
            return None
        reset = await self._links.to_reset(connection, user.id)
        text = RESET.format(link=reset.link, expires=_as_text(reset.expires_at))
        return user.email, "Set a new password for Callsheet", text

    async def _send(self, mail: DueMail, to: str, subject: str, text: str) -> bool:
        try:
            await self._mailer.send(to, subject, text)
        except (OSError, smtplib.SMTPException, MailRefused) as error:
            give_up = isinstance(error, MailRefused) or mail.attempts >= MAX_ATTEMPTS
            # The recipient is not logged: more people read logs than the list of mails.
            log.warning("mail.not_sent", mail=mail.id, attempt=mail.attempts, given_up=give_up, error=str(error))
            async with self._databases.central.transaction() as connection:
                await SQL["mail_was_not_sent"].run(
                    connection, id=mail.id, error=f"{type(error).__name__}: {error}"[:MAX_ERROR_LENGTH], give_up=give_up
                )
            return False
        return True


def _as_text(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
