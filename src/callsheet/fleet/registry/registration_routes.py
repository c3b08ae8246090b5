"""`/api/worker/register`, `/api/worker/environment` and `/api/worker/deregister`."""

from __future__ import annotations

from fastapi import APIRouter, Depends, Request, Response, Security
from fastapi.security import APIKeyHeader

from callsheet.fleet.protocol.authentication import WorkerAuthentication
from callsheet.fleet.protocol.envelope import Envelope, enveloped
from callsheet.fleet.protocol.principal import WorkerPrincipal
from callsheet.fleet.registry.credentials import Credential, Credentials
from callsheet.fleet.registry.registry import WorkerRegistry
from callsheet.identity.access.authentication import Authentication
from callsheet.plumbing.http.routing import Router
from callsheet.wire.fleet import DeregisterRequest, RegisterRequest, RegisterResponse
from callsheet.wire.worker.environment import Environment, EnvironmentResponse

secret_header = APIKeyHeader(
    name="X-Fleet-Secret",
    scheme_name="FleetSecret",
    auto_error=False,
    description="The credential for a registration: a registration token of the fleet, or the shared secret.",
)


def registration_router(
    registry: WorkerRegistry,
    credentials: Credentials,
    workers: WorkerAuthentication,
    authentication: Authentication,
    envelope: Envelope,
) -> APIRouter:
    router = Router(prefix="/api/worker", tags=["worker protocol"])

    async def credential_of(request: Request, given: str | None = Security(secret_header)) -> Credential:
        return await credentials.of(given, request, authentication.client_address(request))

    @router.post("/register", status_code=201, response_model=RegisterResponse)
    async def register_worker(
        body: RegisterRequest, request: Request, credential: Credential = Depends(credential_of)
    ) -> RegisterResponse | Response:
        """Registers a worker for a fleet or for workflows. Only this response shows the worker's token."""
        wants_envelope = envelope.is_wanted(request)
        registered = await registry.register(body, credential)
        if not wants_envelope:
            return registered
        return Response(enveloped(registered.model_dump_json()), 201, media_type="application/json")

    @router.post("/environment", response_model=EnvironmentResponse)
    async def report_environment(
        body: Environment, request: Request, worker: WorkerPrincipal = Depends(workers.worker)
    ) -> EnvironmentResponse | Response:
        """Replaces the worker's report about its engines, for example after an engine was restarted."""
        wants_envelope = envelope.is_wanted(request)
        response = EnvironmentResponse(cannot_run=await registry.report_environment(worker, body))
        if not wants_envelope:
            return response
        return Response(enveloped(response.model_dump_json()), media_type="application/json")

    @router.post("/deregister", status_code=204, response_model=None)
    async def deregister_worker(
        request: Request, body: DeregisterRequest | None = None, worker: WorkerPrincipal = Depends(workers.worker)
    ) -> Response | None:
        """Ends the worker's session. Its jobs are requeued, which does not count as an attempt."""
        wants_envelope = envelope.is_wanted(request)
        await registry.deregister(worker, body.reason if body else None)
        # A program that expects `data` reads a body.
        return Response(enveloped("{}"), 200, media_type="application/json") if wants_envelope else None

    return router
