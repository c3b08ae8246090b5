"""Sends the messages about alerts to the webhook and by e-mail. Each message is tried again until it is accepted."""

from __future__ import annotations

import smtplib
from collections.abc import Mapping
from datetime import datetime
from ipaddress import ip_network
from typing import Any, NamedTuple

from callsheet.identity.links.mail import Mailer, MailRefused
from callsheet.operate.alerts.current import SQL
from callsheet.operate.alerts.keeper import WEBHOOK, recipients
from callsheet.operate.alerts.messages import email, webhook_body
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.plumbing.http.webhook_sender import WebhookMessage, WebhookSender
from callsheet.settings import AlertSettings
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.loops import Loop

log = get_logger(__name__)
# The delay doubles each time, up to an hour: the last attempt is about six hours after the first.
MAX_ATTEMPTS = 12
TIMEOUT_SECONDS = 10.0
# The operator chose the URL, and may have a receiver in a private network.
EVERY_NETWORK = (ip_network("0.0.0.0/0"), ip_network("::/0"))
MAX_ERROR_LENGTH = 500


class NotAccepted(Exception):
    """The webhook is not reachable, or returned another status than 2xx."""


class DueMessage(NamedTuple):
    id: int
    recipient: str
    content: dict[str, Any]
    attempts: int


class AlertSender(Loop):
    name = "alert_sender"
    interval_seconds = 5.0

    def __init__(self, databases: Databases, mailer: Mailer, settings: AlertSettings):
        super().__init__()
        self._databases = databases
        self._mailer = mailer
        self._settings = settings
        self._recipients = list(recipients(settings))

    async def tick(self, now: datetime) -> bool:
        """Sends one message that is due. Returns whether there may be more."""
        if not self._recipients:
            return False
        async with self._databases.central.transaction() as connection:
            message = await SQL["claim_message"].row(connection, DueMessage, recipients=self._recipients)
        if message is None:
            return False
        error = await self._try(message)
        await hit(Failpoint.ALERT_SENT_BEFORE_ROW)
        async with self._databases.central.transaction() as connection:
            if error is None:
                await SQL["delete_message"].run(connection, id=message.id)
            else:
                give_up = message.attempts >= MAX_ATTEMPTS
                await SQL["message_was_not_sent"].run(connection, id=message.id, error=error, give_up=give_up)
                log.warning("alert.not_sent", message=message.id, attempt=message.attempts, error=error)
        return True

    async def _try(self, message: DueMessage) -> str | None:
        """Sends a message. Returns why it was not accepted; None if it was."""
        try:
            if message.recipient == WEBHOOK:
                await self._post(message.id, message.content)
            else:
                await self._mail(message.recipient, message.content)
        except (OSError, smtplib.SMTPException, MailRefused, NotAccepted) as error:
            return (str(error) or type(error).__name__)[:MAX_ERROR_LENGTH]
        return None

    async def _post(self, number: int, content: Mapping[str, Any]) -> None:
        assert self._settings.webhook_url is not None
        url, secret = self._settings.webhook_url.get_secret_value(), self._settings.webhook_secret
        secrets = [] if secret is None else [secret.get_secret_value()]
        body = webhook_body(number, content)
        message = WebhookMessage(url, f"alert_{number}", body, secrets)
        async with WebhookSender(allow_networks=EVERY_NETWORK, timeout_seconds=TIMEOUT_SECONDS) as sender:
            response = await sender.send(message)
        if response.error is not None:
            raise NotAccepted(response.error)

    async def _mail(self, address: str, content: Mapping[str, Any]) -> None:
        if not self._mailer.is_configured:
            raise NotAccepted("No mail server is configured. Set CALLSHEET_MAIL__HOST.")
        await self._mailer.send(address, *email(content))
