"""A router that builds its routes when they are used, and skips them if no path starts like the requested path."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from inspect import signature
from typing import Any

from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.routing import Match, get_name
from starlette.types import Scope

_NOT_GIVEN = {
    name: parameter.default
    for name, parameter in signature(APIRoute.__init__).parameters.items()
    if parameter.kind is parameter.KEYWORD_ONLY
}


class DeferredRoute(APIRoute):
    """A route that is built when an attribute is read that was not given.

    The framework builds a route from the parameters of its function twice: here, and again where its router is
    included. The second time is at the first request to the router. So the first build only takes time: 0.25 seconds of
    each start.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **given: Any):
        vars(self).update(_NOT_GIVEN | given, path=path, endpoint=endpoint, stream_item_type=None)
        self.name = given.get("name") or get_name(endpoint)
        self.methods = {method.upper() for method in given.get("methods") or ["GET"]}
        self._given: dict[str, Any] = given

    def __getattr__(self, name: str) -> Any:
        """Called for attributes that the route does not have yet."""
        if name.startswith("__") or "_given" not in vars(self):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        given = vars(self).pop("_given")
        super().__init__(self.path, self.endpoint, **given)
        return getattr(self, name)


class Router(APIRouter):
    """Skips routes by the beginning of the path. The framework would try all routes of all routers one by one, which
    takes up to a millisecond per request.
    """

    def __init__(self, *, route_class: type[APIRoute] = DeferredRoute, **options: Any):
        super().__init__(route_class=route_class, **options)

    @cached_property
    def _beginnings(self) -> tuple[str, ...]:
        """The fixed beginnings of the routes' paths. With routes of another kind, no path is skipped."""
        routes = self.routes
        return tuple({route.path.partition("{")[0] if isinstance(route, APIRoute) else "" for route in routes})

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if not scope["path"].startswith(self._beginnings):
            return Match.NONE, {}
        return super().matches(scope)
