"""Alerts for admins, computed from facts. Each alert says what is wrong and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import urlsplit
from uuid import UUID

from callsheet.deliveries.keeper import DisabledEndpoint
from callsheet.identity.links.mail_sender import UnsentMails
from callsheet.media.free_space import PlaceSpace
from callsheet.media.storage.calls import SLOW_SECONDS, CallFigures
from callsheet.operate.alerts.disk_rules import NO_LIMITS, WorkerDisk, disk_alerts, worker_disk_alerts
from callsheet.operate.alerts.failure_rules import (
    DEFAULT_LIMITS,
    EngineKiller,
    FailureLimits,
    duration,
    engine_killers,
    failure_alerts,
    run_alerts,
)
from callsheet.operate.alerts.replication_rules import LAG_SECONDS, replication_alerts
from callsheet.operate.alerts.storage_rules import storage_alerts
from callsheet.plumbing.database.servers.replication_watch import WatchedServer
from callsheet.settings import DiskSettings
from callsheet.wire.operate.operations import Alert, LoopMetrics, ProviderMetrics, RunsMetrics, WorkflowMetrics
from callsheet.wire.plurals import counted

# Fewer failures of a loop may be a coincidence.
FAILURES_IN_A_ROW = 3
NOTHING_UNSENT = UnsentMails()
# A queue that grows for a shorter time is a burst.
AT_MAXIMUM_SECONDS = 300


@dataclass(frozen=True, slots=True)
class RouteFacts:
    """Jobs of a workflow, stage and provider that could be leased now."""

    workflow: str
    stage: str
    provider: str
    oldest_wait_seconds: float
    live_workers: int
    scaling_up: bool
    # Models and nodes that the live workers lack, if that is why none can run the jobs.
    missing: str = ""


class PausedProvider(NamedTuple):
    provider: str
    failures: int
    last_error: str | None
    # The only tenant that the pause applies to.
    shut_for: UUID | None = None


class ScaledFleetFacts(NamedTuple):
    """A fleet that the autoscaler scales."""

    fleet: str
    stage: str
    driver: str
    maximum: int
    # Cause and reason of the last decision, for example paused.
    cause: str | None = None
    reason: str | None = None
    driver_error: str | None = None
    driver_failures: int = 0
    # How long the fleet has been at its maximum, and the seconds of work in its queue at the start and now.
    at_maximum_seconds: float | None = None
    queued_seconds_then: float | None = None
    queued_seconds: float | None = None


class UnsentMessages(NamedTuple):
    """Messages about alerts that were not accepted, and the last error."""

    number: int = 0
    error: str | None = None


NO_MESSAGES = UnsentMessages()


@dataclass(frozen=True, slots=True)
class AlertFacts:
    # Unavailable pools, and why.
    unavailable_pools: Mapping[str, str] = field(default_factory=dict)
    # The servers of databases, with their standbys.
    database_servers: Sequence[WatchedServer] = ()
    standby_lag_seconds: float = LAG_SECONDS
    # Why no object in the storage is deleted.
    storage_problem: str | None = None
    # The calls of the storage by this process.
    storage_calls: Sequence[CallFigures] = ()
    storage_place: str = ""
    slow_storage_seconds: float = SLOW_SECONDS
    # The file systems where this control plane writes.
    disks: Sequence[PlaceSpace] = ()
    worker_disks: Sequence[WorkerDisk] = ()
    disk_limits: DiskSettings = NO_LIMITS
    routes: Sequence[RouteFacts] = ()
    workflows: Sequence[WorkflowMetrics] = ()
    engine_killers: Sequence[EngineKiller] = ()
    unapproved_workers: int = 0
    # Instances that registered while AWS was not reachable.
    unverified_workers: int = 0
    loops: Sequence[LoopMetrics] = ()
    scaled_fleets: Sequence[ScaledFleetFacts] = ()
    paused_limits: Sequence[str] = ()
    paused_providers: Sequence[PausedProvider] = ()
    mails: UnsentMails = NOTHING_UNSENT
    messages: UnsentMessages = NO_MESSAGES
    disabled_endpoints: Sequence[DisabledEndpoint] = ()
    reconciled: Mapping[str, int] | None = None
    max_wait_seconds: int = 900
    runs: Sequence[RunsMetrics] = ()
    finished_by_provider: Sequence[ProviderMetrics] = ()
    failure_limits: FailureLimits = DEFAULT_LIMITS
    # The common start of links.
    public_url: str = ""


def alerts(facts: AlertFacts) -> list[Alert]:
    """All alerts, critical ones first."""
    found = [
        *_pools(facts.unavailable_pools),
        *replication_alerts(facts.database_servers, facts.standby_lag_seconds),
        *_storage(facts.storage_problem),
        *storage_alerts(facts.storage_calls, facts.storage_place, facts.slow_storage_seconds),
        *disk_alerts(facts.disks, facts.disk_limits),
        *worker_disk_alerts(facts.worker_disks),
        *_routes(facts.routes, facts.max_wait_seconds),
        *_loops(facts.loops),
        *_scaled(facts.scaled_fleets),
        *failure_alerts(facts.workflows, facts.finished_by_provider, facts.failure_limits),
        *engine_killers(facts.engine_killers),
        *run_alerts(facts.runs, facts.failure_limits, facts.public_url),
        *_workers(facts.unapproved_workers),
        *_unverified(facts.unverified_workers),
        *_limits(facts.paused_limits),
        *_providers(facts.paused_providers),
        *_mails(facts.mails),
        *_messages(facts.messages),
        *_endpoints(facts.disabled_endpoints),
        *_healed(facts.reconciled or {}),
    ]
    return sorted(found, key=lambda alert: alert.severity != "critical")


def _pools(unavailable: Mapping[str, str]) -> Iterator[Alert]:
    for name, reason in unavailable.items():
        yield Alert(
            code="pool_unavailable",
            severity="critical",
            subject=name,
            message=f"Pool {name} is not available. Its tenants get 503 and its jobs wait. {reason}",
            action="Do what the message says, or start the database again. The pool is opened within seconds, without "
            "a restart. callsheet db status shows every database.",
        )


def _storage(problem: str | None) -> Iterator[Alert]:
    if problem is not None:
        yield Alert(
            code="storage_not_owned",
            severity="critical",
            subject="storage",
            message=problem,
            action="Do what the message says. Deletions that were requested meanwhile happen within a minute.",
        )


def _routes(routes: Iterable[RouteFacts], max_wait_seconds: int) -> Iterator[Alert]:
    for route in routes:
        where = f"{route.workflow} ({route.stage}, {route.provider})"
        if route.live_workers == 0 and route.missing and not route.scaling_up:
            yield Alert(
                code="no_live_worker",
                severity="critical",
                subject=where,
                message=f"Jobs of {where} wait, and no live worker can run them. {route.missing}",
                action="Install what is missing on the workers and restart their engines, or change what the workflow "
                f"requires: under Operate, Workflows, {route.workflow}, tab Requirements.",
            )
        elif route.live_workers == 0:
            yield Alert(
                code="no_live_worker",
                severity="warning" if route.scaling_up else "critical",
                subject=where,
                message=f"Jobs of {where} wait, and no live worker serves them.",
                action="Wait for the workers that are starting."
                if route.scaling_up
                else "Start a worker of a fleet that has this workflow in this stage, or choose other fleets for the "
                f"workflow: under Operate, Workflows, {route.workflow}, tab Settings.",
            )
        elif route.oldest_wait_seconds > max_wait_seconds:
            yield Alert(
                code="long_wait",
                severity="warning",
                subject=where,
                message=f"The oldest job of {where} has waited {duration(route.oldest_wait_seconds)}.",
                action=f"Add workers (there are {route.live_workers}), or look under Operate, Jobs for jobs of "
                f"{route.workflow} that run too long.",
            )


def _loops(loops: Iterable[LoopMetrics]) -> Iterator[Alert]:
    for loop in loops:
        if loop.failures_in_a_row >= FAILURES_IN_A_ROW:
            yield Alert(
                code="failing_loop",
                severity="critical",
                subject=loop.name,
                message=f"The loop {loop.name} of this process has failed "
                f"{counted(loop.failures_in_a_row, 'time')} in a row.",
                action="Look for loop.tick_failed in the log of this process; its error says what is missing.",
            )


def _scaled(fleets: Iterable[ScaledFleetFacts]) -> Iterator[Alert]:
    for each in fleets:
        where = f"{each.fleet} ({each.stage})"
        if each.driver_error is not None and each.driver_failures >= FAILURES_IN_A_ROW:
            yield Alert(
                code="scaling_driver_failing",
                severity="critical",
                subject=where,
                message=f"The driver {each.driver} of the fleet {where} has failed "
                f"{counted(each.driver_failures, 'time')} in a "
                f"row, so no worker is started or ended. The last error: {each.driver_error}",
                action="Do what the error says. The driver is called again every few seconds.",
            )
        if each.cause == "paused":
            yield Alert(
                code="scaling_paused",
                severity="warning",
                subject=where,
                message=f"The fleet {where} is not scaled. {each.reason or ''}".strip(),
                action="Do what the message says.",
            )
        if each.cause == "cannot_run":
            yield Alert(
                code="fleet_cannot_run",
                severity="warning",
                subject=where,
                message=each.reason or "Jobs wait that the workers of this fleet cannot run.",
                action="Install what is missing in the image of its workers, then run: callsheet fleets scale "
                f"{each.fleet} --stage {each.stage} --retry. Or change what the workflow requires: callsheet "
                "workflows show NAME. One worker is tried every six hours.",
            )
        then, now, seconds = each.queued_seconds_then, each.queued_seconds, each.at_maximum_seconds
        if seconds is None or then is None or now is None:
            continue
        if seconds >= AT_MAXIMUM_SECONDS and now > then:
            yield Alert(
                code="fleet_at_maximum",
                severity="warning",
                subject=where,
                message=f"The fleet {where} has its maximum of {counted(each.maximum, 'worker')} for "
                f"{duration(seconds)}, and its "
                f"queue has grown from {then:.0f} to {counted(round(now), 'second')} of work.",
                action=f"Raise the maximum: callsheet fleets scale {each.fleet} --stage {each.stage} --max NUMBER. Or "
                "accept the waiting times.",
            )


def _workers(unapproved: int) -> Iterator[Alert]:
    if unapproved:
        yield Alert(
            code="unapproved_workers",
            severity="warning",
            subject="workers",
            message=f"Workers that wait for approval and get no jobs: {unapproved}.",
            action="Approve or revoke them: under Operate, Workers, or with: callsheet workers approve ID.",
        )


def _unverified(unverified: int) -> Iterator[Alert]:
    if unverified:
        yield Alert(
            code="unverified_workers",
            severity="warning",
            subject="workers",
            message=f"Workers that registered while AWS was not reachable to verify them: {unverified}.",
            action="They are verified again every minute, and revoked if they are not yours. The page Workers "
            "under Operate marks them. Look for asg.unreachable in the log; the control plane needs the right "
            "autoscaling:DescribeAutoScalingInstances. To refuse such workers, set "
            "CALLSHEET_FLEET__ASG_FAIL_OPEN=false.",
        )


def _limits(paused: Iterable[str]) -> Iterator[Alert]:
    for identifier in paused:
        yield Alert(
            code="paused_limit",
            severity="warning",
            subject=identifier,
            message=f"The concurrency limit of {identifier} is 0: its jobs wait until the limit is raised.",
            action="Raise it to let the jobs run again: under Operate, Providers.",
        )


def _providers(paused: Iterable[PausedProvider]) -> Iterator[Alert]:
    for each in paused:
        yield Alert(
            code="provider_paused",
            severity="warning",
            subject=each.provider,
            message=f"{each.provider} failed {counted(each.failures, 'time')} in a row and is paused; "
            f"{_waiting_jobs(each)} wait. The last error: {each.last_error}",
            action="See its last error and its next attempt under Operate, Providers. When it works again, end the "
            "pause there.",
        )


def _waiting_jobs(paused: PausedProvider) -> str:
    if paused.shut_for is None:
        return "its jobs"
    return f"the jobs of tenant {paused.shut_for}, the only tenant whose calls failed,"


def _mails(unsent: UnsentMails) -> Iterator[Alert]:
    if unsent.late or unsent.given_up:
        yield Alert(
            code="mails_not_sent",
            severity="warning",
            subject="mails",
            message=f"E-mails that were not sent: {unsent.late} are late and will be retried, "
            f"{unsent.given_up} failed for good in the last 24 hours. Their recipients wait for a link.",
            action="Open Operate, Users, Unsent e-mails, which has the error of each. Correct the mail settings or the "
            "mail server; then late e-mails are sent. Send e-mails that failed for good again there.",
        )


def _messages(unsent: UnsentMessages) -> Iterator[Alert]:
    if unsent.number:
        yield Alert(
            code="alerts_not_sent",
            severity="warning",
            subject="alerts",
            message=f"Messages about alerts that were not sent in the last 24 hours: {unsent.number}. The last error: "
            f"{unsent.error or 'unknown'}",
            action="Correct the settings of alerts and mail, then send a test alert under Operate, Health.",
        )


def _endpoints(disabled: Iterable[DisabledEndpoint]) -> Iterator[Alert]:
    for each in disabled:
        yield Alert(
            code="endpoint_disabled",
            severity="warning",
            subject=str(each.id),
            # The rest of the URL may be a secret.
            message=f"The webhook endpoint {each.id} at {urlsplit(each.url).hostname} of tenant {each.tenant_id} is "
            f"disabled. {each.disabled_reason}",
            action="Its user corrects the server behind it and sets enabled to true, or deletes the endpoint. Events "
            "of the time in between can be sent again.",
        )


def _healed(reconciled: Mapping[str, int]) -> Iterator[Alert]:
    for kind, count in reconciled.items():
        if count:
            yield Alert(
                code="reconciled",
                severity="warning",
                subject=kind,
                message=f"The reconciler has repaired {kind} {counted(count, 'time')} since this process started.",
                action="Look for reconciler.healed in the log to find out what was inconsistent, and when.",
            )
