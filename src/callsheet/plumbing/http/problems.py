"""Turns errors into `application/problem+json` (RFC 9457) with a stable `code`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import BaseRoute, Match

from callsheet.plumbing.database.errors import DATABASE_AWAY, DatabaseError, PoolUnavailable
from callsheet.toolbox.logs import get_logger
from callsheet.wire.errors import (
    FieldProblem,
    InternalError,
    InvalidRequest,
    MalformedRequest,
    MethodNotAllowed,
    NotFound,
    RangeNotSatisfiable,
    RateLimited,
    RatePolicy,
    Refusal,
    Unavailable,
    UnsupportedMediaType,
)
from callsheet.wire.problems import Problem
from callsheet.wire.reasons import NO_SUCH_FIELD, reason_of
from callsheet.wire.unknown_fields import did_you_mean, fields_beside

log = get_logger(__name__)

# The client chooses the fields and their names: a body of one megabyte must not cause a response of ten.
MAX_ERRORS = 50
MAX_FIELD_LENGTH = 200
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")

# Responds to a request for a path without a route.
UnknownPath = Callable[[Request], Response]

UNAVAILABLE = (*DATABASE_AWAY, DatabaseError)
POOL_RETRY_SECONDS = 5

STATUS_OF_CODE: Mapping[str, int] = {
    "refused": 400,
    "malformed_request": 400,
    "not_authenticated": 401,
    "registration_expired": 401,
    "invalid_credentials": 401,
    "budget_reached": 402,
    "insufficient_tokens": 402,
    "forbidden": 403,
    "csrf_failed": 403,
    "signature_invalid": 403,
    "signature_expired": 403,
    "not_found": 404,
    "method_not_allowed": 405,
    "body_too_slow": 408,
    "conflict": 409,
    "in_use": 409,
    "wrong_state": 409,
    "already_registered": 409,
    "request_in_progress": 409,
    "response_not_kept": 409,
    "invalid_transition": 409,
    "lease_lost": 409,
    "quota_exceeded": 409,
    "body_too_large": 413,
    "unsupported_media_type": 415,
    "range_not_satisfiable": 416,
    "wrong_host": 421,
    "invalid_request": 422,
    "content_mismatch": 422,
    "empty_output": 422,
    "idempotency_key_reused": 422,
    "rate_limited": 429,
    "too_many_active_jobs": 429,
    "too_many_active_runs": 429,
    "too_many_pending_uploads": 429,
    "too_many_streams": 429,
    "too_many_connections": 429,
    "headers_too_large": 431,
    "internal_error": 500,
    "unavailable": 503,
    "file_not_measured": 503,
    "insufficient_storage": 507,
}


def problem_response(refusal: Refusal, request_id: str | None = None) -> Response:
    status = STATUS_OF_CODE[refusal.code]
    body: dict[str, Any] = {
        "type": f"urn:callsheet:error:{refusal.code}",
        "title": refusal.title(),
        "status": status,
        "code": refusal.code,
    }
    for name, value in refusal.data.items():
        # Data of an error must not replace the standard fields of a problem.
        body.setdefault(name, value)
    if refusal.detail:
        body["detail"] = refusal.detail
    if refusal.errors:
        shown = refusal.errors[:MAX_ERRORS]
        body["errors"] = [{"field": error.field[:MAX_FIELD_LENGTH], "reason": error.reason} for error in shown]
    if request_id:
        body["request_id"] = request_id
    return Response(
        json.dumps(body, ensure_ascii=False).encode("utf-8", "replace"),
        status,
        _headers(refusal),
        media_type="application/problem+json",
    )


def _headers(refusal: Refusal) -> dict[str, str]:
    if isinstance(refusal, RangeNotSatisfiable):
        return {"Content-Range": f"bytes */{refusal.size}"}
    seconds = refusal.retry_after_seconds
    if seconds is not None:
        policy = refusal.policy if isinstance(refusal, RateLimited) else None
        return {"Retry-After": str(seconds), **(rate_limit_headers(policy, seconds) if policy else {})}
    if STATUS_OF_CODE[refusal.code] == HTTPStatus.UNAUTHORIZED:
        return {"WWW-Authenticate": 'Bearer realm="callsheet"'}
    return {}


def rate_limit_headers(policy: RatePolicy, seconds: int) -> dict[str, str]:
    """The headers of draft-ietf-httpapi-ratelimit-headers-10. Their values are structured fields (RFC 9651)."""
    window = 'qu="concurrent-requests"' if policy.window_seconds is None else f"w={policy.window_seconds}"
    return {
        "RateLimit-Policy": f'"{policy.name}";q={policy.quota};{window}',
        "RateLimit": f'"{policy.name}";r=0;t={seconds}',
    }


def no_such_path(request: Request) -> Response:
    return problem_response(NotFound(), request_id_of(request))


def install_problem_handlers(app: FastAPI, unknown: UnknownPath = no_such_path) -> None:
    """`unknown` responds to paths without a route."""

    async def on_unknown_path(request: Request, error: Exception) -> Response:
        return unknown(request)

    app.add_exception_handler(HTTPStatus.NOT_FOUND, on_unknown_path)
    app.add_exception_handler(Refusal, _on_refusal)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http_exception)
    for error in UNAVAILABLE:
        app.add_exception_handler(error, _on_database_away)
    # Starlette returns this and raises the error again, up to the edge, which logs it.
    app.add_exception_handler(Exception, _on_unexpected)


def request_id_of(request: Request) -> str | None:
    value = request.scope.get("callsheet.request_id")
    return value if isinstance(value, str) else None


async def _on_refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return problem_response(error, request_id_of(request))


async def _on_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    body = getattr(request.scope.get("route"), "body_field", None)
    annotation = None if body is None else body.field_info.annotation
    return problem_response(refusal_of_validation(error.errors(), annotation), request_id_of(request))


async def _on_unexpected(request: Request, error: Exception) -> Response:
    return problem_response(InternalError(), request_id_of(request))


async def _on_http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    response = problem_response(_refusal_of_status(error), request_id_of(request))
    response.headers.update(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED and "route" in request.scope:
        response.headers["Allow"] = ", ".join(_methods_taken(request))
    return response


def _methods_taken(request: Request) -> list[str]:
    # Starlette names the methods of the first route at this path only; GET and POST are two routes here.
    routes: Sequence[BaseRoute] = request.app.routes
    return [
        method
        for method in METHODS
        if any(route.matches({**request.scope, "method": method})[0] is Match.FULL for route in routes)
    ]


async def _on_database_away(request: Request, error: Exception) -> Response:
    return problem_response(refusal_of_absence(error), request_id_of(request))


def refusal_of_absence(error: Exception) -> Refusal:
    """The refusal for one of UNAVAILABLE. Raises the error itself if it is our bug."""
    if isinstance(error, ValueError):
        raise error  # asyncpg's client-side DataError is an InterfaceError too, and it is our bug.
    if isinstance(error, PoolUnavailable):
        # The reason names hosts and is for operators. The watch has logged it.
        detail = f"The database pool {error.pool}, which holds the data of this tenant, is currently not available."
        return Unavailable(detail, retry_after_seconds=POOL_RETRY_SECONDS)
    if isinstance(error, TimeoutError | DatabaseError):
        # Other errors were logged when the outage started.
        log.warning("database.unavailable", error=repr(error))
    return Unavailable("The database cannot be reached.")


def refusal_of_validation(errors: Sequence[Mapping[str, Any]], body: Any = None) -> Refusal:
    """`body`: the type of the body, whose fields are known."""
    if any(error["type"] == "json_invalid" for error in errors):
        sentence = f"The body is not valid JSON{_place_of(errors[0])}."
        return MalformedRequest(sentence, errors=[FieldProblem("body", sentence)])
    if any(error["loc"] == ("body",) and isinstance(error.get("input"), bytes) for error in errors):
        # FastAPI parses a body only if its content type is JSON, and otherwise passes the bytes on.
        reason = "The content-type must be application/json."
        return UnsupportedMediaType(reason, errors=[FieldProblem("content-type", reason)])
    problems = [FieldProblem(_field(error["loc"]), _reason(error, body)) for error in errors[:MAX_ERRORS]]
    return InvalidRequest.of(problems)


def _reason(error: Mapping[str, Any], body: Any) -> str:
    location = error["loc"]
    if error["type"] == "extra_forbidden" and location[0] == "body":
        question = did_you_mean(str(location[-1]), fields_beside(body, location[1:]))
        if question is not None:
            return f"{NO_SUCH_FIELD} {question}"
    return reason_of(error)


def _place_of(error: Mapping[str, Any]) -> str:
    """The place of the error in JSON. The parsers of Python and pydantic describe the error in words of their own."""
    known = re.search(r"line (\d+) column (\d+)", str(error.get("ctx", {}).get("error", "")))
    if known is not None:
        return f" (line {known[1]}, column {known[2]})"
    position = error["loc"][-1] if error["loc"] else None
    return f" (character {position + 1})" if isinstance(position, int) else ""


def _field(location: Sequence[str | int]) -> str:
    # FastAPI starts with the origin of the value; "body" is the usual one and adds nothing.
    parts = location[1:] if location and location[0] == "body" and len(location) > 1 else location
    return ".".join(str(part) for part in parts)[:MAX_FIELD_LENGTH]


def _refusal_of_status(error: HTTPException) -> Refusal:
    if isinstance(error.__cause__, Refusal):
        return error.__cause__  # This is raised while the body is read; FastAPI wraps every error from there.
    match error.status_code:
        case HTTPStatus.METHOD_NOT_ALLOWED:
            return MethodNotAllowed()
        case HTTPStatus.UNSUPPORTED_MEDIA_TYPE:
            return UnsupportedMediaType(error.detail)
        case _:
            reason = _unreadable(error.__cause__)
            return MalformedRequest(reason, errors=[FieldProblem("body", reason)])


def _unreadable(cause: BaseException | None) -> str:
    match cause:
        case RecursionError():
            return "The body is nested too deeply."
        case UnicodeDecodeError():
            return "The body is not valid UTF-8."
        case ValueError():
            return "The body has a number with too many digits."
        case _:
            return "The body could not be read."


def document_problems(document: dict[str, Any]) -> None:
    """Adds the schema of problems. As `model` of the responses, it would also be documented as application/json."""
    schema = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    parts = schema.pop("$defs")
    components = document.setdefault("components", {})
    components.setdefault("schemas", {}).update(parts, Problem=schema)
    components.setdefault("headers", {}).update(_LIMIT_HEADERS)


_LIMIT_HEADERS = {
    "Retry-After": {
        "description": "Seconds until the request can be sent again, if the time is known.",
        "schema": {"type": "integer", "minimum": 0},
    },
    "RateLimit": {
        "description": "With 429 `rate_limited`: name of the limit, requests left (`r`), seconds to wait (`t`).",
        "schema": {"type": "string"},
        "example": '"submits";r=0;t=12',
    },
    "RateLimit-Policy": {
        "description": "With 429 `rate_limited`: name of the limit, most requests (`q`), seconds of its window (`w`).",
        "schema": {"type": "string"},
        "example": '"submits";q=600;w=60',
    },
}
_PROBLEM = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
# The form of a 4xx or 5xx response, documented once for all routes.
PROBLEM_RESPONSES: dict[int | str, dict[str, Any]] = {
    "4XX": {
        "description": "The request was refused. `code` says why, `errors` names the fields.",
        "headers": {name: {"$ref": f"#/components/headers/{name}"} for name in _LIMIT_HEADERS},
        "content": _PROBLEM,
    },
    "5XX": {
        "description": "The server failed, or a part of it is currently not available (503).",
        "content": _PROBLEM,
    },
}
