"""Decides which pages of other origins may call the API from a browser (CORS, the Fetch standard). Pure.

The edge calls this for every request, so that refusals, streams and objects of local storage have the headers too.
Starlette's middleware would miss the refusals of the edge itself, and adds `Vary: Origin` only if an origin was sent. A
browser that cached an image without the headers would then refuse it to a script.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from starlette.responses import Response

from callsheet.settings import ServerSettings
from callsheet.wire.errors import Forbidden

Headers = list[tuple[bytes, bytes]]

# Paths for workers, providers and Prometheus. No page calls them.
NOT_FOR_PAGES = ("/api/worker/", "/api/webhooks/", "/metrics")
METHODS = b"GET, HEAD, POST, PUT, PATCH, DELETE"
# Response headers that scripts may read. Browsers hide other headers.
EXPOSED = (
    b"Accept-Ranges, Content-Disposition, Content-Length, Content-Range, ETag, Idempotent-Replayed, Location, "
    b"Retry-After, WWW-Authenticate, X-Request-Id"
)
PREFLIGHT_SECONDS = b"600"
_HEADER_NAMES = re.compile(rb"[A-Za-z0-9!#$%&'*+.^_`|~, -]{0,2000}")
_VARY = (b"vary", b"Origin")


class Cors:
    def __init__(self, settings: ServerSettings) -> None:
        self._origins = frozenset(origin.encode() for origin in settings.cors_origins)
        self._any = b"*" in self._origins
        self._credentials = settings.cors_credentials

    def preflight(self, method: str, path: str, headers: Mapping[bytes, bytes]) -> Response | None:
        """The response to a preflight request; None for every other request. Raises Forbidden."""
        origin = headers.get(b"origin")
        if method != "OPTIONS" or origin is None or b"access-control-request-method" not in headers:
            return None
        if not self._origins or path.startswith(NOT_FOR_PAGES):
            return None
        if not self._allows(origin):
            shown = origin[:200].decode("latin-1")
            raise Forbidden(f"Pages of {shown} may not call this API. An operator can add it to server.cors_origins.")
        asked = headers.get(b"access-control-request-headers", b"")
        response = Response(status_code=204)
        response.raw_headers = [
            (b"access-control-allow-methods", METHODS),
            (b"access-control-allow-headers", asked if _HEADER_NAMES.fullmatch(asked) else b""),
            (b"access-control-max-age", PREFLIGHT_SECONDS),
        ]
        return response

    def headers(self, path: str, request: Mapping[bytes, bytes]) -> Headers:
        """The headers that are added to a response."""
        if not self._origins or path.startswith(NOT_FOR_PAGES):
            return []
        if self._any:
            return [(b"access-control-allow-origin", b"*"), (b"access-control-expose-headers", EXPOSED)]
        origin = request.get(b"origin")
        if origin is None or not self._allows(origin):
            return [_VARY]
        added = [_VARY, (b"access-control-allow-origin", origin), (b"access-control-expose-headers", EXPOSED)]
        return [*added, (b"access-control-allow-credentials", b"true")] if self._credentials else added

    def _allows(self, origin: bytes) -> bool:
        return self._any or origin in self._origins
