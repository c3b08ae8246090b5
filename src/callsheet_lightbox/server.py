"""Starts and stops all parts of Lightbox: folders, queue, executor, sockets and routes."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from callsheet.settings import LightboxSettings
from callsheet.toolbox.errors import OperatorError
from callsheet.toolbox.logs import get_logger
from callsheet_lightbox.api.cloud import CloudRoutes, cloud_key
from callsheet_lightbox.api.file_routes import FileRoutes
from callsheet_lightbox.api.info_routes import InfoRoutes, features
from callsheet_lightbox.api.prompt_routes import PromptRoutes
from callsheet_lightbox.api.responses import only_own_pages, troubles
from callsheet_lightbox.api.sockets import Sockets
from callsheet_lightbox.executor import Executor
from callsheet_lightbox.folders import Folders
from callsheet_lightbox.nodes import build_registry
from callsheet_lightbox.prompt_queue import PromptQueue
from callsheet_lightbox.timing import Timing, recorded_responses

log = get_logger(__name__)
MEGABYTE = 1024 * 1024
ACCOUNT = "account"


@dataclass(frozen=True)
class RunningLightbox:
    url: str
    folders: Folders
    # Set when a run broke the engine: a separate process then ends with the status 1.
    broke: asyncio.Event


@asynccontextmanager
async def running_lightbox(settings: LightboxSettings, directory: Path) -> AsyncIterator[RunningLightbox]:
    """Runs an engine until the block ends."""
    # Otherwise the AV1 encoder writes its whole configuration to standard error. It has no other switch.
    os.environ.setdefault("SVT_LOG", "1")
    folders = Folders.under(directory)
    try:
        folders.prepare()
    except OSError as error:
        raise OperatorError(f"Lightbox cannot use the directory {directory}: {error.strerror}.") from None
    max_upload = settings.max_upload_megabytes * MEGABYTE
    known = features(max_upload)
    sockets = Sockets(known, all_listen=settings.as_cloud)
    registry = build_registry(settings.probes)
    executor = Executor(registry, folders, PromptQueue(), sockets, Timing(settings.comfyui_timing))
    prompts, files = PromptRoutes(executor, registry, ACCOUNT if settings.as_cloud else None), FileRoutes(folders)
    info = InfoRoutes(registry, folders, known)

    async def listen(request: web.Request) -> web.StreamResponse:
        return await sockets.listen(request, executor.status(), executor.current_node)

    own_pages = only_own_pages(settings.host, settings.allowed_hosts)
    if settings.as_cloud:
        key = cloud_key(settings.cloud_api_key.get_secret_value())
        app = web.Application(client_max_size=max_upload, middlewares=[troubles, own_pages, key])
        cloud = CloudRoutes(executor, prompts, files, folders)
        app.add_routes([web.get("/ws", listen), *cloud.routes(), *_under_api(info.routes())])
    else:
        delays = [recorded_responses] if settings.comfyui_timing else []
        app = web.Application(client_max_size=max_upload, middlewares=[troubles, own_pages, *delays])
        routes = [*prompts.routes(), *files.routes(), *info.routes(), web.get("/ws", listen)]
        app.add_routes([*routes, *_under_api(routes)])
        app.add_routes([web.get("/api/jobs", prompts.jobs), web.get("/api/jobs/{job_id}", prompts.job)])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    try:
        listening = _bind(settings.host, settings.port)
        await web.SockSite(runner, listening).start()
        executor.start()
        host, port = listening.getsockname()[:2]
        log.info("lightbox_listens", host=host, port=port, as_cloud=settings.as_cloud, directory=str(directory))
        try:
            yield RunningLightbox(f"http://{host if ':' not in host else f'[{host}]'}:{port}", folders, sockets.broke)
        finally:
            await executor.stop()
    finally:
        await sockets.close()
        await runner.cleanup()


def _under_api(routes: Iterable[web.RouteDef]) -> list[web.RouteDef]:
    return [web.RouteDef(each.method, f"/api{each.path}", each.handler, each.kwargs) for each in routes]


def _bind(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        # A name that is not found has a text, but no number.
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        raise OperatorError(f"Lightbox cannot listen on {host}:{port}: {reason}.") from None
