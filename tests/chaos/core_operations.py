"""All operations on the core: how each is done, its effect in the model, and where it can crash."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, TypeVar
from uuid import UUID

from callsheet.dispatch.facts import Criteria, LeaseExtension
from callsheet.identity.accounts.tenant_pools import set_payer
from callsheet.jobs.lease.outcomes import ReportOutcome, StartedLease
from callsheet.jobs.submit.active_limits import CountedAs
from callsheet.jobs.submit.new_jobs import NewJob, NewTask
from callsheet.jobs.submit.submission import SubmittedJob
from callsheet.plumbing.failpoints import Failpoint
from callsheet.toolbox.ids import uuid7
from callsheet.wire.errors import (
    IdempotencyKeyReused,
    InsufficientTokens,
    InvalidTransition,
    NotFound,
    TooManyActiveJobs,
)
from callsheet.wire.jobs import Job
from callsheet.wire.worker.errors import LeaseLost
from tests.chaos import core_model as model
from tests.chaos.core_state import DispatchKey, JobKey, JobState, State, UserKey
from tests.support.jobs.core import Core, Member, output_of, report

Item = TypeVar("Item")
CAP = 4
IDENTIFIER = "gpu"
next_job_id: ContextVar[UUID] = ContextVar("next_job_id")


@dataclass(slots=True)
class World:
    """What people and workers outside the core know."""

    members: list[Member]
    workflows: list[int]
    # The client got a response for these jobs: they must never be lost.
    jobs: list[JobKey] = field(default_factory=list)
    keys: dict[tuple[UserKey, str], tuple[JobKey, int]] = field(default_factory=dict)
    payments: dict[tuple[UserKey, str], int] = field(default_factory=dict)
    leases: list[StartedLease] = field(default_factory=list)
    # The n-th submit of each pool gives the n-th id, so that the same ids live in both.
    ids: list[UUID] = field(default_factory=list)
    numbers: dict[str, itertools.count[int]] = field(default_factory=dict)

    def new_id(self, pool: str) -> UUID:
        number = next(self.numbers.setdefault(pool, itertools.count()))
        while len(self.ids) <= number:
            self.ids.append(uuid7())
        return self.ids[number]

    def acknowledge(self, key: JobKey) -> None:
        if key not in self.jobs:
            self.jobs.append(key)


def newest(items: list[Item], index: int) -> Item | None:
    return items[-1 - index % len(items)] if items else None


class Operation(ABC):
    points: ClassVar[tuple[Failpoint, ...]] = ()

    @abstractmethod
    async def run(self, core: Core, world: World) -> object:
        """Does it; refusals are raised."""

    @abstractmethod
    def predict(self, state: State, world: World, response: object) -> None:
        """Changes the state as the model does, and checks the response (a refusal is a response)."""


@dataclass(frozen=True)
class Credit(Operation):
    member: int
    amount: int
    payment: int | None = None
    # To the wallet of the member's tenant.
    of_tenant: bool = False

    async def run(self, core: Core, world: World) -> object:
        # A payment that is repeated is the same payment, with the same amount.
        name = None if self.payment is None else f"{self.payment} of {self.member}, {self.of_tenant}: {self.amount}"
        return await core.credit(self._owner(world), self.amount, name)

    def _owner(self, world: World) -> Member:
        member = world.members[self.member]
        return member.tenant if self.of_tenant else member

    def predict(self, state: State, world: World, response: object) -> None:
        user = _user(self._owner(world))
        known = (user, f"{self.payment}-{self.amount}")
        if self.payment is None or known not in world.payments:
            state.balances[user] = state.balances.get(user, 0) + self.amount
        world.payments[known] = self.amount
        assert response == state.balances[user]


@dataclass(frozen=True)
class SetPayer(Operation):
    """From now on the tenant pays for its users, or each user again."""

    member: int
    is_tenant: bool

    async def run(self, core: Core, world: World) -> object:
        member = world.members[self.member]
        return await set_payer(member.pool, member.tenant_id, is_tenant=self.is_tenant)

    def predict(self, state: State, world: World, response: object) -> None:
        tenant_id = world.members[self.member].tenant_id
        assert response == ((tenant_id in state.paying) != self.is_tenant)
        if self.is_tenant:
            state.paying.add(tenant_id)
        else:
            state.paying.discard(tenant_id)


@dataclass(frozen=True)
class Submit(Operation):
    member: int
    cost: int = 3
    workflow: int = 0
    provider: str = "self_hosted"
    identifier: str = ""
    priority: int = 0
    max_attempts: int = 2
    key: str | None = None
    # `effect` works on a video; others are tasks of the actor of this name.
    kind: str = "effect"
    points = (Failpoint.SUBMIT_BEFORE_RELAY, Failpoint.RELAY_BEFORE_QUEUED)

    async def run(self, core: Core, world: World) -> object:
        submitted = await core.room.submission.submit(await self._new_job(core, world))
        self._remember(world, submitted)
        return submitted

    async def _new_job(self, core: Core, world: World) -> NewJob:
        member = world.members[self.member]
        next_job_id.set(world.new_id(member.pool.name))
        kind: dict[str, Any] = {"kind": self.kind}
        if self.kind == "effect":
            video_id, file_id = await core.video(member)
            kind |= {"video_id": video_id, "input_file_ids": (file_id,)}
        else:
            kind |= {"task": NewTask(self.kind), "lease_seconds": 30}
        return core.new_job(
            member,
            cost=self.cost,
            workflow_id=world.workflows[self.workflow],
            provider=self.provider,
            concurrency_identifier=self.identifier,
            priority=self.priority,
            max_attempts=self.max_attempts,
            idempotency_key=self.key,
            **kind,
        )

    def _remember(self, world: World, submitted: SubmittedJob) -> None:
        member = world.members[self.member]
        key = (member.tenant_id, submitted.job.id)
        world.acknowledge(key)
        if self.key is not None:
            known = world.keys.setdefault((_user(member), self.key), (key, hash(self)))
            assert known == (key, hash(self)), "G5: one key, two jobs"

    def predict(self, state: State, world: World, response: object) -> None:
        user = _user(world.members[self.member])
        if isinstance(response, SubmittedJob) and response.replayed:
            assert (user[0], response.job.id) in state.jobs
        elif isinstance(response, SubmittedJob):
            assert state.balances[state.payer(user)] >= self.cost
            assert state.active_jobs(user, self.counted) < CAP
            route = (world.workflows[self.workflow], self.provider, self.identifier, self.priority)
            job = JobState(user[1], "pending", 1, 0, self.cost, False, self.max_attempts, route, self.counted)
            job.paid_by_tenant = user[0] in state.paying
            self._accept(state, (user[0], response.job.id), job, response.job.status)
        elif isinstance(response, IdempotencyKeyReused):
            assert self.key is not None
        elif isinstance(response, InsufficientTokens):
            assert state.balances[state.payer(user)] < self.cost
        else:
            assert isinstance(response, TooManyActiveJobs)
            assert state.active_jobs(user, self.counted) >= CAP

    @property
    def counted(self) -> CountedAs:
        return CountedAs.JOBS if self.kind == "effect" else CountedAs.TYPED

    def _accept(self, state: State, key: JobKey, job: JobState, status: str) -> None:
        assert status == "queued"
        model.submit(state, key, job)


@dataclass(frozen=True)
class SubmitAtOnce(Submit):
    """A synchronous job: born leased to the control plane that took it, or queued where its limit is reached."""

    kind: str = "copy"
    points = (
        Failpoint.SUBMIT_BEFORE_RELAY,
        Failpoint.LEASE_BEFORE_START,
        Failpoint.START_BEFORE_RESPONSE,
        Failpoint.RELAY_BEFORE_QUEUED,
    )

    async def run(self, core: Core, world: World) -> object:
        submitted, started = await core.room.synchronous.submit(await self._new_job(core, world), "plane")
        self._remember(world, submitted)
        if started is not None:
            world.leases.append(started)
            assert submitted.job.status == "processing"
        return submitted

    def predict(self, state: State, world: World, response: object) -> None:
        super().predict(state, world, response)
        if isinstance(response, SubmittedJob) and not response.replayed and response.job.status == "processing":
            lease = world.leases[-1].lease
            assert lease.job_id == response.job.id
            state.dispatches[lease.tenant_id, lease.job_id, lease.charge_cycle].token = lease.lease_token

    def _accept(self, state: State, key: JobKey, job: JobState, status: str) -> None:
        assert status == model.begin(state, key, job)


@dataclass(frozen=True)
class RelayTick(Operation):
    points = (Failpoint.RELAY_BEFORE_QUEUED, Failpoint.RELAY_BEFORE_CLOSED)

    async def run(self, core: Core, world: World) -> object:
        return await core.relay()

    def predict(self, state: State, world: World, response: object) -> None:
        model.relay(state)


@dataclass(frozen=True)
class TakeLease(Operation):
    worker: int
    workflows: tuple[int, ...] = (0, 1)
    providers: tuple[str, ...] = ("self_hosted", "cloud")
    points = (Failpoint.LEASE_BEFORE_START, Failpoint.START_BEFORE_RESPONSE, Failpoint.START_BEFORE_CLOSE)

    def criteria(self, world: World) -> Criteria:
        return Criteria(tuple(world.workflows[number] for number in self.workflows), providers=self.providers)

    async def run(self, core: Core, world: World) -> object:
        # As after a notification: what another control plane did may be known a moment later.
        core.queue.received(None)
        started = await core.lease(f"worker-{self.worker}", self.criteria(world))
        if started is not None:
            world.leases.append(started)
            assert self.criteria(world).matches(started.lease.workflow_id, "production", started.lease.provider), "G4"
        return started

    def predict(self, state: State, world: World, response: object) -> None:
        key = model.lease(state, self.criteria(world))
        if key is None:
            assert response is None
        else:
            assert isinstance(response, StartedLease)
            assert (response.lease.tenant_id, response.lease.job_id, response.lease.charge_cycle) == key
            state.dispatches[key].token = response.lease.lease_token


@dataclass(frozen=True)
class OnLease(Operation):
    """Something a worker says of a lease it got: the newest, or an older one that may long be over."""

    lease: int

    async def run(self, core: Core, world: World) -> object:
        started = newest(world.leases, self.lease)
        return None if started is None else await self.report(core, started)

    def predict(self, state: State, world: World, response: object) -> None:
        started = newest(world.leases, self.lease)
        if started is None:
            return
        key = (started.lease.tenant_id, started.lease.job_id, started.lease.charge_cycle)
        dispatch = state.dispatches.get(key)
        if dispatch is not None and dispatch.token == started.lease.lease_token:
            self.while_held(state, key, response)
        else:
            # G3: the state must be found as it was.
            assert isinstance(response, (LeaseLost, NotFound, ReportOutcome))

    @abstractmethod
    async def report(self, core: Core, started: StartedLease) -> object: ...

    @abstractmethod
    def while_held(self, state: State, key: DispatchKey, response: object) -> None: ...


@dataclass(frozen=True)
class Heartbeat(OnLease):
    async def report(self, core: Core, started: StartedLease) -> object:
        return await core.room.leases.heartbeat(report(started), run_started=True)

    def while_held(self, state: State, key: DispatchKey, response: object) -> None:
        assert isinstance(response, LeaseExtension)
        assert response.cancel_requested == state.dispatches[key].canceled
        state.dispatches[key].expired = False


@dataclass(frozen=True)
class Complete(OnLease):
    points = (Failpoint.COMPLETE_BEFORE_POOL, Failpoint.COMPLETE_BEFORE_CLOSE)

    async def report(self, core: Core, started: StartedLease) -> object:
        return await core.complete(started)

    def while_held(self, state: State, key: DispatchKey, response: object) -> None:
        assert response == ReportOutcome(key[1], model.end(state, key, "completed"))


@dataclass(frozen=True)
class Fail(OnLease):
    retryable: bool = False
    points = (Failpoint.FAIL_BEFORE_CLOSE, Failpoint.REQUEUE_BEFORE_POOL)

    async def report(self, core: Core, started: StartedLease) -> object:
        return await core.fail(started, retryable=self.retryable)

    def while_held(self, state: State, key: DispatchKey, response: object) -> None:
        dispatch = state.dispatches[key]
        if self.retryable and dispatch.attempts < dispatch.max_attempts and not dispatch.canceled:
            model.queue_again(state, key, attempt_counts=True, delay=True)
        else:
            assert response == ReportOutcome(key[1], model.end(state, key, "failed"))


@dataclass(frozen=True)
class Requeue(OnLease):
    points = (Failpoint.REQUEUE_BEFORE_POOL,)

    async def report(self, core: Core, started: StartedLease) -> object:
        return await core.room.leases.requeue(report(started), "spot notice")

    def while_held(self, state: State, key: DispatchKey, response: object) -> None:
        model.queue_again(state, key, attempt_counts=False, requeue=True)


@dataclass(frozen=True)
class Defer(OnLease):
    async def report(self, core: Core, started: StartedLease) -> object:
        return await core.room.leases.defer(report(started), "prediction", datetime.now(UTC) + timedelta(hours=1))

    def while_held(self, state: State, key: DispatchKey, response: object) -> None:
        model.defer(state, key)
        # No wait outlasts the deadline.
        state.dispatches[key].expired = state.dispatches[key].overdue


@dataclass(frozen=True)
class Callback(OnLease):
    points = (Failpoint.COMPLETE_BEFORE_CLOSE,)

    async def report(self, core: Core, started: StartedLease) -> object:
        lease = started.lease
        return await core.room.leases.complete_callback(
            lease.dispatch_id, lease.cycle, {"a": 1}, "provider", [output_of(started)]
        )

    def predict(self, state: State, world: World, response: object) -> None:
        started = newest(world.leases, self.lease)
        if started is None:
            return
        key = (started.lease.tenant_id, started.lease.job_id, started.lease.charge_cycle)
        assert isinstance(response, ReportOutcome)
        if key in state.dispatches and state.dispatches[key].status == "waiting":
            assert response.status == model.end(state, key, "completed")

    def while_held(self, state: State, key: DispatchKey, response: object) -> None:
        raise AssertionError("a callback knows no lease")


@dataclass(frozen=True)
class LetLeaseExpire(Operation):
    """The time of one lease or wait is over."""

    dispatch: int

    async def run(self, core: Core, world: World) -> object:
        query = "SELECT dispatch_id FROM ai_job_dispatches WHERE status <> 'queued' ORDER BY dispatch_id"
        row = newest(await core.rows(core.databases.central, query), self.dispatch)
        if row is not None:
            await core.expire_lease(row["dispatch_id"])
        return row

    def predict(self, state: State, world: World, response: object) -> None:
        for dispatch in state.dispatches.values():
            if response is not None and dispatch.dispatch_id == response["dispatch_id"]:  # type: ignore[index]
                dispatch.expired = True


@dataclass(frozen=True)
class Reap(Operation):
    points = (Failpoint.REQUEUE_BEFORE_POOL, Failpoint.REAP_BEFORE_CLOSE)

    async def run(self, core: Core, world: World) -> object:
        return await core.reap()

    def predict(self, state: State, world: World, response: object) -> None:
        model.reap(state)


@dataclass(frozen=True)
class OnJob(Operation):
    job: int

    async def run(self, core: Core, world: World) -> object:
        key = newest(world.jobs, self.job)
        return None if key is None else await self.do(core, key)

    def predict(self, state: State, world: World, response: object) -> None:
        key = newest(world.jobs, self.job)
        if key is not None:
            self.predict_job(state, key, response)

    @abstractmethod
    async def do(self, core: Core, key: JobKey) -> object: ...

    @abstractmethod
    def predict_job(self, state: State, key: JobKey, response: object) -> None: ...


@dataclass(frozen=True)
class Cancel(OnJob):
    points = (Failpoint.CANCEL_BEFORE_RELAY, Failpoint.RELAY_BEFORE_CLOSED)

    async def do(self, core: Core, key: JobKey) -> object:
        return await core.room.cancellation.cancel(*key, actor="user")

    def predict_job(self, state: State, key: JobKey, response: object) -> None:
        if state.jobs[key].active:
            model.cancel(state, key)
            assert isinstance(response, Job)
            assert response.status == "canceled"
        else:
            assert isinstance(response, InvalidTransition)


@dataclass(frozen=True)
class Retry(OnJob):
    points = (Failpoint.RETRY_BEFORE_RELAY, Failpoint.RELAY_BEFORE_QUEUED)

    async def do(self, core: Core, key: JobKey) -> object:
        return await core.room.retries.retry(*key, actor="user")

    def predict_job(self, state: State, key: JobKey, response: object) -> None:
        job = state.jobs[key]
        user = (key[0], job.user_id)
        if job.status not in ("failed", "expired"):
            assert isinstance(response, InvalidTransition)
        elif state.balances[state.payer(user)] < job.cost:
            assert isinstance(response, InsufficientTokens)
        elif state.active_jobs(user, job.counted) >= CAP:
            assert isinstance(response, TooManyActiveJobs)
        else:
            job.paid_by_tenant = key[0] in state.paying
            model.retry(state, key)
            assert isinstance(response, Job)
            assert (response.status, response.charge_cycle) == ("queued", job.cycle)


@dataclass(frozen=True)
class LetDeadlinePass(OnJob):
    async def do(self, core: Core, key: JobKey) -> object:
        pool = await core.room.routing.pool_of_tenant(key[0])
        past = "SET deadline_at = clock_timestamp() - interval '1 s' WHERE tenant_id = $1"
        [row] = await core.rows(pool, f"UPDATE ai_jobs {past} AND id = $2 RETURNING charge_cycle", *key)
        dispatch = f"UPDATE ai_job_dispatches {past} AND tenant_job_id = $2 AND charge_cycle = $3"
        return await core.rows(core.databases.central, dispatch, *key, row["charge_cycle"])

    def predict_job(self, state: State, key: JobKey, response: object) -> None:
        job = state.jobs[key]
        job.overdue = True
        dispatch = state.dispatches.get((*key, job.cycle))
        if dispatch is not None:
            dispatch.overdue = True


@dataclass(frozen=True)
class EnforceDeadlines(Operation):
    points = (Failpoint.EXPIRE_BEFORE_RELAY, Failpoint.RELAY_BEFORE_CLOSED)

    async def run(self, core: Core, world: World) -> object:
        return await core.enforce_deadlines()

    def predict(self, state: State, world: World, response: object) -> None:
        model.enforce_deadlines(state)


@dataclass(frozen=True)
class Promote(Operation):
    """Every delay is over."""

    async def run(self, core: Core, world: World) -> object:
        return await core.queue.promote(datetime.now(UTC) + timedelta(hours=1))

    def predict(self, state: State, world: World, response: object) -> None:
        for dispatch in state.dispatches.values():
            if dispatch.status == "delayed":
                dispatch.status = "queued"


@dataclass(frozen=True)
class RaiseLowWater(Operation):
    async def run(self, core: Core, world: World) -> object:
        return await core.queue.raise_low_water()

    def predict(self, state: State, world: World, response: object) -> None:
        """A mark changes nothing that the model sees."""


@dataclass(frozen=True)
class SetLimit(Operation):
    max_concurrent: int

    async def run(self, core: Core, world: World) -> object:
        return await core.room.dispatch.limits.set(IDENTIFIER, self.max_concurrent, "test")

    def predict(self, state: State, world: World, response: object) -> None:
        state.limits[IDENTIFIER] = self.max_concurrent


def _user(member: Member) -> UserKey:
    return member.tenant_id, member.user_id
