"""Signed reading and writing of objects of the local backend: `/storage/{key}`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

from fastapi import Request
from starlette.requests import ClientDisconnect
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from callsheet.media.names import is_upload
from callsheet.media.storage.local import LocalStorage, OpenObject
from callsheet.media.storage.port import ObjectInfo, WriteGuard, discard
from callsheet.media.storage.responses import Plan, plan_response, response_headers
from callsheet.media.storage.signed_urls import PATH, Grant
from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.plumbing.http.routing import Router
from callsheet.wire.errors import BodyTooLarge, ContentMismatch, FieldProblem, MalformedRequest, NotFound, WrongState

_BINARY = {"schema": {"type": "string", "format": "binary"}}
_BYTES = {"content": {"*/*": _BINARY}}
_READ_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"description": "The object.", **_BYTES},
    206: {"description": "The part of the object that `Range` requests.", **_BYTES},
    304: {"description": "The object has not changed since the ETag in `If-None-Match`."},
}


class ObjectResponse(StreamingResponse):
    """Sends a part of an open object and closes it, also when the client leaves."""

    def __init__(self, storage: LocalStorage, opened: OpenObject, plan: Plan, headers: dict[str, str]) -> None:
        self._opened = opened
        super().__init__(storage.chunks(opened, plan.start, plan.end), plan.status, headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._opened.close()


def storage_router(storage: LocalStorage, guard: WriteGuard | None = None) -> Router:
    router = Router(tags=["storage"])
    path = PATH + "{key:path}"

    @router.get(
        path,
        operation_id="read_object",
        summary="Read an object through its signed URL",
        response_class=Response,
        responses=_READ_RESPONSES,
        openapi_extra={"parameters": _parameters("expires", "type", "name", "signature")},
    )
    async def read_object(key: str, request: Request) -> Response:
        grant = storage.urls.read("GET", key, request.scope["query_string"])
        opened = await storage.open(key)
        if opened is None:
            raise NotFound()
        try:
            info = _served_as(opened.info, grant)
            plan = plan_response(request.headers, info)
            headers = response_headers(info, plan, grant.download_name)
            return ObjectResponse(storage, opened, plan, headers)
        except BaseException:
            opened.close()
            raise

    @router.head(
        path,
        operation_id="describe_object",
        summary="The headers of reading an object",
        response_class=Response,
        responses={200: {"description": "Its headers."}, 304: _READ_RESPONSES[304]},
        openapi_extra={"parameters": _parameters("expires", "type", "name", "signature")},
    )
    async def describe_object(key: str, request: Request) -> Response:
        grant = storage.urls.read("GET", key, request.scope["query_string"])
        info = await storage.head(key)
        if info is None:
            raise NotFound()
        conditions = {name: value for name, value in request.headers.items() if name == "if-none-match"}
        plan = plan_response(conditions, info)
        headers = response_headers(_served_as(info, grant), plan, grant.download_name)
        return Response(status_code=plan.status, headers=headers)

    @router.put(
        path,
        operation_id="write_object",
        summary="Write an object through its signed URL",
        response_class=Response,
        responses={200: {"description": "Stored; `ETag` says what."}},
        openapi_extra={
            "parameters": _parameters("expires", "type", "max", "exact", "sha256", "signature"),
            "requestBody": {"required": True, "content": {"*/*": _BINARY}},
        },
    )
    async def write_object(key: str, request: Request) -> Response:
        info = await _store(storage, guard, key, request)
        return Response(headers={"etag": info.etag})

    return router


async def _store(storage: LocalStorage, guard: WriteGuard | None, key: str, request: Request) -> ObjectInfo:
    grant = storage.urls.read("PUT", key, request.scope["query_string"])
    _refuse_other_type(request, grant)
    if guard is not None:
        await guard.require(key)
    body = _bounded(request, grant.max_bytes or 0)
    declared = request.headers.get("content-length", "")
    try:
        info = await storage.put(
            key,
            body,
            content_type=grant.content_type,
            sha256=grant.sha256,
            exact_bytes=grant.max_bytes if grant.is_exact else None,
            # The reserve of the disk is for the results of jobs.
            leaves_reserve=is_upload(key),
            expected_bytes=min(int(declared), grant.max_bytes or 0) if declared.isdecimal() else 0,
        )
    except ClientDisconnect:
        raise MalformedRequest("The connection closed before the whole body arrived.") from None
    await hit(Failpoint.OBJECT_STORED_BEFORE_CHECK)
    if guard is not None:
        # A component that ended the upload while the body arrived has deleted the object only if it was already there.
        try:
            await guard.require(key)
        except WrongState:
            await discard(storage, [key])
            raise
    return info


def _served_as(info: ObjectInfo, grant: Grant) -> ObjectInfo:
    return replace(info, content_type=grant.content_type) if grant.content_type else info


def _refuse_other_type(request: Request, grant: Grant) -> None:
    given = request.headers.get("content-type")
    if given != grant.content_type:
        reason = f"The content-type must be {grant.content_type}."
        raise ContentMismatch(errors=[FieldProblem("content-type", reason)], content_type=given)


async def _bounded(request: Request, max_bytes: int) -> AsyncIterator[bytes]:
    """The body, counted; the client's word for its length only serves to say no before it is sent."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > max_bytes:
        raise BodyTooLarge(max_bytes)
    received = 0
    async for piece in request.stream():
        received += len(piece)
        if received > max_bytes:
            raise BodyTooLarge(max_bytes)
        yield piece


def _parameters(*names: str) -> list[dict[str, Any]]:
    """Documented, not declared: FastAPI would say which one is missing before the signature is looked at."""
    return [
        {"name": name, "in": "query", "required": name in ("expires", "signature"), "schema": {"type": "string"}}
        for name in names
    ]
