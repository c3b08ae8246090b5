"""`/api/webhooks/…`, which providers call, and `/api/admin/providers`."""

from __future__ import annotations

from fastapi import Request
from starlette.requests import ClientDisconnect

from callsheet.identity.access.authentication import Authentication
from callsheet.identity.access.permissions import Permission
from callsheet.identity.access.principal import Principal
from callsheet.plumbing.http.routing import Router
from callsheet.webhooks.callback_urls import PATH
from callsheet.webhooks.callbacks import Callbacks
from callsheet.webhooks.operations import ProviderOperations
from callsheet.wire.errors import MalformedRequest
from callsheet.wire.operate.providers import Provider, Providers


def callback_router(callbacks: Callbacks) -> Router:
    router = Router(prefix=PATH, tags=["webhooks"])

    @router.post("/{provider}/{callback_id}", status_code=204)
    async def receive_callback(provider: str, callback_id: str, request: Request) -> None:
        """A provider's callback about a job. It is accepted only with the provider's signature. Any other request gets
        `not_found`."""
        try:
            body = await request.body()
        except ClientDisconnect:
            raise MalformedRequest("The connection closed before the whole body arrived.") from None
        await callbacks.receive(provider, callback_id, request.headers, body)

    return router


def admin_provider_router(operations: ProviderOperations, authentication: Authentication) -> Router:
    manage = authentication.may(Permission.MANAGE_FLEET)
    router = Router(
        prefix="/api/admin/providers", tags=["admin"], dependencies=[authentication.may(Permission.SEE_FLEET)]
    )

    @router.get("")
    async def list_providers() -> Providers:
        """The external providers: whether jobs are sent to them, the last error, and the number of open calls."""
        return Providers(providers=await operations.list())

    @router.post("/{provider}/reset")
    async def reset_provider(provider: str, principal: Principal = manage) -> Provider:
        """Ends a pause: jobs are sent to the provider again, and its failures count from zero."""
        return await operations.reset(principal, provider)

    return router
