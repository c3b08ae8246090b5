"""Sends a mail over the configured SMTP server."""

from __future__ import annotations

import asyncio
import smtplib
import ssl
from email.message import EmailMessage
from email.utils import formatdate, make_msgid

from callsheet.settings import MailSettings


class MailRefused(Exception):
    """The server refuses this mail permanently. Trying again does not help."""


class Mailer:
    def __init__(self, settings: MailSettings):
        self._settings = settings

    @property
    def is_configured(self) -> bool:
        return self._settings.host is not None

    async def send(self, to: str, subject: str, text: str) -> None:
        """Sends a mail. Raises MailRefused if the server permanently refuses the recipient; otherwise OSError or
        SMTPException.
        """
        from email.headerregistry import Address  # The import takes 50 ms, which a control plane without mail saves.

        message = EmailMessage()
        try:
            # An e-mail address such as `a,b@example.com` would be two in a plain header.
            message["To"] = Address(addr_spec=to)
        except Exception as error:
            raise MailRefused(f"{to!r} is not an e-mail address that mail can be sent to") from error
        message["From"] = self._settings.sender or ""
        message["Subject"] = subject
        message["Date"] = formatdate(localtime=False)
        message["Message-ID"] = make_msgid(domain="callsheet.invalid")
        message["Auto-Submitted"] = "auto-generated"
        message.set_content(text)
        await asyncio.to_thread(self._send, to, message)

    def _send(self, to: str, message: EmailMessage) -> None:
        try:
            with self._connected() as server:
                if self._settings.username is not None:
                    password = self._settings.password
                    server.login(self._settings.username, password.get_secret_value() if password else "")
                server.send_message(message, to_addrs=[to])
        except smtplib.SMTPRecipientsRefused as refused:
            code, text = next(iter(refused.recipients.values()))
            if code >= 500:
                raise MailRefused(f"{code} {text.decode('utf-8', 'replace')}") from refused
            raise

    def _connected(self) -> smtplib.SMTP:
        settings, context = self._settings, ssl.create_default_context()
        host, timeout = settings.host or "", settings.timeout_seconds
        if settings.tls == "tls":
            return smtplib.SMTP_SSL(host, settings.port, timeout=timeout, context=context)
        server = smtplib.SMTP(host, settings.port, timeout=timeout)
        if settings.tls == "starttls":
            server.starttls(context=context)
        return server
