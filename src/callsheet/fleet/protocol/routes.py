"""What the operations of the worker protocol do, from poll to report."""

from __future__ import annotations

from typing import TypeVar

from starlette.requests import Request

from callsheet.fleet.protocol.authentication import WorkerAuthentication
from callsheet.fleet.protocol.client_disconnects import ClientDisconnected
from callsheet.fleet.protocol.polls import WorkerPolls
from callsheet.fleet.protocol.principal import WorkerPrincipal
from callsheet.fleet.protocol.reports import WorkerReports
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


class JobOperations:
    """The operations for jobs."""

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
