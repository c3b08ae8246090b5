"""The composition root of the control plane: every room's routes and loops, and the order they start and stop in."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, FastAPI
from prometheus_client import CollectorRegistry
from starlette.requests import Request
from starlette.types import ASGIApp

from callsheet import __version__
from callsheet.catalog.room import CatalogRoom, open_catalog
from callsheet.catalog.routes import admin_asset_router, admin_effect_router, admin_workflow_router, effect_router
from callsheet.dispatch.room import DispatchRoom, open_dispatch
from callsheet.fleet.admin_routes import (
    admin_fleet_router,
    admin_worker_router,
    fleet_token_router,
    worker_log_router,
)
from callsheet.fleet.asg import AsgMetrics
from callsheet.fleet.credentials import Credentials
from callsheet.fleet.envelope import Envelope
from callsheet.fleet.leases import ExpiredLeases
from callsheet.fleet.overview import FleetOverview
from callsheet.fleet.overview_routes import overview_router
from callsheet.fleet.protocol import WorkerProtocol, open_protocol
from callsheet.fleet.protocol_routes import shortcuts
from callsheet.fleet.registration_routes import registration_router
from callsheet.fleet.room import FleetRoom, open_fleet
from callsheet.identity.accounts import Accounts
from callsheet.identity.audit_routes import audit_router
from callsheet.identity.deletion import UserDeletion
from callsheet.identity.keys import Keys
from callsheet.identity.known_passwords import refuse_known_password
from callsheet.identity.link_pages import link_page_router
from callsheet.identity.link_routes import admin_link_router, link_router
from callsheet.identity.management_routes import tenant_management_router, user_management_router
from callsheet.identity.one_time_links import OneTimeLinks
from callsheet.identity.room import IdentityRoom, open_identity
from callsheet.identity.routes import account_router, key_router, session_list_router, session_router
from callsheet.in_process import InProcessPlane, TaskRunner, runner_name
from callsheet.jobs.active_limits import ActiveLimits
from callsheet.jobs.admin_routes import admin_job_router, dispatch_router, job_by_id_router, ready_job_router
from callsheet.jobs.effect_preview_routes import effect_preview_router
from callsheet.jobs.effect_previews import JobExamples
from callsheet.jobs.effect_routes import effect_job_router
from callsheet.jobs.effects import EffectJobs
from callsheet.jobs.operations import DispatchOperations, JobOperations
from callsheet.jobs.presenter import Presenter
from callsheet.jobs.reader import JobReader
from callsheet.jobs.room import JobsRoom, open_jobs
from callsheet.jobs.routes import job_router
from callsheet.jobs.share_routes import share_router
from callsheet.jobs.streams import Streams, stream_router, stream_token_router
from callsheet.jobs.waits import Waits
from callsheet.library.room import LibraryRoom, open_library
from callsheet.media.previews.routes import preview_router
from callsheet.media.quota_routes import quota_router
from callsheet.media.room import MediaRoom, open_media
from callsheet.media.routes import file_router, video_router
from callsheet.media.storage import LocalStorage, Storage, open_storage
from callsheet.media.storage.owner import StorageOwner
from callsheet.media.storage.routes import storage_router
from callsheet.pipelines.candidate_routes import candidate_router, guidance_router, run_candidate_router
from callsheet.pipelines.room import PipelinesRoom, open_pipelines
from callsheet.pipelines.routes import pipeline_router, run_router
from callsheet.pipelines.user_work import UserWork
from callsheet.plumbing.connections import ConnectionLimit, RequestsInProgress
from callsheet.plumbing.database import Database, is_outage
from callsheet.plumbing.database_watch import DatabaseWatch
from callsheet.plumbing.databases import CENTRAL, Databases, open_databases
from callsheet.plumbing.docs_page import install_docs_page
from callsheet.plumbing.edge import Edge, Vouch
from callsheet.plumbing.failpoints import arm_for_process
from callsheet.plumbing.front_page import front_page_router
from callsheet.plumbing.health import Draining, health_router, is_ready
from callsheet.plumbing.metrics import HttpMetrics, ProcessMetrics, ReconcilerMetrics
from callsheet.plumbing.notify import Listener, Notifier
from callsheet.plumbing.openapi_texts import describe_operations
from callsheet.plumbing.own_addresses import OwnAddresses
from callsheet.plumbing.pool_keeper import Role
from callsheet.plumbing.problems import PROBLEM_RESPONSES, install_problem_handlers
from callsheet.plumbing.secrets import master_secret
from callsheet.plumbing.server import HttpServer, free_address
from callsheet.plumbing.shortcut import Shortcut
from callsheet.providers.registry import ENGINES, Registry, open_registry
from callsheet.scaling.metric import FleetMetrics
from callsheet.scaling.metric_routes import metric_router
from callsheet.scaling.room import ScalingRoom, open_scaling
from callsheet.scaling.routes import scaling_router
from callsheet.settings import Settings
from callsheet.settings.tasks import DEFAULT_QUEUE
from callsheet.tasks.generation_routes import generation_router, product_router
from callsheet.tasks.reader import TaskReader
from callsheet.tasks.room import TasksRoom, open_tasks
from callsheet.tasks.routes import provider_router, task_router
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.loops import Loop, LoopGroup
from callsheet.toolbox.signing import Master
from callsheet.wallet.routes import admin_wallet_router, wallet_router
from callsheet.web.room import open_web
from callsheet.webhooks.room import WebhooksRoom, open_webhooks
from callsheet.webhooks.routes import admin_provider_router, callback_router
from callsheet.wire.tasks import workflow_slug

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """Everything one control-plane process is made of."""

    settings: Settings
    databases: Databases
    storage: Storage
    accounts: Accounts
    keys: Keys
    one_time_links: OneTimeLinks
    media: MediaRoom
    catalog: CatalogRoom
    jobs: JobsRoom
    fleet: FleetRoom
    webhooks: WebhooksRoom
    providers: Registry
    # None where tasks are left to other machines.
    task_runner: TaskRunner | None
    tasks: TasksRoom
    pipelines: PipelinesRoom
    scaling: ScalingRoom
    listener: Listener
    notifier: Notifier
    loops: LoopGroup
    draining: Draining
    api: FastAPI
    asgi: ASGIApp


@dataclass(frozen=True, slots=True)
class Rooms:
    identity: IdentityRoom
    media: MediaRoom
    catalog: CatalogRoom
    dispatch: DispatchRoom
    jobs: JobsRoom
    fleet: FleetRoom
    webhooks: WebhooksRoom
    effect_jobs: EffectJobs
    task_runner: TaskRunner | None
    tasks: TasksRoom
    pipelines: PipelinesRoom
    library: LibraryRoom
    protocol: WorkerProtocol
    credentials: Credentials
    presenter: Presenter
    waits: Waits
    scaling: ScalingRoom

    @property
    def loops(self) -> tuple[Loop, ...]:
        return (
            *(
                loop
                for room in (self.identity, self.media, self.dispatch, self.jobs, self.fleet)
                for loop in room.loops
            ),
            *(loop for room in (self.webhooks, self.pipelines, self.library, self.scaling) for loop in room.loops),
            self.catalog.unchecked,
        )


@asynccontextmanager
async def open_control_plane(settings: Settings, providers: Registry | None = None) -> AsyncIterator[ControlPlane]:
    """Opens databases and storage, builds the application, runs the loops; undoes it all in reverse.

    `providers` and their actors: those that the settings name, unless others are given.
    """
    arm_for_process(settings.failpoints)
    secret = master_secret(settings)
    async with AsyncExitStack() as undo:
        databases = await open_databases(settings)
        undo.push_async_callback(databases.close)
        owner = StorageOwner(databases)
        storage = open_storage(settings, secret, owner)
        undo.push_async_callback(storage.close)
        if providers is None:
            providers = open_registry(settings.providers, allow_networks=settings.outgoing.allow_networks)
        undo.push_async_callback(providers.close)
        plane = _assemble(settings, secret, databases, storage, owner, providers)
        undo.push_async_callback(plane.webhooks.close)
        await plane.tasks.actors.keep()
        plane.listener.start()
        undo.push_async_callback(plane.listener.stop)
        undo.push_async_callback(plane.notifier.close)
        plane.loops.start()
        undo.push_async_callback(plane.loops.stop)
        yield plane


@asynccontextmanager
async def running_control_plane(settings: Settings, providers: Registry | None = None) -> AsyncIterator[ControlPlane]:
    """A control plane that serves HTTP. On the way out it takes no new requests and lets running ones finish."""
    async with open_control_plane(settings, providers) as plane:
        await refuse_known_password(plane.databases, settings)
        server = HttpServer(plane.asgi, settings.server)
        await server.start()
        log.info("control_plane.ready", url=settings.public_url)
        # It needs the server: what its tasks make is uploaded like from anywhere else.
        if plane.task_runner is not None:
            plane.task_runner.start()
        try:
            yield plane
        finally:
            plane.draining.begun = True
            if plane.task_runner is not None:
                await plane.task_runner.stop(settings.server.shutdown_seconds)
            plane.jobs.feeds.close()
            plane.jobs.waiters.close()
            await server.stop()
            log.info("control_plane.stopped")


def openapi_document(settings: Settings) -> dict[str, Any]:
    """What `/openapi.json` returns. Nothing is connected: it needs no more than the routes and their models."""
    central = Database("central", CENTRAL, "", settings.database)
    databases = Databases(settings, central, None, role=Role(migrates=False, holds_leases=False))
    secret, owner = b"signs nothing", StorageOwner(databases)
    storage = open_storage(settings, secret, owner)
    return _assemble(settings, secret, databases, storage, owner, open_registry(settings.providers)).api.openapi()


async def with_free_port(settings: Settings) -> Settings:
    """Port 0 means any: chosen before anything is built, because signed URLs carry it."""
    if settings.server.port != 0:
        return settings
    _, port = await free_address(settings.server.host, 0)
    return settings.model_copy(update={"server": settings.server.model_copy(update={"port": port})})


def _assemble(
    settings: Settings,
    secret: Master,
    databases: Databases,
    storage: Storage,
    owner: StorageOwner,
    providers: Registry,
) -> ControlPlane:
    registry = CollectorRegistry()
    draining = Draining()
    notifier = Notifier(databases.central)
    rooms = _open_rooms(settings, secret, databases, storage, owner, notifier, registry, providers)
    listener = _listener(databases, rooms)
    in_progress = RequestsInProgress(settings.server)
    web = open_web(storage.url, settings.public_url) if settings.server.web_application else None
    loops = [DatabaseWatch(databases), *rooms.loops, ConnectionLimit(settings.server, in_progress.connections)]
    routers = [
        *_worker_routers(rooms, settings),
        callback_router(rooms.webhooks.callbacks),
        *([storage_router(storage)] if isinstance(storage, LocalStorage) else []),
        front_page_router(
            settings.public_url, lambda: is_ready(databases, draining), None if web is None else web.page
        ),
        health_router(databases, draining, registry, settings.server),
        *_user_routers(rooms, databases, settings, providers),
        *_admin_routers(rooms, databases, loops, settings),
    ]
    _register_metrics(registry, databases, rooms, loops)
    api = _application(routers)
    if web is not None:
        api.router.default = web.before(api.router.default)
    application = Shortcut(api, shortcuts(rooms.protocol.router))
    return ControlPlane(
        settings=settings,
        databases=databases,
        storage=storage,
        accounts=rooms.identity.accounts,
        keys=rooms.identity.keys,
        one_time_links=rooms.identity.one_time_links,
        media=rooms.media,
        catalog=rooms.catalog,
        jobs=rooms.jobs,
        fleet=rooms.fleet,
        webhooks=rooms.webhooks,
        providers=providers,
        task_runner=rooms.task_runner,
        tasks=rooms.tasks,
        pipelines=rooms.pipelines,
        scaling=rooms.scaling,
        listener=listener,
        notifier=notifier,
        loops=LoopGroup(loops, is_outage),
        draining=draining,
        api=api,
        asgi=Edge(
            application, settings.server, HttpMetrics(registry), _vouch(rooms), in_progress, OwnAddresses(settings)
        ),
    )


def _listener(databases: Databases, rooms: Rooms) -> Listener:
    listener = Listener(databases.central)
    rooms.dispatch.listen(listener)
    rooms.jobs.listen(listener)
    rooms.webhooks.listen(listener)
    listener.subscribe("assignments", rooms.protocol.polls.reassigned)
    rooms.pipelines.listen(listener)
    return listener


def _register_metrics(registry: CollectorRegistry, databases: Databases, rooms: Rooms, loops: Sequence[Loop]) -> None:
    registry.register(ProcessMetrics(loops, lambda: _connections(databases)))
    registry.register(ReconcilerMetrics(rooms.jobs.reconciler.healed))
    registry.register(rooms.webhooks.metrics)
    registry.register(AsgMetrics(rooms.fleet.groups))
    registry.register(rooms.scaling.numbers)


def _open_rooms(
    settings: Settings,
    secret: Master,
    databases: Databases,
    storage: Storage,
    owner: StorageOwner,
    notifier: Notifier,
    registry: CollectorRegistry,
    providers: Registry,
) -> Rooms:
    """From the lowest to the highest; what a lower one needs of a higher one is handed down here."""
    identity = open_identity(databases, settings, secret)
    media = open_media(databases, storage, settings, secret, owner, identity.quotas)
    catalog = open_catalog(databases, storage, settings.storage.max_upload_bytes, secret)
    limits = ActiveLimits(
        jobs=settings.jobs.active_per_user,
        tasks=settings.tasks.active_per_user,
        typed=settings.tasks.typed_active_per_user,
        runs=settings.pipelines.jobs_per_user,
    )
    dispatch = open_dispatch(databases.central, notifier.notify, settings.jobs)
    reaped = ExpiredLeases(databases).record
    jobs = open_jobs(databases, notifier.notify, settings.jobs, limits, identity.quotas, reaped, dispatch)
    fleet = open_fleet(databases, settings.fleet, secret, jobs.lease_reports)
    others = [name for name in providers.provider_names if name not in providers.media and name not in ENGINES]
    webhooks = open_webhooks(databases, storage, jobs, notifier.notify, settings, secret, providers.media, others)
    protocol = open_protocol(databases, storage, jobs, fleet, settings, registry, webhooks.gate)
    effect_jobs = EffectJobs(databases, catalog, media.files, jobs.submission)
    task_runner = _task_runner(settings, fleet, protocol, providers)
    tasks = open_tasks(databases, jobs, effect_jobs, providers, settings.tasks, task_runner, webhooks.gate)
    return Rooms(
        identity=identity,
        media=media,
        catalog=catalog,
        dispatch=dispatch,
        jobs=jobs,
        fleet=fleet,
        webhooks=webhooks,
        effect_jobs=effect_jobs,
        task_runner=task_runner,
        tasks=tasks,
        pipelines=open_pipelines(databases, catalog, media, jobs, settings.pipelines, tasks.for_runs, registry),
        library=open_library(databases, catalog, media, jobs, settings),
        protocol=protocol,
        credentials=Credentials(fleet.fleet_tokens, settings, secret, identity.attempts),
        presenter=Presenter(jobs.routing, jobs.overview, media.files, fleet.capacity.of, webhooks.gate),
        waits=Waits(jobs.overview, fleet.capacity.of, webhooks.gate),
        scaling=open_scaling(databases, settings, fleet.fleet_tokens),
    )


def _task_runner(
    settings: Settings, fleet: FleetRoom, protocol: WorkerProtocol, providers: Registry
) -> TaskRunner | None:
    if not settings.tasks.in_process or not providers.actors:
        return None
    queues = (DEFAULT_QUEUE, *settings.tasks.queues)
    plane = InProcessPlane(
        worker_id=runner_name(),
        workflow_slugs=[workflow_slug(actor, queue) for actor in providers.actors for queue in queues],
        providers=providers.provider_names,
        max_concurrency=settings.tasks.in_process,
        registry=fleet.registry,
        authentication=fleet.authentication,
        protocol=protocol,
        most_bytes=settings.server.max_body_bytes,
    )
    return TaskRunner(plane, providers.actors, settings.home / "tasks", settings.tasks.heartbeat_seconds)


def _vouch(rooms: Rooms) -> Vouch:
    """Whose large bodies are read: of clients with the credentials that the path needs."""
    users, workers = rooms.identity.authentication, rooms.fleet.authentication

    async def vouch(request: Request) -> None:
        path = request.scope["path"]
        if path == "/api/worker/register":
            await rooms.credentials.of(request.headers.get("x-fleet-secret"), request, users.client_address(request))
        elif path.startswith("/api/worker/"):
            await workers.worker(request)
        elif path.startswith("/api/webhooks/"):
            await rooms.webhooks.callbacks.expect(*path.split("/")[3:5])
        else:
            await users.of_request(request)

    return vouch


def _worker_routers(rooms: Rooms, settings: Settings) -> list[APIRouter]:
    fleet, authentication = rooms.fleet, rooms.identity.authentication
    envelope = Envelope(settings.fleet.answer_envelope)
    return [
        registration_router(fleet.registry, rooms.credentials, fleet.authentication, authentication, envelope),
        rooms.protocol.router,
    ]


def _user_routers(rooms: Rooms, databases: Databases, settings: Settings, providers: Registry) -> list[APIRouter]:
    identity, jobs, tasks, authentication = rooms.identity, rooms.jobs, rooms.tasks, rooms.identity.authentication
    reader = JobReader(databases)
    streams = Streams(jobs, reader, authentication, settings.jobs.streams_per_user)
    task_reader = TaskReader(reader, rooms.presenter)
    return [
        session_router(identity.sessions, identity.one_time_links, authentication, settings, rooms.media.usage.of),
        session_list_router(identity.sessions, authentication, settings),
        key_router(identity.keys, authentication),
        link_router(identity.links, authentication),
        link_page_router(identity.links),
        preview_router(rooms.media.files.storage, rooms.media.preview_urls),
        video_router(rooms.media, authentication),
        file_router(rooms.media, authentication),
        effect_router(rooms.catalog, rooms.waits.of, authentication),
        effect_job_router(rooms.effect_jobs, rooms.presenter, authentication),
        # Before the jobs, for which `stream` would be the id of one.
        stream_router(streams, reader, authentication),
        stream_token_router(reader, authentication),
        job_router(jobs, reader, rooms.presenter, authentication),
        task_router(tasks.submission, task_reader, jobs.cancellation, jobs.retries, streams, authentication),
        provider_router(tasks.actors, providers.media, authentication),
        generation_router(tasks.generation, rooms.presenter, authentication),
        product_router(tasks.products, authentication),
        *_pipeline_routers(rooms),
        *rooms.library.routers(authentication),
        wallet_router(databases, authentication),
    ]


def _pipeline_routers(rooms: Rooms) -> list[APIRouter]:
    pipelines, authentication = rooms.pipelines, rooms.identity.authentication
    guidance = pipelines.guidance
    return [
        pipeline_router(pipelines.pipelines, pipelines.runs, authentication),
        run_router(pipelines.runs, authentication),
        run_candidate_router(guidance.gallery, guidance.exports, authentication),
        guidance_router(guidance.votes, guidance.branches, authentication),
        candidate_router(guidance.gallery, guidance.branches, guidance.lineages, rooms.presenter, authentication),
    ]


def _admin_routers(rooms: Rooms, databases: Databases, loops: Sequence[Loop], settings: Settings) -> list[APIRouter]:
    identity, jobs, fleet = rooms.identity, rooms.jobs, rooms.fleet
    authentication, audit = identity.authentication, identity.audit
    job_operations = JobOperations(
        lambda: databases.pools, jobs.routing, jobs.overview, jobs.cancellation, jobs.retries, rooms.presenter, audit
    )
    dispatch_operations = DispatchOperations(
        jobs.queue, jobs.overview, jobs.lease_reports, jobs.cancellation, jobs.transitions, audit
    )
    overview = FleetOverview(
        databases,
        fleet.capacity,
        loops,
        jobs.reconciler.healed,
        settings.jobs.queue_wait_alert_seconds,
        rooms.pipelines.numbers.look,
        settings.pipelines.error_share_alert,
        identity.links.mails,
        rooms.media.owner,
    )
    return [
        account_router(identity.accounts, authentication),
        user_management_router(
            identity.management,
            UserDeletion(databases, identity.management, UserWork(databases, rooms.pipelines.runs, jobs.cancellation)),
            authentication,
        ),
        tenant_management_router(identity.management, authentication),
        quota_router(rooms.media.usage, identity.accounts, authentication),
        share_router(rooms.dispatch.shares, authentication),
        admin_link_router(identity.links, authentication),
        audit_router(audit, authentication),
        admin_wallet_router(jobs.routing, identity.accounts, audit, authentication, jobs.journal.wallet_changed),
        admin_workflow_router(rooms.catalog, authentication),
        admin_effect_router(rooms.catalog, authentication),
        effect_preview_router(rooms.catalog, JobExamples(rooms.media.files), rooms.media.files.storage, authentication),
        admin_asset_router(rooms.catalog, authentication),
        ready_job_router(jobs, rooms.presenter, identity.accounts, audit, authentication),
        admin_job_router(job_operations, identity.accounts, authentication),
        job_by_id_router(job_operations, authentication),
        dispatch_router(dispatch_operations, jobs.overview, authentication),
        overview_router(overview, authentication),
        admin_worker_router(fleet.workers, authentication),
        worker_log_router(fleet.workers, authentication),
        admin_fleet_router(fleet.fleets, authentication),
        fleet_token_router(fleet.fleet_tokens, authentication),
        metric_router(FleetMetrics(databases), authentication),
        scaling_router(rooms.scaling.rules, authentication),
        admin_provider_router(rooms.webhooks.operations, authentication),
    ]


def _application(routers: Iterable[APIRouter]) -> FastAPI:
    app = FastAPI(
        title="Callsheet",
        version=__version__,
        description="A control plane for generative-media jobs.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
        responses=PROBLEM_RESPONSES,
    )
    install_problem_handlers(app)
    install_docs_page(app)
    for router in routers:
        app.include_router(router)
    describe_operations(app)
    return app


def _connections(databases: Databases) -> list[tuple[str, int, int]]:
    return [(database.name, *database.connection_counts()) for database in (databases.central, *databases.pools)]
