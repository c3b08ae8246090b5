"""`/api/auth`, `/api/me`, `/api/keys`, and `/api/admin` for tenants and users."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from uuid import UUID

from fastapi import Depends, Query, Request, Response

from callsheet.identity.access.authentication import COOKIE, Authentication, require
from callsheet.identity.access.keys import Keys
from callsheet.identity.access.one_time_links import Caller, OneTimeLinks, require_this_machine
from callsheet.identity.access.permissions import Permission
from callsheet.identity.access.principal import Principal
from callsheet.identity.access.sessions import OpenedSession, Sessions
from callsheet.identity.accounts.accounts import Accounts
from callsheet.identity.accounts.managers import Manager
from callsheet.identity.audit_log import actor_of, user_actor
from callsheet.plumbing.database.pages import CURSOR, LIMIT
from callsheet.plumbing.http.routing import Router
from callsheet.settings import Settings
from callsheet.wire.base import OptionalLine, Page
from callsheet.wire.errors import Forbidden
from callsheet.wire.identity import (
    CreatedKey,
    CreateKeyRequest,
    CreateTenantRequest,
    CreateUserRequest,
    DemoAccount,
    EndedSessions,
    Key,
    LoginRequest,
    Me,
    OneTimeLoginRequest,
    Session,
    Tenant,
    User,
)
from callsheet.wire.operate.quotas import Storage

StorageOf = Callable[[UUID, UUID, str], Awaitable[Storage | None]]
# The proof that this browser used the link of the demo. It is sent to this path only.
DEMO_COOKIE = "callsheet_demo"
DEMO_PATH = "/api/auth/demo"
# Sets the cookie of the session, and returns its user.
SignedIn = Callable[[OpenedSession, Response], Awaitable[Me]]


def session_router(
    sessions: Sessions,
    links: OneTimeLinks,
    authentication: Authentication,
    settings: Settings,
    storage_of: StorageOf,
) -> Router:
    """The routes of sessions. `storage_of`: the storage use of a user, which a higher room counts."""
    router = Router(tags=["identity"])

    @router.post("/api/auth/login")
    async def login(body: LoginRequest, request: Request, response: Response) -> Me:
        """Signs in with a password and sets the session cookie."""
        authentication.check_origin(request)
        opened = await sessions.sign_in(
            body.email,
            body.password,
            authentication.client_address(request),
            request.headers.get("user-agent"),
        )
        return await signed_in(opened, response)

    async def signed_in(opened: OpenedSession, response: Response) -> Me:
        response.set_cookie(
            COOKIE,
            opened.token,
            max_age=settings.identity.session_hours * 3600,
            secure=settings.cookie_secure,
            httponly=True,
            samesite="lax",
        )
        return await shown(opened.principal)

    @router.post("/api/auth/logout", status_code=204)
    async def logout(
        request: Request, response: Response, principal: Principal = Depends(authentication.caller)
    ) -> None:
        """Ends the browser session. API keys do not change."""
        token = request.cookies.get(COOKIE)
        if principal.signed_in_with == "session" and token:
            await sessions.sign_out(token)
        response.delete_cookie(COOKIE, secure=settings.cookie_secure, httponly=True, samesite="lax")

    @router.get("/api/me")
    async def me(principal: Principal = Depends(authentication.caller)) -> Me:
        """The current user, the session's CSRF token, and how much of the storage quota is used."""
        return await shown(principal)

    async def shown(principal: Principal) -> Me:
        return me_of(principal, await storage_of(principal.tenant_id, principal.user_id, principal.pool))

    _add_demo_entry(router, sessions, links, authentication, settings, signed_in)
    return router


def _add_demo_entry(
    router: Router,
    sessions: Sessions,
    links: OneTimeLinks,
    authentication: Authentication,
    settings: Settings,
    signed_in: SignedIn,
) -> None:
    @router.post("/api/auth/once")
    async def login_once(body: OneTimeLoginRequest, request: Request, response: Response) -> Me:
        """Signs in with the link that `callsheet demo` printed. This works once, and only on the machine that runs
        the demo. Afterwards the same browser may enter the demo with one click.
        """
        links.find(body.token)
        authentication.check_origin(request)
        require_this_machine(Caller.of(request))
        peer = request.client.host if request.client else "unknown"
        opened = await sessions.sign_in_once(links.take(body.token), peer, request.headers.get("user-agent"))
        response.set_cookie(
            DEMO_COOKIE,
            links.know_browser(),
            max_age=settings.identity.session_hours * 3600,
            path=DEMO_PATH,
            secure=settings.cookie_secure,
            httponly=True,
            samesite="strict",
        )
        return await signed_in(opened, response)

    @router.get(DEMO_PATH)
    async def offered_account(request: Request) -> DemoAccount:
        """The account that you may enter without a password: the account of `callsheet demo`, if you run it on this
        machine and this browser has used its link. For every other installation and caller it is null.
        """
        return DemoAccount(email=await _offered(links, request))

    @router.post(DEMO_PATH)
    async def login_demo(request: Request, response: Response) -> Me:
        """Signs in with the account of `callsheet demo`, from a browser that has used the link of the demo, of the user
        who runs the demo, on the same machine.
        """
        email = await _offered(links, request)
        if email is None:
            raise Forbidden(
                "Only the user who runs the demo may enter it without a password, only on the same machine, and only "
                "in a browser that has opened the link of the demo. Open the link that `callsheet demo` printed, or "
                "sign in with the password."
            )
        authentication.check_origin(request)
        opened = await sessions.sign_in_once(
            email, authentication.client_address(request), request.headers.get("user-agent")
        )
        return await signed_in(opened, response)


