"""The worker protocol as a small Starlette application: one table of operations is the application, and its part of
the API document (decision 0047).
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from inspect import Parameter, Signature
from typing import Any, Generic, TypeVar

from fastapi import Security
from fastapi.security import APIKeyHeader, HTTPBearer
from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.routing import Router as StarletteRouter
from starlette.types import Receive, Scope, Send

from callsheet.fleet.protocol.source_design import Envelope, enveloped
from callsheet.plumbing.http.problems import (
    UNAVAILABLE,
    no_such_path,
    problem_response,
    refusal_of_absence,
    refusal_of_validation,
    request_id_of,
)
from callsheet.plumbing.http.query import check_names
from callsheet.plumbing.http.routing import Router
from callsheet.wire.errors import (
    FieldProblem,
    MalformedRequest,
    MethodNotAllowed,
    Refusal,
    UnsupportedMediaType,
)

Body = TypeVar("Body", bound=BaseModel)

SECTION = "/api/worker"
# Half of a surrogate pair: Python decodes invalid bytes of a file name to this. Other parsers reject it, but it must
# not refuse a worker's report.
LONE_SURROGATE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who may send a request."""

    # The credential as the API document describes it.
    credential: HTTPBearer | APIKeyHeader
    # Raises a refusal for all others.
    authenticate: Callable[[Request], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Operation(Generic[Body]):
    """A POST of the protocol, as it is served and as it is documented. The docstring of `run` describes it."""

    name: str
    request: type[Body]
    # None: a response without a body, with status 204.
    response: type[BaseModel] | None
    run: Callable[[Body, Request], Awaitable[BaseModel | None]]
    caller: Caller
    status: int = 200
    # If not, `run` gets None for a request without a body.
    needs_body: bool = True

    @property
    def path(self) -> str:
        return f"{SECTION}/{self.name}"

    @property
    def body(self) -> Any:
        """The type of the body."""
        return self.request if self.needs_body else self.request | None


def protocol_application(operations: Sequence[Operation[Any]], envelope: Envelope) -> StarletteRouter:
    """Errors are raised to the edge, which handles them like all others."""
    routes = [Route(operation.path, _Endpoint(operation, envelope)) for operation in operations]
    return StarletteRouter(routes, redirect_slashes=False, default=_unknown_path)


def documented(operations: Sequence[Operation[Any]]) -> Router:
    """The operations for the API document."""
    router = Router(tags=["worker protocol"])
    for each in operations:
        declare = router.post(
            each.path,
            status_code=each.status,
            response_model=each.response,
            dependencies=[Security(each.caller.credential)],
        )
        declare(_signature(each))
    return router


class _Endpoint:
    def __init__(self, operation: Operation[Any], envelope: Envelope):
        self._operation = operation
        self._body: TypeAdapter[Any] = TypeAdapter(operation.body)
        self._envelope = envelope

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        if scope["method"] != "POST":
            response = problem_response(MethodNotAllowed(), request_id_of(request))
            response.headers["Allow"] = "POST"
        else:
            try:
                response = await self._response(request)
            except UNAVAILABLE as error:
                raise refusal_of_absence(error) from error
        await response(scope, receive, send)

    async def _response(self, request: Request) -> Response:
        operation = self._operation
        try:
            check_names(request, ())
            wants_envelope = self._envelope.is_wanted(request)
            body = await self._read(request)
        except Refusal:
            # The authentication error has precedence over this refusal.
            await operation.caller.authenticate(request)
            raise
        result = await operation.run(body, request)
        if result is None and not wants_envelope:
            return Response(None, operation.status)
        # Only fields that were set are kept: null and a missing field have different meanings.
        text = "{}" if result is None else result.model_dump_json(exclude_unset=True)
        # A program that expects `data` reads a body, also of a response that has none.
        status = 200 if result is None else operation.status
        return Response(enveloped(text) if wants_envelope else text, status, media_type="application/json")

    async def _read(self, request: Request) -> Any:
        try:
            if not self._operation.needs_body and not await request.body():
                return None
            content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
            if content_type != "application/json" and not content_type.endswith("+json"):
                reason = "The content-type must be application/json."
                raise UnsupportedMediaType(reason, errors=[FieldProblem("content-type", reason)])
            return self._validated(await request.body())
        except ValidationError as invalid:
            errors = invalid.errors(include_url=False, include_input=False)
            raise refusal_of_validation([{**error, "loc": ("body", *error["loc"])} for error in errors]) from None
        except ClientDisconnect:
            raise MalformedRequest("The connection closed before the whole body arrived.") from None

    def _validated(self, content: bytes) -> Any:
        try:
            return self._body.validate_json(content)
        except ValidationError:
            whole = LONE_SURROGATE.sub(rb"\\ufffd", content)
            if whole == content:
                raise
            return self._body.validate_json(whole)


async def _unknown_path(scope: Scope, receive: Receive, send: Send) -> None:
    await no_such_path(Request(scope))(scope, receive, send)


def _signature(operation: Operation[Any]) -> Callable[..., Any]:
    """A function whose signature describes the operation, as FastAPI reads it."""

    async def described() -> None: ...

    default = Parameter.empty if operation.needs_body else None
    body = Parameter("body", Parameter.KEYWORD_ONLY, annotation=operation.body, default=default)
    described.__name__ = operation.run.__name__
    described.__doc__ = operation.run.__doc__
    described.__signature__ = Signature([body])  # type: ignore[attr-defined]
    return described
