"""The outermost layer of a request: request id, limits, access log, metrics, and the handling of all other errors.

It is plain ASGI around the whole application, because every request pays for it. Every error becomes a problem+json
response, and every response has the headers of CORS.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from callsheet.plumbing.http.connections import Peer, RequestsInProgress
from callsheet.plumbing.http.own_addresses import OwnAddresses
from callsheet.plumbing.http.problems import problem_response
from callsheet.plumbing.http.request_body import BodyRules, RequestBody
from callsheet.plumbing.metrics import HttpMetrics
from callsheet.settings import ServerSettings
from callsheet.toolbox.logs import get_logger
from callsheet.wire.errors import (
    BodyTooLarge,
    FieldProblem,
    Forbidden,
    HeadersTooLarge,
    InternalError,
    MalformedRequest,
    NotAuthenticated,
    Refusal,
    Unavailable,
    WrongHost,
)

Headers = list[tuple[bytes, bytes]]

# Paths for workers, providers and Prometheus. No page calls them.
NOT_FOR_PAGES = ("/api/worker/", "/api/webhooks/", "/metrics")
METHODS = b"GET, HEAD, POST, PUT, PATCH, DELETE"
# Response headers that scripts may read. Browsers hide other headers.
EXPOSED = (
    b"Accept-Ranges, Content-Disposition, Content-Length, Content-Range, ETag, Idempotent-Replayed, Location, "
    b"RateLimit, RateLimit-Policy, Retry-After, WWW-Authenticate, X-Request-Id"
)
PREFLIGHT_SECONDS = b"600"
_HEADER_NAMES = re.compile(rb"[A-Za-z0-9!#$%&'*+.^_`|~, -]{0,2000}")
_VARY = (b"vary", b"Origin")


class Cors:
    """Decides which pages of other origins may call the API from a browser (CORS, the Fetch standard). Pure.

    The edge calls this for every request, so that refusals, streams and objects of local storage have the headers too.
    Starlette's middleware would miss the refusals of the edge itself, and adds `Vary: Origin` only if an origin was
    sent. A browser that cached an image without the headers would then refuse it to a script.
    """

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
        requested = headers.get(b"access-control-request-headers", b"")
        response = Response(status_code=204)
        response.raw_headers = [
            (b"access-control-allow-methods", METHODS),
            (b"access-control-allow-headers", requested if _HEADER_NAMES.fullmatch(requested) else b""),
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


log = get_logger(__name__)

REQUEST_ID = re.compile(rb"^[A-Za-z0-9._-]{1,64}$")
# Routes below these paths check their own body limits.
OWN_BODY_LIMIT = ("/storage/",)
# The last part of paths below these is not logged in full.
SECRET_PATHS = ("/api/webhooks/", "/api/invitations/", "/api/password-resets/", "/account/", "/share/")
QUIET = frozenset({"/healthz", "/readyz", "/metrics"})
# Number of bodies that are read to their end at once after a refusal. Each makes the server hold about 100 kB. If
# strangers send more of them, other clients may lose the response with the reason.
MAX_DISCARDED = 100
SECURITY_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
)
# Responses of these paths are for one caller at one moment: no browser or proxy stores them, unless a route allows it.
NEVER_KEPT = ("/api/", "/account/", "/metrics")
NO_PEER = Peer("unknown", 0)
NO_STORE = (b"cache-control", b"no-store")
# For one year, and without subdomains, which may belong to other services.
ONLY_HTTPS = (b"strict-transport-security", b"max-age=31536000")


# Raises a Refusal unless the caller's credentials are valid for the path of the request.
CallerCheck = Callable[[Request], Awaitable[object]]


class Edge:
    def __init__(
        self,
        app: ASGIApp,
        settings: ServerSettings,
        metrics: HttpMetrics,
        check_caller: CallerCheck | None = None,
        in_progress: RequestsInProgress | None = None,
        own: OwnAddresses | None = None,
    ):
        """`check_caller` is called before a large body is read. Default: no caller is known, and all bodies are small.
        `own`: requests for other hosts are refused. Default: no host is refused.
        """
        self._app = app
        self._settings = settings
        self._metrics = metrics
        self._check_caller = check_caller or _refuse_caller
        self._cors = Cors(settings)
        self._in_progress = in_progress or RequestsInProgress(settings)
        self._own = own
        self._defaults = [*SECURITY_HEADERS, ONLY_HTTPS] if own is not None and own.is_https else [*SECURITY_HEADERS]
        self._api_defaults = [*self._defaults, NO_STORE]
        self._discarding = 0
        self._own_rules = BodyRules(settings.body_grace_seconds, settings.body_bytes_per_second)
        self._json_rules = BodyRules(
            settings.body_grace_seconds,
            settings.body_bytes_per_second,
            max_bytes=settings.max_body_bytes,
            stranger_bytes=settings.stranger_body_bytes,
            seconds=settings.body_seconds,
            max_values=settings.max_body_values,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        headers: Mapping[bytes, bytes] = dict(scope["headers"])
        request_id = _request_id(headers)
        scope["callsheet.request_id"] = request_id
        peer = Peer(*scope["client"]) if scope.get("client") else NO_PEER
        body = self._body(scope, receive, headers)
        defaults = self._api_defaults if scope["path"].startswith(NEVER_KEPT) else self._defaults
        response = _Response(scope, receive, send, request_id, self._cors.headers(scope["path"], headers), defaults)

        # `bound_contextvars` would take four microseconds more: it reads all variables of the context.
        bound = structlog.contextvars.bind_contextvars(request_id=request_id)
        try:
            self._check_host(headers)
            # Before authentication and limits, because a preflight request has neither credentials nor a body.
            preflight = self._cors.preflight(scope["method"], scope["path"], headers)
            if preflight is not None:
                await preflight(scope, receive, response.send)
            else:
                self._check_size(scope, headers)
                client = self._in_progress.enter(peer, _forwarded_for(scope, headers))
                try:
                    await self._app(scope, body.receive, response.send)
                finally:
                    self._in_progress.leave(peer, client)
        except Refusal as refusal:
            await response.refuse(refusal)
        except asyncio.CancelledError:  # A shutdown canceled the request; the server would return a bare 500.
            await response.refuse(Unavailable("The control plane is shutting down."))
            raise
        # This is the last handler: the response is a problem+json, and the log has the traceback.
        except Exception:
            log.exception("http.unhandled", method=scope["method"], path=_shown(scope["path"]))
            await response.refuse(InternalError())
        finally:
            self._record(scope, response.status, time.perf_counter() - started)
            structlog.contextvars.reset_contextvars(**bound)
        if response.status >= 400 and _has_body(headers):
            await self._discard(body)

    async def _discard(self, body: RequestBody) -> None:
        if self._discarding >= MAX_DISCARDED:
            return
        self._discarding += 1
        try:
            await body.discard()
        finally:
            self._discarding -= 1

    def _body(self, scope: Scope, receive: Receive, headers: Mapping[bytes, bytes]) -> RequestBody:
        if self._has_own_limit(scope):
            return RequestBody(receive, self._own_rules, None)
        declared = headers.get(b"content-length", b"")
        return RequestBody(
            receive,
            self._json_rules,
            lambda: self._check_caller(Request(scope)),
            int(declared) if declared.isdigit() else 0,
        )

    def _check_host(self, headers: Mapping[bytes, bytes]) -> None:
        host = headers.get(b"host", b"").decode("latin-1")
        if self._own is not None and not self._own.accepts_host(host):
            raise WrongHost(host)

    def _check_size(self, scope: Scope, headers: Mapping[bytes, bytes]) -> None:
        limit = self._settings.max_header_bytes
        address = len(scope["raw_path"] or b"") + len(scope["query_string"])
        if address + sum(len(name) + len(value) + 4 for name, value in scope["headers"]) > limit:
            name, value = max(headers.items(), key=lambda header: len(header[1]), default=(b"", b""))
            largest = "address" if address > len(value) else f"header {name.decode('latin-1')[:64]}"
            raise HeadersTooLarge(largest, limit)
        if "\0" in scope["path"] or b"%00" in scope["query_string"]:
            field = "path" if "\0" in scope["path"] else "query"
            raise MalformedRequest(
                errors=[FieldProblem(field, f"The {field} contains a NUL byte, which is never valid.")]
            )
        declared = headers.get(b"content-length", b"")
        if declared.isdigit() and not self._has_own_limit(scope) and int(declared) > self._settings.max_body_bytes:
            raise BodyTooLarge(self._settings.max_body_bytes)

    @staticmethod
    def _has_own_limit(scope: Scope) -> bool:
        return bool(scope["path"].startswith(OWN_BODY_LIMIT))

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "(none)")
        self._metrics.observe(scope["method"], route, status, seconds)
        if scope["path"] in QUIET:
            return
        write = log.debug if status < 400 else log.info
        path = _shown(scope["path"])
        write("http.request", method=scope["method"], path=path, status=status, ms=round(seconds * 1000, 2))


class _Response:
    """Sends the response: remembers its status and adds headers."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, request_id: str, added: Headers, defaults: Headers):
        self.status = 0
        self._scope = scope
        self._receive = receive
        self._send = send
        self._request_id = request_id
        self._added = added
        self._defaults = defaults

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = _complete(message.get("headers", ()), self._request_id, self._added, self._defaults)
        await self._send(message)

    async def refuse(self, refusal: Refusal) -> None:
        """Sends a problem, unless a response has started. A started response can only be ended."""
        if self.status == 0:
            await problem_response(refusal, self._request_id)(self._scope, self._receive, self.send)


