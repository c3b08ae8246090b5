"""The outlook of an active job: its position, its remaining time and the reason why it waits. Pure."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from callsheet.jobs.lease.provider_gate import Pause
from callsheet.wire.jobs import JobStatus, WhyWaiting
from callsheet.wire.plurals import choose, counted

# Positions are exact up to this number. Users do not need larger positions, and counting them would scan the queue.
EXACT = 1000
# Below this percentage, an estimate depends more on the worker's first steps than on the rest of the run.
MIN_PERCENT = 5.0
# Estimated remaining time of a run that exceeds the average, as a share of its elapsed time.
OVERTIME = 0.1

# Estimate for a worker start that should be finished by now.
MIN_START_SECONDS = 5

PAUSED = "Jobs of this provider are paused."

# Workflow, stage and provider.
Route = tuple[int, str, str]


class CapacitySource(Protocol):
    """The workers that can run jobs of a route now. The fleet implements it, because jobs do not import the fleet."""

    @property
    def live_workers(self) -> int: ...
    @property
    def slots(self) -> int: ...
    @property
    def busy(self) -> int: ...
    @property
    def scaling_up(self) -> bool: ...
    @property
    def starts_in_seconds(self) -> float | None:
        """When the next starting worker is expected to be ready; None if that is not known."""
        ...

    @property
    def missing(self) -> str:
        """A sentence about what all live workers lack. Empty if workers are missing for another reason."""
        ...


@dataclass(frozen=True, slots=True)
class NoWorkers:
    live_workers: int = 0
    slots: int = 0
    busy: int = 0
    scaling_up: bool = False
    missing: str = ""
    starts_in_seconds: float | None = None


NO_WORKERS = NoWorkers()
CapacityOf = Callable[[Sequence[Route]], Awaitable[Mapping[Route, CapacitySource]]]


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts about one active job, read at `now`."""

    status: JobStatus
    now: datetime
    # Jobs of the same route that are ahead, at most EXACT + 1; None if the job is not in the queue.
    ahead: int | None = None
    not_before: datetime | None = None
    is_active: bool = True
    # The limit of its concurrency identifier, if it has one.
    limit: int | None = None
    in_use: int = 0
    # For the tenant of the job, then for its user: the limit of running jobs (None: no limit), and how many jobs run.
    running_limits: tuple[tuple[int | None, int], tuple[int | None, int]] = ((None, 0), (None, 0))
    # The pause of its provider, if the provider does not respond.
    pause: Pause | None = None
    average_seconds: float | None = None
    running_since: datetime | None = None
    # The worker's last progress report, and its time.
    percent: float | None = None
    elapsed_seconds: float | None = None
    reported_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Outlook:
    queue_position: int | None = None
    queue_position_text: str | None = None
    eta_seconds: int | None = None
    why_waiting: WhyWaiting | None = None


def outlook(facts: Facts, capacity: CapacitySource = NO_WORKERS) -> Outlook:
    if facts.status is JobStatus.PROCESSING:
        return Outlook(0, "0", _rounded(_left_to_run(facts)))
    if facts.ahead is None:
        return Outlook(
            why_waiting=WhyWaiting(
                code="accepted", message="The job was accepted and will be in the queue in a moment."
            )
        )
    position = min(facts.ahead + 1, EXACT)
    text = str(position) if facts.ahead < EXACT else f"{EXACT}+"
    return Outlook(position, text, _rounded(_left_to_wait_and_run(facts, capacity)), _why(facts, capacity))


def _left_to_run(facts: Facts) -> float | None:
    if facts.reported_at is not None and facts.percent is not None and facts.percent >= MIN_PERCENT:
        elapsed = facts.elapsed_seconds
        if elapsed is None:
            elapsed = _seconds_between(facts.running_since, facts.reported_at)
        if elapsed is not None:
            return elapsed * (100 - facts.percent) / facts.percent - (facts.now - facts.reported_at).total_seconds()
    elapsed = _seconds_between(facts.running_since, facts.now)
    if elapsed is None or facts.average_seconds is None:
        return facts.average_seconds
    return max(facts.average_seconds - elapsed, elapsed * OVERTIME)


def _left_to_wait_and_run(facts: Facts, capacity: CapacitySource) -> float | None:
    """The estimated seconds until the end of the job. Assumes that all slots work at the average speed: they share
    the jobs ahead, then the job runs.
    """
    assert facts.ahead is not None
    slots, free = capacity.slots, capacity.slots - capacity.busy
    for limit, in_use in ((facts.limit, facts.in_use), *facts.running_limits):
        if limit is not None:
            slots, free = min(slots, limit), min(free, limit - in_use)
    if facts.average_seconds is None or facts.pause is not None or not facts.is_active:
        return None
    if capacity.slots <= 0 and facts.ahead == 0 and capacity.starts_in_seconds is not None:
        return max(MIN_START_SECONDS, capacity.starts_in_seconds) + facts.average_seconds
    if slots <= 0:
        return None
    in_front = max(0, facts.ahead + 1 - max(0, free))
    wait = in_front * facts.average_seconds / slots
    if facts.not_before is not None:
        wait = max(wait, (facts.not_before - facts.now).total_seconds())
    return wait + facts.average_seconds


