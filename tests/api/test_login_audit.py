"""Logins and failed logins are in the audit log, without typed texts, and cannot fill it."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import httpx
import pytest

from callsheet.app.control_plane import ControlPlane
from callsheet.identity.access import login_audit
from callsheet.identity.access.attempts import Attempts
from callsheet.identity.access.login_audit import LoginAudit
from callsheet.identity.access.sessions import SessionSweeper
from callsheet.identity.accounts.management import UserManagement
from callsheet.identity.accounts.managers import COMMAND_LINE
from callsheet.identity.audit_log import AuditLog
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.installation.secrets import master_secret
from callsheet.settings import Settings
from callsheet.toolbox.ids import uuid7
from callsheet.wire.operate.audit import AuditEntry, AuditFilter
from tests.support.http.accounts import PASSWORD, People, Person, session_of, sign_in

TYPED = "a wrong password"


async def lines(databases: Databases, subject: object) -> list[AuditEntry]:
    """Of a user's logins, oldest first."""
    wanted = AuditFilter(subject_type="user", subject_id=str(subject))
    page = await AuditLog(databases).list(wanted, None, 200)
    return [entry for entry in reversed(page.items) if "login" in entry.action]


async def test_logins_are_listed_with_the_ip_address_and_without_the_typed_texts(
    plane: ControlPlane, client: httpx.AsyncClient, people: People
) -> None:
    ann = await people.user()
    await sign_in(client, ann, TYPED)
    session = await session_of(client, ann)
    guess = {"current_password": TYPED, "new_password": "another long password"}
    await client.post("/api/me/password", json=guess, headers=session)
    found = await lines(plane.databases, ann.user.id)
    assert [(entry.action, entry.actor, entry.details) for entry in found] == [
        ("user.login_failed", "anonymous", {"address": "127.0.0.1", "where": "login"}),
        ("user.login", f"user:{ann.user.id}", {"address": "127.0.0.1"}),
        ("user.login_failed", "anonymous", {"address": "127.0.0.1", "where": "password change"}),
    ]
    assert {entry.tenant_id for entry in found} == {ann.tenant.id}
    # The list adds the names of people from their accounts; the lines themselves keep none.
    kept = str([entry.model_dump(exclude={"actor_email", "subject_name"}) for entry in found])
    assert not [text for text in (TYPED, PASSWORD, ann.user.email) if text in kept]


async def test_a_failed_login_of_an_unknown_account_does_not_store_the_name(
    plane: ControlPlane, client: httpx.AsyncClient
) -> None:
    typed = {"email": "my-password-by-mistake", "password": TYPED}
    assert (await client.post("/api/auth/login", json=typed)).status_code == 401
    found = await lines(plane.databases, "unknown")
    # Other tests fail at no account too, and all have one limit.
    assert {entry.actor for entry in found} == {"anonymous"}
    assert {entry.tenant_id for entry in found} == {None}
    assert "by-mistake" not in str(found)


class BoundedLoginAudit:
    """The audit of an installation, with few lines per window."""

    def __init__(self, databases: Databases, settings: Settings):
        self.databases = databases
        self.audit = LoginAudit(databases, Attempts(databases, settings.identity, master_secret(settings)))
        self.tenant_id = uuid7()

    async def fail(self, user_id: UUID | None, times: int) -> None:
        for _ in range(times):
            await self.audit.failed((user_id, self.tenant_id) if user_id else None, "192.0.2.1")

    async def actions(self, subject: object) -> Counter[str]:
        return Counter(entry.action for entry in await lines(self.databases, subject))


