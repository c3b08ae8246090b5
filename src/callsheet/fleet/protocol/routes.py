"""The routes of `/api/worker/*` from poll to report. They are the busiest routes, so their processing is kept short."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from fastapi import APIRouter, Request, Security
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from callsheet.fleet.protocol.authentication import WorkerAuthentication, worker_bearer
from callsheet.fleet.protocol.client_disconnects import ClientDisconnected
from callsheet.fleet.protocol.envelope import Envelope, enveloped
from callsheet.fleet.protocol.polls import WorkerPolls
from callsheet.fleet.protocol.principal import WorkerPrincipal
from callsheet.fleet.protocol.reports import WorkerReports
from callsheet.plumbing.http.fast_routes import Direct
from callsheet.plumbing.http.problems import refusal_of_validation
from callsheet.plumbing.http.routing import Router
from callsheet.wire.errors import FieldProblem, MalformedRequest, Refusal, UnsupportedMediaType
from callsheet.wire.worker.protocol import (
    CompleteRequest,
    CompleteResponse,
    DeferRequest,
    DispatchResponse,
    FailRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    PollRequest,
    PollResponse,
    RequeueRequest,
    WorkerResponse,
)

SpecificResponse = TypeVar("SpecificResponse", bound=WorkerResponse)

# Half of a surrogate pair: Python decodes invalid bytes of a file name to this. Other parsers reject it, but it must
# not refuse a worker's report.
LONE_SURROGATE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)


def protocol_route(authentication: WorkerAuthentication, envelope: Envelope) -> type[APIRoute]:
    """Routes that are documented by their signatures as usual, but run without FastAPI's handling of parameters and
    responses. Measured overhead of a poll with a job of 30 nodes: 44 µs instead of 79.

    The dependencies are only for the documentation: handlers call the authentication themselves.
    """

    class ProtocolRoute(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            endpoint: Callable[[BaseModel, Request], Awaitable[BaseModel]] = self.endpoint
            assert self.body_field is not None
            model: type[BaseModel] = self.body_field.field_info.annotation  # type: ignore[assignment]

            async def handle(request: Request) -> Response:
                try:
                    wants_envelope = envelope.is_wanted(request)
                    body = await read(request, model)
                except Refusal:
                    # The authentication error has precedence over this refusal.
                    await authentication.of(request.headers.get("authorization"))
                    raise
                response = await endpoint(body, request)
                # Only fields that were set are kept: null and a missing field have different meanings.
                text = response.model_dump_json(exclude_unset=True)
                return Response(enveloped(text) if wants_envelope else text, media_type="application/json")

            return handle

    return ProtocolRoute


def protocol_router(
    authentication: WorkerAuthentication, polls: WorkerPolls, reports: WorkerReports, envelope: Envelope
) -> APIRouter:
    router = Router(
        prefix="/api/worker",
        tags=["worker protocol"],
        route_class=protocol_route(authentication, envelope),
        dependencies=[Security(worker_bearer)],
    )

    async def worker_of(request: Request) -> WorkerPrincipal:
        return await authentication.of(request.headers.get("authorization"))

    @router.post("/poll")
    async def poll(body: PollRequest, request: Request) -> PollResponse:
        """Requests a job, and waits for one up to `wait_seconds`. A worker that disconnects while it waits holds no
        lease."""
        try:
            return await polls.response(request.headers.get("authorization"), body, request.receive)
        except ClientDisconnected:
            return PollResponse(job=None, reason="empty")

    @router.post("/heartbeat")
    async def heartbeat(body: HeartbeatRequest, request: Request) -> HeartbeatResponse:
        """Extends the lease, reports progress, and requests URLs: upload URLs, or new URLs of all inputs."""
        worker = await worker_of(request)
        return with_token(await reports.heartbeat(worker, body), worker)

    @router.post("/complete")
    async def complete(body: CompleteRequest, request: Request) -> CompleteResponse:
        """Completes the job. The uploaded outputs are checked first; a missing output refuses the completion."""
        worker = await worker_of(request)
        return with_token(await reports.complete(worker, body), worker)

    @router.post("/fail")
    async def fail(body: FailRequest, request: Request) -> DispatchResponse:
        """Reports a failure. The job is retried if that may help; otherwise it ends and its tokens are refunded."""
        worker = await worker_of(request)
        return with_token(await reports.fail(worker, body), worker)

    @router.post("/requeue")
    async def requeue(body: RequeueRequest, request: Request) -> DispatchResponse:
        """Requeues the job after an interruption that the job did not cause. The attempt does not count."""
        worker = await worker_of(request)
        return with_token(await reports.requeue(worker, body), worker)

    @router.post("/defer")
    async def defer(body: DeferRequest, request: Request) -> DispatchResponse:
        """Reports that the job was submitted to a provider. The worker is free, and the job waits for the provider's
        callback."""
        worker = await worker_of(request)
        return with_token(await reports.defer(worker, body), worker)

    return router


def shortcuts(router: APIRouter) -> dict[str, Direct]:
    """The routes of the protocol by path, for code that dispatches requests without the framework."""
    return {
        route.path: Direct(route, route.get_route_handler()) for route in router.routes if isinstance(route, APIRoute)
    }


async def read(request: Request, model: type[BaseModel]) -> BaseModel:
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != "application/json" and not content_type.endswith("+json"):
        reason = "The content-type must be application/json."
        raise UnsupportedMediaType(reason, errors=[FieldProblem("content-type", reason)])
    try:
        body = await request.body()
        try:
            return model.model_validate_json(body)
        except ValidationError:
            whole = LONE_SURROGATE.sub(rb"\\ufffd", body)
            if whole == body:
                raise
            return model.model_validate_json(whole)
    except ValidationError as invalid:
        errors = invalid.errors(include_url=False, include_input=False)
        raise refusal_of_validation([{**error, "loc": ("body", *error["loc"])} for error in errors]) from None
    except ClientDisconnect:
        raise MalformedRequest("The connection closed before the whole body arrived.") from None


def with_token(response: SpecificResponse, worker: WorkerPrincipal) -> SpecificResponse:
    return response.model_copy(update={"rotated_token": worker.rotated_token}) if worker.rotated_token else response
