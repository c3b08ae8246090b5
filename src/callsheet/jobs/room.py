"""The jobs room: its parts, its routes, and the objects that they share with the routes of other rooms."""

from __future__ import annotations

from dataclasses import dataclass

from prometheus_client.registry import Collector

from callsheet.dispatch.operate.tenant_weight_routes import tenant_weight_router
from callsheet.dispatch.room import DispatchRoom
from callsheet.identity.access.credentials import CREDENTIALS_CHANNEL
from callsheet.identity.accounts.tenant_pools import TenantRouting
from callsheet.identity.room import IdentityRoom
from callsheet.jobs.change.batch_changes import BatchChanges
from callsheet.jobs.change.cancel import Cancellation
from callsheet.jobs.change.retry import Retries
from callsheet.jobs.lease.leases import Leases, Stored
from callsheet.jobs.lease.progress import JobProgressWriter, ProgressSweeper
from callsheet.jobs.lease.provider_gate import ProviderGate
from callsheet.jobs.lease.restarts import Restarts
from callsheet.jobs.lease.start import Starter
from callsheet.jobs.machine.journal import CHANNEL, Journal
from callsheet.jobs.machine.relay import Relay
from callsheet.jobs.machine.transitions import Transitions
from callsheet.jobs.operate.admin_routes import admin_job_router, dispatch_router, job_by_id_router, ready_job_router
from callsheet.jobs.operate.job_history import JobHistory
from callsheet.jobs.operate.operations import DispatchOperations, JobOperations
from callsheet.jobs.operate.waterfall_routes import waterfall_router
from callsheet.jobs.repair.expire import Deadlines
from callsheet.jobs.repair.reap import Reaped, Reaper
from callsheet.jobs.repair.reconciler import Reconciler
from callsheet.jobs.repair.retention import EventRetention
from callsheet.jobs.routes import job_router
from callsheet.jobs.show.expected_waits import ExpectedWaits
from callsheet.jobs.show.outlook import CapacityOf
from callsheet.jobs.show.presenter import Presenter
from callsheet.jobs.show.reader import JobReader
from callsheet.jobs.stream.feeds import Feeds
from callsheet.jobs.stream.streams import Streams, stream_router, stream_token_router
from callsheet.jobs.stream.tenant import TenantJobs
from callsheet.jobs.stream.tenant_routes import tenant_job_router
from callsheet.jobs.submit.active_limits import ActiveLimits, NextEnds
from callsheet.jobs.submit.batch_submission import BatchSubmission
from callsheet.jobs.submit.submission import Submission
from callsheet.jobs.submit.synchronous_jobs import SynchronousJobs
from callsheet.media.free_space import RequireSpace
from callsheet.media.room import MediaRoom
from callsheet.media.usage import StorageUsage
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.notify import Listener, Notify
from callsheet.plumbing.http.routing import Router
from callsheet.plumbing.metrics import ReconcilerMetrics
from callsheet.plumbing.room import Room
from callsheet.settings import JobSettings
from callsheet.toolbox.loops import Loop


@dataclass(frozen=True, slots=True)
class JobsRoom(Room):
    dispatch: DispatchRoom
    routing: TenantRouting
    journal: Journal
    transitions: Transitions
    relay: Relay
    submission: Submission
    batch_submission: BatchSubmission
    batch_changes: BatchChanges
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
    retention: EventRetention

    @property
    def loops(self) -> tuple[Loop, ...]:
        return (
            *(self.relay, self.reaper, self.deadlines, self.reconciler),
            *(self.progress_sweeper, self.retention),
        )

    @property
    def metrics(self) -> tuple[Collector, ...]:
        return (ReconcilerMetrics(self.reconciler.healed),)

    def listen(self, listener: Listener) -> None:
        """Lets events of jobs wake the readers of streams."""
        listener.subscribe(CHANNEL, self.feeds.received)
        listener.subscribe(CREDENTIALS_CHANNEL, self.feeds.credentials_changed)


def open_jobs(
    databases: Databases,
    notify: Notify,
    settings: JobSettings,
    *,
    dispatch: DispatchRoom,
    routing: TenantRouting,
    limits: ActiveLimits,
    usage: StorageUsage,
    require_space: RequireSpace,
    reaped: Reaped,
    stored: Stored,
) -> JobsRoom:
    """Opens the room. `limits`: the limits of active jobs per user. `require_space` refuses new work while a disk has
    too little free space. `reaped` is called for each lease that the reaper took from a worker. `stored` makes what a
    completed job stores.
    """
    queue = dispatch.queue
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
        batch_submission=BatchSubmission(relay, journal, settings, limits, usage, require_space),
        batch_changes=BatchChanges(transitions, relay, journal, limits, require_space),
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


@dataclass(frozen=True, slots=True)
class JobsApi:
    """The objects that routes need to show jobs: routes of this room, of tasks and of pipelines."""

    reader: JobReader
    presenter: Presenter
    streams: Streams
    waits: ExpectedWaits
    operations: JobOperations
    dispatches: DispatchOperations


def open_jobs_api(
    databases: Databases,
    jobs: JobsRoom,
    identity: IdentityRoom,
    media: MediaRoom,
    capacity_of: CapacityOf,
    gate: ProviderGate,
    settings: JobSettings,
) -> JobsApi:
    """Builds the API of jobs. `capacity_of` and `gate` come from higher rooms: the workers of a route, and the
    paused providers.
    """
    reader = JobReader(databases)
    presenter = Presenter(jobs.routing, jobs.dispatch.positions, media.files, capacity_of, gate)
    return JobsApi(
        reader=reader,
        presenter=presenter,
        streams=Streams(jobs.feeds, reader, identity.authentication, settings.streams_per_user),
        waits=ExpectedWaits(jobs.dispatch.positions, capacity_of, gate),
        operations=JobOperations(
            lambda: databases.pools,
            jobs.routing,
            jobs.dispatch.lists,
            jobs.cancellation,
            jobs.retries,
            presenter,
            identity.audit,
        ),
        dispatches=DispatchOperations(jobs.dispatch, jobs.leases, jobs.cancellation, jobs.transitions, identity.audit),
    )


def jobs_routers(databases: Databases, jobs: JobsRoom, api: JobsApi, identity: IdentityRoom) -> list[Router]:
    authentication = identity.authentication
    return [
        # The stream router comes before the router of jobs, which would read `stream` as a job id.
        stream_router(api.streams, api.reader, authentication),
        stream_token_router(api.reader, authentication),
        tenant_job_router(
            TenantJobs(databases, jobs.feeds, identity.accounts, api.presenter), api.streams, authentication
        ),
        job_router(jobs, api.reader, api.presenter, authentication),
        tenant_weight_router(jobs.dispatch.tenant_weights, authentication),
        ready_job_router(jobs, api.presenter, identity.accounts, identity.audit, authentication),
        admin_job_router(api.operations, identity.accounts, authentication),
        job_by_id_router(api.operations, authentication),
        waterfall_router(JobHistory(databases.central, jobs.routing, api.presenter), api.operations, authentication),
        dispatch_router(api.dispatches, jobs.dispatch, authentication),
    ]
