"""The header Idempotency-Key: for jobs, the same key as the field `idempotency_key` of the body. Other requests: see
`once.py`.
"""

from __future__ import annotations

from typing import Annotated, Any, Protocol, TypeVar

from fastapi import Header, Response

from callsheet.wire.base import KeyedRequest, Line, ResponseModel
from callsheet.wire.errors import InvalidRequest

IdempotencyKey = Annotated[
    Line | None,
    Header(description="Identifies the request: a repeated request with the same key is carried out only once."),
]
REPLAYED = "Idempotent-Replayed"
Request = TypeVar("Request", bound=KeyedRequest)


class Replayable(Protocol):
    @property
    def replayed(self) -> bool: ...


Result = TypeVar("Result", bound=Replayable)
DIFFERENT = (
    "This field and the header Idempotency-Key have different values. Send only one of them, or the same value in both."
)


def or_earlier(model: type[ResponseModel]) -> dict[int | str, dict[str, Any]]:
    """The response to a repeated request, for the OpenAPI document."""
    name = model.__name__.lower()
    return {200: {"model": model, "description": f"The {name} that an earlier request with this key created."}}


def with_key(body: Request, header: str | None) -> Request:
    """The request with the key of its header, if it has one."""
    if header is None or header == body.idempotency_key:
        return body
    if body.idempotency_key is not None:
        raise InvalidRequest.field("idempotency_key", DIFFERENT)
    return body.model_copy(update={"idempotency_key": header})


def replayed(response: Response, result: Result) -> Result:
    """The result. If an earlier request with the same key created it, the response says so."""
    if result.replayed:
        response.status_code = 200
        response.headers[REPLAYED] = "true"
    return result
