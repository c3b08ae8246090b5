"""Responses that all routes share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Any

from aiohttp import web

from callsheet.toolbox.http.addresses import is_loopback
from callsheet.toolbox.http.origins import authority_in, is_ip_or_localhost, name_in
from callsheet.toolbox.logs import get_logger

log = get_logger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
TROUBLE = "500 Internal Server Error\n\nServer got itself in trouble"
# A common status in logs: the client has closed its connection.
LEFT = 499


def trouble() -> web.Response:
    """ComfyUI's response to an unexpected request."""
    return web.Response(status=500, text=TROUBLE)


@web.middleware
async def troubles(request: web.Request, handler: Handler) -> web.StreamResponse:
    """A request that breaks a handler gets ComfyUI's text, and one line in the log."""
    try:
        return await handler(request)
    except web.HTTPException:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, OSError, SyntaxError, RecursionError) as broke:
        if isinstance(broke, ConnectionError):
            # The client has disconnected; an exception would be logged as our failure.
            return web.Response(status=LEFT)
        log.warning("request_failed", path=request.path, error=repr(broke))
        return trouble()


def only_own_pages(listening: str, allowed_hosts: Collection[str]) -> Any:
    """Prevents pages of other origins from using the engine of this machine through the user's browser. There is no
    login, so nothing else prevents it.
    """
    names = {listening.lower(), *(name.lower() for name in allowed_hosts)}

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        host, origin = request.headers.get("Host", ""), request.headers.get("Origin")
        if host and not accepts_host(host, names, is_local=is_loopback(listening)):
            return web.Response(status=403, text=f"Lightbox is not {host[:200]!r}: see lightbox.allowed_hosts.")
        # Both are refused without a text, as in ComfyUI. The second check is for browsers that send no origin.
        if origin is not None and authority_in(origin) != host.lower():
            return web.Response(status=403)
        if request.headers.get("Sec-Fetch-Site") == "cross-site":
            return web.Response(status=403)
        return await handler(request)

    return check


def accepts_host(host: str, names: Collection[str], *, is_local: bool) -> bool:
    """Whether a request with this Host is for this server. Pure.

    A name without a dot, as containers have, does not exist on the internet.
    """
    name = name_in(host)
    if name is None:
        return False
    if name in names or is_loopback(name):
        return True
    return not is_local and (is_ip_or_localhost(name) or "." not in name)


def query_number(request: web.Request, name: str, default: int | None) -> int | None:
    return int(request.query[name]) if name in request.query else default
