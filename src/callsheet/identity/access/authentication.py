"""Authenticates a request and returns its principal: one indexed query, by API key or by session cookie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any

import structlog
from fastapi import Depends, Query, Request, Security
from fastapi.security import APIKeyCookie, HTTPAuthorizationCredentials, HTTPBearer

from callsheet.identity.access.keys import KeyUsage, hash_secret
from callsheet.identity.access.on_behalf import FORMS, HEADER, OnBehalf
from callsheet.identity.access.permissions import OF_SERVICE_KEYS, Permission, Scope, key_scope_for
from callsheet.identity.access.principal import KeyRow, Principal
from callsheet.identity.access.sessions import Sessions
from callsheet.identity.access.stream_tokens import StreamGrant, StreamTokens
from callsheet.plumbing.database.databases import Databases
from callsheet.plumbing.database.sql import statements
from callsheet.plumbing.http.client_address import client_address
from callsheet.plumbing.http.own_addresses import OwnAddresses
from callsheet.settings import Settings
from callsheet.toolbox.batching import Batcher
from callsheet.toolbox.clock import SystemClock
from callsheet.wire.errors import CsrfFailed, Forbidden, InvalidRequest, NotAuthenticated, NotFound

SQL = statements("callsheet.identity.access")
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
COOKIE = "callsheet_session"

bearer = HTTPBearer(
    auto_error=False,
    description=f"An API key, `cs_…`. A service key of a tenant acts for the user of the header `{HEADER}`: {FORMS}.",
)
cookie = APIKeyCookie(name=COOKIE, auto_error=False, description="A browser session, from POST /api/auth/login.")
BearerKey = Annotated[HTTPAuthorizationCredentials | None, Security(bearer)]
SessionCookie = Annotated[str | None, Security(cookie)]


@dataclass(frozen=True, slots=True)
class StreamUser:
    """The user who watches a stream, and the stream token if the request came with one."""

    principal: Principal
    grant: StreamGrant | None = None


class Authentication:
    """Authenticates users. `Depends(authentication.user)` on a route returns its caller, or refuses the request."""

    def __init__(
        self, databases: Databases, sessions: Sessions, tokens: StreamTokens, usage: KeyUsage, settings: Settings
    ):
        self._databases = databases
        self._sessions = sessions
        self._stream_tokens = tokens
        self._on_behalf = OnBehalf(databases, settings.identity.external_users_per_tenant)
        self._clock = SystemClock()
        self._usage = usage
        self._settings = settings
        self._own = OwnAddresses(settings)
        # Keys of requests that arrive together, and of streams that wake together, are looked up by one query.
        self._keys: Batcher[bytes, KeyRow | None] = Batcher(self._find_keys)
        # Created once: FastAPI calls the same dependency object only once per request.
        self._everywhere = {each: self._dependency(each, Scope.EVERY_TENANT) for each in Permission}
        self._in_tenant = {each: self._dependency(each, Scope.OWN_TENANT) for each in Permission}

    async def caller(self, request: Request, credentials: BearerKey, session: SessionCookie) -> Principal:
        """The signed-in user, for actions that every account may do: sign out, read the own account, change the
        password.
        """
        named = request.headers.get(HEADER)
        if credentials is not None:
            principal = await self._by_key(credentials.credentials)
            if named is not None and principal.service_scopes is not None:
                writes = request.method not in SAFE_METHODS
                principal = await self._on_behalf.principal(principal, named, writes=writes)
                named = None
        elif session:
            principal = await self._by_session(request, session)
        else:
            raise NotAuthenticated()
        structlog.contextvars.bind_contextvars(tenant_id=str(principal.tenant_id), user_id=str(principal.user_id))
        if named is not None:
            # Without this, the request would act for another user than it says.
            raise Forbidden(f"Only a service key of a tenant may send the header {HEADER}.")
        return principal

    async def of_request(self, request: Request) -> Principal:
        """The caller of a request, for code that is not a route."""
        return await self.caller(request, await bearer(request), await cookie(request))

    async def user(self, request: Request, credentials: BearerKey, session: SessionCookie) -> Principal:
        """The caller, who reads own objects with GET and changes them with other methods. A service key must name the
        user that it acts for.
        """
        principal = await self.caller(request, credentials, session)
        require(principal, Permission.READ_OWN if request.method in SAFE_METHODS else Permission.WRITE_OWN)
        return self.of_a_user(principal)

    async def tenant_server(self, request: Request, credentials: BearerKey, session: SessionCookie) -> Principal:
        """A service key that acts for no user, and sees all jobs of its tenant."""
        principal = await self.caller(request, credentials, session)
        if principal.service_scopes is None:
            raise Forbidden("Only a service key of a tenant may do this.")
        require(principal, Permission.READ_OWN)
        if not principal.is_tenant:
            raise InvalidRequest.field(HEADER, "This route is about all users of the tenant. Leave the header out.")
        return principal

    @staticmethod
    def of_a_user(principal: Principal) -> Principal:
        """The principal, unless it is a service key that acts for no user."""
        if principal.is_tenant:
            raise InvalidRequest.field(HEADER, f"A service key needs this header here: {FORMS}.")
        return principal

    async def person(self, request: Request, credentials: BearerKey, session: SessionCookie) -> Principal:
        """The signed-in user, for actions on the account itself: its password, keys and sessions. A service key never
        does these for a user.
        """
        principal = await self.caller(request, credentials, session)
        if principal.service_scopes is not None:
            raise Forbidden("A service key cannot see or change passwords, keys and sessions.")
        return principal

    async def session(self, request: Request, credentials: BearerKey, session: SessionCookie) -> Principal:
        """The user of a browser session, for actions that an API key must not do: with a stolen key, a person could
        create further keys, which stay valid when the first is revoked.
        """
        principal = await self.caller(request, credentials, session)
        require(principal, Permission.WRITE_OWN)
        if principal.signed_in_with != "session":
            raise Forbidden("An API key cannot create keys. Sign in with your password: POST /api/auth/login.")
        return principal

    async def own_session(self, request: Request, credentials: BearerKey, session: SessionCookie) -> Principal:
        """A user of any role with a browser session, for actions on the sessions themselves."""
        principal = await self.caller(request, credentials, session)
        if principal.signed_in_with != "session":
            raise Forbidden("An API key cannot end sessions. Sign in with your password: POST /api/auth/login.")
        return principal

    def may(self, permission: Permission) -> Any:
        """A dependency that requires the permission in every tenant: `principal: Principal = may(…)`."""
        return self._everywhere[permission]

    def may_in_tenant(self, permission: Permission) -> Any:
        """A dependency that requires the permission in the caller's own tenant at least. The route limits its work with
        `Principal.reach` or `Principal.only_tenant`."""
        return self._in_tenant[permission]

    def _dependency(self, permission: Permission, minimum: Scope) -> Any:
        async def check(principal: Principal = Depends(self.caller)) -> Principal:
            require(principal, permission, minimum)
            return principal

        return Depends(check)

    async def watcher(
        self,
        request: Request,
        credentials: BearerKey,
        session: SessionCookie,
        token: str | None = Query(
            None,
            max_length=1000,
            description="A token of POST /api/stream-tokens, for clients that cannot send a header.",
        ),
    ) -> StreamUser:
        """The caller of a live stream, which may also come with a stream token in the URL."""
        if token is None:
            return StreamUser(await self.user(request, credentials, session))
        grant = self._stream_tokens.read(token, self._clock.now())
        principal = await self._by_grant(grant)
        structlog.contextvars.bind_contextvars(tenant_id=str(principal.tenant_id), user_id=str(principal.user_id))
        require(principal, Permission.READ_OWN)
        return StreamUser(principal, grant)

    async def stream_grant(self, request: Request, credentials: BearerKey, session: SessionCookie) -> StreamGrant:
        """The grant of a new stream token: the caller may watch while the key or session of this request is valid."""
        principal = await self.caller(request, credentials, session)
        require(principal, Permission.READ_OWN)
        self.of_a_user(principal)
        user_id = principal.user_id if principal.service_scopes is not None else None
        expires_at = self._clock.now() + timedelta(seconds=self._settings.jobs.stream_token_seconds)
        if credentials is not None:
            return StreamGrant("api_key", hash_secret(credentials.credentials), expires_at, user_id=user_id)
        return StreamGrant("session", hash_secret(session or ""), expires_at)

    def stream_token(self, grant: StreamGrant) -> str:
        return self._stream_tokens.issue(grant)

    async def is_still(self, watcher: StreamUser, request: Request) -> bool:
        """Whether the key, session or stream token of a request is still valid, for long responses."""
        try:
            if watcher.grant is not None:
                found = await self._by_grant(watcher.grant)
            else:
                found = await self.of_request(request)
            return found.user_id == watcher.principal.user_id
        except (NotAuthenticated, Forbidden, NotFound):
            # The user of a service key was disabled or deleted.
            return False

    async def _by_grant(self, grant: StreamGrant) -> Principal:
        if grant.signed_in_with == "session":
            principal = await self._sessions.find_by_hash(grant.credential_hash)
        else:
            row = await self._keys(grant.credential_hash)
            principal = Principal.of_key(row) if row is not None else None
        if principal is None:
            raise NotAuthenticated(
                "The API key or session that created this stream token has ended. Create a new "
                "token with POST /api/stream-tokens."
            )
        if grant.user_id not in (None, principal.user_id):
            return await self._on_behalf.principal(principal, f"user:{grant.user_id}", writes=False)
        return principal

    async def _by_key(self, key: str) -> Principal:
        row = await self._keys(hash_secret(key))
        if row is None:
            raise NotAuthenticated("The API key is unknown, has expired or was revoked. Create a new key.")
        self._usage.record(row.key_id)
        return Principal.of_key(row)

    async def _find_keys(self, hashes: Sequence[bytes]) -> list[KeyRow | None]:
        async with self._databases.central.connection() as connection:
            rows = await SQL["find_by_keys"].rows(connection, KeyRow, key_hashes=list(hashes))
        found = {row.place: row for row in rows}
        return [found.get(place) for place in range(1, len(hashes) + 1)]

    async def _by_session(self, request: Request, token: str) -> Principal:
        principal = await self._sessions.find(token)
        if principal is None:
            raise NotAuthenticated("The session has ended. Sign in again.")
        # This also applies to reads: a page of another origin must not send any request with the cookie.
        self.check_origin(request)
        given = request.headers.get("x-csrf-token", "")
        if request.method not in SAFE_METHODS and not self._sessions.csrf_matches(token, given):
            raise CsrfFailed("Send csrf_token of GET /api/me as the header X-CSRF-Token.")
        self._usage.record_session(hash_secret(token))
        return principal

    def check_origin(self, request: Request) -> None:
        """Refuses requests that a page of another site made the browser send."""
        origin = request.headers.get("origin")
        if origin is None:
            return
        if self._settings.server.cors_credentials and origin in self._settings.server.cors_origins:
            return
        if not self._own.is_own_page(origin, request.headers.get("host", "")):
            raise CsrfFailed(
                f"The request comes from a page of {origin[:200]!r}, which is not a URL of this control plane. An "
                "operator can allow it with server.public_url or server.allowed_origins."
            )

    def client_address(self, request: Request) -> str:
        """The caller's network address. X-Forwarded-For is used only as far as trusted proxies wrote it."""
        peer = request.client.host if request.client else "unknown"
        forwarded = request.headers.getlist("x-forwarded-for")
        return client_address(peer, forwarded, self._settings.server.trusted_proxies)


def require(principal: Principal, permission: Permission, minimum: Scope = Scope.OWN_TENANT) -> None:
    if principal.service_scopes is not None:
        _require_of_service_key(principal, permission, minimum)
        return
    if principal.scope(permission) not in (minimum, Scope.EVERY_TENANT):
        raise Forbidden(f"Your role is {principal.role.value}, which may not {permission.value}.")
    if not principal.key_allows(permission):
        raise Forbidden(
            f"This API key needs the scope {key_scope_for(permission).value} to {permission.value}. Its scopes: "
            f"{', '.join(sorted(principal.key_scopes or ()))}."
        )


def _require_of_service_key(principal: Principal, permission: Permission, minimum: Scope) -> None:
    needed = OF_SERVICE_KEYS.get(permission)
    if needed is None or minimum is not Scope.OWN_TENANT:
        raise Forbidden(f"A service key may not {permission.value}.")
    if principal.scope(permission) is None:
        raise Forbidden(
            f"This service key needs the scope {needed.value} to {permission.value}. Its scopes: "
            f"{', '.join(sorted(principal.service_scopes or ()))}."
        )
