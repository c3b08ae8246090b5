"""All routes of the webhooks room."""

from __future__ import annotations

from starlette.requests import Request

from callsheet.identity.access.authentication import Authentication
from callsheet.plumbing.http.edge import CallerCheck
from callsheet.plumbing.http.routing import Router
from callsheet.webhooks.callbacks import Callbacks
from callsheet.webhooks.room import WebhooksRoom
from callsheet.webhooks.routes import admin_provider_router, callback_router

CALLBACKS = "/api/webhooks/"


def webhook_routers(webhooks: WebhooksRoom, authentication: Authentication) -> list[Router]:
    return [callback_router(webhooks.callbacks), admin_provider_router(webhooks.operations, authentication)]


def check_of_callbacks(callbacks: Callbacks) -> CallerCheck:
    """Large bodies are read only for a callback that is expected."""

    async def check_caller(request: Request) -> None:
        provider, _, callback_id = request.scope["path"].removeprefix(CALLBACKS).partition("/")
        await callbacks.expect(provider, callback_id)

    return check_caller
