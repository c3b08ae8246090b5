"""Serves the busiest URLs without the framework: each is found by its exact path and served by its handler.

They are also normal routes, which document them and handle other methods. The other work of the framework for each
request (trying routes, four layers of middleware) took a fifth of a poll.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from callsheet.plumbing.http.problems import UNAVAILABLE, refusal_of_absence

Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Direct:
    """One of these URLs. Metrics use the name of `route`."""

    route: BaseRoute
    handle: Handler


class Shortcut:
    """Serves these URLs. Refusals and errors are raised to the edge, which handles them like all others."""

    def __init__(self, app: ASGIApp, posts: Mapping[str, Direct]):
        self._app = app
        self._posts = posts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        direct = self._posts.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        if direct is None:
            await self._app(scope, receive, send)
            return
        scope["route"] = direct.route
        try:
            response = await direct.handle(Request(scope, receive))
        except UNAVAILABLE as error:
            raise refusal_of_absence(error) from error
        await response(scope, receive, send)
