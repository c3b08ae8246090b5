"""The HTTP side of a control plane: the FastAPI application, and the layers around it that each request passes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from fastapi import APIRouter, FastAPI
from prometheus_client import CollectorRegistry
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from callsheet import __version__
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.http.connections import ConnectionLimit, RequestsInProgress
from callsheet.plumbing.http.docs_page import install_docs_page
from callsheet.plumbing.http.edge import CallerCheck, Edge
from callsheet.plumbing.http.fast_routes import Direct, Shortcut
from callsheet.plumbing.http.front_page import front_page_router
from callsheet.plumbing.http.health import health_router, is_ready
from callsheet.plumbing.http.openapi_texts import describe_operations
from callsheet.plumbing.http.own_addresses import OwnAddresses
from callsheet.plumbing.http.problems import PROBLEM_RESPONSES, install_problem_handlers
from callsheet.plumbing.metrics import HttpMetrics
from callsheet.settings import Settings


class WebPages(Protocol):
    """The web application: its page, and its files at paths that no router has."""

    def page(self, request: Request) -> Response: ...
    def before(self, not_found: ASGIApp) -> ASGIApp: ...


class Application(NamedTuple):
    api: FastAPI
    # `api` with all layers that each request passes first. The server runs this.
    asgi: ASGIApp


class HttpSide:
    def __init__(self, settings: Settings, databases: Databases, registry: CollectorRegistry):
        self._settings = settings
        self._databases = databases
        self._registry = registry
        self._in_progress = RequestsInProgress(settings.server)
        self.connection_limit = ConnectionLimit(settings.server, self._in_progress.connections)
        # Set when the process stops: `/readyz` then fails, so that load balancers send nothing more.
        self.draining = asyncio.Event()

    def application(
        self, routers: Iterable[APIRouter], direct: Mapping[str, Direct], check: CallerCheck, web: WebPages | None
    ) -> Application:
        """Builds the application. `direct`: the busiest routes, which skip the framework. `check` is called before a
        large body is read.
        """
        api = _application([*self._own_routers(web), *routers])
        if web is not None:
            api.router.default = web.before(api.router.default)
        edge = Edge(
            Shortcut(api, direct),
            self._settings.server,
            HttpMetrics(self._registry),
            check,
            self._in_progress,
            OwnAddresses(self._settings),
        )
        return Application(api, edge)

    def _own_routers(self, web: WebPages | None) -> list[APIRouter]:
        async def ready() -> bool:
            return await is_ready(self._databases, self.draining)

        return [
            front_page_router(self._settings.public_url, ready, None if web is None else web.page),
            health_router(self._databases, self.draining, self._registry, self._settings.server),
        ]


def check_by_path(by_prefix: Mapping[str, CallerCheck], otherwise: CallerCheck) -> CallerCheck:
    """Asks the room that the path belongs to whether the caller's credentials are valid."""

    async def check_caller(request: Request) -> object:
        path = request.scope["path"]
        found = (each for prefix, each in by_prefix.items() if path.startswith(prefix))
        return await next(found, otherwise)(request)

    return check_caller


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
