"""The table of the worker protocol: which URL takes and returns what, and what it calls."""

from __future__ import annotations

from typing import Any

from fastapi.security import APIKeyHeader, HTTPBearer
from starlette.requests import Request

from callsheet.fleet.protocol.application import Caller, Operation, documented, protocol_application
from callsheet.fleet.protocol.envelope import Envelope
from callsheet.fleet.protocol.routes import JobOperations
from callsheet.fleet.protocol.worker_protocol import WorkerProtocol
from callsheet.fleet.registry.credentials import Credential, Credentials
from callsheet.fleet.registry.registration_routes import SessionOperations
from callsheet.fleet.room import FleetRoom
from callsheet.identity.access.authentication import Authentication
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
)

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
