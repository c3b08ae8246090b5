"""Answers that every route gives alike."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from aiohttp import web

from callsheet.toolbox.logs import get_logger

log = get_logger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
TROUBLE = "500 Internal Server Error\n\nServer got itself in trouble"
# As others say it in their logs: the client has closed its connection.
LEFT = 499
LOOPBACK = ("127.0.0.1", "localhost", "::1")


def trouble() -> web.Response:
    """What ComfyUI says to a request it did not expect."""
    return web.Response(status=500, text=TROUBLE)


@web.middleware
async def troubles(request: web.Request, handler: Handler) -> web.StreamResponse:
    """A request that breaks a handler gets ComfyUI's words, and one line in the log."""
    try:
        return await handler(request)
    except web.HTTPException:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, OSError, SyntaxError, RecursionError) as broke:
        if isinstance(broke, ConnectionError):
            # Whoever asked has left; raised, it would be logged as a failure of ours.
            return web.Response(status=LEFT)
        log.warning("request_failed", path=request.path, error=repr(broke))
        return trouble()


@web.middleware
async def same_origin(request: web.Request, handler: Handler) -> web.StreamResponse:
    """A page from elsewhere may not drive the engine of this machine through the user's browser."""
    origin, host = request.headers.get("Origin"), request.headers.get("Host")
    if origin and host:
        here, there = urlsplit(f"//{host}"), urlsplit(origin)
        if here.hostname in LOOPBACK and there.netloc and here.netloc.lower() != there.netloc.lower():
            return web.Response(status=403)
    return await handler(request)


def query_number(request: web.Request, name: str, default: int | None) -> int | None:
    return int(request.query[name]) if name in request.query else default
