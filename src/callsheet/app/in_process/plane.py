"""The worker protocol without HTTP, for the worker inside a control plane."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

import asyncpg
from pydantic import BaseModel, ValidationError
from starlette.types import Message

from callsheet.fleet.protocol.authentication import WorkerAuthentication
from callsheet.fleet.protocol.worker_protocol import WorkerProtocol
from callsheet.fleet.registry.credentials import OWN
from callsheet.fleet.registry.registry import WorkerRegistry
from callsheet.plumbing.http.problems import STATUS_OF_CODE, UNAVAILABLE
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.outages import backoff_seconds
from callsheet.wire.errors import InvalidRequest, NotAuthenticated, RateLimited, Refusal
from callsheet.wire.fleet import RegisterRequest
from callsheet.wire.plurals import counted
from callsheet.wire.reasons import reason_of
from callsheet.wire.worker.protocol import (
    CompleteRequest,
    DeferRequest,
    FailRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    PollRequest,
    PollResponse,
    RequeueRequest,
)
from callsheet.worker.agent.plane import RefusedRequest, Unreachable

log = get_logger(__name__)

Result = TypeVar("Result")
Request = TypeVar("Request", bound=BaseModel)
# These are shorter than over HTTP, because only the database can be unreachable.
RETRY_BASE_SECONDS, RETRY_CAP_SECONDS = 0.2, 5.0
RANDOM = Random()  # noqa: S311 - spreads load, guards nothing


@dataclass(slots=True)
class InProcessPlane:
    """An implementation of `worker.plane.Plane`, with the same code as the routes of the protocol."""

    worker_id: str
    workflow_slugs: Sequence[str]
    providers: Sequence[str]
    max_concurrency: int
    registry: WorkerRegistry
    authentication: WorkerAuthentication
    protocol: WorkerProtocol
    # Maximum size of a request, as for all other workers.
    max_bytes: int
    _header: str | None = None
    _has_left: bool = False
    _entering: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def is_registered(self) -> bool:
        return self._header is not None

    async def enter(self) -> None:
        self._has_left = False
        await self._enter()

    async def _enter(self) -> str:
        request = RegisterRequest(
            worker_id=self.worker_id,
            display_name="control plane",
            max_concurrency=self.max_concurrency,
            providers=list(self.providers),
            workflow_slugs=list(self.workflow_slugs),
        )
        registered = await _with_worker_errors(self.registry.register(request, OWN))
        self._header = f"Bearer {registered.token}"
        return self._header

    async def poll(self, request: PollRequest) -> PollResponse:
        return await self._entered(lambda header: self.protocol.polls.response(header, request, _stays))

    async def heartbeat(self, request: dict[str, Any]) -> HeartbeatResponse:
        heartbeat = self._read(HeartbeatRequest, request)
        return await self._entered(lambda header: self._heartbeat(header, heartbeat))

    async def report(self, kind: str, body: dict[str, Any]) -> str:
        return await self._entered(lambda header: self._report(header, kind, body))

    async def leave(self, reason: str) -> None:
        # Calls that are still running must not register the worker again.
        header, self._header, self._has_left = self._header, None, True
        try:
            await _with_worker_errors(self._deregister(header, reason))
        except (Unreachable, RefusedRequest) as error:
            log.warning("worker.deregister_failed", reason=str(error))

    def pause(self, failures: int, error: Exception | None = None) -> float:
        return backoff_seconds(failures, RETRY_BASE_SECONDS, RETRY_CAP_SECONDS, RANDOM)

    async def _entered(self, ask: Callable[[str], Awaitable[Result]]) -> Result:
        header = await self._registered()
        try:
            return await _with_worker_errors(ask(header))
        except RefusedRequest as refused:
            if refused.status != STATUS_OF_CODE[NotAuthenticated.code]:
                raise
        # The worker was removed as stale while the database or this process did not respond.
        return await _with_worker_errors(ask(await self._registered(instead_of=header)))

    async def _registered(self, instead_of: str | None = None) -> str:
        """The Authorization header. If several concurrent calls find no registration, one of them registers."""
        if self._header is not None and self._header != instead_of:
            return self._header
        async with self._entering:
            if self._has_left:
                raise Unreachable("The worker has deregistered.")
            if self._header is None or self._header == instead_of:
                # Nothing is leased to the worker until it is registered again: an admin may have revoked it.
                self._header = None
                return await self._enter()
            return self._header

    def _read(self, model: type[Request], body: Mapping[str, Any]) -> Request:
        """Checks the message as if it came over HTTP, because it contains values that actors return."""
        try:
            content = json.dumps(body, allow_nan=False)
            if len(content) > self.max_bytes:
                raise RefusedRequest(
                    413, "body_too_large", f"The message is larger than {counted(self.max_bytes, 'byte')}."
                )
            return model.model_validate_json(content)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            reason = f"{'.'.join(map(str, first['loc']))}: {reason_of(first)}"
        except (TypeError, ValueError, RecursionError) as error:
            reason = f"The message is not valid JSON: {error}"
        raise RefusedRequest(STATUS_OF_CODE[InvalidRequest.code], InvalidRequest.code, reason)

    async def _heartbeat(self, header: str, request: HeartbeatRequest) -> HeartbeatResponse:
        return await self.protocol.reports.heartbeat(await self.authentication.of(header), request)

    async def _report(self, header: str, kind: str, body: Mapping[str, Any]) -> str:
        worker, reports = await self.authentication.of(header), self.protocol.reports
        match kind:
            case "complete":
                return (await reports.complete(worker, self._read(CompleteRequest, body))).status
            case "fail":
                return (await reports.fail(worker, self._read(FailRequest, body))).status
            case "defer":
                return (await reports.defer(worker, self._read(DeferRequest, body))).status
            case _:
                return (await reports.requeue(worker, self._read(RequeueRequest, body))).status

    async def _deregister(self, header: str | None, reason: str) -> None:
        await self.registry.deregister(await self.authentication.of(header), reason)


async def _with_worker_errors(call: Awaitable[Result]) -> Result:
    """Raises the errors that a worker handles, in place of those of the control plane."""
    try:
        return await call
    except RateLimited as busy:
        raise Unreachable(str(busy), busy.retry_after_seconds) from None
    except Refusal as refusal:
        raise RefusedRequest(STATUS_OF_CODE[refusal.code], refusal.code, str(refusal)) from None
    except (*UNAVAILABLE, asyncpg.PostgresError) as error:
        raise Unreachable(repr(error)) from error


async def _stays() -> Message:
    """The `receive` of a client that never disconnects: only the end of the process ends its wait."""
    return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]
