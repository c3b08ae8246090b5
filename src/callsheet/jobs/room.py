"""Builds all parts of the jobs room."""

from __future__ import annotations

from dataclasses import dataclass

from callsheet.dispatch.room import DispatchRoom, open_dispatch
from callsheet.identity.access.credentials import CREDENTIALS_CHANNEL
from callsheet.identity.accounts.quotas import Quotas
from callsheet.identity.accounts.tenant_pools import TenantRouting
from callsheet.jobs.change.cancel import Cancellation
from callsheet.jobs.change.retry import Retries
from callsheet.jobs.lease.leases import Leases, Stored, only_result
from callsheet.jobs.lease.progress import JobProgressWriter, ProgressSweeper
from callsheet.jobs.lease.restarts import Restarts
from callsheet.jobs.lease.start import Starter
from callsheet.jobs.machine.journal import CHANNEL, Journal
from callsheet.jobs.machine.relay import Relay
from callsheet.jobs.machine.transitions import Transitions
from callsheet.jobs.repair.expire import Deadlines
from callsheet.jobs.repair.reap import Reaped, Reaper
from callsheet.jobs.repair.reconciler import Reconciler
from callsheet.jobs.repair.retention import EventRetention
from callsheet.jobs.stream.feeds import Feeds
from callsheet.jobs.submit.active_limits import ActiveLimits, NextEnds
from callsheet.jobs.submit.submission import Submission
from callsheet.jobs.submit.synchronous_jobs import SynchronousJobs
from callsheet.media.free_space import RequireSpace
from callsheet.media.usage import StorageUsage
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.notify import Listener, Notify
from callsheet.settings import JobSettings, QuotaSettings
from callsheet.toolbox.loops import Loop


@dataclass(frozen=True, slots=True)
class JobsRoom:
    dispatch: DispatchRoom
    routing: TenantRouting
    journal: Journal
    transitions: Transitions
    relay: Relay
    submission: Submission
    synchronous: SynchronousJobs
    starter: Starter
    leases: Leases
    cancellation: Cancellation
    retries: Retries
    reaper: Reaper
    deadlines: Deadlines
    reconciler: Reconciler
    feeds: Feeds
    progress: JobProgressWriter
    progress_sweeper: ProgressSweeper
    # None if the settings keep events forever.
    retention: EventRetention

    @property
    def loops(self) -> tuple[Loop, ...]:
        return (
            *(self.relay, self.reaper, self.deadlines, self.reconciler),
            *(self.progress_sweeper, self.retention),
        )

    def listen(self, listener: Listener) -> None:
        """Lets events of jobs wake the readers of streams."""
        listener.subscribe(CHANNEL, self.feeds.received)
        listener.subscribe(CREDENTIALS_CHANNEL, self.feeds.credentials_changed)


def open_jobs(
    databases: Databases,
    notify: Notify,
    settings: JobSettings,
    limits: ActiveLimits | None = None,
    quotas: Quotas | None = None,
    reaped: Reaped | None = None,
    dispatch: DispatchRoom | None = None,
    require_space: RequireSpace = lambda: None,
    stored: Stored = only_result,
) -> JobsRoom:
    """Builds the room. `limits`: the limits of active jobs per user. Default: the limit of effect jobs for every kind.

    `reaped` is called for each lease that the reaper took from a worker. `dispatch`: the queue. Default: a new queue.

    `require_space` refuses new work while a disk has too little free space. Default: nothing is refused. `stored` makes
    what a completed job stores. Default: its result alone.
    """
    limits = limits or ActiveLimits.same(settings.active_per_user)
    usage = StorageUsage(databases, quotas or Quotas(databases, QuotaSettings()))
    dispatch = dispatch or open_dispatch(databases.central, notify, settings)
    queue = dispatch.queue
    routing = TenantRouting(databases)
    journal = Journal(notify)
    transitions = Transitions(routing, journal)
    relay = Relay(lambda: databases.pools, queue, routing, transitions)
    restarts = Restarts(dispatch.repair, transitions)
    leases = Leases(queue, transitions, restarts, stored, settings.free_requeues)
    starter = Starter(queue, routing, transitions, leases, restarts)
    next_ends = NextEnds(dispatch.positions)
    submission = Submission(routing, relay, journal, settings, limits, next_ends, usage, require_space)
    return JobsRoom(
        dispatch=dispatch,
        routing=routing,
        journal=journal,
        transitions=transitions,
        relay=relay,
        submission=submission,
        synchronous=SynchronousJobs(submission, relay, starter),
        starter=starter,
        leases=leases,
        cancellation=Cancellation(routing, transitions, relay),
        retries=Retries(routing, transitions, relay, journal, limits, next_ends, require_space),
        reaper=Reaper(queue, transitions, restarts, reaped),
        deadlines=Deadlines(lambda: databases.pools, transitions, relay),
        reconciler=Reconciler(lambda: databases.pools, queue, dispatch.repair, routing, transitions),
        feeds=Feeds(),
        progress=JobProgressWriter(routing, notify),
        progress_sweeper=ProgressSweeper(lambda: databases.pools),
        retention=EventRetention(lambda: databases.pools, settings.event_days),
    )
