"""Alerts are kept and sent: once for each change, by any number of control planes, killed at any line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import asyncpg
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from standardwebhooks import Webhook
from structlog.testing import capture_logs

from callsheet.identity.links.mail import Mailer
from callsheet.operate.alerts.current import CurrentAlerts
from callsheet.operate.alerts.guide import GUIDE
from callsheet.operate.alerts.keeper import GONE_SECONDS, AlertKeeper
from callsheet.operate.alerts.metrics import AlertMetrics
from callsheet.operate.alerts.sender import MAX_ATTEMPTS, AlertSender
from callsheet.plumbing.failpoints import Crashed, Failpoint, armed, crash
from callsheet.settings import AlertSettings, MailSettings
from callsheet.toolbox.clock import SystemClock
from callsheet.toolbox.webhook_signatures import new_secret
from callsheet.wire.operate.operations import Alert, AlertCode, Severity
from tests.support.http.smtp_server import smtp_server
from tests.support.http.webhook_receiver import receiving
from tests.support.jobs.core import Core
from tests.support.jobs.race_control import paused_at
from tests.support.run.ports import free_port

NOW = SystemClock().now()
SECRET = new_secret()
PLANE = "studio:1"


class ChosenAlerts(CurrentAlerts):
    """Finds what a test chooses. What holds in an installation is tested with the rules."""

    def __init__(self) -> None:
        self.installation: list[Alert] = []
        self.process: list[Alert] = []

    async def of_installation(self) -> list[Alert]:
        return list(self.installation)

    def of_process(self) -> list[Alert]:
        return list(self.process)


def alert(code: AlertCode = "long_wait", subject: str = "upscale", severity: Severity = "warning") -> Alert:
    return Alert(code=code, severity=severity, subject=subject, message="It waits.", action="Add workers.")


def keeper(core: Core, found: ChosenAlerts, process: str = PLANE, **settings: Any) -> AlertKeeper:
    return AlertKeeper(core.databases, found, AlertSettings(**settings), process, "https://callsheet.example.com")


def sender(core: Core, mail: MailSettings | None = None, **settings: Any) -> AlertSender:
    return AlertSender(core.databases, Mailer(mail or MailSettings()), AlertSettings(**settings))


async def send_all(sending: AlertSender) -> None:
    while await sending.tick(NOW):
        pass


async def change(core: Core, query: str) -> None:
    async with core.databases.central.connection() as connection:
        await connection.execute(query)


async def let_time_pass(core: Core) -> None:
    """The last check is old, and every message is due."""
    await change(core, "UPDATE alert_checks SET started_at = '-infinity'")
    await change(core, "UPDATE alert_messages SET due_at = '-infinity'")


async def check(core: Core, checking: AlertKeeper) -> None:
    await let_time_pass(core)
    await checking.tick(NOW)


def known(alerts: Sequence[Alert]) -> list[tuple[str, str, str]]:
    return [(each.process, each.code, each.subject) for each in alerts]


async def test_an_alert_keeps_its_start_time_until_it_ends(core: Core) -> None:
    found = ChosenAlerts()
    checking = keeper(core, found)
    found.installation = [alert()]
    await check(core, checking)
    [first] = await checking.now()
    await check(core, checking)
    [again] = await checking.now()
    assert first.since is not None
    assert again.since == first.since
    found.installation = []
    await check(core, checking)
    assert checking.kept == []
    found.installation = [alert()]
    await check(core, checking)
    [later] = await checking.now()
    assert later.since is not None
    assert later.since > first.since


async def test_the_installation_is_checked_by_one_control_plane_per_interval(core: Core) -> None:
    found, other = ChosenAlerts(), ChosenAlerts()
    found.installation, other.installation = [alert()], [alert(subject="stylize")]
    await check(core, keeper(core, found))
    second = keeper(core, other, "studio:2")
    await second.tick(NOW)
    assert [each.subject for each in second.kept] == ["upscale"]


async def test_a_late_check_does_not_overwrite_a_newer_one(core: Core) -> None:
    slow, fast = ChosenAlerts(), ChosenAlerts()
    slow.installation, fast.installation = [alert(subject="old")], [alert(subject="new")]
    await let_time_pass(core)
    async with paused_at(Failpoint.ALERTS_FOUND_BEFORE_WRITE, keeper(core, slow).tick(NOW)) as checking:
        after = keeper(core, fast, "studio:2")
        await check(core, after)
    await checking
    await after.tick(NOW)
    assert [each.subject for each in after.kept] == ["new"]


async def test_the_kept_alerts_say_at_once_that_the_loops_of_this_process_fail(core: Core) -> None:
    """A keeper whose own ticks fail writes nothing."""
    found = ChosenAlerts()
    checking = keeper(core, found)
    assert await checking.checked_at() is None
    found.installation = [alert()]
    await check(core, checking)
    assert await checking.checked_at() is not None
    found.installation, found.process = [], [alert("failing_loop", "alerts", "critical")]
    assert known(await checking.last()) == [(PLANE, "failing_loop", "alerts"), ("", "long_wait", "upscale")]


async def test_every_control_plane_shows_alerts_about_another_one_until_that_one_is_gone(core: Core) -> None:
    failing, other = ChosenAlerts(), ChosenAlerts()
    failing.process = [alert("failing_loop", "reaper", "critical")]
    await check(core, keeper(core, failing))
    second = keeper(core, other, "studio:2")
    await check(core, second)
    assert known(await second.now()) == [(PLANE, "failing_loop", "reaper")]
    assert known(await second.last()) == [(PLANE, "failing_loop", "reaper")]
    await change(core, f"UPDATE alerts SET seen_at = seen_at - make_interval(secs => {GONE_SECONDS})")
    await check(core, second)
    assert await second.now() == []


async def test_a_webhook_gets_the_start_and_the_end_of_an_alert_signed(core: Core) -> None:
    found = ChosenAlerts()
    async with receiving() as receiver:
        settings = {"webhook_url": receiver.url, "webhook_secret": SECRET, "after_seconds": 0}
        checking, sending = keeper(core, found, **settings), sender(core, **settings)
        found.installation = [alert()]
        for _ in range(3):
            await check(core, checking)
            await send_all(sending)
        found.installation = []
        await check(core, checking)
        await send_all(sending)
    assert [(content["event"], content["code"], content["subject"]) for content in receiver.contents] == [
        ("started", "long_wait", "upscale"),
        ("ended", "long_wait", "upscale"),
    ]
    assert "Add workers." in receiver.contents[0]["text"]
    assert GUIDE["long_wait"].meaning in receiver.contents[0]["text"]
    assert GUIDE["long_wait"].steps in receiver.contents[0]["text"]
    headers, body = receiver.requests[0]
    assert Webhook(SECRET).verify(body, headers) == receiver.contents[0]
    assert headers["webhook-id"] == f"alert_{receiver.contents[0]['id']}"


async def test_an_alert_that_ends_before_its_time_is_not_sent(core: Core) -> None:
    found = ChosenAlerts()
    async with receiving() as receiver:
        settings = {"webhook_url": receiver.url, "after_seconds": 3600}
        checking, sending = keeper(core, found, **settings), sender(core, **settings)
        found.installation = [alert()]
        await check(core, checking)
        found.installation = []
        await check(core, checking)
        await send_all(sending)
    assert receiver.requests == []


async def test_a_warning_that_becomes_critical_is_sent_again(core: Core) -> None:
    found = ChosenAlerts()
    async with receiving() as receiver:
        settings = {"webhook_url": receiver.url, "after_seconds": 0}
        checking, sending = keeper(core, found, **settings), sender(core, **settings)
        for severity in ("warning", "critical", "warning"):
            found.installation = [alert("no_live_worker", severity=severity)]
            await check(core, checking)
        await send_all(sending)
    assert [content["severity"] for content in receiver.contents] == ["warning", "critical"]


async def test_only_critical_alerts_are_sent_where_the_settings_say_so(core: Core) -> None:
    found = ChosenAlerts()
    async with receiving() as receiver:
        settings = {"webhook_url": receiver.url, "after_seconds": 0, "severity": "critical"}
        found.installation = [alert(), alert("no_live_worker", severity="critical")]
        await check(core, keeper(core, found, **settings))
        await send_all(sender(core, **settings))
    assert [content["code"] for content in receiver.contents] == ["no_live_worker"]


async def test_a_refused_message_is_retried_a_limited_number_of_times(core: Core) -> None:
    found = ChosenAlerts()
    async with receiving() as receiver:
        settings = {"webhook_url": receiver.url, "after_seconds": 0}
        sending = sender(core, **settings)
        found.installation = [alert()]
        receiver.status = 500
        await check(core, keeper(core, found, **settings))
        for _ in range(MAX_ATTEMPTS + 3):
            await sending.tick(NOW)
            await let_time_pass(core)
    assert len(receiver.requests) == MAX_ATTEMPTS
    assert len({content["id"] for content in receiver.contents}) == 1
    async with core.databases.central.connection() as connection:
        assert (
            await connection.fetchval("SELECT error FROM alert_messages")
            == "The endpoint returned 500. It must return a status from 200 to 299."
        )


async def test_the_error_of_a_webhook_that_is_not_reachable_does_not_name_its_url(core: Core) -> None:
    found, settings = ChosenAlerts(), {"webhook_url": f"http://127.0.0.1:{free_port()}/T0/secret", "after_seconds": 0}
    found.installation = [alert()]
    await check(core, keeper(core, found, **settings))
    await sender(core, **settings).tick(NOW)
    async with core.databases.central.connection() as connection:
        error = await connection.fetchval("SELECT error FROM alert_messages")
    assert error == "No connection to 127.0.0.1 could be made."


async def test_a_sender_that_crashed_after_sending_sends_the_same_message_again(core: Core) -> None:
    found = ChosenAlerts()
    async with receiving() as receiver:
        settings = {"webhook_url": receiver.url, "after_seconds": 0}
        found.installation = [alert()]
        await check(core, keeper(core, found, **settings))
        with armed({Failpoint.ALERT_SENT_BEFORE_ROW: crash}), pytest.raises(Crashed):
            await sender(core, **settings).tick(NOW)
        await let_time_pass(core)
        await send_all(sender(core, **settings))
    first, second = receiver.contents
    assert first == second


async def test_a_check_that_crashed_before_it_wrote_is_made_again(core: Core) -> None:
    found = ChosenAlerts()
    found.installation = [alert()]
    checking = keeper(core, found, webhook_url="http://127.0.0.1:9/hook", after_seconds=0)
    await let_time_pass(core)
    with armed({Failpoint.ALERTS_FOUND_BEFORE_WRITE: crash}), pytest.raises(Crashed):
        await checking.tick(NOW)
    await check(core, checking)
    async with core.databases.central.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM alert_messages") == 1


async def test_a_change_is_logged_once_it_is_committed(core: Core) -> None:
    found = ChosenAlerts()
    found.installation, found.process = [alert()], [alert("failing_loop", "reaper", "critical")]
    checking = keeper(core, found)
    with capture_logs() as logs:
        await check(core, checking)
        await check(core, checking)
    assert [(line["event"], line["log_level"], line["subject"]) for line in logs] == [
        ("alert.started", "error", "reaper"),
        ("alert.started", "warning", "upscale"),
    ]
    found.installation, found.process = [], []
    with capture_logs() as logs:
        await check(core, checking)
    assert [(line["event"], line["log_level"], line["subject"]) for line in logs] == [
        ("alert.ended", "info", "reaper"),
        ("alert.ended", "info", "upscale"),
    ]


@pytest.mark.parametrize("part", ["installation", "process"])
async def test_a_change_whose_commit_failed_is_logged_when_a_later_commit_succeeds(core: Core, part: str) -> None:
    found = ChosenAlerts()
    setattr(found, part, [alert()])
    checking = keeper(core, found)
    for event in ("alert.started", "alert.ended"):
        # A deferred constraint is checked by the commit, after every statement of the transaction has succeeded.
        await change(
            core,
            """
            CREATE FUNCTION refuse_commit() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN RAISE EXCEPTION 'the commit fails'; END $$;
            CREATE CONSTRAINT TRIGGER refuse_commit AFTER INSERT OR DELETE ON alerts
                DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse_commit();
            """,
        )
        with capture_logs() as logs, pytest.raises(asyncpg.RaiseError, match="the commit fails"):
            await check(core, checking)
        assert [line["event"] for line in logs] == []
        await change(core, "DROP FUNCTION refuse_commit CASCADE")
        with capture_logs() as logs:
            await check(core, checking)
        assert [line["event"] for line in logs] == [event]
        setattr(found, part, [])


async def test_alerts_and_tests_arrive_by_email(core: Core) -> None:
    found = ChosenAlerts()
    found.installation = [alert()]
    settings = {"emails": "on@call.example", "after_seconds": 0}
    with smtp_server() as server:
        checking = keeper(core, found, **settings)
        sending = sender(core, MailSettings(**server.settings), **settings)
        await check(core, checking)
        await send_all(sending)
        assert await checking.write_test("admin:test") == ["on@call.example"]
        await send_all(sending)
    assert [str(mail["Subject"]) for mail in server.mails] == [
        "Callsheet warning alert: It waits.",
        "Callsheet test of alerts: This is a test. Nothing is wrong.",
    ]


async def test_every_control_plane_exports_all_alerts(core: Core) -> None:
    found = ChosenAlerts()
    found.installation, found.process = [alert()], [alert("failing_loop", "reaper", "critical")]
    await check(core, keeper(core, found))
    second = keeper(core, ChosenAlerts(), "studio:2")
    await second.tick(NOW)
    registry = CollectorRegistry()
    registry.register(AlertMetrics(second))
    exported = generate_latest(registry).decode()
    assert 'callsheet_alert{code="long_wait",process="",severity="warning",subject="upscale"} 1.0' in exported
    assert (
        f'callsheet_alert{{code="failing_loop",process="{PLANE}",severity="critical",subject="reaper"}} 1.0' in exported
    )
