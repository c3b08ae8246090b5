"""Decides how many workers a fleet should have. It uses no clock and no I/O, so a year can be replayed.

All durations are in seconds; moments are seconds since any fixed start, which must be the same for all of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from callsheet.wire.plurals import counted

MAX_WORKERS = 1000
MAX_SECONDS = 7 * 86_400.0
# 10 * (1 - 0.7) is 3.0000000000000004, which must not be rounded up to 4.
ROUNDING = 1e-9
# Sums of moments, in seconds since 1970, are exact to some microseconds.
ROUNDING_SECONDS = 1e-4

# Cause of a decision, to compare it with the last one; `reason` explains it with the current numbers.
Cause = Literal[
    "steady",
    "first_job",
    "below_minimum",
    "backlog",
    "at_maximum",
    "cooling",
    "idle",
    "above_maximum",
    "unknown_queue",
    "cannot_run",
]


class PolicyError(ValueError):
    """A rule with an invalid value; `field` names it."""

    def __init__(self, field: str, reason: str):
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Policy:
    """The scaling rules of one fleet."""

    minimum: int = 0
    maximum: int = 1
    # Wanted backlog per slot of a worker: approximate wait of the last job in the queue.
    target_seconds: float = 120.0
    # An ordered worker is expected within this time; until then it counts as coming.
    warm_up_seconds: float = 180.0
    # Time between two orders. The first job of a fleet without workers, and the minimum, do not wait for it.
    scale_out_cooldown_seconds: float = 30.0
    # Minimum time from the last change in either direction until workers are drained.
    scale_in_cooldown_seconds: float = 300.0
    # A worker is drained if the busiest moment of this time did not need it.
    idle_seconds: float = 300.0
    # Minimum number of on-demand workers.
    on_demand_minimum: int = 0
    # Share of spot workers above on_demand_minimum.
    spot_share: float = 1.0

    def __post_init__(self) -> None:
        if not 1 <= self.maximum <= MAX_WORKERS:
            raise PolicyError("maximum", f"The maximum must be between 1 and {MAX_WORKERS}.")
        if not 0 <= self.minimum <= self.maximum:
            raise PolicyError("minimum", f"The minimum must be between 0 and the maximum of {self.maximum}.")
        if not 0 <= self.on_demand_minimum <= self.maximum:
            raise PolicyError(
                "on_demand_minimum", f"The on-demand minimum must be between 0 and the maximum of {self.maximum}."
            )
        if not 0 <= self.spot_share <= 1:
            raise PolicyError("spot_share", "The spot share must be between 0 and 1.")
        for name in (
            "target_seconds",
            "warm_up_seconds",
            "scale_out_cooldown_seconds",
            "scale_in_cooldown_seconds",
            "idle_seconds",
        ):
            lowest = 1 if name == "target_seconds" else 0
            if not lowest <= getattr(self, name) <= MAX_SECONDS:
                raise PolicyError(name, f"The value must be between {lowest} and {MAX_SECONDS:.0f} seconds.")

    def on_demand(self, wanted: int) -> int:
        """How many of `wanted` workers are on-demand. Fractions are rounded up."""
        above = max(0, wanted - self.on_demand_minimum)
        return min(wanted, self.on_demand_minimum + math.ceil(above * (1 - self.spot_share) - ROUNDING))


@dataclass(frozen=True, slots=True)
class PolicyWorker:
    """A registered worker, as the policy sees it."""

    id: str
    slots: int
    busy: int
    is_draining: bool
    is_spot: bool
    started_at: float
    # None while the worker holds a job.
    idle_since: float | None
    # False for a worker that the driver does not know, for example one started by hand: it counts and stays.
    can_be_ended: bool = True
    # False for a worker that an operator drained, or that is being ended: it gets no jobs again.
    can_be_undrained: bool = True
    # Slots needed on average since the last look for jobs that started and ended between the two looks.
    unseen: float = 0.0


@dataclass(frozen=True, slots=True)
class History:
    """State from one decision to the next. The loop stores it in the database, the simulator in memory."""

    last_out_at: float | None = None
    last_in_at: float | None = None
    # Start of the looks without a gap, and time of the last look.
    watched_since: float | None = None
    seen_at: float | None = None
    # The largest needs within the last idle_seconds, as (moment, workers), oldest and largest first.
    peaks: tuple[tuple[float, int], ...] = ()
    # Average slots of a worker of this fleet, kept while it has no workers.
    slots: float = 1.0


@dataclass(frozen=True, slots=True)
class Situation:
    now: float
    # Jobs that a worker of the fleet could take now, without delayed jobs.
    queued_jobs: int
    queued_seconds: float
    workers: Sequence[PolicyWorker]
    # Ordered workers that have not registered yet, within warm-up.
    coming: int
    history: History = field(default_factory=History)
    # A sentence why a part of the queue is unknown. Workers are ordered for the known part; none is drained as idle.
    unknown: str | None = None
    # How many more workers may register under the installation's own limit; None: enough for any order.
    places: int | None = None
    # Jobs that no worker of the fleet can run, and a sentence that says what is missing. They are not in queued_jobs.
    unable_jobs: int = 0
    missing: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    # Workers that should take jobs: serving ones, coming ones, and those to order.
    wanted: int
    on_demand: int
    drain: tuple[str, ...]
    undrain: tuple[str, ...]
    # One plain sentence.
    reason: str
    history: History
    cause: Cause = "steady"


def decide(policy: Policy, situation: Situation) -> Decision:
    """Decides what the fleet should do now. Called every few seconds."""
    serving = [worker for worker in situation.workers if not worker.is_draining]
    history = _observed(policy, situation, serving)
    needed = history.peaks[-1][1]
    have = len(serving) + situation.coming
    over = have - policy.maximum
    if over > 0:
        return _scale_in(policy, situation, history, have, over, "above_maximum")
    short = max(needed, policy.minimum) - have
    if short > 0:
        return _scale_out(policy, situation, history, have, short, needed)
    surplus = have - max(history.peaks[0][1], policy.minimum)
    if surplus > 0 and situation.unknown is None and _may_scale_in(policy, situation.now, history):
        return _scale_in(policy, situation, history, have, surplus, "idle")
    return _hold(policy, situation, history, have, needed)


def unchanged_until(policy: Policy, history: History) -> float:
    """Until when the decision does not change if the situation does not: no period of the policy ends before."""
    assert history.seen_at is not None, "a decision was made"
    ends = []
    if len(history.peaks) > 1:
        ends.append(history.peaks[0][0] + policy.idle_seconds)
    if history.watched_since is not None:
        ends.append(history.watched_since + policy.idle_seconds)
    if history.last_in_at is not None:
        ends.append(history.last_in_at + policy.scale_in_cooldown_seconds)
    if history.last_out_at is not None:
        ends.append(history.last_out_at + policy.scale_in_cooldown_seconds)
        ends.append(history.last_out_at + policy.scale_out_cooldown_seconds)
    return min((moment for moment in ends if moment > history.seen_at - ROUNDING_SECONDS), default=math.inf)


def watched_on(history: History, now: float) -> History:
    """The history as if looks had continued until now, each with the same result as the last one."""
    if history.seen_at is None or now <= history.seen_at:
        return history
    return replace(history, seen_at=now, peaks=(*history.peaks[:-1], (now, history.peaks[-1][1])))


def needed_workers(policy: Policy, situation: Situation, slots: float) -> int:
    """Workers that the current work needs, without the bounds of the policy.

    As many as bring the backlog to the target, but not more than there are jobs for, and not fewer than are busy.
    """
    # A prefetched job waits for its worker and does not need another one. Jobs that no look saw count with the time
    # they took; otherwise a fleet that runs one short job after the other would seem idle.
    busy = sum(
        max(min(worker.busy, worker.slots), worker.unseen) for worker in situation.workers if not worker.is_draining
    )
    at_work = _ceil(busy / slots)
    if situation.queued_jobs <= 0:
        return at_work
    for_backlog = _ceil(situation.queued_seconds / (policy.target_seconds * slots))
    for_jobs = _ceil((busy + situation.queued_jobs) / slots)
    return max(1, at_work, min(for_backlog, for_jobs))


def _observed(policy: Policy, situation: Situation, serving: Sequence[PolicyWorker]) -> History:
    """The history with the current need, as a sliding maximum: it has at most one entry per level of need."""
    history, now = situation.history, situation.now
    slots = history.slots
    if serving:
        slots = max(1.0, sum(worker.slots for worker in serving) / len(serving))
    needed = needed_workers(policy, situation, slots)
    since, peaks = history.watched_since, history.peaks
    if since is None or history.seen_at is None or now - history.seen_at > policy.idle_seconds:
        # Nothing is known about idle workers in a gap between looks.
        since, peaks = now, ()
    kept = [peak for peak in peaks if peak[0] >= now - policy.idle_seconds and peak[1] > needed]
    return History(history.last_out_at, history.last_in_at, since, now, (*kept, (now, needed)), slots)


def _may_scale_in(policy: Policy, now: float, history: History) -> bool:
    assert history.watched_since is not None, "the history has just been observed"
    if now - history.watched_since < policy.idle_seconds:
        return False
    changes = (moment for moment in (history.last_out_at, history.last_in_at) if moment is not None)
    return all(now - moment >= policy.scale_in_cooldown_seconds for moment in changes)


def _scale_out(policy: Policy, situation: Situation, history: History, have: int, short: int, needed: int) -> Decision:
    draining = [worker for worker in situation.workers if worker.is_draining]
    back = sorted((worker for worker in draining if worker.can_be_undrained), key=_undrain_order)[:short]
    room = policy.maximum - have - len(draining)
    if situation.places is not None:
        room = min(room, situation.places)
    order = max(0, min(short - len(back), room))
    ordered_at = -math.inf if history.last_out_at is None else history.last_out_at
    cause: Cause = "backlog"
    if have < policy.minimum:
        cause = "below_minimum"
    elif have == 0:
        cause = "first_job"
    elif order and situation.now - ordered_at < policy.scale_out_cooldown_seconds:
        cause, order = "cooling", 0
    if cause == "cooling" and back:
        cause = "backlog"
    if not back and not order and cause != "cooling":
        cause = "at_maximum"
    if back or order:
        history = replace(history, last_out_at=situation.now)
    wanted = have + len(back) + order
    reason = _out_reason(policy, situation, cause, wanted, len(back), order, needed)
    return _decision(policy, wanted, (), tuple(worker.id for worker in back), reason, history, cause)


def _scale_in(
    policy: Policy,
    situation: Situation,
    history: History,
    have: int,
    surplus: int,
    cause: Literal["idle", "above_maximum"],
) -> Decision:
    """Drains idle workers. Above the maximum it also drains busy ones, which finish their jobs."""
    candidates = [
        worker
        for worker in situation.workers
        if worker.can_be_ended and not worker.is_draining and (worker.busy == 0 or cause == "above_maximum")
    ]
    victims = _victims(policy, situation, candidates, surplus, have)
    if not victims:
        return _hold(policy, situation, history, have, history.peaks[-1][1])
    wanted = have - len(victims)
    history = replace(history, last_in_at=situation.now)
    goes = counted(len(victims), "worker goes", "workers go")
    if cause == "above_maximum":
        reason = f"The fleet has {counted(have, 'worker')} and its maximum is {policy.maximum}: {goes} when done."
    else:
        enough = max(history.peaks[0][1], policy.minimum)
        needed = f"{counted(enough, 'worker was', 'workers were')} enough" if enough else "No worker was needed"
        reason = f"{needed} for the last {_seconds(policy.idle_seconds)}: {goes}."
    return _decision(policy, wanted, tuple(worker.id for worker in victims), (), reason, history, cause)


def _victims(
    policy: Policy, situation: Situation, candidates: Sequence[PolicyWorker], max_victims: int, have: int
) -> list[PolicyWorker]:
    """Workers to drain: idle ones first, then the kind with too many workers, the least busy, the longest idle."""
    left = sorted(candidates, key=_victim_order)
    on_demand = sum(not worker.is_spot for worker in situation.workers if not worker.is_draining)
    victims: list[PolicyWorker] = []
    while left and len(victims) < max_victims:
        too_many_on_demand = on_demand > policy.on_demand(have - len(victims) - 1)
        least_busy = [worker for worker in left if (worker.busy > 0) == (left[0].busy > 0)]
        victim = next((worker for worker in least_busy if worker.is_spot != too_many_on_demand), least_busy[0])
        on_demand -= not victim.is_spot
        left.remove(victim)
        victims.append(victim)
    return victims


def _victim_order(worker: PolicyWorker) -> tuple[int, float, str]:
    return worker.busy, worker.idle_since if worker.idle_since is not None else math.inf, worker.id


def _undrain_order(worker: PolicyWorker) -> tuple[int, str]:
    """The busiest worker first: its engine is warm, and an idle worker is the next to be ended."""
    return -worker.busy, worker.id


def _hold(policy: Policy, situation: Situation, history: History, have: int, needed: int) -> Decision:
    enough = max(history.peaks[0][1], policy.minimum)
    if situation.unknown is not None and have > enough:
        return _decision(policy, have, (), (), f"No worker goes: {situation.unknown}", history, "unknown_queue")
    if situation.queued_jobs:
        jobs, seconds = counted(situation.queued_jobs, "waiting job"), _seconds(situation.queued_seconds)
        reason = f"{_workers_are(have)} enough for {jobs} ({seconds} of work)."
    elif have == 0 and situation.unable_jobs:
        jobs = counted(situation.unable_jobs, "job waits", "jobs wait")
        reason = f"{jobs} that the workers of this fleet cannot run, so none is started. {situation.missing}"
        return _decision(policy, have, (), (), reason, history, "cannot_run")
    elif have == 0:
        reason = "No job waits and no worker runs."
    elif have > enough:
        reason = f"{_workers_are(have)} there and {enough} needed; the rest stays, in case more work comes."
    elif have == policy.minimum and needed < have:
        reason = f"{_workers_are(have)} the minimum."
    else:
        reason = f"{_workers_are(have)} enough."
    return _decision(policy, have, (), (), reason, history, "steady")


def _out_reason(
    policy: Policy, situation: Situation, cause: Cause, wanted: int, back: int, order: int, needed: int
) -> str:
    has = f"{_waiting(situation)}, which needs {counted(needed, 'worker')}"
    is_full = situation.places is not None and order == situation.places and wanted < min(needed, policy.maximum)
    if cause == "at_maximum" and is_full:
        return f"{has}; the installation has as many workers as fleet.max_workers allows."
    if cause == "at_maximum":
        draining = sum(worker.is_draining for worker in situation.workers)
        also = f", {draining} of them draining" if draining else ""
        return f"{has}; the fleet is at its maximum of {policy.maximum}{also}."
    if cause == "cooling":
        return f"{has}; the last order is less than {_seconds(policy.scale_out_cooldown_seconds)} old."
    parts = []
    if back:
        parts.append(counted(back, "draining worker takes", "draining workers take") + " work again")
    if order:
        parts.append(counted(order, "worker is", "workers are") + " ordered")
    done = " and ".join(parts)
    if cause == "below_minimum" and needed <= policy.minimum:
        return f"The minimum is {counted(policy.minimum, 'worker')}: {done}."
    bound = f", up to the maximum of {policy.maximum}" if wanted == policy.maximum and needed > wanted else ""
    if is_full:
        bound = ", as many as fleet.max_workers allows"
    return f"{has}: {done}{bound}."


def _decision(
    policy: Policy,
    wanted: int,
    drain: tuple[str, ...],
    undrain: tuple[str, ...],
    reason: str,
    history: History,
    cause: Cause,
) -> Decision:
    return Decision(wanted, policy.on_demand(wanted), drain, undrain, reason, history, cause)


def _waiting(situation: Situation) -> str:
    jobs = situation.queued_jobs
    return f"{counted(jobs, 'job waits', 'jobs wait')} ({_seconds(situation.queued_seconds)} of work)"


def _workers_are(workers: int) -> str:
    return counted(workers, "worker is", "workers are")


def _seconds(seconds: float) -> str:
    return f"{seconds:.0f} s"


def _ceil(number: float) -> int:
    return math.ceil(number - ROUNDING)
