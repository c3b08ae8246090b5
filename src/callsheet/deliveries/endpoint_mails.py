"""Mails to the users of endpoints that were disabled."""

from __future__ import annotations

import smtplib
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from callsheet.deliveries.delivery_rows import SQL
from callsheet.identity.links.mail import Mailer, MailRefused
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import statements
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.toolbox.logs import get_logger

CENTRAL_SQL = statements("callsheet.deliveries", "central_statements.sql")

log = get_logger(__name__)
BATCH = 20
SUBJECT = "A webhook endpoint of Callsheet was disabled"
TEXT = """Callsheet does not send events to your webhook endpoint any more:

{url}{description}

{reason}

Correct the server behind it, then enable the endpoint on the page Webhooks of your account, or with
callsheet webhooks enable {id}

Its log shows what was sent, and can send it again.
"""


class DueMail(NamedTuple):
    tenant_id: UUID
    id: UUID
    user_id: UUID
    url: str
    description: str
    disabled_at: datetime | None
    disabled_reason: str | None
    mail_due_at: datetime


class EndpointMails:
    """Each mail is tried every ten minutes until the mail server accepts it. After a crash it may be sent twice."""

    def __init__(self, databases: Databases, mailer: Mailer):
        self._databases = databases
        self._mailer = mailer

    async def send(self, pool: Database) -> None:
        if not self._mailer.is_configured:
            return
        async with pool.ordinary() as connection:
            mails = await SQL["due_mails"].rows(connection, DueMail, limit=BATCH)
        for mail in mails:
            if await self._is_done(mail):
                await hit(Failpoint.ENDPOINT_MAIL_SENT_BEFORE_ROW)
                async with pool.ordinary() as connection:
                    await SQL["mail_was_sent"].run(
                        connection, tenant_id=mail.tenant_id, id=mail.id, mail_due_at=mail.mail_due_at
                    )

    async def _is_done(self, mail: DueMail) -> bool:
        async with self._databases.central.ordinary() as connection:
            email = await CENTRAL_SQL["email_of_user"].value(connection, tenant_id=mail.tenant_id, user_id=mail.user_id)
        if email is None:
            return True
        description = f" ({mail.description})" if mail.description else ""
        text = TEXT.format(url=mail.url, description=description, reason=mail.disabled_reason, id=mail.id)
        try:
            await self._mailer.send(email, SUBJECT, text)
        except MailRefused as error:
            log.warning("endpoint.mail_refused", endpoint=str(mail.id), error=str(error))
        except (OSError, smtplib.SMTPException) as error:
            log.warning("endpoint.mail_not_sent", endpoint=str(mail.id), error=repr(error))
            return False
        return True
