"""A control plane: builds it from its rooms, starts and stops it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry

from callsheet.app.rooms import Rooms
from callsheet.app.routes import all_routers, applications, caller_check
from callsheet.plumbing.database.database import Database
from callsheet.plumbing.database.database_watch import DatabaseWatch
from callsheet.plumbing.database.databases import CENTRAL, Databases, open_databases
from callsheet.plumbing.database.errors import is_outage
from callsheet.plumbing.database.notify import Listener
from callsheet.plumbing.database.pool_keeper import DatabaseRole
from callsheet.plumbing.failpoints import arm_for_process
from callsheet.plumbing.http.application import Application, HttpSide
from callsheet.plumbing.http.server import HttpServer
from callsheet.plumbing.installation.secrets import master_secret
from callsheet.plumbing.metrics import ProcessMetrics
from callsheet.providers.registry import ActorRegistry
from callsheet.settings import Settings
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.loops import LoopGroup
from callsheet.web.room import open_web

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """One control-plane process: its rooms, and what runs them."""

    settings: Settings
    databases: Databases
    rooms: Rooms
    listener: Listener
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
        await databases.start_pulses()
        registry = CollectorRegistry()
        http = HttpSide(settings, databases, registry)
        process_loops = (DatabaseWatch(databases), http.connection_limit)
        rooms = Rooms(settings, databases, partial(master_secret, settings), providers, process_loops)
        undo.push_async_callback(rooms.close)
        plane = _assemble(rooms, http, registry)
        await rooms.tasks.actors.keep()
        plane.listener.start()
        undo.push_async_callback(plane.listener.stop)
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
        if plane.rooms.task_runner is not None:
            plane.rooms.task_runner.start()
        try:
            yield plane
        finally:
            plane.draining.set()
            if plane.rooms.task_runner is not None:
                await plane.rooms.task_runner.stop(settings.server.shutdown_seconds)
            plane.rooms.jobs.feeds.close()
            plane.rooms.jobs.dispatch.waiters.close()
            await server.stop()
            log.info("control_plane.stopped")


def openapi_document(settings: Settings) -> dict[str, Any]:
    """The content of `/openapi.json`. No database is connected: only the routes and their models are needed."""
    central = Database("central", CENTRAL, "", settings.database)
    databases = Databases(settings, central, None, role=DatabaseRole(migrates=False, holds_leases=False))
    rooms, registry = Rooms(settings, databases, lambda: b"signs nothing"), CollectorRegistry()
    return _assemble(rooms, HttpSide(settings, databases, registry), registry).http.document.content()


def _assemble(rooms: Rooms, http: HttpSide, registry: CollectorRegistry) -> ControlPlane:
    settings, databases, listener = rooms.settings, rooms.databases, Listener(rooms.databases.central)
    registry.register(ProcessMetrics(rooms.loops, databases.connection_counts))
    for room in rooms.all:
        room.listen(listener)
        for metric in room.metrics:
            registry.register(metric)
    web = open_web(rooms.storage.url, settings.public_url) if settings.server.web_application else None
    return ControlPlane(
        settings=settings,
        databases=databases,
        rooms=rooms,
        listener=listener,
        loops=LoopGroup(rooms.loops, is_outage),
        draining=http.draining,
        http=http.application(
            all_routers(rooms), applications(rooms), caller_check(rooms), rooms.identity.kept_responses, web
        ),
    )
