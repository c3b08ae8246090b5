"""Mails to a real SMTP server: written with what they are about, sent afterwards, tried again, and seen until then."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from pydantic import SecretStr

from callsheet.app import ControlPlane
from callsheet.identity.mail_sender import MOST_ATTEMPTS, MailSender
from callsheet.plumbing.failpoints import Crashed, Failpoint, armed, crash
from callsheet.settings import MailSettings, Settings, SettingsError, load_settings
from callsheet.toolbox.clock import SystemClock
from tests.api.conftest import Started
from tests.support.holding import stalled_at
from tests.support.people import PASSWORD, People, Person, sign_in
from tests.support.ports import free_port
from tests.support.smtp_server import SmtpServer, smtp_server
from tests.support.waiting import until

LATER = datetime.timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Office:
    plane: ControlPlane
    client: httpx.AsyncClient
    operator: Person

    @property
    def sender(self) -> MailSender:
        (sender,) = [loop for loop in self.plane.loops if isinstance(loop, MailSender)]
        return sender

    async def invite(self, email: str = "new@example.com") -> dict[str, Any]:
        body = {"tenant": self.operator.tenant.slug, "email": email}
        answer = await self.client.post("/api/admin/invitations", json=body, headers=self.operator.headers)
        assert answer.status_code == 201, answer.text
        return dict(answer.json())

    async def mails(self) -> list[dict[str, Any]]:
        answer = await self.client.get("/api/admin/mails", headers=self.operator.headers)
        return list(answer.json()["items"])

    async def alert(self) -> str | None:
        """What operators are told about mails."""
        alerts = (await self.client.get("/api/admin/alerts", headers=self.operator.headers)).json()["alerts"]
        return next((alert["message"] for alert in alerts if alert["code"] == "mails_not_sent"), None)


@asynccontextmanager
async def office(started: Started, mail: dict[str, Any], *, still: bool = False) -> AsyncIterator[Office]:
    """`still`: the loop does not run by itself."""
    async with started(mail=mail) as (plane, client):
        opened = Office(plane, client, await People(plane.accounts, plane.keys).admin())
        if still:
            await opened.sender.stop()
        yield opened


@pytest.fixture
def server() -> Iterator[SmtpServer]:
    with smtp_server() as server:
        yield server


async def _is(value: object) -> object:
    return value


async def test_an_invitation_and_a_new_password_arrive_by_mail(started: Started, server: SmtpServer) -> None:
    async with office(started, server.settings) as at:
        invitation = await at.invite()
        assert invitation["link"] is None
        await until(lambda: _is(server.mails))
        [mail] = server.mails
        assert (mail["To"], mail["From"]) == ("new@example.com", "Callsheet <no-reply@example.com>")
        assert at.operator.tenant.name in server.text()
        assert (await at.client.post(server.link(), data={"password": PASSWORD})).status_code == 200

        asked = [
            await at.client.post("/api/password-resets", json={"email": email})
            for email in ("nobody@example.com", "New@example.com")
        ]
        assert {(answer.status_code, answer.text) for answer in asked} == {(202, asked[0].text)}
        await until(lambda: _is(len(server.mails) == 2))
        assert server.mails[-1]["To"] == "new@example.com"
        token = server.link().rpartition("/")[2]
        answer = await at.client.post(f"/api/password-resets/{token}", json={"password": "another long password"})
        assert answer.status_code == 204
        login = {"email": "new@example.com", "password": "another long password"}
        assert (await at.client.post("/api/auth/login", json=login)).status_code == 200
        # Nothing waits, and nobody else got a mail.
        await until(lambda: _none(at))
        assert len(server.mails) == 2
        listed = (await at.client.get("/api/admin/invitations", headers=at.operator.headers)).json()["items"]
        assert listed[0]["mail_sent_at"] is not None


async def _none(at: Office) -> bool:
    return await at.mails() == []


async def test_a_mail_counts_as_sent_when_its_link_is_used_before_that_is_written(
    started: Started, server: SmtpServer
) -> None:
    async with office(started, server.settings, still=True) as at:
        await at.invite()
        async with stalled_at(Failpoint.MAIL_SENT_BEFORE_ROW, at.sender.tick(SystemClock().now())) as sending:
            assert (await at.client.post(server.link(), data={"password": PASSWORD})).status_code == 200
        assert await sending
        [listed] = (await at.client.get("/api/admin/invitations", headers=at.operator.headers)).json()["items"]
        assert None not in (listed["mail_sent_at"], listed["accepted_at"])
        assert await at.mails() == []


async def test_a_mail_that_could_not_be_sent_is_seen_and_sent_later(started: Started) -> None:
    port = free_port()
    settings = {"host": "127.0.0.1", "port": port, "sender": "a@example.com", "tls": "none"}
    async with office(started, settings, still=True) as at:
        await at.invite()
        assert await at.sender.tick(SystemClock().now())
        [waiting] = await at.mails()
        assert (waiting["kind"], waiting["email"], waiting["attempts"]) == ("invitation", "new@example.com", 1)
        assert "refused" in waiting["last_error"]
        listed = (await at.client.get("/api/admin/invitations", headers=at.operator.headers)).json()["items"]
        assert "refused" in listed[0]["mail_error"]
        # Not before it is due.
        assert not await at.sender.tick(SystemClock().now())
        with smtp_server(port) as server:
            assert await at.sender.tick(SystemClock().now() + LATER)
            assert (await at.client.get(server.link())).status_code == 200
        assert await at.mails() == []


@pytest.mark.parametrize(("refusal", "given_up"), [("550 No such user", True), ("450 Try again", False)])
async def test_a_recipient_that_is_refused_for_good_is_given_up(
    started: Started, server: SmtpServer, refusal: str, given_up: bool
) -> None:
    async with office(started, server.settings, still=True) as at:
        server.refusal = refusal
        await at.invite()
        await at.sender.tick(SystemClock().now())
        [mail] = await at.mails()
        assert (mail["failed_at"] is not None) is given_up
        assert refusal[4:] in mail["last_error"]
        server.refusal = None
        assert await at.sender.tick(SystemClock().now() + LATER) is not given_up
        assert len(server.mails) == (0 if given_up else 1)


async def test_a_server_that_stays_away_is_given_up_in_the_end(started: Started) -> None:
    settings = {"host": "127.0.0.1", "port": free_port(), "sender": "a@example.com", "tls": "none"}
    async with office(started, settings, still=True) as at:
        await at.invite()
        for _ in range(MOST_ATTEMPTS):
            assert await at.sender.tick(SystemClock().now() + LATER)
        assert not await at.sender.tick(SystemClock().now() + LATER)
        [mail] = await at.mails()
        assert (mail["attempts"], mail["failed_at"] is not None) == (MOST_ATTEMPTS, True)


async def test_operators_are_alerted_to_mails_that_are_late_or_were_given_up(
    started: Started, server: SmtpServer
) -> None:
    async def change(what: str) -> None:
        async with at.plane.databases.central.connection() as connection:
            await connection.execute(f"UPDATE mails SET {what}")

    async with office(started, server.settings, still=True) as at:
        await at.invite()
        assert await at.alert() is None
        await change("created_at = created_at - interval '11 minutes'")
        assert "1 are late and tried again, 0 were given up" in (await at.alert() or "")
        server.refusal = "550 No such user"
        assert await at.sender.tick(SystemClock().now())
        assert "0 are late and tried again, 1 were given up" in (await at.alert() or "")
        assert "new@example.com" not in (await at.alert() or "")
        await change("failed_at = failed_at - interval '25 hours'")
        assert await at.alert() is None


@pytest.mark.parametrize("point", [Failpoint.MAIL_CLAIMED_BEFORE_SEND, Failpoint.MAIL_SENT_BEFORE_ROW])
async def test_a_sender_that_crashed_sends_again_and_both_links_work(
    started: Started, server: SmtpServer, point: Failpoint
) -> None:
    async with office(started, server.settings, still=True) as at:
        await at.invite()
        with armed({point: crash}), pytest.raises(Crashed):
            await at.sender.tick(SystemClock().now())
        assert await at.sender.tick(SystemClock().now() + LATER)
        assert len(server.mails) == (2 if point is Failpoint.MAIL_SENT_BEFORE_ROW else 1)
        for number in range(len(server.mails)):
            assert (await at.client.get(server.link(number))).status_code == 200
        assert await at.mails() == []


async def test_a_revoked_invitation_and_a_disabled_user_get_no_mail(started: Started, server: SmtpServer) -> None:
    async with office(started, server.settings, still=True) as at:
        invitation = await at.invite()
        path = f"/api/admin/invitations/{invitation['id']}"
        assert (await at.client.delete(path, headers=at.operator.headers)).status_code == 200
        ann = await People(at.plane.accounts, at.plane.keys).user()
        await at.client.post("/api/password-resets", json={"email": ann.user.email})
        await at.client.post(f"/api/admin/users/{ann.user.id}/disable", headers=at.operator.headers)
        while await at.sender.tick(SystemClock().now()):
            pass
        assert (server.mails, await at.mails()) == ([], [])


async def test_an_address_that_would_be_two_is_refused(started: Started, server: SmtpServer) -> None:
    async with office(started, server.settings, still=True) as at:
        await at.invite("victim@example.com,me@example.com".replace("@", "", 1))
        await at.sender.tick(SystemClock().now())
        assert server.mails == []
        [mail] = await at.mails()
        assert mail["failed_at"] is not None


def _certificate(folder: Path) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - LATER)
        .not_valid_after(now + LATER)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    file = folder / "smtp.pem"
    file.write_bytes(private + certificate.public_bytes(pem))
    return file


async def test_a_password_goes_to_a_server_with_a_trusted_certificate_only(
    started: Started, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = _certificate(tmp_path)
    with smtp_server(certificate=file) as server:
        mail = server.settings | {"tls": "starttls", "username": "callsheet", "password": SecretStr("s3cret")}
        async with office(started, mail, still=True) as at:
            await at.invite()
            await at.sender.tick(SystemClock().now())
            [waiting] = await at.mails()
            assert "certificate" in waiting["last_error"].lower()
            assert server.logins == []
            monkeypatch.setenv("SSL_CERT_FILE", str(file))
            assert await at.sender.tick(SystemClock().now() + LATER)
            assert server.logins == [(b"callsheet", b"s3cret")]
            assert len(server.mails) == 1


def test_a_mail_server_needs_a_sender(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"mail\.sender must name"):
        load_settings(home=tmp_path, mail={"host": "mail.example.com"})
    for sender in ("nobody", "a@b.co\nBcc: c@d.co"):
        with pytest.raises(SettingsError):
            load_settings(home=tmp_path, mail={"host": "mail.example.com", "sender": sender})
    assert "s3cret" not in repr(MailSettings(password=SecretStr("s3cret")))
    assert isinstance(load_settings(home=tmp_path), Settings)


async def test_a_session_survives_asking_for_a_new_password(started: Started, server: SmtpServer) -> None:
    """Anybody may ask; only who reads the mail changes something."""
    async with office(started, server.settings, still=True) as at:
        ann = await People(at.plane.accounts, at.plane.keys).user()
        assert (await sign_in(at.client, ann)).status_code == 200
        await at.client.post("/api/password-resets", json={"email": ann.user.email})
        await at.sender.tick(SystemClock().now())
        assert len(server.mails) == 1
        assert (await at.client.get("/api/me")).status_code == 200
        assert (await sign_in(at.client, ann)).status_code == 200
