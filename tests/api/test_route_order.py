"""Which route gets a request does not depend on the order in which rooms add their routes."""

from __future__ import annotations

import re

from fastapi.routing import APIRoute
from starlette.routing import Match

from callsheet.app.control_plane import ControlPlane
from callsheet.plumbing.http.routing import build

SOME_ID = "018f4d5c-5b1e-7cc0-9f6e-3a2b1c0d9e8f"


async def test_no_route_hides_another(plane: ControlPlane) -> None:
    routes = [route for route in build(plane.http.document.routes).routes if isinstance(route, APIRoute)]
    assert len(routes) > 150
    for route in routes:
        path = re.sub(r"\{\w+(:\w+)?\}", SOME_ID, route.path)
        for method in route.methods:
            scope = {"type": "http", "method": method, "path": path, "path_params": {}}
            first = next(each for each in routes if each.matches(scope)[0] is Match.FULL)
            assert first is route, f"{method} {route.path} is served by {first.path}"
