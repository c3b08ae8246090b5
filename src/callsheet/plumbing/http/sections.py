"""Finds the application for a path: each section of the URLs is one, which is built for its first request.

One application with all routes would take 0.2 seconds to build at each start, and would try up to 250 routes for each
request.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from fastapi import FastAPI
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from callsheet.plumbing.http.problems import UnknownPath
from callsheet.plumbing.http.routing import DeclaredRoute, MountedFiles, build


def section_of(path: str) -> str:
    """The first segment. Below `/api` the first two, and below `/api/admin` the first three."""
    segments = path.split("/", 4)
    depth = 2
    if segments[1:2] == ["api"]:
        depth = 4 if segments[2:3] == ["admin"] else 3
    return "/".join(segments[:depth])


class Section:
    """The routes of a section, as an application that is built when it is needed."""

    def __init__(self, routes: Iterable[DeclaredRoute | MountedFiles], unknown: UnknownPath):
        self._routes = tuple(routes)
        self._unknown = unknown
        self._app: FastAPI | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._app is None:
            self._app = build(self._routes, self._unknown)
        await self._app(scope, receive, send)


class Sections:
    def __init__(
        self,
        routes: Iterable[DeclaredRoute | MountedFiles],
        applications: Mapping[str, ASGIApp],
        unknown: UnknownPath,
    ):
        """`applications`: sections that have an application of their own. Their routes among `routes` only document
        them. `unknown` responds to paths without a route.
        """
        self._unknown = unknown
        self._sections: dict[str, ASGIApp] = dict(applications)
        grouped: dict[str, list[DeclaredRoute | MountedFiles]] = defaultdict(list)
        for route in routes:
            grouped[section_of(route.path)].append(route)
        for name, found in grouped.items():
            if "{" in name:
                raise ValueError(f"The section of {found[0].path} must be fixed: it has a parameter.")
            self._sections.setdefault(name, Section(found, unknown))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        section = self._sections.get(section_of(scope["path"]))
        if section is not None:
            await section(scope, receive, send)
            return
        response = self._unknown(Request(scope, receive))
        await response(scope, receive, send)