async def _offered(links: OneTimeLinks, request: Request) -> str | None:
    # This reads a file of the system, which is long if many connections are open.
    return await asyncio.to_thread(links.offered_to, request.cookies.get(DEMO_COOKIE), Caller.of(request))


def session_list_router(sessions: Sessions, authentication: Authentication, settings: Settings) -> Router:
    router = Router(prefix="/api/sessions", tags=["identity"])

    def forget_cookie(response: Response) -> None:
        response.delete_cookie(COOKIE, secure=settings.cookie_secure, httponly=True, samesite="lax")

    @router.get("")
    async def list_sessions(request: Request, principal: Principal = Depends(authentication.person)) -> list[Session]:
        """Your browser sessions, newest first."""
        require(principal, Permission.READ_OWN)
        token = request.cookies.get(COOKIE) if principal.signed_in_with == "session" else None
        return await sessions.list(principal.user_id, token)

    @router.delete("")
    async def end_sessions(
        request: Request,
        response: Response,
        keep_current: bool = Query(True, description="Whether the session that sends the request stays."),
        principal: Principal = Depends(authentication.own_session),
    ) -> EndedSessions:
        """Signs you out everywhere else, or everywhere. Live streams of these sessions end at once. API keys stay."""
        ended = await sessions.end_all(principal, request.cookies[COOKIE], keep_current=keep_current)
        if not keep_current:
            forget_cookie(response)
        return EndedSessions(ended=ended)

    @router.delete("/{session_id}", status_code=204)
    async def end_session(
        session_id: UUID,
        request: Request,
        response: Response,
        principal: Principal = Depends(authentication.own_session),
    ) -> None:
        """Ends one of your sessions. Its live streams end at once."""
        if await sessions.end(principal, session_id, request.cookies[COOKIE]):
            forget_cookie(response)

    return router


def key_router(keys: Keys, authentication: Authentication) -> Router:
    router = Router(prefix="/api/keys", tags=["identity"])

    @router.get("")
    async def list_keys(
        cursor: UUID | None = CURSOR, limit: int = LIMIT, principal: Principal = Depends(authentication.person)
    ) -> Page[Key]:
        """Your API keys, newest first."""
        require(principal, Permission.READ_OWN)
        return await keys.list(principal.user_id, cursor, limit)

    @router.post("", status_code=201, once=True)
    async def create_key(
        body: CreateKeyRequest, request: Request, principal: Principal = Depends(authentication.session)
    ) -> CreatedKey:
        """Creates an API key. Only a browser session can create one. Only this response shows the key."""
        return await keys.create_own(principal.user_id, request.cookies[COOKIE], body)

    @router.delete("/{key_id}")
    async def revoke_key(key_id: UUID, principal: Principal = Depends(authentication.person)) -> Key:
        """Revokes one of your keys at once and permanently. A key can revoke itself, even without a scope for it."""
        if key_id != principal.key_id:
            require(principal, Permission.WRITE_OWN)
        return await keys.revoke(principal.user_id, key_id, user_actor(principal.user_id))

    return router


def account_router(accounts: Accounts, authentication: Authentication) -> Router:
    see_tenants = authentication.may_in_tenant(Permission.SEE_TENANTS)
    manage_tenants = authentication.may(Permission.MANAGE_TENANTS)
    see_users = authentication.may_in_tenant(Permission.SEE_USERS)
    manage_users = authentication.may_in_tenant(Permission.MANAGE_USERS)
    router = Router(prefix="/api/admin", tags=["admin"])

    @router.get("/tenants")
    async def list_tenants(
        search: OptionalLine = Query("", description="Only tenants whose slug or name contains this text."),
        cursor: UUID | None = CURSOR,
        limit: int = LIMIT,
        principal: Principal = see_tenants,
    ) -> Page[Tenant]:
        """The tenants, newest first. A tenant admin gets its own."""
        return await accounts.list_tenants(cursor, limit, principal.only_tenant(Permission.SEE_TENANTS), search)

    @router.post("/tenants", status_code=201, once=True)
    async def create_tenant(body: CreateTenantRequest, principal: Principal = manage_tenants) -> Tenant:
        """Creates a tenant."""
        return await accounts.create_tenant(body, actor_of(principal))

    @router.get("/users")
    async def list_users(
        tenant: str | None = Query(None, max_length=63, description="Only the users of this tenant."),
        search: OptionalLine = Query("", description="Only users whose e-mail address or name contains this text."),
        cursor: UUID | None = CURSOR,
        limit: int = LIMIT,
        principal: Principal = see_users,
    ) -> Page[User]:
        """The users, newest first. A tenant admin gets those of its tenant."""
        return await accounts.list_users(tenant, cursor, limit, principal.only_tenant(Permission.SEE_USERS), search)

    @router.post("/users", status_code=201, once=True)
    async def create_user(body: CreateUserRequest, principal: Principal = manage_users) -> User:
        """Creates a user. A tenant admin creates users and tenant admins of its tenant."""
        return await accounts.create_user(body, Manager.of(principal))

    return router


def me_of(principal: Principal, storage: Storage | None) -> Me:
    return Me(
        user_id=principal.user_id,
        email=principal.email,
        name=principal.name,
        role=principal.role,
        tenant_id=principal.tenant_id,
        tenant=principal.tenant,
        signed_in_with=principal.signed_in_with,
        csrf_token=principal.csrf_token,
        scopes=sorted(scopes) if (scopes := principal.service_scopes or principal.key_scopes) is not None else None,
        storage=storage,
    )
