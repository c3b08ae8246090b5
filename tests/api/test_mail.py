"""Mails to a real SMTP server: written with their cause, sent later, tried again, and listed until then."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from pydantic import SecretStr

from callsheet.app.control_plane import ControlPlane
from callsheet.identity.links.links import Links
from callsheet.identity.links.mail import Mailer
from callsheet.identity.links.mail_sender import MAX_ATTEMPTS, MailSender
from callsheet.plumbing.embedded import EmbeddedPostgres
from callsheet.plumbing.failpoints import Crashed, Failpoint, armed, crash
from callsheet.settings import MailSettings, Settings, SettingsError, load_settings
from callsheet.toolbox.clock import SystemClock
from tests.api.conftest import shared_plane
from tests.support.http.accounts import PASSWORD, People, Person, sign_in
from tests.support.http.smtp_server import SmtpServer, smtp_server
from tests.support.jobs.race_control import paused_at
from tests.support.run.ports import free_port
from tests.support.waiting import until

LATER = datetime.timedelta(days=1)


@dataclass(frozen=True, slots=True)
class MailHarness:
    """A control plane with a mail server, an operator, and a person who has no account."""

    plane: ControlPlane
    client: httpx.AsyncClient
    operator: Person
    # The e-mail address of a person who has no account.
    new: str

    @property
    def sender(self) -> MailSender:
        return _sender(self.plane)

    async def invite(self, email: str | None = None) -> dict[str, Any]:
        body = {"tenant": self.operator.tenant.slug, "email": email or self.new}
        response = await self.client.post("/api/admin/invitations", json=body, headers=self.operator.headers)
        assert response.status_code == 201, response.text
        return dict(response.json())

    async def invitation(self) -> dict[str, Any]:
        """As operators see it."""
        response = await self.client.get("/api/admin/invitations", headers=self.operator.headers)
        [found] = [invitation for invitation in response.json()["items"] if invitation["email"] == self.new]
        return dict(found)

    async def mails(self) -> list[dict[str, Any]]:
        response = await self.client.get("/api/admin/mails", headers=self.operator.headers)
        return list(response.json()["items"])

    async def alert(self) -> str | None:
        """What operators see about mails."""
        alerts = (await self.client.get("/api/admin/alerts", headers=self.operator.headers)).json()["alerts"]
        return next((alert["message"] for alert in alerts if alert["code"] == "mails_not_sent"), None)


@pytest.fixture(scope="module")
async def mail_plane(
    postgres: EmbeddedPostgres, templates: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ControlPlane]:
    """A control plane that sends a mail when the test calls for it, not by itself."""
    mail = SmtpServer(free_port()).settings
    async with shared_plane(postgres, templates, tmp_path_factory.mktemp("mailing"), mail=mail) as plane:
        await _sender(plane).stop()
        yield plane


@pytest.fixture
async def mail_harness(mail_plane: ControlPlane) -> AsyncIterator[MailHarness]:
    """Where no mail waits."""
    async with mail_plane.databases.central.connection() as connection:
        await connection.execute("DELETE FROM mails")
    async with httpx.AsyncClient(base_url=mail_plane.settings.public_url, trust_env=False, timeout=30) as client:
        operator = await People(mail_plane.rooms.identity.accounts, mail_plane.rooms.identity.keys).admin()
        yield MailHarness(mail_plane, client, operator, f"{uuid4().hex}@example.com")


@pytest.fixture
async def sending(mail_harness: MailHarness) -> AsyncIterator[None]:
    """The loop sends what there is."""
    mail_harness.sender.start()
    yield
    await mail_harness.sender.stop()


@pytest.fixture
def server(mail_plane: ControlPlane) -> Iterator[SmtpServer]:
    """The SMTP server of the settings. Without it, every attempt to send a mail fails."""
    with smtp_server(mail_plane.settings.mail.port) as server:
        yield server


def _sender(plane: ControlPlane) -> MailSender:
    (sender,) = [loop for loop in plane.loops if isinstance(loop, MailSender)]
    return sender


async def _is(value: object) -> object:
    return value


@pytest.mark.usefixtures("sending")
async def test_an_invitation_and_a_new_password_arrive_by_mail(mail_harness: MailHarness, server: SmtpServer) -> None:
    invitation = await mail_harness.invite()
    assert invitation["link"] is None
    await until(lambda: _is(server.mails))
    [mail] = server.mails
    assert (mail["To"], mail["From"]) == (mail_harness.new, "Callsheet <no-reply@example.com>")
    assert mail_harness.operator.tenant.name in server.text()
    assert (await mail_harness.client.post(server.link(), data={"password": PASSWORD})).status_code == 200

    responses = [
        await mail_harness.client.post("/api/password-resets", json={"email": email})
        for email in (f"{uuid4().hex}@example.com", mail_harness.new.title())
    ]
    assert {(response.status_code, response.text) for response in responses} == {(202, responses[0].text)}
    await until(lambda: _is(len(server.mails) == 2))
    assert server.mails[-1]["To"] == mail_harness.new
    token = server.link().rpartition("/")[2]
    response = await mail_harness.client.post(
        f"/api/password-resets/{token}", json={"password": "another long password"}
    )
    assert response.status_code == 204
    login = {"email": mail_harness.new, "password": "another long password"}
    assert (await mail_harness.client.post("/api/auth/login", json=login)).status_code == 200
    # No mail waits, and no other person got a mail.
    await until(lambda: _none(mail_harness))
    assert len(server.mails) == 2
    assert (await mail_harness.invitation())["mail_sent_at"] is not None


async def _none(mail_harness: MailHarness) -> bool:
    return await mail_harness.mails() == []


async def test_a_mail_whose_link_was_used_counts_as_sent(mail_harness: MailHarness, server: SmtpServer) -> None:
    await mail_harness.invite()
    async with paused_at(Failpoint.MAIL_SENT_BEFORE_ROW, mail_harness.sender.tick(SystemClock().now())) as sending:
        assert (await mail_harness.client.post(server.link(), data={"password": PASSWORD})).status_code == 200
    assert await sending
    listed = await mail_harness.invitation()
    assert None not in (listed["mail_sent_at"], listed["accepted_at"])
    assert await mail_harness.mails() == []


async def test_a_failed_mail_is_shown_and_sent_later(mail_harness: MailHarness) -> None:
    await mail_harness.invite()
    assert await mail_harness.sender.tick(SystemClock().now())
    [waiting] = await mail_harness.mails()
    assert (waiting["kind"], waiting["email"], waiting["attempts"]) == ("invitation", mail_harness.new, 1)
    assert "refused" in waiting["last_error"]
    assert "refused" in (await mail_harness.invitation())["mail_error"]
    # Not before it is due.
    assert not await mail_harness.sender.tick(SystemClock().now())
    with smtp_server(mail_harness.plane.settings.mail.port) as server:
        assert await mail_harness.sender.tick(SystemClock().now() + LATER)
        assert (await mail_harness.client.get(server.link())).status_code == 200
    assert await mail_harness.mails() == []


@pytest.mark.parametrize(("refusal", "given_up"), [("550 No such user", True), ("450 Try again", False)])
async def test_a_permanently_refused_recipient_is_not_retried(
    mail_harness: MailHarness, server: SmtpServer, refusal: str, given_up: bool
) -> None:
    server.refusal = refusal
    await mail_harness.invite()
    await mail_harness.sender.tick(SystemClock().now())
    [mail] = await mail_harness.mails()
    assert (mail["failed_at"] is not None) is given_up
    assert refusal[4:] in mail["last_error"]
    server.refusal = None
    assert await mail_harness.sender.tick(SystemClock().now() + LATER) is not given_up
    assert len(server.mails) == (0 if given_up else 1)


@pytest.mark.thorough
async def test_sending_ends_when_the_mail_server_stays_unavailable(mail_harness: MailHarness) -> None:
    await mail_harness.invite()
    for _ in range(MAX_ATTEMPTS):
        assert await mail_harness.sender.tick(SystemClock().now() + LATER)
    assert not await mail_harness.sender.tick(SystemClock().now() + LATER)
    [mail] = await mail_harness.mails()
    assert (mail["attempts"], mail["failed_at"] is not None) == (MAX_ATTEMPTS, True)


async def test_operators_get_an_alert_for_late_and_failed_mails(mail_harness: MailHarness, server: SmtpServer) -> None:
    async def change(what: str) -> None:
        async with mail_harness.plane.databases.central.connection() as connection:
            await connection.execute(f"UPDATE mails SET {what}")

    await mail_harness.invite()
    assert await mail_harness.alert() is None
    await change("created_at = created_at - interval '11 minutes'")
    assert "1 are late and will be retried, 0 failed for good" in (await mail_harness.alert() or "")
    server.refusal = "550 No such user"
    assert await mail_harness.sender.tick(SystemClock().now())
    assert "0 are late and will be retried, 1 failed for good" in (await mail_harness.alert() or "")
    assert mail_harness.new not in (await mail_harness.alert() or "")
    await change("failed_at = failed_at - interval '25 hours'")
    assert await mail_harness.alert() is None


async def test_an_operator_sends_a_mail_again_that_failed_for_good(
    mail_harness: MailHarness, server: SmtpServer
) -> None:
    server.refusal = "550 No such user"
    await mail_harness.invite()
    await mail_harness.sender.tick(SystemClock().now())
    [failed] = await mail_harness.mails()
    assert failed["failed_at"] is not None
    path = f"/api/admin/mails/{failed['id']}/send"
    response = await mail_harness.client.post(path, headers=mail_harness.operator.headers)
    assert response.status_code == 202
    assert response.json() == {**failed, "failed_at": None, "attempts": 0, "due_at": response.json()["due_at"]}
    server.refusal = None
    assert await mail_harness.sender.tick(SystemClock().now())
    assert [mail["To"] for mail in server.mails] == [mail_harness.new]
    again = await mail_harness.client.post(path, headers=mail_harness.operator.headers)
    assert (again.status_code, again.json()["detail"]) == (
        404,
        "This e-mail no longer waits: it was sent, or its invitation or user was deleted.",
    )


@pytest.mark.parametrize("point", [Failpoint.MAIL_CLAIMED_BEFORE_SEND, Failpoint.MAIL_SENT_BEFORE_ROW])
async def test_a_sender_that_crashed_sends_again_and_both_links_work(
    mail_harness: MailHarness, server: SmtpServer, point: Failpoint
) -> None:
    await mail_harness.invite()
    with armed({point: crash}), pytest.raises(Crashed):
        await mail_harness.sender.tick(SystemClock().now())
    assert await mail_harness.sender.tick(SystemClock().now() + LATER)
    assert len(server.mails) == (2 if point is Failpoint.MAIL_SENT_BEFORE_ROW else 1)
    for number in range(len(server.mails)):
        assert (await mail_harness.client.get(server.link(number))).status_code == 200
    assert await mail_harness.mails() == []


async def test_a_revoked_invitation_and_a_disabled_user_get_no_mail(
    mail_harness: MailHarness, server: SmtpServer
) -> None:
    invitation = await mail_harness.invite()
    path = f"/api/admin/invitations/{invitation['id']}"
    assert (await mail_harness.client.delete(path, headers=mail_harness.operator.headers)).status_code == 200
    ann = await People(mail_harness.plane.rooms.identity.accounts, mail_harness.plane.rooms.identity.keys).user()
    await mail_harness.client.post("/api/password-resets", json={"email": ann.user.email})
    await mail_harness.client.post(f"/api/admin/users/{ann.user.id}/disable", headers=mail_harness.operator.headers)
    while await mail_harness.sender.tick(SystemClock().now()):
        pass
    assert (server.mails, await mail_harness.mails()) == ([], [])


async def test_an_email_address_that_names_two_recipients_is_refused(
    mail_harness: MailHarness, server: SmtpServer
) -> None:
    await mail_harness.invite(f"victim.example.com,{mail_harness.new}")
    await mail_harness.sender.tick(SystemClock().now())
    assert server.mails == []
    [mail] = await mail_harness.mails()
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
    mail_harness: MailHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = _certificate(tmp_path)
    with smtp_server(certificate=file) as server:
        secured = {"tls": "starttls", "username": "callsheet", "password": SecretStr("s3cret")}
        mail = mail_harness.plane.settings.mail.model_copy(update={"port": server.port, **secured})
        sender = MailSender(mail_harness.plane.databases, Mailer(mail), Links(mail_harness.plane.settings))
        await mail_harness.invite()
        await sender.tick(SystemClock().now())
        [waiting] = await mail_harness.mails()
        assert "certificate" in waiting["last_error"].lower()
        assert server.logins == []
        monkeypatch.setenv("SSL_CERT_FILE", str(file))
        assert await sender.tick(SystemClock().now() + LATER)
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


@pytest.mark.thorough
async def test_a_request_for_a_new_password_does_not_end_the_session(
    mail_harness: MailHarness, server: SmtpServer
) -> None:
    """Anyone may ask; only who reads the mail changes something."""
    ann = await People(mail_harness.plane.rooms.identity.accounts, mail_harness.plane.rooms.identity.keys).user()
    assert (await sign_in(mail_harness.client, ann)).status_code == 200
    await mail_harness.client.post("/api/password-resets", json={"email": ann.user.email})
    await mail_harness.sender.tick(SystemClock().now())
    assert len(server.mails) == 1
    assert (await mail_harness.client.get("/api/me")).status_code == 200
    assert (await sign_in(mail_harness.client, ann)).status_code == 200
