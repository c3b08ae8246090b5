"""`/api/previews`: thumbnails, posters and clips, by signed URLs, for every storage backend."""

from __future__ import annotations

from typing import Any

from fastapi import Query, Request
from starlette.responses import Response

from callsheet.media.previews.maker import CONTENT_TYPES
from callsheet.media.previews.sandbox import MAX_BYTES
from callsheet.media.previews.urls import PATH, PreviewUrls
from callsheet.media.storage import Storage
from callsheet.media.storage.responses import plan_response, response_headers
from callsheet.plumbing.http.routing import Router
from callsheet.wire.errors import NotFound, SignatureInvalid

# The bytes behind a URL never change.
CACHED = "private, max-age=604800, immutable"
_BYTES = {"content": {"*/*": {"schema": {"type": "string", "format": "binary"}}}}
_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"description": "The image or clip.", **_BYTES},
    206: {"description": "The part that the `Range` header requests.", **_BYTES},
    304: {"description": "The file is unchanged since `If-None-Match`."},
}


def preview_router(storage: Storage, urls: PreviewUrls) -> Router:
    router = Router(tags=["files"])

    @router.get(PATH + "{key:path}", response_class=Response, responses=_RESPONSES)
    async def read_preview(
        key: str,
        request: Request,
        expires: str = Query("", description="Expiry, as in the signed URL."),
        signature: str = Query("", description="Signature, as in the signed URL."),
    ) -> Response:
        """A thumbnail, poster or clip, by its signed URL. The request needs no API key, and the response may be
        cached for a week.
        """
        folder, _, name = key.rpartition("/")
        urls.require(folder, expires, signature)
        if name not in CONTENT_TYPES:
            raise SignatureInvalid()
        found = await storage.peek(key, MAX_BYTES[name])
        if found is None:
            raise NotFound("There is no such preview.")
        info, content = found
        plan = plan_response(request.headers, info)
        headers = {**response_headers(info, plan, None), "cache-control": CACHED}
        return Response(content[plan.start : plan.end], plan.status, headers)

    return router