def _why(facts: Facts, capacity: CapacitySource) -> WhyWaiting:
    assert facts.ahead is not None
    if not facts.is_active:
        text = "The workflow of this job is switched off. The job waits until the workflow is switched on again."
        return WhyWaiting(code="workflow_off", message=text)
    if facts.pause is not None and not _ends_before(facts.pause, facts.not_before):
        return _paused(facts.pause, facts.now)
    if facts.not_before is not None and facts.not_before > facts.now:
        seconds = math.ceil((facts.not_before - facts.now).total_seconds())
        text = f"The job failed. The next attempt is in {counted(seconds, 'second')}."
        return WhyWaiting(code="retry_at", message=text, retry_at=facts.not_before)
    if capacity.live_workers == 0:
        return _without_workers(capacity)
    if facts.limit is not None and facts.in_use >= facts.limit:
        return WhyWaiting(code="provider_at_limit", message=_at_limit(facts.limit), ahead=_shown(facts.ahead))
    (of_tenant, tenant_runs), (of_user, user_runs) = facts.running_limits
    if of_user is not None and user_runs >= of_user:
        text = f"{_running(user_runs, 'of yours')}, which is the limit for one user."
        return WhyWaiting(code="user_at_limit", message=text, ahead=_shown(facts.ahead))
    if of_tenant is not None and tenant_runs >= of_tenant:
        text = f"{_running(tenant_runs, 'of your tenant')}, which is the limit for one tenant."
        return WhyWaiting(code="tenant_at_limit", message=text, ahead=_shown(facts.ahead))
    if facts.ahead > 0:
        return WhyWaiting(code="ahead", message=_ahead(facts.ahead, capacity), ahead=_shown(facts.ahead))
    if capacity.busy >= capacity.slots:
        workers = counted(capacity.live_workers, "worker")
        return WhyWaiting(
            code="workers_at_capacity", message=f"The job is next, but no slot of {workers} is free.", ahead=0
        )
    return WhyWaiting(code="next", message="The job is next. A worker will take it in a moment.", ahead=0)


def _ends_before(pause: Pause, moment: datetime | None) -> bool:
    return pause.until is not None and moment is not None and pause.until < moment


def _running(jobs: int, whose: str) -> str:
    return f"{counted(jobs, 'job')} {whose} {choose(jobs, 'is', 'are')} running"


def _without_workers(capacity: CapacitySource) -> WhyWaiting:
    if capacity.scaling_up:
        if capacity.starts_in_seconds is None:
            return WhyWaiting(code="scaling_up", message="Workers that can run this job are starting.")
        seconds = max(MIN_START_SECONDS, math.ceil(capacity.starts_in_seconds / 5) * 5)
        return WhyWaiting(
            code="scaling_up", message=f"A worker that can run this job starts in about {counted(seconds, 'second')}."
        )
    if capacity.missing:
        return WhyWaiting(code="workers_lack", message=capacity.missing)
    return WhyWaiting(code="no_live_worker", message="No worker that can run this job is online.")


def _paused(pause: Pause, now: datetime) -> WhyWaiting:
    if pause.until is None or pause.until <= now:
        text = "The provider did not respond. One job at a time tests it."
        return WhyWaiting(code="provider_paused", message=text, retry_at=pause.until)
    seconds = math.ceil((pause.until - now).total_seconds())
    text = f"The provider does not respond. The next attempt is in {counted(seconds, 'second')}."
    return WhyWaiting(code="provider_paused", message=text, retry_at=pause.until)


def _at_limit(limit: int) -> str:
    if limit == 0:
        return PAUSED
    return f"The provider's limit of {counted(limit, 'concurrent job')} is reached."


def _ahead(ahead: int, capacity: CapacitySource) -> str:
    text = f"More than {EXACT} jobs are" if ahead > EXACT else counted(ahead, "job is", "jobs are")
    return f"{text} ahead of this job{'. More workers are starting' if capacity.scaling_up else ''}."


def _shown(ahead: int) -> int:
    return min(ahead, EXACT)


def _seconds_between(start: datetime | None, end: datetime) -> float | None:
    return None if start is None else max(0.0, (end - start).total_seconds())


def _rounded(seconds: float | None) -> int | None:
    return None if seconds is None else math.ceil(max(0.0, seconds))
