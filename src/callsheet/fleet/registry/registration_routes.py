"""The operations of the worker protocol that begin and end a session: register, environment and deregister."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request

from callsheet.fleet.protocol.authentication import WorkerAuthentication
from callsheet.fleet.registry.credentials import Credential
from callsheet.fleet.registry.registry import WorkerRegistry
from callsheet.wire.fleet import DeregisterRequest, RegisterRequest, RegisterResponse
from callsheet.wire.worker.environment import Environment, EnvironmentResponse


class SessionOperations:
    """The operations for sessions. `credential_of`: the credential of a registration, or a refusal."""

    def __init__(
        self,
        registry: WorkerRegistry,
        authentication: WorkerAuthentication,
        credential_of: Callable[[Request], Awaitable[Credential]],
    ):
        self._registry = registry
        self._authentication = authentication
        self._credential_of = credential_of

    async def register_worker(self, body: RegisterRequest, request: Request) -> RegisterResponse:
        """Registers a worker for a fleet or for workflows. Only this response shows the worker's token."""
        return await self._registry.register(body, await self._credential_of(request))

    async def report_environment(self, body: Environment, request: Request) -> EnvironmentResponse:
        """Replaces the worker's report about its engines, for example after an engine was restarted."""
        worker = await self._authentication.of_request(request)
        return EnvironmentResponse(cannot_run=await self._registry.report_environment(worker, body))

    async def deregister_worker(self, body: DeregisterRequest | None, request: Request) -> None:
        """Ends the worker's session. Its jobs are requeued, which does not count as an attempt."""
        worker = await self._authentication.of_request(request)
        await self._registry.deregister(worker, body.reason if body else None)
