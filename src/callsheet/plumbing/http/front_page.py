"""`GET /`: describes this server and links to its pages and its documentation.

Anyone can read it, so it contains nothing about tenants, workers or settings.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Awaitable, Callable
from html import escape
from importlib import resources
from string import Template
from typing import Literal

from fastapi import Request
from starlette.responses import HTMLResponse, Response

from callsheet import __version__
from callsheet.plumbing.http.routing import Router
from callsheet.wire.base import ResponseModel

# The pages of docs/how-to, which this server does not serve: title and file.
HOW_TO_PAGES = (
    ("Use the web application", "use-the-web-application.md"),
    ("Try it with curl", "try-it-with-curl.md"),
    ("Upload and fetch media", "upload-and-fetch-media.md"),
    ("Watch a job", "watch-a-job.md"),
    ("Use the Python client", "use-the-python-client.md"),
    ("Use the TypeScript client", "use-the-typescript-client.md"),
    ("Apply an effect to many files", "submit-batches.md"),
    ("Receive webhooks", "receive-webhooks.md"),
    ("Run tasks", "run-tasks.md"),
    ("Run a pipeline", "run-a-pipeline.md"),
    ("Make ads from a page", "make-ads-from-a-page.md"),
    ("Connect ComfyUI", "connect-comfyui.md"),
    ("Add a workflow and sell it as an effect", "add-a-workflow.md"),
    ("Add a provider, or an actor", "add-a-provider.md"),
    ("Use Replicate", "use-replicate.md"),
    ("Put it behind your shop", "put-it-behind-your-shop.md"),
    ("Run a fleet of workers", "run-a-fleet.md"),
    ("Scale workers with the queue", "scale-workers.md"),
    ("Choose a policy before it costs money", "choose-a-scaling-policy.md"),
    ("Manage users", "manage-users.md"),
    ("Store objects in S3", "use-s3-storage.md"),
    ("Run with your own PostgreSQL", "run-with-your-own-postgresql.md"),
    ("Operate an installation", "operate.md"),
    ("Restore, and make a copy for staging", "restore-and-copy.md"),
)
_TEMPLATE = resources.files("callsheet.plumbing.http").joinpath("front_page.html").read_text(encoding="utf-8")
_STYLE = re.search(r"<style>(.*?)</style>", _TEMPLATE, re.DOTALL)
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE[1].encode() if _STYLE else b"").digest()).decode()
CONTENT_SECURITY_POLICY = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; img-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)


class FrontPage(ResponseModel):
    """The description of this server, for programs."""

    name: Literal["Callsheet"] = "Callsheet"
    description: str = "A control plane for AI image and video jobs."
    version: str = __version__
    status: Literal["ready", "not_ready"]
    documentation: str
    openapi: str
    health: str
    readiness: str


def front_page_router(
    public_url: str, is_ready: Callable[[], Awaitable[bool]], application: Callable[[Request], Response] | None = None
) -> Router:
    """The routes of the front page. `application`: the page of the web application, which browsers get instead of
    this module's page.
    """
    router = Router(tags=["operations"])

    @router.get("/", response_model=FrontPage, responses={200: {"content": {"text/html": {}}}})
    async def front_page(request: Request) -> FrontPage | Response:
        """Describes this server and links to its documentation. Returns a page if `Accept` asks for HTML."""
        is_person = "text/html" in request.headers.get("accept", "")
        if is_person and application is not None:
            return application(request)
        ready = await is_ready()
        if is_person:
            return _page(public_url, ready)
        return FrontPage(
            status="ready" if ready else "not_ready",
            documentation=f"{public_url}/docs",
            openapi=f"{public_url}/openapi.json",
            health=f"{public_url}/healthz",
            readiness=f"{public_url}/readyz",
        )

    if application is not None:
        router.head("/", include_in_schema=False)(application)

    return router


def _page(public_url: str, ready: bool) -> Response:
    pages = "\n".join(f"<li>{escape(title)}<code>{escape(file)}</code></li>" for title, file in HOW_TO_PAGES)
    state, state_class = ("Ready", "ready") if ready else ("Not ready", "away")
    html = Template(_TEMPLATE).substitute(
        state=state, state_class=state_class, version=escape(__version__), url=escape(public_url), pages=pages
    )
    headers = {"content-security-policy": CONTENT_SECURITY_POLICY, "cache-control": "no-store", "vary": "Accept"}
    return HTMLResponse(html, headers=headers)
