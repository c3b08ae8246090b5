"""A real SMTP server on loopback that keeps the e-mails it gets."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, Envelope

from tests.support.run.ports import free_port

LINK = re.compile(r"https?://\S+/account/\S+")


class SmtpServer:
    def __init__(self, port: int):
        self.port = port
        self.mails: list[Message] = []
        # The response to RCPT; `None` accepts every recipient.
        self.refusal: str | None = None
        self.logins: list[tuple[bytes, bytes]] = []

    @property
    def settings(self) -> dict[str, Any]:
        return {"host": "127.0.0.1", "port": self.port, "sender": "Callsheet <no-reply@example.com>", "tls": "none"}

    async def handle_RCPT(  # noqa: N802 - aiosmtpd finds it by this name
        self, server: Any, session: Any, envelope: Envelope, address: str, options: Any
    ) -> str:
        if self.refusal is not None:
            return self.refusal
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Envelope) -> str:  # noqa: N802
        mail = message_from_bytes(bytes(envelope.content or b""))
        assert envelope.rcpt_tos == [mail["To"]]
        self.mails.append(mail)
        return "250 OK"

    def authenticate(self, server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
        self.logins.append((data.login, data.password))
        return AuthResult(success=True)

    def text(self, number: int = -1) -> str:
        payload = self.mails[number].get_payload(decode=True)
        assert isinstance(payload, bytes)
        return payload.decode()

    def link(self, number: int = -1) -> str:
        found = LINK.search(self.text(number))
        assert found is not None
        return found[0]


@contextmanager
def smtp_server(port: int | None = None, certificate: Path | None = None) -> Iterator[SmtpServer]:
    """With `certificate`, a file with key and certificate, the server requires STARTTLS and a login."""
    server = SmtpServer(port or free_port())
    secured: dict[str, Any] = {}
    if certificate is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate)
        secured = {
            "tls_context": context,
            "require_starttls": True,
            "auth_required": True,
            "authenticator": server.authenticate,
        }
    controller = Controller(server, hostname="127.0.0.1", port=server.port, **secured)
    controller.start()
    try:
        yield server
    finally:
        controller.stop()