@pytest.fixture
async def bounded_login_audit(
    databases: Databases, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> BoundedLoginAudit:
    """The audit of logins, with small limits."""
    for name, value in {"FAILURES": 3, "ALL_FAILURES": 10, "UNKNOWN_FAILURES": 4, "LOGINS": 2}.items():
        monkeypatch.setattr(login_audit, name, value)
    # A day long, so that none ends in the middle of a test.
    monkeypatch.setattr(login_audit, "WINDOW_SECONDS", 86_400)
    return BoundedLoginAudit(databases, settings)


@pytest.mark.thorough
async def test_failed_logins_cannot_fill_the_log(bounded_login_audit: BoundedLoginAudit) -> None:
    ann, bob = uuid7(), uuid7()
    await bounded_login_audit.fail(None, 100)
    assert await bounded_login_audit.actions("unknown") == {"user.login_failed": 4, "user.logins_unlisted": 1}
    await bounded_login_audit.fail(ann, 100)
    assert await bounded_login_audit.actions(ann) == {"user.login_failed": 3, "user.logins_unlisted": 1}
    # Neither hides what happens at another account.
    await bounded_login_audit.fail(bob, 2)
    assert await bounded_login_audit.actions(bob) == {"user.login_failed": 2}
    others = [uuid7() for _ in range(20)]
    for other in others:
        await bounded_login_audit.fail(other, 50)
    listed = sum([await bounded_login_audit.actions(other) for other in others], Counter[str]())
    # Ten for all accounts together, six of which were ann's and bob's.
    assert listed.total() == 4
    assert await bounded_login_audit.actions("all") == {"user.logins_unlisted": 1}


async def test_logins_cannot_fill_the_log(bounded_login_audit: BoundedLoginAudit) -> None:
    ann = uuid7()
    for _ in range(10):
        async with bounded_login_audit.databases.central.transaction() as connection:
            await bounded_login_audit.audit.succeeded(connection, ann, bounded_login_audit.tenant_id, "x" * 1000)
    assert await bounded_login_audit.actions(ann) == {"user.login": 2}
    assert {len(entry.details["address"]) for entry in await lines(bounded_login_audit.databases, ann)} == {64}


async def test_old_logins_are_deleted_from_the_audit_log_and_changes_are_kept(
    databases: Databases, settings: Settings
) -> None:
    old, young = uuid7(), uuid7()
    insert = "INSERT INTO audit_logs (at, actor, action, subject_type, subject_id) VALUES ($1, 'x', $2, 'user', $3)"
    now = datetime.now(UTC)
    kept = timedelta(days=settings.identity.login_log_days)
    async with databases.central.connection() as connection:
        for action in ("user.login", "user.login_failed", "user.logins_unlisted", "user.disable"):
            await connection.execute(insert, now - kept - timedelta(hours=1), action, str(old))
            await connection.execute(insert, now - kept + timedelta(hours=1), action, str(young))
        await SessionSweeper(databases, settings.identity).tick(now)
        counted = "SELECT action FROM audit_logs WHERE subject_id = $1"
        left: dict[str, Any] = {
            name: {row["action"] for row in await connection.fetch(counted, str(subject))}
            for name, subject in (("old", old), ("young", young))
        }
    assert left["old"] == {"user.disable"}
    assert len(left["young"]) == 4


async def test_the_counts_of_log_lines_are_kept_by_the_sweeper(
    bounded_login_audit: BoundedLoginAudit, settings: Settings
) -> None:
    """Their windows are longer than those of the attempts."""
    ann = uuid7()
    await bounded_login_audit.fail(ann, 3)
    await SessionSweeper(bounded_login_audit.databases, settings.identity).tick(datetime.now(UTC))
    await bounded_login_audit.fail(ann, 3)
    assert await bounded_login_audit.actions(ann) == {"user.login_failed": 3, "user.logins_unlisted": 1}


async def test_a_deleted_user_leaves_no_ip_address_in_the_log(
    plane: ControlPlane, client: httpx.AsyncClient, people: People
) -> None:
    await people.admin()
    ann: Person = await people.user()
    await session_of(client, ann)
    management = UserManagement(plane.databases, plane.rooms.identity.keys)
    await management.anonymise(COMMAND_LINE, ann.user.id)
    [line] = await lines(plane.databases, ann.user.id)
    assert (line.action, line.details) == ("user.login", {})
