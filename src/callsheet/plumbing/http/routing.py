"""Routes as the rooms declare them. FastAPI builds them later: each section of the URLs is an application of its own,
which is built for its first request.

One application with all routes would take 0.2 seconds to build at each start, and would try up to 250 routes for each
request.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, TypedDict, TypeVar, Unpack

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from callsheet import __version__
from callsheet.plumbing.http.once import ResponseKeeper, once
from callsheet.plumbing.http.problems import PROBLEM_RESPONSES, UnknownPath, install_problem_handlers, no_such_path
from callsheet.plumbing.http.query import QueryCheck

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


class RouteOptions(TypedDict, total=False):
    """The arguments that a route may give to FastAPI, with the names of FastAPI."""

    status_code: int
    response_model: Any
    response_class: type[Response]
    responses: dict[int | str, dict[str, Any]]
    dependencies: Sequence[Any]
    include_in_schema: bool
    operation_id: str
    summary: str
    openapi_extra: dict[str, Any]


@dataclass(frozen=True, slots=True)
class DeclaredRoute:
    path: str
    method: str
    endpoint: Callable[..., Any]
    options: RouteOptions
    tags: list[str] = field(default_factory=list)
    # A repeated request with the same Idempotency-Key gets the response of the first one.
    once: bool = False

    def with_keeper(self, keeper: ResponseKeeper | None) -> DeclaredRoute:
        if not self.once:
            return self
        return replace(self, endpoint=once(self.endpoint, self.options.get("status_code", HTTPStatus.OK), keeper))

    def add_to(self, app: FastAPI) -> None:
        # A copy of the tags: FastAPI keeps the list, and extends it.
        app.add_api_route(self.path, self.endpoint, methods=[self.method], tags=[*self.tags], **self.options)


@dataclass(frozen=True, slots=True)
class MountedFiles:
    """An application for all paths below a path. It is not in the API document."""

    path: str
    app: ASGIApp

    def add_to(self, app: FastAPI) -> None:
        app.mount(self.path, self.app)


class Router:
    """Collects the routes of a room. It has the decorators of FastAPI's router, and only remembers what they get.

    FastAPI takes 0.75 ms to build a route: 0.2 seconds for all, at each start.
    """

    def __init__(
        self,
        *,
        prefix: str = "",
        tags: Sequence[str] = (),
        dependencies: Sequence[Any] = (),
        include_in_schema: bool = True,
    ):
        self.routes: list[DeclaredRoute | MountedFiles] = []
        self._prefix = prefix
        self._tags = tags
        self._dependencies = dependencies
        self._include_in_schema = include_in_schema

    def get(self, path: str, **options: Unpack[RouteOptions]) -> Callable[[Endpoint], Endpoint]:
        return self._declaring("GET", path, options)

    def head(self, path: str, **options: Unpack[RouteOptions]) -> Callable[[Endpoint], Endpoint]:
        return self._declaring("HEAD", path, options)

    def post(self, path: str, *, once: bool = False, **options: Unpack[RouteOptions]) -> Callable[[Endpoint], Endpoint]:
        """`once`: a repeated request with the same Idempotency-Key gets the response of the first one."""
        return self._declaring("POST", path, options, once=once)

    def put(self, path: str, **options: Unpack[RouteOptions]) -> Callable[[Endpoint], Endpoint]:
        return self._declaring("PUT", path, options)

    def patch(self, path: str, **options: Unpack[RouteOptions]) -> Callable[[Endpoint], Endpoint]:
        return self._declaring("PATCH", path, options)

    def delete(self, path: str, **options: Unpack[RouteOptions]) -> Callable[[Endpoint], Endpoint]:
        return self._declaring("DELETE", path, options)

    def mount(self, path: str, app: ASGIApp) -> None:
        self.routes.append(MountedFiles(self._prefix + path, app))

    def _declaring(
        self, method: str, path: str, options: RouteOptions, *, once: bool = False
    ) -> Callable[[Endpoint], Endpoint]:
        complete: RouteOptions = {
            **options,
            "dependencies": [*self._dependencies, *options.get("dependencies", ())],
            "include_in_schema": self._include_in_schema and options.get("include_in_schema", True),
        }

        def declare(endpoint: Endpoint) -> Endpoint:
            route = DeclaredRoute(self._prefix + path, method, endpoint, complete, list(self._tags), once)
            self.routes.append(route)
            return endpoint

        return declare


def build(
    routes: Iterable[DeclaredRoute | MountedFiles],
    unknown: UnknownPath = no_such_path,
    *,
    keeper: ResponseKeeper | None = None,
    checks_query: bool = False,
) -> FastAPI:
    """A FastAPI application with these routes, whose errors are problems. `unknown` responds to all other paths.
    `keeper`: keeps the responses of requests with a key. `checks_query`: query parameters that a route does not have
    are refused.
    """
    app = FastAPI(
        title="Callsheet",
        version=__version__,
        description="A control plane for generative-media jobs.",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
        responses=PROBLEM_RESPONSES,
    )
    install_problem_handlers(app, unknown)
    check = QueryCheck(app) if checks_query else None
    for each in routes:
        route = each.with_keeper(keeper) if isinstance(each, DeclaredRoute) else each
        if check is not None and isinstance(route, DeclaredRoute):
            route = replace(route, endpoint=check.around(route.endpoint))
        route.add_to(app)
    return app


def section_of(path: str) -> str:
    """The first segment. Below `/api` the first two, and below `/api/admin` the first three."""
    segments = path.split("/", 4)
    depth = 2
    if segments[1:2] == ["api"]:
        depth = 4 if segments[2:3] == ["admin"] else 3
    return "/".join(segments[:depth])


class Section:
    """The routes of a section, as an application that is built when it is needed."""

    def __init__(
        self,
        routes: Iterable[DeclaredRoute | MountedFiles],
        unknown: UnknownPath,
        keeper: ResponseKeeper | None = None,
    ):
        self._routes = tuple(routes)
        self._unknown = unknown
        self._keeper = keeper
        # For requests without a query, and for those with one. The check costs a request 10 µs, and most need none.
        self._plain: FastAPI | None = None
        self._checking: FastAPI | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["query_string"]:
            if self._checking is None:
                self._checking = build(self._routes, self._unknown, keeper=self._keeper, checks_query=True)
            await self._checking(scope, receive, send)
            return
        if self._plain is None:
            self._plain = build(self._routes, self._unknown, keeper=self._keeper)
        await self._plain(scope, receive, send)


class Sections:
    """Finds the application for a path."""

    def __init__(
        self,
        routes: Iterable[DeclaredRoute | MountedFiles],
        applications: Mapping[str, ASGIApp],
        unknown: UnknownPath,
        keeper: ResponseKeeper | None = None,
    ):
        """`applications`: sections that have an application of their own. Their routes among `routes` only document
        them. `unknown` responds to paths without a route. `keeper` keeps the responses of requests with a key.
        """
        self._unknown = unknown
        self._sections: dict[str, ASGIApp] = dict(applications)
        grouped: dict[str, list[DeclaredRoute | MountedFiles]] = defaultdict(list)
        for route in routes:
            grouped[section_of(route.path)].append(route)
        for name, found in grouped.items():
            if "{" in name:
                raise ValueError(f"The section of {found[0].path} must be fixed: it has a parameter.")
            self._sections.setdefault(name, Section(found, unknown, keeper))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        section = self._sections.get(section_of(scope["path"]))
        if section is not None:
            await section(scope, receive, send)
            return
        response = self._unknown(Request(scope, receive))
        await response(scope, receive, send)
