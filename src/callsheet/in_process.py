"""The task worker inside a control plane: the same worker as on any other machine, without the way over HTTP.

It registers like the others, so that it is seen, counted and drained like them.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import asyncpg
from pydantic import BaseModel, ValidationError
from starlette.types import Message

from callsheet.fleet.authentication import WorkerAuthentication
from callsheet.fleet.credentials import OWN
from callsheet.fleet.protocol import WorkerProtocol
from callsheet.fleet.registry import OWN_PREFIX, Registry
from callsheet.jobs.outcomes import StartedLease
from callsheet.plumbing.problems import STATUS_OF_CODE, UNAVAILABLE
from callsheet.providers.actor import Actor
from callsheet.toolbox.logs import get_logger
from callsheet.toolbox.retry import backoff_seconds
from callsheet.wire.errors import InvalidRequest, NotAuthenticated, RateLimited, Refusal
from callsheet.wire.fleet import RegisterRequest
from callsheet.wire.worker import (
    CompleteRequest,
    DeferRequest,
    FailRequest,
    HeartbeatAnswer,
    HeartbeatRequest,
    PollAnswer,
    PollRequest,
    RequeueRequest,
)
from callsheet.worker.departure import Departure
from callsheet.worker.own_folder import own_folder, remove_left_over
from callsheet.worker.plane import Refused, Unreachable
from callsheet.worker.task_agent import TaskAgent, TaskConfig

log = get_logger(__name__)

Said = TypeVar("Said")
Request = TypeVar("Request", bound=BaseModel)
# The database is beside us, or all requests fail with it.
RETRY_BASE_SECONDS, RETRY_CAP_SECONDS = 0.2, 5.0
RANDOM = Random()  # noqa: S311 - spreads load, guards nothing


@dataclass(slots=True)
class InProcessPlane:
    """`worker.plane.Plane`, served by the same code as the routes of the protocol."""

    worker_id: str
    workflow_slugs: Sequence[str]
    providers: Sequence[str]
    max_concurrency: int
    registry: Registry
    authentication: WorkerAuthentication
    protocol: WorkerProtocol
    # Largest request, as for all other workers.
    most_bytes: int
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
        registered = await _answered(self.registry.register(request, OWN))
        self._header = f"Bearer {registered.token}"
        return self._header

    async def poll(self, request: PollRequest) -> PollAnswer:
        return await self._entered(lambda header: self.protocol.polls.answer(header, request, _stays))

    async def heartbeat(self, request: dict[str, Any]) -> HeartbeatAnswer:
        said = self._read(HeartbeatRequest, request)
        return await self._entered(lambda header: self._heartbeat(header, said))

    async def report(self, kind: str, body: dict[str, Any]) -> str:
        return await self._entered(lambda header: self._report(header, kind, body))

    async def leave(self, reason: str) -> None:
        # What is still under way does not register it once more.
        header, self._header, self._has_left = self._header, None, True
        try:
            await _answered(self._deregister(header, reason))
        except (Unreachable, Refused) as error:
            log.warning("worker.deregister_failed", reason=str(error))

    def pause(self, failures: int, error: Exception | None = None) -> float:
        return backoff_seconds(failures, RETRY_BASE_SECONDS, RETRY_CAP_SECONDS, RANDOM)

    async def _entered(self, ask: Callable[[str], Awaitable[Said]]) -> Said:
        header = await self._registered()
        try:
            return await _answered(ask(header))
        except Refused as refused:
            if refused.status != STATUS_OF_CODE[NotAuthenticated.code]:
                raise
        # Removed as stale while the database or this process stood still.
        return await _answered(ask(await self._registered(instead_of=header)))

    async def _registered(self, instead_of: str | None = None) -> str:
        """Of several that find out that it is not, one registers."""
        if self._header is not None and self._header != instead_of:
            return self._header
        async with self._entering:
            if self._has_left:
                raise Unreachable("it has left")
            if self._header is None or self._header == instead_of:
                # Until it is again, nothing is leased to it: an admin may have revoked it.
                self._header = None
                return await self._enter()
            return self._header

    def _read(self, model: type[Request], body: Mapping[str, Any]) -> Request:
        """As if it came over the wire: actors answer whatever they like."""
        try:
            content = json.dumps(body, allow_nan=False)
            if len(content) > self.most_bytes:
                raise Refused(413, "body_too_large", f"It is larger than {self.most_bytes} bytes.")
            return model.model_validate_json(content)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            reason = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        except (TypeError, ValueError, RecursionError) as error:
            reason = f"The message is not valid JSON: {error}"
        raise Refused(STATUS_OF_CODE[InvalidRequest.code], InvalidRequest.code, reason)

    async def _heartbeat(self, header: str, request: HeartbeatRequest) -> HeartbeatAnswer:
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


async def _answered(asking: Awaitable[Said]) -> Said:
    """With the errors that a worker knows."""
    try:
        return await asking
    except RateLimited as busy:
        raise Unreachable(str(busy), busy.retry_after_seconds) from None
    except Refusal as refusal:
        raise Refused(STATUS_OF_CODE[refusal.code], refusal.code, str(refusal)) from None
    except (*UNAVAILABLE, asyncpg.PostgresError) as error:
        raise Unreachable(repr(error)) from error


async def _stays() -> Message:
    """A client that never leaves: what ends the wait is the end of the process."""
    return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]


class TaskRunner:
    """Keeps the worker running for as long as the control plane does; runs what was leased to it directly."""

    def __init__(self, plane: InProcessPlane, actors: Mapping[str, Actor], directory: Path, heartbeat_seconds: float):
        self._plane = plane
        self._actors = actors
        self._config = TaskConfig(
            directory=directory / plane.worker_id,
            providers=tuple(plane.providers),
            max_concurrency=plane.max_concurrency,
            # A waiting poll costs nothing but itself here, and each slot its own lets them share statements.
            polls_at_once=plane.max_concurrency,
            heartbeat_seconds=heartbeat_seconds,
        )
        self._agent: TaskAgent | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()

    @property
    def worker_id(self) -> str:
        return self._plane.worker_id

    @property
    def is_ready(self) -> bool:
        return self._agent is not None and self._plane.is_registered and self._agent.takes_tasks

    def start(self) -> None:
        self._keeping = asyncio.create_task(self._kept())

    def run(self, started: StartedLease) -> asyncio.Task[None]:
        """A task whose dispatch was born leased to this worker."""
        assert self._agent is not None, "not ready"
        job = self._plane.protocol.deliveries.job(started, started.lease.lease_seconds)
        return self._agent.start_now(job)

    async def stop(self, seconds: float) -> None:
        self._stopping.set()
        if self._agent is not None:
            self._agent.departure.begin("the control plane stops", seconds)
        if self._keeping is not None:
            await asyncio.gather(self._keeping, return_exceptions=True)

    async def _kept(self) -> None:
        folder = self._config.directory
        with own_folder(folder):
            # It may contain a gigabyte of a user's video.
            for name in await asyncio.to_thread(remove_left_over, folder.parent):
                log.info("tasks.left_over_removed", worker_id=name)
            await self._keep()

    async def _keep(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            self._agent = TaskAgent(self._config, self._plane, self._actors, Departure())
            try:
                await self._agent.run()
                return
            except (Unreachable, Refused) as error:
                failures += 1
                log.warning("tasks.not_running", reason=str(error), failures=failures)
            except Exception:  # whatever it was, the tasks of this control plane must not wait for its next start
                failures += 1
                log.exception("tasks.not_running", failures=failures)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._plane.pause(failures)):
                    await self._stopping.wait()


def runner_name() -> str:
    """New for every process: the one before may not have said goodbye."""
    host = "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in socket.gethostname())
    return f"{OWN_PREFIX}{host[:100]}:{secrets.token_hex(4)}"
