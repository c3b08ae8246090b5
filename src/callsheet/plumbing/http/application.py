"""The HTTP side of a control plane: the applications of its sections, and the layers that each request passes first."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from prometheus_client import CollectorRegistry
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.http.api_document import ApiDocument, docs_router
from callsheet.plumbing.http.connections import ConnectionLimit, RequestsInProgress
from callsheet.plumbing.http.edge import CallerCheck, Edge
from callsheet.plumbing.http.front_page import front_page_router
from callsheet.plumbing.http.health import health_router, is_ready
from callsheet.plumbing.http.once import ResponseKeeper
from callsheet.plumbing.http.own_addresses import OwnAddresses
from callsheet.plumbing.http.problems import UnknownPath, no_such_path
from callsheet.plumbing.http.routing import Router, Sections
from callsheet.plumbing.metrics import HttpMetrics
from callsheet.settings import Settings


class WebPages(Protocol):
    """The web application: its page, and its files at paths that no router has."""

    def page(self, request: Request) -> Response: ...
    def response(self, request: Request) -> Response | None: ...


class Application(NamedTuple):
    document: ApiDocument
    # All routes, with all layers that each request passes first. The server runs this.
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
        self,
        routers: Iterable[Router],
        sections: Mapping[str, ASGIApp],
        check: CallerCheck,
        keeper: ResponseKeeper,
        web: WebPages | None,
    ) -> Application:
        """Builds the application. `sections`: sections with an application of their own. `check` is called before a
        large body is read. `keeper` keeps the responses of requests with a key.
        """
        declared = [route for router in (*self._own_routers(web), *routers) for route in router.routes]
        document = ApiDocument(declared)
        routes = [*docs_router(document).routes, *declared]
        edge = Edge(
            Sections(routes, sections, unknown_path(web), keeper),
            self._settings.server,
            HttpMetrics(self._registry),
            check,
            self._in_progress,
            OwnAddresses(self._settings),
        )
        return Application(document, edge)

    def _own_routers(self, web: WebPages | None) -> list[Router]:
        async def ready() -> bool:
            return await is_ready(self._databases, self.draining)

        return [
            front_page_router(self._settings.public_url, ready, None if web is None else web.page),
            health_router(self._databases, self.draining, self._registry, self._settings.server),
        ]


def unknown_path(web: WebPages | None) -> UnknownPath:
    """Responds with the web application to paths without a route, where it has a page or a file."""
    if web is None:
        return no_such_path

    def respond(request: Request) -> Response:
        page = web.response(request)
        return no_such_path(request) if page is None else page

    return respond


def check_by_path(by_prefix: Mapping[str, CallerCheck], otherwise: CallerCheck) -> CallerCheck:
    """Asks the room that the path belongs to whether the caller's credentials are valid."""

    async def check_caller(request: Request) -> object:
        path = request.scope["path"]
        found = (each for prefix, each in by_prefix.items() if path.startswith(prefix))
        return await next(found, otherwise)(request)

    return check_caller
