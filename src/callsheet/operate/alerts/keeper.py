"""Checks the alerts on a schedule, stores the current ones, logs changes, and writes the messages to send.

Any number of control planes may run this. Each keeps the alerts about itself. One at a time checks the installation: it
takes a turn with a number, and writes its findings only if no other process has taken a later turn. If a process dies,
the next check is at most one interval later. The messages are written in the transaction that marks an alert as sent,
so each change is sent to each recipient. A message may arrive twice, with the same id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from callsheet.identity.audit_log import record
from callsheet.operate.alerts.current import SQL, CurrentAlerts
from callsheet.operate.alerts.messages import KeptAlert, MessageEvent, message, test_message, with_guide
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import Connection
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.settings import AlertSettings
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.loops import Loop
from callsheet.wire.operate.operations import Alert, AlertCode, Severity

log = get_logger(__name__)
INTERVAL_SECONDS = 15.0
# After this time a process that keeps alerts about itself has ended.
GONE_SECONDS = 5 * INTERVAL_SECONDS
MAX_SHOWN = 500
WEBHOOK = "webhook"


class EndedAlert(NamedTuple):
    process: str
    code: AlertCode
    subject: str
    severity: Severity
    message: str
    action: str
    since: datetime
    was_sent: bool

    def kept(self) -> KeptAlert:
        return KeptAlert(*self[:-1])


class AlertChanges(NamedTuple):
    started: Sequence[KeptAlert]
    ended: Sequence[EndedAlert]

    def log(self) -> None:
        """Logs the changes. Called only after the commit: without it, nothing has changed, and the next check finds
        the same changes again.
        """
        for alert in self.started:
            write = log.error if alert.severity == "critical" else log.warning
            write("alert.started", code=alert.code, subject=alert.subject, message=alert.message, action=alert.action)
        for over in self.ended:
            log.info("alert.ended", code=over.code, subject=over.subject, since=over.since.isoformat())


class AlertKeeper(Loop):
    name = "alerts"
    interval_seconds = INTERVAL_SECONDS

    def __init__(
        self, databases: Databases, current: CurrentAlerts, settings: AlertSettings, process: str, installation: str
    ):
        """`process`: the name of this control plane. `installation`: the URL that messages name."""
        super().__init__()
        self._databases = databases
        self._current = current
        self._after_seconds = settings.after_seconds
        self._severities: list[Severity] = ["critical"] if settings.severity == "critical" else ["critical", "warning"]
        self._recipients = recipients(settings)
        self._process = process
        self._installation = installation
        # The alerts at the last tick, for /metrics.
        self.kept: Sequence[KeptAlert] = ()

    async def tick(self, now: datetime) -> None:
        async with self._databases.central.transaction() as connection:
            changes = await self._keep(connection, self._process, self._current.of_process())
        changes.log()
        await self._check_installation()
        self.kept = await self._kept()

    async def _check_installation(self) -> None:
        async with self._databases.central.connection() as connection:
            number = await SQL["start_check"].value(connection, interval_seconds=INTERVAL_SECONDS * 0.8)
        if number is None:
            return
        found = await self._current.of_installation()
        await hit(Failpoint.ALERTS_FOUND_BEFORE_WRITE)
        async with self._databases.central.transaction() as connection:
            # A later check knows more, and has already written it or will.
            if await SQL["lock_check"].value(connection) != number:
                return
            changes = await self._keep(connection, "", found)
            await SQL["delete_old_messages"].run(connection)
        changes.log()

    async def _keep(self, connection: Connection, process: str, found: Sequence[Alert]) -> AlertChanges:
        # Two rules may find the same alert of one subject; the first is the worse one.
        alerts = {(alert.code, alert.subject): alert for alert in reversed(found)}
        columns: dict[str, list[str]] = {
            "codes": [alert.code for alert in alerts.values()],
            "subjects": [alert.subject for alert in alerts.values()],
        }
        started = await SQL["write_alerts"].rows(
            connection,
            KeptAlert,
            process=process,
            severities=[alert.severity for alert in alerts.values()],
            messages=[alert.message for alert in alerts.values()],
            actions=[alert.action for alert in alerts.values()],
            **columns,
        )
        ended = await SQL["end_alerts"].rows(
            connection, EndedAlert, process=process, gone_seconds=GONE_SECONDS, **columns
        )
        await self._write_messages(connection, process, ended)
        return AlertChanges(started, ended)

    async def _write_messages(self, connection: Connection, process: str, ended: Sequence[EndedAlert]) -> None:
        if not self._recipients:
            return
        due = await SQL["alerts_to_send"].rows(
            connection, KeptAlert, process=process, severities=self._severities, after_seconds=self._after_seconds
        )
        changes: list[tuple[MessageEvent, KeptAlert]] = [("started", alert) for alert in due]
        changes += [("ended", alert.kept()) for alert in ended if alert.was_sent]
        contents = [message(event, alert, self._installation) for event, alert in changes]
        await self._write(connection, contents)

    async def _write(self, connection: Connection, contents: Sequence[dict[str, Any]]) -> None:
        if contents:
            await SQL["write_messages"].run(connection, recipients=list(self._recipients), contents=list(contents))

    async def write_test(self, actor: str) -> list[str]:
        """Writes a test message to each recipient; returns the recipients, the webhook without its URL."""
        async with self._databases.central.transaction() as connection:
            await self._write(connection, [test_message(datetime.now(UTC), self._installation)])
            await record(connection, actor, "alert.test", "alert", "test")
        return list(self._recipients)

    async def last(self) -> list[Alert]:
        """The alerts of the last check, critical ones first. The alerts of this process are current: they need no
        statement, and a keeper whose ticks fail cannot write that they fail.
        """
        return self._merged(await self._kept(), {self._process: self._current.of_process()})

    async def now(self) -> list[Alert]:
        """The current alerts, critical ones first, with the time since which they are known."""
        found = {"": await self._current.of_installation(), self._process: self._current.of_process()}
        return self._merged(await self._kept(), found)

    async def checked_at(self) -> datetime | None:
        """When the last check of the installation started."""
        async with self._databases.central.connection() as connection:
            started_at: datetime | None = await SQL["last_check"].value(connection)
        return started_at

    def _merged(self, kept: Sequence[KeptAlert], found: Mapping[str, Sequence[Alert]]) -> list[Alert]:
        """The alerts that were found, by process, and the kept ones of all other processes."""
        since = {(alert.process, alert.code, alert.subject): alert.since for alert in kept}
        merged = [
            with_guide(alert, process, since.get((process, alert.code, alert.subject)))
            for process, alerts in found.items()
            for alert in alerts
        ]
        merged += [with_guide(alert, alert.process, alert.since) for alert in kept if alert.process not in found]
        return sorted(merged, key=lambda alert: alert.severity != "critical")

    async def _kept(self) -> list[KeptAlert]:
        async with self._databases.central.ordinary() as connection:
            return await SQL["list_alerts"].rows(connection, KeptAlert, limit=MAX_SHOWN)


def recipients(settings: AlertSettings) -> tuple[str, ...]:
    """The recipients of messages: `webhook`, and e-mail addresses. Pure."""
    return (*((WEBHOOK,) if settings.webhook_url is not None else ()), *settings.emails)
