"""`/api/ai-jobs/{job_id}/shares` and `/api/shares` for owners; `/api/shares/{token}` for anyone with the link."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends, Path, Request, Response
from fastapi.responses import StreamingResponse

from callsheet.identity.access.authentication import Authentication
from callsheet.identity.access.principal import Principal
from callsheet.library.public_links import SharedObject, Shares
from callsheet.media.storage import Storage
from callsheet.media.storage.responses import download_name, plan_response, response_headers, served_type, shows_inline
from callsheet.plumbing.database.pages import CURSOR, LIMIT
from callsheet.plumbing.http.routing import Router
from callsheet.wire.base import Page
from callsheet.wire.errors import NotFound
from callsheet.wire.library import CreatedShareLink, CreateShareLink, SharedResult, ShareLink

# Caches and search engines must not store a result that its owner may withdraw. Pages that a visitor opens next must
# not get the link.
PUBLIC: Mapping[str, str] = {
    "cache-control": "no-store",
    "x-robots-tag": "noindex, nofollow, noarchive",
    "referrer-policy": "no-referrer",
}
Token = Annotated[str, Path(max_length=100)]
Name = Annotated[
    str,
    Path(
        max_length=20,
        description="Name of the file: `after`, `before`, or `after-2` and so on. With `-poster`: its poster.",
    ),
]
_BYTES = {"content": {"*/*": {"schema": {"type": "string", "format": "binary"}}}}
_READ: dict[int | str, dict[str, Any]] = {
    200: {"description": "The file.", **_BYTES},
    206: {"description": "The part that the `Range` header requests.", **_BYTES},
}


def share_link_router(shares: Shares, authentication: Authentication) -> Router:
    router = Router(prefix="/api", tags=["sharing"])

    @router.post("/ai-jobs/{job_id}/shares", status_code=201, once=True)
    async def create_share_link(
        job_id: UUID, body: CreateShareLink, principal: Principal = Depends(authentication.user)
    ) -> CreatedShareLink:
        """Creates a public link to the result of a completed job. Anyone with the link sees the result, without an
        account, until the link expires or is revoked."""
        return await shares.create(principal, job_id, body)

    @router.get("/ai-jobs/{job_id}/shares")
    async def list_share_links_of_job(
        job_id: UUID,
        cursor: UUID | None = CURSOR,
        limit: int = LIMIT,
        principal: Principal = Depends(authentication.user),
    ) -> Page[ShareLink]:
        """The valid public links to a job's result, newest first."""
        return await shares.page(principal, job_id, cursor, limit)

    @router.delete("/ai-jobs/{job_id}/shares/{share_id}", status_code=204)
    async def revoke_share_link(
        job_id: UUID, share_id: UUID, principal: Principal = Depends(authentication.user)
    ) -> None:
        """Revokes a public link at once and permanently."""
        await shares.revoke(principal, job_id, share_id)

    @router.get("/shares")
    async def list_share_links(
        cursor: UUID | None = CURSOR, limit: int = LIMIT, principal: Principal = Depends(authentication.user)
    ) -> Page[ShareLink]:
        """All your valid public links, newest first."""
        return await shares.page(principal, None, cursor, limit)

    return router


def shared_result_router(shares: Shares, storage: Storage) -> Router:
    """Routes of public links. They need no account: the token is enough."""
    router = Router(prefix="/api/shares", tags=["sharing"])

    @router.get("/{token}")
    async def get_shared_result(token: Token, response: Response) -> SharedResult:
        """The result that a public link shows. It contains nothing else about its owner."""
        response.headers.update(PUBLIC)
        return await shares.result(token)

    @router.get("/{token}/media/{name}", response_class=Response, responses=_READ)
    async def read_shared_file(token: Token, name: Name, request: Request) -> Response:
        """A file that a public link shows, whole or the part that `Range` names."""
        return await _send(storage, await shares.file(token, name), name, request)

    return router


async def _send(storage: Storage, file: SharedObject, name: str, request: Request) -> Response:
    """Sends the file through this server: a signed URL would name tenant and job, and would stay valid after the
    link ends.
    """
    info = await storage.head(file.path)
    if info is None:
        raise NotFound("There is no such link.")
    # This is the accepted type. The worker that wrote the object may have set another type in storage.
    info = replace(info, content_type=served_type(file.mime_type))
    plan = plan_response(request.headers, info)
    saved_as = None if shows_inline(info.content_type) else download_name(name, file.mime_type)
    headers = {**response_headers(info, plan, saved_as), **PUBLIC}
    if plan.status == 304:
        return Response(status_code=304, headers=headers)
    return StreamingResponse(storage.stream(file.path, plan.start, plan.end), plan.status, headers)
