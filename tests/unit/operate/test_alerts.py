"""What admins are alerted to, as a table; each alert says what to do."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args
from uuid import UUID

import pytest

from callsheet.deliveries.keeper import DisabledEndpoint
from callsheet.identity.links.mail_sender import UnsentMails
from callsheet.media.free_space import PlaceSpace
from callsheet.media.storage.calls import CallFigures, CallKind
from callsheet.operate.alerts.disk_rules import WorkerDisk
from callsheet.operate.alerts.failure_rules import EngineKiller, FailureLimits
from callsheet.operate.alerts.guide import GUIDE
from callsheet.operate.alerts.messages import TEST_GUIDE, KeptAlert, email, message, webhook_body
from callsheet.operate.alerts.messages import test_message as make_test_message
from callsheet.operate.alerts.rules import (
    AlertFacts,
    PausedProvider,
    RouteFacts,
    ScaledFleetFacts,
    UnsentMessages,
    alerts,
)
from callsheet.pipelines.run.figures import MAX_SETTLED, RunCounts, numbers_view
from callsheet.settings import DiskSettings
from callsheet.toolbox.ids import uuid7
from callsheet.wire.operate.operations import (
    AlertCode,
    LoopMetrics,
    ProviderMetrics,
    RunsMetrics,
    StoppedRun,
    WorkflowMetrics,
)


def route(**changes: Any) -> RouteFacts:
    values = {"workflow": "upscale", "stage": "production", "provider": "self_hosted", "oldest_wait_seconds": 10.0}
    return RouteFacts(**{**values, "live_workers": 1, "scaling_up": False, **changes})


NOW = datetime(2026, 1, 1, tzinfo=UTC)
LIMITS = DiskSettings(reserve_bytes=10, warning_bytes=50)


def disk(free_bytes: int, *, is_needed: bool = True) -> PlaceSpace:
    return PlaceSpace("storage", Path("/data/storage"), free_bytes, 100, 1, is_needed)


def workflow(completed: int, failed: int) -> WorkflowMetrics:
    zero = dict.fromkeys(("queued", "delayed", "leased", "waiting", "live_workers", "live_slots", "busy_slots"), 0)
    return WorkflowMetrics(
        workflow="upscale", is_active=True, completed_last_hour=completed, failed_last_hour=failed, **zero
    )


def loop(failures_in_a_row: int) -> LoopMetrics:
    return LoopMetrics(name="reaper", ticks=9, failures=9, failures_in_a_row=failures_in_a_row)


def runs(completed: int, failed: int, broken: int = 0) -> RunsMetrics:
    counts = RunCounts(
        active_runs=0,
        blocked_runs=0,
        broken_runs=broken,
        jobs_under_way=0,
        oldest_job_seconds=None,
        completed=completed,
        failed=failed,
        canceled=0,
        average_seconds=None,
        p95_seconds=None,
        due_thumbnails=0,
        settled_seconds=600.4,
    )
    return numbers_view("pool_1", 3600, counts)


STOPPED_ID = UUID(int=7)


def stopped(**changes: Any) -> RunsMetrics:
    values = {"id": STOPPED_ID, "tenant_id": UUID(int=1), "user_id": UUID(int=2), "name": "Ads", "stopped_at": NOW}
    run = StoppedRun(**{**values, "reason": "base_failed", "reason_detail": "Jobs that failed: 3.", **changes})
    return runs(0, 3).model_copy(update={"stopped_runs": [run]})


def provider(completed: int, failed: int, name: str = "replicate") -> ProviderMetrics:
    return ProviderMetrics(provider=name, completed_last_hour=completed, failed_last_hour=failed)


def calls(kind: CallKind, number: int, failed: int = 0, slow: int = 0, in_a_row: int = 0) -> CallFigures:
    return CallFigures(kind, number, failed, number, slow, in_a_row, "The object store cannot be used.")


def scaled(**changes: object) -> ScaledFleetFacts:
    facts = ScaledFleetFacts("gpu", "production", "command", 3, queued_seconds_then=50.0)
    return facts._replace(**changes)  # type: ignore[arg-type]


UPSCALE = "upscale (production, self_hosted)"


@pytest.mark.parametrize(
    ("facts", "found"),
    [
        (AlertFacts(), []),
        (AlertFacts(disks=[disk(50)], disk_limits=LIMITS), []),
        (AlertFacts(disks=[disk(49)], disk_limits=LIMITS), [("low_disk", "warning", "storage")]),
        (AlertFacts(disks=[disk(10)], disk_limits=LIMITS), [("low_disk", "warning", "storage")]),
        (AlertFacts(disks=[disk(9)], disk_limits=LIMITS), [("low_disk", "critical", "storage")]),
        # Jobs need neither the data directory with a database by DSN, nor this disk.
        (AlertFacts(disks=[disk(9, is_needed=False)], disk_limits=LIMITS), [("low_disk", "warning", "storage")]),
        (AlertFacts(worker_disks=[WorkerDisk("gpu-1", 9, 100)]), [("low_worker_disk", "warning", "gpu-1")]),
        (AlertFacts(routes=[route()]), []),
        (AlertFacts(routes=[route(live_workers=0)]), [("no_live_worker", "critical", UPSCALE)]),
        (AlertFacts(routes=[route(live_workers=0, scaling_up=True)]), [("no_live_worker", "warning", UPSCALE)]),
        (AlertFacts(scaled_fleets=[scaled(driver_error="No.", driver_failures=2)]), []),
        (
            AlertFacts(scaled_fleets=[scaled(driver_error="No.", driver_failures=3)]),
            [("scaling_driver_failing", "critical", "gpu (production)")],
        ),
        (AlertFacts(scaled_fleets=[scaled(at_maximum_seconds=301, queued_seconds=50)]), []),
        (AlertFacts(scaled_fleets=[scaled(at_maximum_seconds=299, queued_seconds=51)]), []),
        (
            AlertFacts(scaled_fleets=[scaled(at_maximum_seconds=301, queued_seconds=51)]),
            [("fleet_at_maximum", "warning", "gpu (production)")],
        ),
        (AlertFacts(scaled_fleets=[scaled(cause="paused")]), [("scaling_paused", "warning", "gpu (production)")]),
        (
            AlertFacts(scaled_fleets=[scaled(cause="cannot_run")]),
            [("fleet_cannot_run", "warning", "gpu (production)")],
        ),
        (AlertFacts(routes=[route(oldest_wait_seconds=900)]), []),
        (AlertFacts(routes=[route(oldest_wait_seconds=901)]), [("long_wait", "warning", UPSCALE)]),
        (
            AlertFacts(routes=[route(oldest_wait_seconds=61)], max_wait_seconds=60),
            [("long_wait", "warning", UPSCALE)],
        ),
        (
            AlertFacts(engine_killers=[EngineKiller("stylize", 3, 1)]),
            [("kills_engines", "warning", "stylize")],
        ),
        (AlertFacts(unapproved_workers=2), [("unapproved_workers", "warning", "workers")]),
        (AlertFacts(loops=[loop(2)]), []),
        (AlertFacts(loops=[loop(3)]), [("failing_loop", "critical", "reaper")]),
        (AlertFacts(paused_limits=["replicate"]), [("paused_limit", "warning", "replicate")]),
        (
            AlertFacts(paused_providers=[PausedProvider("replicate", 5, "It answered 503.")]),
            [("provider_paused", "warning", "replicate")],
        ),
        (AlertFacts(workflows=[workflow(0, 9)]), []),
        (AlertFacts(workflows=[workflow(5, 5)]), []),
        (AlertFacts(workflows=[workflow(5, 6)]), [("many_failures", "warning", "upscale")]),
        (AlertFacts(runs=[runs(7, 3)]), []),
        (AlertFacts(runs=[runs(5, 4)]), []),
        (AlertFacts(runs=[runs(6, 4)]), [("failing_runs", "warning", "pool_1")]),
        (AlertFacts(runs=[runs(6, 4)], failure_limits=FailureLimits(0.5, 0.5, 10)), []),
        (AlertFacts(runs=[runs(6, 4)], failure_limits=FailureLimits(0.5, 0.3, 11)), []),
        # Three jobs are enough to stop a run, and too few for a share.
        (AlertFacts(runs=[stopped()]), [("stopped_run", "warning", str(STOPPED_ID))]),
        (AlertFacts(runs=[stopped(reason_detail=None)]), [("stopped_run", "warning", str(STOPPED_ID))]),
        (AlertFacts(finished_by_provider=[provider(0, 9)]), []),
        (AlertFacts(finished_by_provider=[provider(5, 5)]), []),
        (AlertFacts(finished_by_provider=[provider(5, 6)]), [("failing_provider", "warning", "replicate")]),
        (
            AlertFacts(finished_by_provider=[provider(5, 6, "self_hosted")]),
            [("failing_provider", "warning", "self_hosted")],
        ),
        (
            AlertFacts(finished_by_provider=[provider(3, 1)], failure_limits=FailureLimits(0.2, 0.3, 4)),
            [("failing_provider", "warning", "replicate")],
        ),
        (AlertFacts(workflows=[workflow(3, 1)], failure_limits=FailureLimits(0.25, 0.3, 4)), []),
        (
            AlertFacts(workflows=[workflow(3, 1)], failure_limits=FailureLimits(0.2, 0.3, 4)),
            [("many_failures", "warning", "upscale")],
        ),
        (AlertFacts(runs=[runs(0, 0, broken=1)]), [("broken_runs", "warning", "pool_1")]),
        (AlertFacts(storage_problem="It is not ours."), [("storage_not_owned", "critical", "storage")]),
        (AlertFacts(storage_calls=[calls("write", 2, failed=2)]), []),
        (AlertFacts(storage_calls=[calls("write", 5, failed=3)]), [("storage_failing", "critical", "write")]),
        (AlertFacts(storage_calls=[calls("read", 6, failed=3)]), [("storage_failing", "warning", "read")]),
        (
            AlertFacts(storage_calls=[calls("read", 99, failed=3, in_a_row=3)]),
            [("storage_failing", "critical", "read")],
        ),
        (AlertFacts(storage_calls=[calls("read", 9, slow=9)]), []),
        (AlertFacts(storage_calls=[calls("read", 10, slow=5)]), []),
        (AlertFacts(storage_calls=[calls("read", 10, slow=6)]), [("slow_storage", "warning", "read")]),
        (AlertFacts(mails=UnsentMails(late=1)), [("mails_not_sent", "warning", "mails")]),
        (AlertFacts(mails=UnsentMails(given_up=2)), [("mails_not_sent", "warning", "mails")]),
        (
            AlertFacts(messages=UnsentMessages(3, "The webhook returned 404.")),
            [("alerts_not_sent", "warning", "alerts")],
        ),
        (AlertFacts(reconciled={"missing_dispatch": 0}), []),
        (AlertFacts(reconciled={"missing_dispatch": 3}), [("reconciled", "warning", "missing_dispatch")]),
    ],
)
def test_each_fact_raises_its_alert(facts: AlertFacts, found: list[tuple[str, str, str]]) -> None:
    raised = alerts(facts)
    assert [(alert.code, alert.severity, alert.subject) for alert in raised] == found
    assert all(alert.message.endswith(".") and alert.action.endswith(".") for alert in raised)
    assert [alert.code for alert in raised if "/api/" in alert.action] == []


def test_the_alert_of_a_stopped_run_names_it_and_links_to_it_and_to_its_failed_jobs() -> None:
    [alert] = alerts(AlertFacts(runs=[stopped()], public_url="https://callsheet.example.com"))
    assert f"The run “Ads” ({STOPPED_ID}) stopped because its jobs failed. Jobs that failed: 3." in alert.message
    assert f"https://callsheet.example.com/operate/jobs?status=failed&run={STOPPED_ID}." in alert.action
    assert f"https://callsheet.example.com/runs/{STOPPED_ID}." in alert.action


def test_the_critical_ones_come_first() -> None:
    facts = AlertFacts(unapproved_workers=1, paused_limits=["a"], routes=[route(live_workers=0)], loops=[loop(5)])
    severities = [alert.severity for alert in alerts(facts)]
    assert severities == sorted(severities)
    assert severities[0] == "critical"


@pytest.mark.parametrize(("seconds", "text"), [(1800, "30 minutes"), (7199, "119 minutes"), (7200, "2 hours")])
def test_a_long_wait_is_written_in_words(seconds: float, text: str) -> None:
    [alert] = alerts(AlertFacts(routes=[route(oldest_wait_seconds=seconds)]))
    assert text in alert.message


def test_the_rate_of_many_jobs_is_computed_over_the_time_of_the_last_ones() -> None:
    few, many = runs(MAX_SETTLED - 2, 1), runs(MAX_SETTLED - 1, 1)
    assert (few.window_seconds, many.window_seconds) == (3600, 600)
    assert many.jobs_per_minute == MAX_SETTLED / 10


def test_every_alert_has_a_guide_in_whole_sentences() -> None:
    assert set(GUIDE) == set(get_args(AlertCode))
    assert [
        code for code, guide in GUIDE.items() if not (guide.meaning.endswith(".") and guide.steps.endswith("."))
    ] == []


def test_guides_name_pages_and_commands_and_no_calls_of_the_api() -> None:
    assert [code for code, guide in GUIDE.items() if "/api/" in guide.steps] == []


def test_an_email_has_a_subject_of_one_line_and_says_what_to_do() -> None:
    alert = KeptAlert("", "long_wait", "upscale", "warning", "It has\nwaited.", "Add workers.", datetime.now(UTC))
    subject, text = email(message("started", alert, "https://callsheet.example.com"))
    assert subject == "Callsheet warning alert: It has waited."
    assert "What to do: Add workers." in text
    assert GUIDE["long_wait"].meaning in text
    assert "https://callsheet.example.com/operate" in text


@pytest.mark.parametrize("code", GUIDE)
def test_a_webhook_gets_the_meaning_and_the_steps_as_fields_and_in_the_text(code: AlertCode) -> None:
    alert = KeptAlert("", code, "upscale", "warning", "It has waited.", "Add workers.", datetime.now(UTC))
    content = message("started", alert, "https://callsheet.example.com")
    sent = json.loads(webhook_body(7, content))
    guide = GUIDE[code]
    assert (sent["meaning"], sent["steps"]) == (guide.meaning, guide.steps)
    assert sent["text"].splitlines() == [
        "Callsheet warning alert: It has waited.",
        "What to do: Add workers.",
        f"What it means: {guide.meaning}",
        f"Steps: {guide.steps}",
        "https://callsheet.example.com/operate",
    ]


def test_the_text_of_an_alert_that_ended_is_one_line() -> None:
    alert = KeptAlert("", "long_wait", "upscale", "warning", "It has waited.", "Add workers.", datetime.now(UTC))
    sent = message("ended", alert, "https://callsheet.example.com")
    assert sent["text"] == "Callsheet warning alert ended: It has waited."
    assert sent["steps"] == GUIDE["long_wait"].steps


def test_a_test_message_has_the_same_fields_as_an_alert() -> None:
    sent = make_test_message(datetime.now(UTC), "https://callsheet.example.com")
    assert (sent["meaning"], sent["steps"]) == (TEST_GUIDE.meaning, TEST_GUIDE.steps)
    assert TEST_GUIDE.meaning in sent["text"]
    assert TEST_GUIDE.steps in sent["text"]


def test_a_disabled_endpoint_is_an_alert_with_its_reason_and_without_the_path_of_its_url() -> None:
    tenant, endpoint = uuid7(), uuid7()
    disabled = DisabledEndpoint(tenant, endpoint, "https://shop.example.com/secret-path", "It returned 410.")
    [found] = alerts(AlertFacts(disabled_endpoints=[disabled]))
    assert (found.code, found.subject) == ("endpoint_disabled", str(endpoint))
    assert "It returned 410." in found.message
    assert str(tenant) in found.message
    assert "secret-path" not in found.message
