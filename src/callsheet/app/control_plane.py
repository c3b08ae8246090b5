"""A control plane: builds it from its rooms, starts and stops it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry

from callsheet.app.in_process.runner import TaskRunner
from callsheet.app.rooms import all_routers, open_alerts_of, open_rooms, register_metrics
from callsheet.catalog.room import CatalogRoom
from callsheet.fleet.room import FleetRoom
from callsheet.fleet.worker_api import WorkerApi
from callsheet.identity.access.keys import Keys
from callsheet.identity.access.one_time_links import OneTimeLinks
from callsheet.identity.accounts.accounts import Accounts
from callsheet.jobs.room import JobsRoom
from callsheet.media.room import MediaRoom
from callsheet.media.storage import Storage, open_storage
from callsheet.media.storage.owner import StorageOwner
from callsheet.pipelines.room import PipelinesRoom
from callsheet.plumbing.database.database import Database, is_outage
from callsheet.plumbing.database.database_watch import DatabaseWatch
from callsheet.plumbing.database.databases import CENTRAL, Databases, open_databases
from callsheet.plumbing.database.notify import Listener, Notifier
from callsheet.plumbing.database.pool_keeper import DatabaseRole
from callsheet.plumbing.failpoints import arm_for_process
from callsheet.plumbing.http.application import Application, HttpSide
from callsheet.plumbing.http.server import HttpServer
from callsheet.plumbing.installation.secrets import master_secret
from callsheet.providers.registry import ActorRegistry, open_registry
from callsheet.scaling.room import ScalingRoom
from callsheet.settings import Settings
from callsheet.tasks.room import TasksRoom
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.loops import LoopGroup
from callsheet.toolbox.signing import Master
from callsheet.web.room import open_web
from callsheet.webhooks.room import WebhooksRoom

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """All parts of one control-plane process."""

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
    worker_api: WorkerApi
    webhooks: WebhooksRoom
    task_runner: TaskRunner | None
    tasks: TasksRoom
    pipelines: PipelinesRoom
    scaling: ScalingRoom
    listener: Listener
    notifier: Notifier
    loops: LoopGroup
    draining: asyncio.Event
    http: Application


@asynccontextmanager
async def open_control_plane(settings: Settings, providers: ActorRegistry | None = None) -> AsyncIterator[ControlPlane]:
    """Opens all parts, runs the loops, and closes all in reverse order. Default `providers`: those in the settings."""
    arm_for_process(settings.failpoints)
    async with AsyncExitStack() as undo:
        databases = await open_databases(settings)
        undo.push_async_callback(databases.close)
        secret = master_secret(settings)
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
async def running_control_plane(
    settings: Settings, providers: ActorRegistry | None = None
) -> AsyncIterator[ControlPlane]:
    """A control plane that serves HTTP. When it stops, it takes no new requests and lets running ones finish."""
    async with open_control_plane(settings, providers) as plane:
        server = HttpServer(plane.http.asgi, settings.server)
        await server.start()
        log.info("control_plane.ready", url=settings.public_url)
        # The runner starts after the server, because tasks upload their results to it.
        if plane.task_runner is not None:
            plane.task_runner.start()
        try:
            yield plane
        finally:
            plane.draining.set()
            if plane.task_runner is not None:
                await plane.task_runner.stop(settings.server.shutdown_seconds)
            plane.jobs.feeds.close()
            plane.jobs.dispatch.waiters.close()
            await server.stop()
            log.info("control_plane.stopped")


def openapi_document(settings: Settings) -> dict[str, Any]:
    """The content of `/openapi.json`. No database is connected: only the routes and their models are needed."""
    central = Database("central", CENTRAL, "", settings.database)
    databases = Databases(settings, central, None, role=DatabaseRole(migrates=False, holds_leases=False))
    secret, owner = b"signs nothing", StorageOwner(databases)
    storage = open_storage(settings, secret, owner)
    return _assemble(
        settings, secret, databases, storage, owner, open_registry(settings.providers)
    ).http.document.content()


def _assemble(
    settings: Settings,
    secret: Master,
    databases: Databases,
    storage: Storage,
    owner: StorageOwner,
    providers: ActorRegistry,
) -> ControlPlane:
    registry, notifier, listener = CollectorRegistry(), Notifier(databases.central), Listener(databases.central)
    http = HttpSide(settings, databases, registry)
    rooms = open_rooms(settings, secret, databases, storage, owner, notifier, registry, providers)
    rooms.listen(listener)
    loops = (DatabaseWatch(databases), *rooms.loops, http.connection_limit)
    alerts = open_alerts_of(rooms, settings, databases, loops)
    loops = (*loops, *alerts.loops)
    register_metrics(registry, databases, rooms, alerts, loops)
    web = open_web(storage.url, settings.public_url) if settings.server.web_application else None
    routers = all_routers(rooms, alerts, settings, databases, providers, loops)
    application = http.application(routers, rooms.applications, rooms.check_caller, web)
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
        worker_api=rooms.worker_api,
        webhooks=rooms.webhooks,
        task_runner=rooms.task_runner,
        tasks=rooms.tasks,
        pipelines=rooms.pipelines,
        scaling=rooms.scaling,
        listener=listener,
        notifier=notifier,
        loops=LoopGroup(loops, is_outage),
        draining=http.draining,
        http=application,
    )
