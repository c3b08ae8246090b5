"""The worker protocol over HTTP: the table of its operations, and what each operation calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from fastapi.security import APIKeyHeader, HTTPBearer
from starlette.requests import Request

from callsheet.fleet.protocol.application import Caller, Operation, documented, protocol_application
from callsheet.fleet.protocol.authentication import WorkerAuthentication, WorkerPrincipal
from callsheet.fleet.protocol.polls import WorkerPolls
from callsheet.fleet.protocol.reports import WorkerReports
from callsheet.fleet.protocol.source_design import Envelope
from callsheet.fleet.protocol.worker_protocol import WorkerProtocol
from callsheet.fleet.registry.credentials import Credential, Credentials
from callsheet.fleet.registry.registration_routes import SessionOperations
from callsheet.identity.access.authentication import Authentication
from callsheet.identity.room import IdentityRoom
from callsheet.plumbing.http.long_requests import ClientDisconnected
from callsheet.settings import Settings
from callsheet.toolbox.signing import Master
from callsheet.wire.fleet import DeregisterRequest, RegisterRequest, RegisterResponse
from callsheet.wire.worker.environment import Environment, EnvironmentResponse
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

if TYPE_CHECKING:
    from callsheet.fleet.room import FleetRoom

WORKER_TOKEN = HTTPBearer(scheme_name="WorkerToken", description="The token that the worker got when it registered.")
FLEET_SECRET = APIKeyHeader(
    name="X-Fleet-Secret",
    scheme_name="FleetSecret",
    description="The credential for a registration: a registration token of the fleet, or the shared secret.",
)


def operations_of(
    sessions: SessionOperations, jobs: JobOperations, host: Caller, worker: Caller
) -> list[Operation[Any]]:
    """The table, the busiest operations first: they are tried in this order. `host`: who may register a worker."""
    return [
        Operation("poll", PollRequest, PollResponse, jobs.poll, worker),
        Operation("heartbeat", HeartbeatRequest, HeartbeatResponse, jobs.heartbeat, worker),
        Operation("complete", CompleteRequest, CompleteResponse, jobs.complete, worker),
        Operation("fail", FailRequest, DispatchResponse, jobs.fail, worker),
        Operation("requeue", RequeueRequest, DispatchResponse, jobs.requeue, worker),
        Operation("defer", DeferRequest, DispatchResponse, jobs.defer, worker),
        Operation("register", RegisterRequest, RegisterResponse, sessions.register_worker, host, status=201),
        Operation("environment", Environment, EnvironmentResponse, sessions.report_environment, worker),
        Operation(
            "deregister", DeregisterRequest, None, sessions.deregister_worker, worker, status=204, needs_body=False
        ),
    ]


class WorkerApi:
    """The worker protocol over HTTP."""

    def __init__(
        self,
        fleet: FleetRoom,
        protocol: WorkerProtocol,
        credentials: Credentials,
        users: Authentication,
        envelope: Envelope,
    ):
        async def credential_of(request: Request) -> Credential:
            given = request.headers.get(FLEET_SECRET.model.name)
            return await credentials.of(given, request, users.client_address(request))

        self._worker = Caller(WORKER_TOKEN, fleet.authentication.of_request)
        operations = operations_of(
            SessionOperations(fleet.registry, fleet.authentication, credential_of),
            JobOperations(fleet.authentication, protocol.polls, protocol.reports),
            Caller(FLEET_SECRET, credential_of),
            self._worker,
        )
        self._callers = {operation.path: operation.caller for operation in operations}
        self.app = protocol_application(operations, envelope)
        self.documented = documented(operations)

    async def check_caller(self, request: Request) -> None:
        """Decides whose large bodies are read: those of workers, and of registrations with valid credentials."""
        await self._callers.get(request.scope["path"], self._worker).authenticate(request)


def open_worker_api(
    settings: Settings, secret: Master, identity: IdentityRoom, fleet: FleetRoom, protocol: WorkerProtocol
) -> WorkerApi:
    credentials = Credentials(fleet.fleet_tokens, settings, secret, identity.attempts)
    return WorkerApi(fleet, protocol, credentials, identity.authentication, Envelope(settings.fleet.response_envelope))


SpecificResponse = TypeVar("SpecificResponse", bound=WorkerResponse)


class JobOperations:
    """The operations for jobs, from poll to report."""

    def __init__(self, authentication: WorkerAuthentication, polls: WorkerPolls, reports: WorkerReports):
        self._authentication = authentication
        self._polls = polls
        self._reports = reports

    async def poll(self, body: PollRequest, request: Request) -> PollResponse:
        """Requests a job, and waits for one up to `wait_seconds`. A worker that disconnects while it waits holds no
        lease."""
        try:
            return await self._polls.response(request.headers.get("authorization"), body, request.receive)
        except ClientDisconnected:
            return PollResponse(job=None, reason="empty")

    async def heartbeat(self, body: HeartbeatRequest, request: Request) -> HeartbeatResponse:
        """Extends the lease, reports progress, and requests URLs: upload URLs, or new URLs of all inputs."""
        worker = await self._authentication.of_request(request)
        return with_token(await self._reports.heartbeat(worker, body), worker)

    async def complete(self, body: CompleteRequest, request: Request) -> CompleteResponse:
        """Completes the job. The uploaded outputs are checked first; a missing output refuses the completion."""
        worker = await self._authentication.of_request(request)
        return with_token(await self._reports.complete(worker, body), worker)

    async def fail(self, body: FailRequest, request: Request) -> DispatchResponse:
        """Reports a failure. The job is retried if that may help; otherwise it ends and its tokens are refunded."""
        worker = await self._authentication.of_request(request)
        return with_token(await self._reports.fail(worker, body), worker)

    async def requeue(self, body: RequeueRequest, request: Request) -> DispatchResponse:
        """Requeues the job after an interruption that the job did not cause. The attempt does not count."""
        worker = await self._authentication.of_request(request)
        return with_token(await self._reports.requeue(worker, body), worker)

    async def defer(self, body: DeferRequest, request: Request) -> DispatchResponse:
        """Reports that the job was submitted to a provider. The worker is free, and the job waits for the provider's
        callback."""
        worker = await self._authentication.of_request(request)
        return with_token(await self._reports.defer(worker, body), worker)


def with_token(response: SpecificResponse, worker: WorkerPrincipal) -> SpecificResponse:
    return response.model_copy(update={"rotated_token": worker.rotated_token}) if worker.rotated_token else response
