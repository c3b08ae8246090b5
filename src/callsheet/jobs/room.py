"""Builds all parts of the jobs room."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from callsheet.dispatch.affinity import Limits
from callsheet.dispatch.arrivals import CHANNEL as DISPATCH_CHANNEL
from callsheet.dispatch.arrivals import arrivals
from callsheet.dispatch.overview import Overview
from callsheet.dispatch.queue import Queue
from callsheet.dispatch.retention import HistoryRetention
from callsheet.dispatch.shares import TenantShares
from callsheet.dispatch.turns import Terms
from callsheet.dispatch.waiters import Waiters
from callsheet.identity.credentials import CREDENTIALS_CHANNEL
from callsheet.identity.quotas import Quotas
from callsheet.identity.routing import TenantRouting
from callsheet.jobs.active_limits import ActiveLimits
from callsheet.jobs.endings import Endings
from callsheet.jobs.execution import Execution
from callsheet.jobs.feeds import Feeds
from callsheet.jobs.journal import CHANNEL as EVENT_CHANNEL
from callsheet.jobs.journal import Journal, Notify
from callsheet.jobs.mover import Mover
from callsheet.jobs.progress import Progress, ProgressSweeper
from callsheet.jobs.reaper import Deadlines, LaneKeeper, Reaped, Reaper
from callsheet.jobs.reconciler import Reconciler
from callsheet.jobs.relay import Relay
from callsheet.jobs.retention import EventRetention
from callsheet.jobs.submission import Submission
from callsheet.jobs.synchronous import Synchronous
from callsheet.media.usage import StorageUsage
from callsheet.plumbing.databases import Databases
from callsheet.plumbing.notify import Listener
from callsheet.settings import JobSettings, QuotaSettings
from callsheet.toolbox.loops import Loop


@dataclass(frozen=True, slots=True)
class JobsRoom:
    queue: Queue
    overview: Overview
    shares: TenantShares
    waiters: Waiters
    routing: TenantRouting
    journal: Journal
    mover: Mover
    relay: Relay
    submission: Submission
    synchronous: Synchronous
    execution: Execution
    endings: Endings
    reaper: Reaper
    deadlines: Deadlines
    lane_keeper: LaneKeeper
    reconciler: Reconciler
    feeds: Feeds
    progress: Progress
    progress_sweeper: ProgressSweeper
    retention: tuple[Loop, ...]

    @property
    def loops(self) -> tuple[Loop, ...]:
        return (
            self.relay,
            self.reaper,
            self.deadlines,
            self.lane_keeper,
            self.reconciler,
            self.progress_sweeper,
            *self.retention,
        )

    def listen(self, listener: Listener) -> None:
        """Lets notifications wake waiting pollers and readers of streams."""
        # The queue first, because a woken poller asks it.
        listener.subscribe(DISPATCH_CHANNEL, self.queue.received)
        listener.subscribe(DISPATCH_CHANNEL, self.waiters.received)
        listener.subscribe(EVENT_CHANNEL, self.feeds.received)
        listener.subscribe(CREDENTIALS_CHANNEL, self.feeds.credentials_changed)


def open_jobs(
    databases: Databases,
    notify: Notify,
    settings: JobSettings,
    limits: ActiveLimits | None = None,
    quotas: Quotas | None = None,
    reaped: Reaped | None = None,
) -> JobsRoom:
    """`limits`: the limits of active jobs per user. Default: the limit of effect jobs for every kind.

    `reaped` is called for each lease that the reaper took from a worker.
    """
    limits = limits or ActiveLimits.same(settings.active_per_user)
    usage = StorageUsage(databases, quotas or Quotas(databases, QuotaSettings()))
    queue = Queue(
        databases.central,
        arrivals(notify),
        fair=settings.order == "fair",
        terms=Terms(max_running=settings.running_per_tenant, max_running_per_user=settings.running_per_user),
        affinity=Limits(settings.warm_look_ahead, settings.warm_most_passed),
    )
    overview = Overview(databases.central, queue)
    routing = TenantRouting(databases)
    journal = Journal(notify)
    mover = Mover(routing, journal)
    relay = Relay(lambda: databases.pools, queue, mover)
    waiters = Waiters()
    execution = Execution(queue, mover, settings.free_requeues)
    submission = Submission(mover, relay, journal, settings, limits, usage)
    return JobsRoom(
        queue=queue,
        overview=overview,
        shares=TenantShares(databases.central, queue),
        waiters=waiters,
        routing=routing,
        journal=journal,
        mover=mover,
        relay=relay,
        submission=submission,
        synchronous=Synchronous(submission, relay, execution),
        execution=execution,
        endings=Endings(mover, relay, journal, limits),
        reaper=Reaper(queue, mover, reaped),
        deadlines=Deadlines(lambda: databases.pools, mover, relay),
        lane_keeper=LaneKeeper(queue),
        reconciler=Reconciler(lambda: databases.pools, queue, overview, mover),
        feeds=Feeds(),
        progress=Progress(routing, notify),
        progress_sweeper=ProgressSweeper(lambda: databases.pools),
        retention=tuple(_retention(databases, settings)),
    )


def _retention(databases: Databases, settings: JobSettings) -> Iterator[Loop]:
    if settings.history_days is not None:
        yield HistoryRetention(databases.central, settings.history_days)
    if settings.event_days is not None:
        yield EventRetention(lambda: databases.pools, settings.event_days)
