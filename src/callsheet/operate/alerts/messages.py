"""The messages about alerts, for a webhook and for e-mail. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from callsheet.operate.alerts.guide import GUIDE, Guide
from callsheet.wire.operate.operations import Alert, AlertCode, Severity

MessageEvent = Literal["started", "ended", "test"]
WORDS: Mapping[MessageEvent, str] = {"started": "alert", "ended": "alert ended", "test": "test of alerts"}
MAX_SUBJECT_LENGTH = 150
TEST_GUIDE = Guide("This is a test. Nothing is wrong.", "Nothing. Messages about alerts reach you.")


class KeptAlert(NamedTuple):
    """An alert in the database. `process` is empty for alerts of the installation."""

    process: str
    code: AlertCode
    subject: str
    severity: Severity
    message: str
    action: str
    since: datetime


def with_guide(alert: Alert | KeptAlert, process: str, since: datetime | None) -> Alert:
    guide = GUIDE[alert.code]
    return Alert(
        code=alert.code,
        severity=alert.severity,
        subject=alert.subject,
        message=alert.message,
        action=alert.action,
        meaning=guide.meaning,
        steps=guide.steps,
        since=since,
        process=process,
    )


def message(event: MessageEvent, alert: KeptAlert, installation: str) -> dict[str, Any]:
    """The JSON for the webhook. Slack and Mattermost show only `text`, so `text` contains everything about an alert
    that started.
    """
    guide = GUIDE[alert.code]
    lines = [f"Callsheet {alert.severity} {WORDS[event]}: {alert.message}"]
    if event != "ended":
        lines += [f"What to do: {alert.action}", f"What it means: {guide.meaning}", f"Steps: {guide.steps}"]
        lines += [f"{installation}/operate"]
    return {
        "event": event,
        "installation": installation,
        **alert._asdict(),
        "since": alert.since.isoformat(),
        "meaning": guide.meaning,
        "steps": guide.steps,
        "text": "\n".join(lines),
    }


def test_message(now: datetime, installation: str) -> dict[str, Any]:
    return {
        "event": "test",
        "installation": installation,
        "since": now.astimezone(UTC).isoformat(),
        "message": TEST_GUIDE.meaning,
        "action": TEST_GUIDE.steps,
        "meaning": TEST_GUIDE.meaning,
        "steps": TEST_GUIDE.steps,
        "text": f"Callsheet test of alerts: {TEST_GUIDE.meaning}\n{TEST_GUIDE.steps}\n{installation}/operate",
    }


def email(content: Mapping[str, Any]) -> tuple[str, str]:
    """Subject and text of an e-mail with the content of a message."""
    event: MessageEvent = content["event"]
    severity = f"{content['severity']} " if "severity" in content else ""
    # A subject must be one line.
    summary = " ".join(str(content["message"]).split())
    subject = f"Callsheet {severity}{WORDS[event]}: {summary}"[:MAX_SUBJECT_LENGTH]
    parts = [str(content["message"])]
    if event == "started":
        parts += [f"What to do: {content['action']}", f"What it means: {content['meaning']} {content['steps']}"]
    parts += [f"Since {content['since']}. {content['installation']}/operate"]
    return subject, "\n\n".join(parts) + "\n"


def webhook_body(number: int, content: Mapping[str, Any]) -> bytes:
    """The body of the webhook. `id` stays the same when a message is sent again, so that the receiver can recognize
    it.
    """
    return json.dumps({"id": number, **content}, ensure_ascii=False).encode()
