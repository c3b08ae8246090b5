"""All rooms of a control plane, opened from the lowest to the highest, with their routes, loops and metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from starlette.types import ASGIApp

from callsheet.app.in_process.room import open_task_runner
from callsheet.app.in_process.runner import TaskRunner
from callsheet.catalog.room import CatalogRoom, catalog_routers, open_catalog
from callsheet.dispatch.room import DispatchRoom, open_dispatch
from callsheet.effects.effect_jobs import EffectJobs
from callsheet.effects.room import effects_routers
from callsheet.fleet.operate.metrics import FleetOverview
from callsheet.fleet.protocol.application import SECTION as WORKERS
from callsheet.fleet.protocol.poll_reports import WorkerDiskMetrics
from callsheet.fleet.protocol.source_design import Envelope
from callsheet.fleet.protocol.worker_protocol import WorkerProtocol, open_protocol
from callsheet.fleet.registry.asg import AsgMetrics
from callsheet.fleet.registry.credentials import Credentials
from callsheet.fleet.registry.held_leases import ExpiredLeases
from callsheet.fleet.room import FleetRoom, fleet_routers, open_fleet
from callsheet.fleet.worker_api import WorkerApi
from callsheet.identity.accounts.deletion import UserDeletion
from callsheet.identity.room import IdentityRoom, identity_routers, open_identity
from callsheet.jobs.room import JobsRoom, jobs_routers, open_jobs, open_jobs_api
from callsheet.jobs.submit.active_limits import ActiveLimits
from callsheet.library.room import LibraryRoom, library_routers, open_library
from callsheet.media.free_space import SpaceMetrics
from callsheet.media.room import MediaRoom, media_routers, open_media
from callsheet.media.storage import Storage
from callsheet.media.storage.calls import StorageMetrics
from callsheet.media.storage.owner import StorageOwner
from callsheet.operate.alerts.current import CurrentAlerts
from callsheet.operate.alerts.room import AlertsRoom, alerts_routers, open_alerts
from callsheet.operate.all_jobs.room import AllJobsRoom, all_jobs_routers, open_all_jobs
from callsheet.operate.installation.room import administration_routers
from callsheet.operate.statistics.room import StatisticsRoom, open_statistics, statistics_routers
from callsheet.pipelines.room import PipelinesRoom, open_pipelines, pipeline_routers
from callsheet.pipelines.run.user_work import JobsAndRunsOfUser
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.notify import Listener, Notifier
from callsheet.plumbing.http.application import check_by_path
from callsheet.plumbing.http.edge import CallerCheck
from callsheet.plumbing.http.routing import Router
from callsheet.plumbing.metrics import ProcessMetrics, ReconcilerMetrics
from callsheet.providers.registry import ActorRegistry
from callsheet.scaling.room import ScalingRoom, open_scaling, scaling_routers
from callsheet.settings import Settings
from callsheet.tasks.room import TasksRoom, open_tasks, task_routers
from callsheet.tasks.scraped_products import with_product
from callsheet.toolbox.loops import Loop
from callsheet.toolbox.signing import Master
from callsheet.wallet.room import WalletRoom, open_wallet, wallet_routers
from callsheet.webhooks.room import CALLBACKS, WebhooksRoom, check_of_callbacks, open_webhooks, webhook_routers


@dataclass(frozen=True, slots=True)
class Rooms:
    identity: IdentityRoom
    media: MediaRoom
    catalog: CatalogRoom
    dispatch: DispatchRoom
    jobs: JobsRoom
    effect_jobs: EffectJobs
    fleet: FleetRoom
    webhooks: WebhooksRoom
    protocol: WorkerProtocol
    worker_api: WorkerApi
    # None if tasks are left to other machines.
    task_runner: TaskRunner | None
    tasks: TasksRoom
    pipelines: PipelinesRoom
    library: LibraryRoom
    scaling: ScalingRoom
    statistics: StatisticsRoom
    all_jobs: AllJobsRoom
    wallet: WalletRoom

    @property
    def loops(self) -> tuple[Loop, ...]:
        return (
            *self.identity.loops,
            *self.media.loops,
            *self.dispatch.loops,
            *self.jobs.loops,
            *self.fleet.loops,
            *self.protocol.loops,
            *self.webhooks.loops,
            *self.pipelines.loops,
            *self.library.loops,
            *self.catalog.loops,
            *self.scaling.loops,
            *self.statistics.loops,
            *self.all_jobs.loops,
            *self.wallet.loops,
        )

    def listen(self, listener: Listener) -> None:
        for room in (self.dispatch, self.jobs, self.webhooks, self.protocol, self.pipelines):
            room.listen(listener)

    @property
    def applications(self) -> Mapping[str, ASGIApp]:
        """The sections of the URLs that have an application of their own."""
        return {WORKERS: self.worker_api.app}

    @property
    def check_caller(self) -> CallerCheck:
        """Decides whose large bodies are read: those of clients with the credentials that the path needs."""
        users = self.identity.authentication
        by_prefix = {
            f"{WORKERS}/": self.worker_api.check_caller,
            CALLBACKS: check_of_callbacks(self.webhooks.callbacks),
        }
        return check_by_path(by_prefix, users.of_request)


def open_rooms(
    settings: Settings,
    secret: Master,
    databases: Databases,
    storage: Storage,
    owner: StorageOwner,
    notifier: Notifier,
    registry: CollectorRegistry,
    providers: ActorRegistry,
) -> Rooms:
    """Opens all rooms. A lower room gets the functions of a higher room at construction."""
    identity = open_identity(databases, settings, secret)
    media = open_media(databases, storage, settings, secret, owner, identity.quotas)
    catalog = open_catalog(
        databases,
        storage,
        settings.storage.max_upload_bytes,
        secret,
        owner,
        settings.jobs.lifetime_seconds,
        media.free_space.require_for,
    )
    dispatch = open_dispatch(databases.central, notifier.notify, settings.jobs)
    limits, reaped = ActiveLimits.from_settings(settings), ExpiredLeases(databases).record
    jobs = open_jobs(
        databases,
        notifier.notify,
        settings.jobs,
        limits,
        identity.quotas,
        reaped,
        dispatch,
        media.free_space.require,
        with_product,
    )
    effect_jobs = EffectJobs(databases, catalog, media.files, jobs.submission)
    fleet = open_fleet(databases, settings.fleet, secret, jobs.leases)
    webhooks = open_webhooks(
        databases, storage, jobs, notifier.notify, settings, secret, providers.media, providers.services
    )
    protocol = open_protocol(databases, storage, jobs, fleet, settings, registry, webhooks.gate)
    credentials = Credentials(fleet.fleet_tokens, settings, secret, identity.attempts)
    envelope = Envelope(settings.fleet.response_envelope)
    runner = open_task_runner(settings, fleet, protocol, providers)
    tasks = open_tasks(databases, jobs, effect_jobs, providers, settings.tasks, runner, webhooks.gate)
    return Rooms(
        identity=identity,
        media=media,
        catalog=catalog,
        dispatch=dispatch,
        jobs=jobs,
        effect_jobs=effect_jobs,
        fleet=fleet,
        webhooks=webhooks,
        protocol=protocol,
        worker_api=WorkerApi(fleet, protocol, credentials, identity.authentication, envelope),
        task_runner=runner,
        tasks=tasks,
        pipelines=open_pipelines(databases, catalog, media, jobs, settings.pipelines, tasks.for_runs, registry),
        library=open_library(databases, catalog, media, jobs, settings),
        scaling=open_scaling(databases, settings, fleet.fleet_tokens),
        statistics=open_statistics(databases, settings),
        all_jobs=open_all_jobs(databases, catalog.effects, jobs),
        wallet=open_wallet(databases),
    )


def open_alerts_of(rooms: Rooms, settings: Settings, databases: Databases, loops: Sequence[Loop]) -> AlertsRoom:
    """Opens the alerts. `loops`: an alert is raised if one of these loops fails."""
    overview = _overview(rooms, databases, loops)
    mails, capacity, media = rooms.identity.links.mails, rooms.fleet.capacity, rooms.media
    current = CurrentAlerts(
        databases,
        overview,
        capacity,
        mails,
        media.files.storage,
        media.owner,
        media.free_space,
        settings,
    )
    return open_alerts(databases, current, settings)


def _overview(rooms: Rooms, databases: Databases, loops: Sequence[Loop]) -> FleetOverview:
    return FleetOverview(databases, loops, rooms.jobs.reconciler.healed, rooms.pipelines.numbers.read)


def all_routers(
    rooms: Rooms,
    alerts: AlertsRoom,
    settings: Settings,
    databases: Databases,
    providers: ActorRegistry,
    loops: Sequence[Loop],
) -> list[Router]:
    """All routers, in the order of the API document."""
    identity, media, jobs, users = rooms.identity, rooms.media, rooms.jobs, rooms.identity.authentication
    api = open_jobs_api(databases, jobs, identity, media, rooms.fleet.capacity.of, rooms.webhooks.gate, settings.jobs)
    work = JobsAndRunsOfUser(databases, rooms.pipelines.runs, jobs.cancellation)
    deletion = UserDeletion(databases, identity.management, work)
    overview = _overview(rooms, databases, loops)
    return [
        *fleet_routers(rooms.fleet, rooms.worker_api, overview, api.presenter.why_queued, users),
        *webhook_routers(rooms.webhooks, users),
        *media_routers(media, identity),
        *identity_routers(identity, settings, media.usage.of, deletion),
        *catalog_routers(rooms.catalog, users, api.waits.of),
        *effects_routers(rooms.effect_jobs, rooms.catalog, media, jobs, api.presenter, identity),
        *jobs_routers(databases, jobs, api, identity),
        *task_routers(rooms.tasks, jobs, api, providers.media, users),
        *pipeline_routers(rooms.pipelines, api.presenter, users),
        *library_routers(rooms.library, users),
        *wallet_routers(databases, rooms.wallet, identity, jobs.journal.wallet_changed),
        *scaling_routers(databases, rooms.scaling, users),
        *statistics_routers(rooms.statistics, users),
        *alerts_routers(alerts, users),
        *all_jobs_routers(rooms.all_jobs, users),
        *administration_routers(settings, databases, users),
    ]


def register_metrics(
    registry: CollectorRegistry, databases: Databases, rooms: Rooms, alerts: AlertsRoom, loops: Sequence[Loop]
) -> None:
    registry.register(ProcessMetrics(loops, databases.connection_counts))
    registry.register(ReconcilerMetrics(rooms.jobs.reconciler.healed))
    registry.register(rooms.webhooks.metrics)
    registry.register(AsgMetrics(rooms.fleet.groups))
    registry.register(rooms.scaling.numbers)
    registry.register(alerts.metrics)
    registry.register(StorageMetrics(rooms.media.files.storage.calls))
    registry.register(SpaceMetrics(rooms.media.free_space))
    registry.register(WorkerDiskMetrics(rooms.fleet.poll_reports))