async def _refuse_caller(request: Request) -> None:
    raise NotAuthenticated("Sign in to send a body of this size.")


def _forwarded_for(scope: Scope, headers: Mapping[bytes, bytes]) -> Sequence[str]:
    """The values of X-Forwarded-For. Most requests have none."""
    if b"x-forwarded-for" not in headers:
        return ()
    return [value.decode("latin-1") for name, value in scope["headers"] if name == b"x-forwarded-for"]


def _shown(path: str) -> str:
    """The path for the log, without secrets: the URL of a callback helps to forge one, and the URL of an account
    link gives access to the account.
    """
    if not path.startswith(SECRET_PATHS):
        return path
    folder, _, name = path.rpartition("/")
    return f"{folder}/{name[:6]}…"


def _has_body(headers: Mapping[bytes, bytes]) -> bool:
    return headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers


def _request_id(headers: Mapping[bytes, bytes]) -> str:
    given = headers.get(b"x-request-id", b"")
    return given.decode() if REQUEST_ID.match(given) else secrets.token_hex(8)


def _complete(headers: Iterable[tuple[bytes, bytes]], request_id: str, added: Headers, defaults: Headers) -> Headers:
    complete = [*headers, *added]
    present = {name for name, _ in complete}
    complete.append((b"x-request-id", request_id.encode()))
    complete.extend(header for header in defaults if header[0] not in present)
    return complete
