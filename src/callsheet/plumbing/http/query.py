"""Refuses unknown query parameters of the API. FastAPI ignores them, and a misspelled filter would list everything."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import wraps
from inspect import Parameter, signature
from typing import Any

from fastapi import Depends, FastAPI, Request

from callsheet.wire.errors import FieldProblem, InvalidRequest
from callsheet.wire.unknown_fields import did_you_mean

# Objects of storage have a signature in their URLs, and front pages may be called with anything.
CHECKED = "/api/"
# Providers may add parameters to the URL of a callback.
NOT_CHECKED = "/api/webhooks/{"
# A URL has room for thousands of names, and the nearest known name takes 20 µs to find.
MAX_NAMED = 10
LAST = "query_was_checked"

Endpoint = Callable[..., Any]


class QueryCheck:
    """Refuses what the API document of an application does not have. The document is made for the first request."""

    def __init__(self, app: FastAPI):
        self._app = app
        self._known: Mapping[tuple[str, str], Collection[str]] | None = None

    async def __call__(self, request: Request) -> None:
        path = request.scope["route"].path
        if self._known is None:
            self._known = _names(self._app.openapi())
        known = self._known.get((path, request.method))
        if known is not None and path.startswith(CHECKED) and not path.startswith(NOT_CHECKED):
            check_names(request, known)

    def around(self, endpoint: Endpoint) -> Endpoint:
        """The endpoint with this check as its last dependency: the caller is checked first, as for unknown fields."""
        declared = signature(endpoint, eval_str=True)

        @wraps(endpoint)
        async def checked(**values: Any) -> Any:
            values.pop(LAST)
            result = endpoint(**values)
            return await result if isinstance(result, Awaitable) else result

        last = Parameter(LAST, Parameter.KEYWORD_ONLY, default=Depends(self))
        parameters = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in declared.parameters.values()]
        checked.__signature__ = declared.replace(parameters=[*parameters, last])  # type: ignore[attr-defined]
        return checked


def check_names(request: Request, known: Collection[str]) -> None:
    unknown = [name for name in request.query_params if name not in known]
    if unknown:
        raise InvalidRequest.of([FieldProblem(f"query.{name}", _reason(name, known)) for name in unknown[:MAX_NAMED]])


def _reason(name: str, known: Collection[str]) -> str:
    sentence = f"This URL has no query parameter {name[:100]!r}."
    if question := did_you_mean(name, known):
        return f"{sentence} {question}"
    return f"{sentence} It has {', '.join(sorted(known))}." if known else f"{sentence} It has none."


def _names(document: Mapping[str, Any]) -> dict[tuple[str, str], Collection[str]]:
    return {
        (path, method.upper()): frozenset(
            each["name"] for each in operation.get("parameters", ()) if each["in"] == "query"
        )
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    }
