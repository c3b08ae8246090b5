"""Polls of workers: checks whether the worker may get a job, waits for one, and hands it over."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from starlette.types import Receive

from callsheet.catalog.engines.models_to_load import Warmth
from callsheet.dispatch.facts import Criteria
from callsheet.fleet.protocol.authentication import LeaseOfWorker, WorkerAuthentication, WorkerPrincipal, token_in
from callsheet.fleet.protocol.deliveries import Deliveries, Undeliverable
from callsheet.fleet.protocol.poll_reports import PollReports
from callsheet.fleet.protocol.source_design import registered_providers
from callsheet.fleet.protocol.unnamed_leases import CONFIRM_SECONDS, UnnamedLeases, unnamed
from callsheet.fleet.registry.worker_log import Audit, Event
from callsheet.jobs.lease.long_poll import LongPoll
from callsheet.jobs.lease.outcomes import Failure, LeaseReport, StartedLease
from callsheet.jobs.lease.provider_gate import PAUSED, ProviderGate, ProviderPaused
from callsheet.jobs.lease.start import NOT_TAKEN
from callsheet.jobs.room import JobsRoom
from callsheet.plumbing.http.long_requests import unless_client_disconnects
from callsheet.toolbox.logs import get_logger
from callsheet.wire.errors import NotFound, RateLimited, RatePolicy
from callsheet.wire.worker.errors import LeaseLost
from callsheet.wire.worker.protocol import PollRequest, PollResponse, max_leases

log = get_logger(__name__)

Reason = Literal["draining", "at_capacity", "not_approved", "no_workflows", "empty"]
# Returns whether more jobs are queued than live workers can take. Called only if a worker requests a job beyond its
# capacity.
HasSpareWork = Callable[[Criteria], Awaitable[bool]]

# Maximum number of open polls per worker. A worker needs one poll, or one per slot. Each waiting poll costs memory and
# a waiter entry.
MAX_AT_ONCE = 100
# A worker that waited longer may have been revoked, reassigned or given another job meanwhile.
TRUSTED_SECONDS = 0.1


@dataclass(slots=True, eq=False)
class _OpenPoll:
    """An open poll, and whether another poll of the same worker was open at the same time."""

    since: float
    is_alone: bool
    poll_id: str | None
    over: asyncio.Event = field(default_factory=asyncio.Event)
    worker_id: str = ""
    criteria: Criteria | None = None
    # The worker was drained, was assigned other workflows, or polled again with the same poll id.
    is_outdated: bool = False


class WorkerPolls:
    def __init__(
        self,
        authentication: WorkerAuthentication,
        room: JobsRoom,
        deliveries: Deliveries,
        audit: Audit,
        has_spare_work: HasSpareWork,
        warmth: Warmth,
        reports: PollReports,
        unnamed_leases: UnnamedLeases,
        gate: ProviderGate,
    ):
        self._authentication = authentication
        self._room = room
        self._deliveries = deliveries
        self._audit = audit
        self._has_spare_work = has_spare_work
        self._warmth = warmth
        self._reports = reports
        self._unnamed = unnamed_leases
        self._gate = gate
        self._long_poll = LongPoll(room.starter, room.dispatch.waiters, self._gate)
        # Open polls, by token. A client that gave up and polls again may have two.
        self._open_polls: dict[str | None, list[_OpenPoll]] = {}

    async def response(self, header: str | None, request: PollRequest, receive: Receive) -> PollResponse:
        token = token_in(header)
        polls_of_token = self._open_polls.setdefault(token, [])
        if len(polls_of_token) >= MAX_AT_ONCE:
            raise RateLimited(1, RatePolicy("polls", MAX_AT_ONCE, None))
        open_poll = _OpenPoll(time.monotonic(), is_alone=not polls_of_token, poll_id=request.poll_id)
        predecessors = [
            other for other in polls_of_token if other.poll_id is not None and other.poll_id == open_poll.poll_id
        ]
        for other in polls_of_token:
            other.is_alone = False
        polls_of_token.append(open_poll)
        try:
            await self._end(predecessors)
            return await self._response(header, request, receive, open_poll)
        finally:
            open_poll.over.set()
            polls_of_token.remove(open_poll)
            if not polls_of_token:
                self._open_polls.pop(token, None)

    def reassigned(self, worker_id: str | None) -> None:
        """Handles the notification that the worker was drained or assigned other workflows. If a notification is
        lost, the next poll sees the change, within a minute. Until then a drained worker gets no lease either.

        None: the connection to central was lost, perhaps with its last changes. All workers poll again and name
        their leases.
        """
        for open_poll in [each for polls in self._open_polls.values() for each in polls]:
            if open_poll.criteria is not None and worker_id in (None, open_poll.worker_id):
                self._outdate(open_poll)

    async def _end(self, predecessors: Sequence[_OpenPoll]) -> None:
        """Ends earlier polls with the same poll id, whose responses the worker no longer reads, and waits for them.
        A lease that an earlier poll got is then among the worker's leases and is repeated. A lease that it got later
        would be lost until `UnnamedLeases` finds it."""
        for each in predecessors:
            self._outdate(each)
        for each in predecessors:
            await each.over.wait()

    def _outdate(self, open_poll: _OpenPoll) -> None:
        open_poll.is_outdated = True
        if open_poll.criteria is not None:
            self._room.dispatch.waiters.wake_all(open_poll.criteria)

    async def _response(
        self, header: str | None, request: PollRequest, receive: Receive, open_poll: _OpenPoll
    ) -> PollResponse:
        worker = await self._authentication.of(header, for_poll=True)
        self._reports.record(worker, request)
        if capacity(worker, request) != worker.max_concurrency:
            await self._authentication.set_concurrency(worker, capacity(worker, request))
        held: Sequence[LeaseOfWorker] = worker.held
        if held:
            repeated = await self._repeat(worker, request)
            if repeated is not None:
                return _response(worker, repeated)
            held = await self._unnamed.requeue(worker, held, request.active_leases)
        criteria = criteria_of(worker, request)
        reason = await self._reason_against(worker, request, criteria, len(held))
        if reason is not None:
            return _response(worker, reason)
        open_poll.worker_id, open_poll.criteria = worker.worker_id, criteria
        # Only workflows that the worker may run anyway: loaded models do not give access to other queues.
        loaded = request.loaded_models
        cold = await self._warmth.cold(criteria.workflow_ids, loaded) if loaded else None
        until = open_poll.since + wait_of(request, held)
        while True:
            wait = max(0.0, until - time.monotonic())
            finding = self._long_poll.next_job(
                criteria, worker.worker_id, wait, request.poll_id, lambda: open_poll.is_outdated, cold
            )
            started = await (unless_client_disconnects(receive, finding, self._return_lease) if wait else finding)
            if started is None:
                return await self._response_without_job(header, worker, request, open_poll)
            try:
                return await self._hand_over_if_allowed(header, worker, request, started, open_poll)
            except Undeliverable as why:
                await self._fail(worker, started, why)
            except ProviderPaused as paused:
                # The gate has recorded the pause, so the next attempt skips the provider, or finds the job delayed.
                await asyncio.shield(self._return_lease(started, PAUSED, paused.delay_seconds))
            except (Exception, asyncio.CancelledError):
                await asyncio.shield(self._return_lease(started))
                raise

    async def _response_without_job(
        self, header: str | None, worker: WorkerPrincipal, request: PollRequest, open_poll: _OpenPoll
    ) -> PollResponse:
        if not open_poll.is_outdated:
            return _response(worker, "empty")
        self._room.dispatch.waiters.wake_instead(criteria_of(worker, request))
        worker = await self._authentication.of(header, for_poll=True)
        return _response(worker, reason_against(worker, criteria_of(worker, request)) or "empty")

    async def _hand_over_if_allowed(
        self,
        header: str | None,
        worker: WorkerPrincipal,
        request: PollRequest,
        started: StartedLease,
        open_poll: _OpenPoll,
    ) -> PollResponse:
        if not open_poll.is_alone or time.monotonic() - open_poll.since > TRUSTED_SECONDS:
            worker = await self._authentication.of(header, for_poll=True)
            reason = reason_after_wait(worker, request, started)
            if reason is not None:
                await self._room.starter.return_lease(started)
                return _response(worker, reason)
        return _response(worker, await self._hand_over(worker, started, started.lease.lease_seconds, "leased"))

    async def _hand_over(
        self, worker: WorkerPrincipal, started: StartedLease, ttl_seconds: float, event: str
    ) -> PollResponse:
        provider = started.lease.provider
        callback = await self._gate.admit(started.lease) if self._gate.concerns(provider) else None
        response = PollResponse(job=self._deliveries.job(started, ttl_seconds, callback))
        await self._audit.note(
            Event(worker.worker_id, worker.session_id, event, worker.actor, started.lease.dispatch_id)
        )
        return response

    async def _repeat(self, worker: WorkerPrincipal, request: PollRequest) -> PollResponse | None:
        """Returns the lease that the same poll got before, with fresh URLs, because its response did not arrive."""
        held = leased_by_poll(worker.held, request.poll_id)
        if held is None:
            return None
        try:
            started = await self._room.starter.repeat(held.dispatch_id, held.lease_token, worker.worker_id)
        except (LeaseLost, NotFound):
            return None
        if started is None:
            return None
        try:
            return await self._hand_over(worker, started, max(1.0, held.left_seconds), "lease_repeated")
        except Undeliverable as why:
            await self._fail(worker, started, why)
        except ProviderPaused as paused:
            await asyncio.shield(self._return_lease(started, PAUSED, paused.delay_seconds))
        return None

    async def _reason_against(
        self, worker: WorkerPrincipal, request: PollRequest, criteria: Criteria, held: int
    ) -> Reason | None:
        reason = reason_against(worker, criteria)
        if reason is not None:
            return reason
        holds, slots = load(request, held), capacity(worker, request)
        if holds < slots:
            return None
        may_prefetch = holds < max_leases(slots, prefetch=bool(request.prefetch))
        return None if may_prefetch and await self._has_spare_work(criteria) else "at_capacity"

    async def _fail(self, worker: WorkerPrincipal, started: StartedLease, why: Undeliverable) -> None:
        lease = started.lease
        log.error("job.undeliverable", job_id=str(lease.job_id), reason=str(why))
        failure = Failure("undeliverable", "The files of the job cannot be sent to a worker.", {"reason": str(why)})
        await self._room.leases.fail(LeaseReport(lease.dispatch_id, lease.lease_token, lease.worker_id), failure)
        line = Event(worker.worker_id, worker.session_id, "undeliverable", "system", lease.dispatch_id)
        await self._audit.note(line)

    async def _return_lease(
        self, started: StartedLease | None, reason: str = NOT_TAKEN, delay_seconds: float = 0.0
    ) -> None:
        if started is None:
            return
        try:
            await self._room.starter.return_lease(started, reason, delay_seconds=delay_seconds)
        except (LeaseLost, NotFound):
            return  # Another process has the job already.


def criteria_of(worker: WorkerPrincipal, request: PollRequest) -> Criteria:
    """The jobs that a poll may get (G4): of the worker's assigned workflows, its stage and its providers. A poll can
    only narrow the registration.
    """
    if request.providers is None:
        return Criteria(worker.workflow_ids, worker.stage, worker.providers)
    providers = tuple(sorted(set(request.providers).intersection(registered_providers(worker))))
    return Criteria(worker.workflow_ids, worker.stage, providers)


def reason_against(worker: WorkerPrincipal, criteria: Criteria) -> Reason | None:
    """Why this worker gets no job, independent of its load."""
    if worker.is_draining:
        return "draining"
    if not worker.is_approved:
        return "not_approved"
    if not criteria.workflow_ids:
        return "no_workflows"
    return None


def reason_after_wait(worker: WorkerPrincipal, request: PollRequest, started: StartedLease) -> Reason | None:
    """Why a worker does not get the job that was leased while it waited. A drain is not a reason: no lease follows a
    drain, so this lease is older than the drain.
    """
    reason = reason_against(worker._replace(is_draining=False), criteria_of(worker, request))
    if reason is None and started.lease.workflow_id not in worker.workflow_ids:
        return "no_workflows"
    max_held = max_leases(capacity(worker, request), prefetch=bool(request.prefetch))
    if reason is None and _held_before(worker.held, started) >= max_held:
        return "at_capacity"
    return reason


def _held_before(held: Sequence[LeaseOfWorker], started: StartedLease) -> int:
    """Number of older leases of the worker. If two concurrent polls both got a job, the older lease stays."""
    ages = {lease.lease_token: (lease.leased_seconds_ago, lease.dispatch_id) for lease in held}
    own = ages.pop(started.lease.lease_token, (-math.inf, 0))
    return sum(age > own for age in ages.values())


def wait_of(request: PollRequest, held: Sequence[LeaseOfWorker]) -> float:
    """How long the poll waits for a job. While a lease is not named, the worker polls again soon: its next poll decides
    whether it has the lease.
    """
    wait = request.wait_seconds or 0.0
    return min(wait, CONFIRM_SECONDS) if unnamed(held, request.active_leases) else wait


def load(request: PollRequest, held: int) -> int:
    """The leases in the queue or the load that the worker reports, whichever is greater."""
    return max(held, request.current_load or 0)


def capacity(worker: WorkerPrincipal, request: PollRequest) -> int:
    """How many jobs the worker runs at once now: never more than it registered with."""
    registered = worker.registered_concurrency or worker.max_concurrency
    return min(request.max_concurrency or registered, registered)


def leased_by_poll(held: Sequence[LeaseOfWorker], poll_id: str | None) -> LeaseOfWorker | None:
    return None if poll_id is None else next((lease for lease in held if lease.poll_id == poll_id), None)


def _response(worker: WorkerPrincipal, what: PollResponse | Reason) -> PollResponse:
    response = what if isinstance(what, PollResponse) else PollResponse(job=None, reason=what)
    return response.model_copy(update={"rotated_token": worker.rotated_token}) if worker.rotated_token else response
