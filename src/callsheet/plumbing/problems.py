"""The edge: refusals become `application/problem+json` (RFC 9457) with a stable `code`, and nothing becomes a 500."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from callsheet.plumbing.database import DATABASE_AWAY
from callsheet.toolbox.logs import get_logger
from callsheet.wire.errors import (
    FieldProblem,
    InvalidRequest,
    MalformedRequest,
    MethodNotAllowed,
    NotFound,
    RangeNotSatisfiable,
    RateLimited,
    Refusal,
    Unavailable,
    UnsupportedMediaType,
)
from callsheet.wire.problems import Problem

log = get_logger(__name__)

STATUS_OF_CODE: Mapping[str, int] = {
    "refused": 400,
    "malformed_request": 400,
    "not_authenticated": 401,
    "invalid_credentials": 401,
    "forbidden": 403,
    "csrf_failed": 403,
    "signature_invalid": 403,
    "signature_expired": 403,
    "not_found": 404,
    "method_not_allowed": 405,
    "conflict": 409,
    "body_too_large": 413,
    "unsupported_media_type": 415,
    "range_not_satisfiable": 416,
    "invalid_request": 422,
    "content_mismatch": 422,
    "rate_limited": 429,
    "headers_too_large": 431,
    "internal_error": 500,
    "unavailable": 503,
}


class InternalError(Refusal):
    """Something went wrong on our side. It was logged; quote the request id when you report it."""

    code = "internal_error"


def problem_response(refusal: Refusal, request_id: str | None = None) -> Response:
    status = STATUS_OF_CODE[refusal.code]
    body: dict[str, Any] = {
        "type": f"urn:callsheet:error:{refusal.code}",
        "title": refusal.title(),
        "status": status,
        "code": refusal.code,
        **refusal.data,
    }
    if refusal.detail:
        body["detail"] = refusal.detail
    if refusal.errors:
        body["errors"] = [{"field": error.field, "reason": error.reason} for error in refusal.errors]
    if request_id:
        body["request_id"] = request_id
    return Response(
        json.dumps(body, ensure_ascii=False).encode("utf-8", "replace"),
        status,
        _headers(refusal),
        media_type="application/problem+json",
    )


def _headers(refusal: Refusal) -> dict[str, str]:
    match refusal:
        case RateLimited():
            return {"Retry-After": str(refusal.retry_after_seconds)}
        case RangeNotSatisfiable():
            return {"Content-Range": f"bytes */{refusal.size}"}
        case Unavailable():
            return {"Retry-After": "1"}
    if STATUS_OF_CODE[refusal.code] == HTTPStatus.UNAUTHORIZED:
        return {"WWW-Authenticate": 'Bearer realm="callsheet"'}
    return {}


def install_problem_handlers(app: FastAPI) -> None:
    app.add_exception_handler(Refusal, _on_refusal)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http_exception)
    for error in DATABASE_AWAY:
        app.add_exception_handler(error, _on_database_away)


def request_id_of(request: Request) -> str | None:
    value = request.scope.get("callsheet.request_id")
    return value if isinstance(value, str) else None


async def _on_refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return problem_response(error, request_id_of(request))


async def _on_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return problem_response(refusal_of_validation(error.errors()), request_id_of(request))


async def _on_http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    response = problem_response(_refusal_of_status(error), request_id_of(request))
    response.headers.update(error.headers or {})
    return response


async def _on_database_away(request: Request, error: Exception) -> Response:
    if isinstance(error, ValueError):
        raise error  # asyncpg's client-side DataError is an InterfaceError too, and our bug
    log.warning("database.unavailable", error=repr(error))
    return problem_response(Unavailable("The database cannot be reached."), request_id_of(request))


def refusal_of_validation(errors: Sequence[Mapping[str, Any]]) -> Refusal:
    if any(error["type"] == "json_invalid" for error in errors):
        reason = str(errors[0].get("ctx", {}).get("error", "it is not valid JSON"))
        return MalformedRequest(f"The body is not valid JSON: {reason}.", errors=[FieldProblem("body", reason)])
    problems = [FieldProblem(_field(error["loc"]), _reason(error)) for error in errors]
    return InvalidRequest("; ".join(f"{problem.field}: {problem.reason}" for problem in problems[:3]), errors=problems)


def _field(location: Sequence[str | int]) -> str:
    # FastAPI starts with where the value came from; "body" is the usual place and says nothing.
    parts = location[1:] if location and location[0] == "body" and len(location) > 1 else location
    return ".".join(str(part) for part in parts)


def _reason(error: Mapping[str, Any]) -> str:
    if error["type"] == "extra_forbidden":
        return "is not a field of this request"
    if error["type"] == "missing":
        return "is required"
    return str(error["msg"]).removeprefix("Value error, ").replace("Input should", "should", 1)


def _refusal_of_status(error: HTTPException) -> Refusal:
    if isinstance(error.__cause__, Refusal):
        return error.__cause__  # raised while the body was read; FastAPI wraps whatever comes from there
    match error.status_code:
        case HTTPStatus.NOT_FOUND:
            return NotFound()
        case HTTPStatus.METHOD_NOT_ALLOWED:
            return MethodNotAllowed()
        case HTTPStatus.UNSUPPORTED_MEDIA_TYPE:
            return UnsupportedMediaType(error.detail)
        case _:
            return MalformedRequest(error.detail)


# Documented once for all routes: what a 4xx or 5xx answer looks like.
PROBLEM_RESPONSES: dict[int | str, dict[str, Any]] = {
    "4XX": {
        "description": "The request was refused; `code` says why, `errors` which field.",
        "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
        "model": Problem,
    },
}
