"""Requests that are carried out once: the response of a request with an Idempotency-Key is kept, and a repeated request
with this key gets it. For routes that create something and take no tokens; jobs and money keep their keys themselves,
with what they create (decision 0067).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, Protocol
from uuid import UUID

from fastapi import Depends, Request, Response
from pydantic import BaseModel, TypeAdapter

from callsheet.plumbing.failpoints import Failpoint, hit
from callsheet.plumbing.http.idempotency import REPLAYED, IdempotencyKey
from callsheet.plumbing.http.problems import UNAVAILABLE
from callsheet.plumbing.http.request_fields import fields_of
from callsheet.toolbox.logs import get_logger

log = get_logger(__name__)
Endpoint = Callable[..., Awaitable[Any]]
# While a request runs, no other one takes its key over. See ABANDONED in identity/access/kept_responses.
RENEW_SECONDS = 10.0
# Parameters of an endpoint.
KEY, REQUEST, CALLER, RESPONSE = "idempotency_key", "keyed_request", "principal", "response"


@dataclass(frozen=True, slots=True)
class KeyedRequest:
    # The user that the request acts for. Each user has keys of its own.
    caller_id: UUID
    key: str
    # For example `POST /api/videos`.
    action: str
    # A mark of each value, to say in which of them another request differs.
    fields: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class KeptResponse:
    status: int
    content: str


class Claim(Protocol):
    """The right to carry out a request with a key."""

    async def renew(self) -> None: ...
    async def keep(self, response: KeptResponse) -> None: ...
    async def release(self) -> None: ...


class ResponseKeeper(Protocol):
    async def claim(self, request: KeyedRequest) -> Claim | KeptResponse:
        """The response of an earlier request with this key, or the right to carry this one out. Refuses a key of
        another request, and one whose request still runs.
        """
        ...


def once(endpoint: Callable[..., Any], status: int, keeper: ResponseKeeper | None) -> Endpoint:
    """The endpoint, whose response is kept if the request has a key. Its dependencies come first: a repeated request
    is authenticated, authorized and checked like the first one. `status`: that of its response, unless the endpoint
    sets another. None as `keeper` is enough for the API document.
    """
    declared = signature(endpoint, eval_str=True)
    if CALLER not in declared.parameters:
        raise ValueError(f"{endpoint.__name__} needs the parameter {CALLER}: keys belong to the caller.")
    content_of = TypeAdapter[Any](declared.return_annotation)

    @wraps(endpoint)
    async def carried_out_once(**values: Any) -> Any:
        request, key = values.pop(REQUEST), values[KEY]
        if KEY not in declared.parameters:
            del values[KEY]
        if key is None:
            return await endpoint(**values)
        assert keeper is not None, "only the API document has no keeper"
        claim = await keeper.claim(_keyed(request, key, values))
        if isinstance(claim, KeptResponse):
            headers = {REPLAYED: "true"}
            return Response(claim.content, claim.status, headers=headers, media_type="application/json")
        result = await _carried_out(claim, endpoint(**values))
        await hit(Failpoint.REQUEST_BEFORE_RESPONSE)
        response = values.get(RESPONSE)
        chosen = response.status_code if response is not None else None
        content = content_of.dump_json(result, by_alias=True).decode()
        try:
            await claim.keep(KeptResponse(chosen or status, content))
        except UNAVAILABLE as error:
            # What the request asked for is done, and its client must know.
            log.warning("request.response_not_kept", action=request.url.path, error=repr(error))
        return result

    carried_out_once.__signature__ = _with_key(declared)  # type: ignore[attr-defined]
    return carried_out_once


async def _carried_out(claim: Claim, work: Awaitable[Any]) -> Any:
    renewals = asyncio.create_task(_renew(claim))
    try:
        return await work
    except (Exception, asyncio.CancelledError):
        # A refused request keeps no key: the client may correct it and send it again.
        with suppress(*UNAVAILABLE):
            await claim.release()
        raise
    finally:
        renewals.cancel()


async def _renew(claim: Claim) -> None:
    while True:
        await asyncio.sleep(RENEW_SECONDS)
        # If the database is away for a moment, the next renewal may be in time.
        with suppress(*UNAVAILABLE):
            await claim.renew()


def _keyed(request: Request, key: str, values: Mapping[str, Any]) -> KeyedRequest:
    named: dict[str, Any] = {f"query.{name}": value for name, value in request.query_params.items()}
    for value in values.values():
        if isinstance(value, BaseModel):
            named |= value.model_dump(mode="json")
    return KeyedRequest(values[CALLER].user_id, key, f"{request.method} {request.url.path}", fields_of(named))


async def _request(request: Request) -> Request:
    return request


def _with_key(declared: Signature) -> Signature:
    parameters = {name: each.replace(kind=Parameter.KEYWORD_ONLY) for name, each in declared.parameters.items()}
    parameters.setdefault(KEY, Parameter(KEY, Parameter.KEYWORD_ONLY, default=None, annotation=IdempotencyKey))
    # As a dependency, because FastAPI passes the request itself to one parameter only.
    parameters[REQUEST] = Parameter(REQUEST, Parameter.KEYWORD_ONLY, default=Depends(_request), annotation=Request)
    return declared.replace(parameters=list(parameters.values()))
