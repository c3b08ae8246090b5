"""Alerts about jobs that fail: of workflows, providers and runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from callsheet.wire.operate.operations import Alert, ProviderMetrics, RunsMetrics, StoppedRun, WorkflowMetrics
from callsheet.wire.plurals import counted

MAX_NAME_LENGTH = 80
MAX_DETAIL_LENGTH = 400


class FailureLimits(NamedTuple):
    """The share of failed jobs above which there is an alert, and the number of finished jobs from which it counts."""

    share: float
    share_of_runs: float
    jobs: int


DEFAULT_LIMITS = FailureLimits(share=0.5, share_of_runs=0.3, jobs=10)


class EngineKiller(NamedTuple):
    """A workflow whose jobs crashed or hung engines: how often in the last day, and by how many jobs."""

    workflow: str
    times: int
    jobs: int


def failure_alerts(
    workflows: Iterable[WorkflowMetrics], providers: Iterable[ProviderMetrics], limits: FailureLimits
) -> Iterator[Alert]:
    """About workflows and providers of which too many jobs failed in the last hour."""
    for each in workflows:
        if _is_failing(each, limits):
            yield Alert(
                code="many_failures",
                severity="warning",
                subject=each.workflow,
                message=f"{_failed_jobs(each)} of {each.workflow} failed in the last hour.",
                action="Read their errors: under Operate, Jobs, with the status failed and the workflow "
                f"{each.workflow}.",
            )
    for provider in providers:
        if _is_failing(provider, limits):
            yield Alert(
                code="failing_provider",
                severity="warning",
                subject=provider.provider,
                message=f"{_failed_jobs(provider)} of the provider {provider.provider} failed in the last hour.",
                action="Read their errors under Operate, Jobs, in the view Errors: it groups them by cause. "
                + (
                    "If one worker causes them, drain it under Operate, Workers."
                    if provider.provider == "self_hosted"
                    else "If the provider causes them, set its limit to 0 under Operate, Providers until it works "
                    "again: its jobs then wait."
                ),
            )


def _is_failing(one: WorkflowMetrics | ProviderMetrics, limits: FailureLimits) -> bool:
    finished = one.completed_last_hour + one.failed_last_hour
    return finished >= limits.jobs and one.failed_last_hour > limits.share * finished


def _failed_jobs(one: WorkflowMetrics | ProviderMetrics) -> str:
    return f"{one.failed_last_hour} of {counted(one.completed_last_hour + one.failed_last_hour, 'job')}"


def engine_killers(killers: Iterable[EngineKiller]) -> Iterator[Alert]:
    for each in killers:
        yield Alert(
            code="kills_engines",
            severity="warning",
            subject=each.workflow,
            message=f"Runs of {each.workflow} during which the engine hung or crashed in the last 24 hours: "
            f"{each.times}, of {counted(each.jobs, 'job')}.",
            action="Run the graph by hand at ComfyUI and read its output: often a custom node ends the process or the "
            "thread that renders. Their errors are under Operate, Jobs. Until it is fixed, deactivate the workflow: "
            f"under Operate, Workflows, or with: callsheet workflows deactivate {each.workflow}.",
        )


def run_alerts(pools: Iterable[RunsMetrics], limits: FailureLimits, public_url: str) -> Iterator[Alert]:
    for one in pools:
        yield from (_stopped(run, public_url) for run in one.stopped_runs)
        finished = one.completed + one.failed
        if finished >= limits.jobs and one.failed_share is not None and one.failed_share > limits.share_of_runs:
            yield Alert(
                code="failing_runs",
                severity="warning",
                subject=one.pool,
                message=f"{one.failed} of {counted(finished, 'job')} of runs in {one.pool} failed in the last "
                f"{duration(one.window_seconds)}.",
                action="Find the workflow by its own alert or under Operate, Jobs, with the status failed, and read "
                "the errors of its jobs. A run whose branches fail stops by itself, and its reason says so.",
            )
        if one.broken_runs:
            yield Alert(
                code="broken_runs",
                severity="warning",
                subject=one.pool,
                message="An unexpected error stops the scheduler from advancing "
                f"{counted(one.broken_runs, 'run')} in {one.pool}.",
                action="Look for pipeline.run_stumbled in the logs. It names the run and has the traceback.",
            )


def _stopped(run: StoppedRun, public_url: str) -> Alert:
    detail = (run.reason_detail or "Its jobs failed")[:MAX_DETAIL_LENGTH].rstrip(" .")
    return Alert(
        code="stopped_run",
        severity="warning",
        subject=str(run.id),
        message=f"The run “{run.name[:MAX_NAME_LENGTH]}” ({run.id}) stopped because its jobs failed. {detail}.",
        action=f"Read the errors of its jobs: {public_url}/operate/jobs?status=failed&run={run.id}. When the cause "
        f"is fixed, its user resumes it on its page: {public_url}/runs/{run.id}.",
    )


def duration(seconds: float) -> str:
    minutes = int(seconds // 60)
    return counted(minutes, "minute") if minutes < 120 else counted(minutes // 60, "hour")
